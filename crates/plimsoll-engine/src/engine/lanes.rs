//! Who is served next: those who wait for an answer go before runners that report; a report that has waited for long takes turns with them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A report that has waited so long takes turns with those who wait for an answer: it may bring what they wait for, and a runner that
/// cannot make itself heard is taken for silent.
const PATIENCE: Duration = Duration::from_millis(25);

/// What waits to be served, each lane in the order in which it came.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    asks: VecDeque<T>,
    reports: VecDeque<(Instant, T)>,
    /// Whether a report went before those who wait the last time.
    had_turn: bool,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Lanes { asks: VecDeque::new(), reports: VecDeque::new(), had_turn: false }
    }
}

impl<T> Lanes<T> {
    /// Somebody waits for an answer.
    pub(super) fn ask(&mut self, ask: T) {
        self.asks.push_back(ask);
    }

    /// A runner reports.
    pub(super) fn report(&mut self, now: Instant, report: T) {
        self.reports.push_back((now, report));
    }

    /// The next one to serve.
    pub(super) fn next(&mut self, now: Instant) -> Option<T> {
        let is_ripe = |(since, _): &(Instant, T)| now.saturating_duration_since(*since) >= PATIENCE;
        let is_ripe = self.reports.front().is_some_and(is_ripe);
        self.had_turn = self.asks.is_empty() || (is_ripe && !self.had_turn);
        if self.had_turn {
            self.reports.pop_front().map(|(_, report)| report)
        } else {
            self.asks.pop_front()
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.asks.len() + self.reports.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_for_an_answer_go_first_and_reports_do_not_wait_for_long() {
        let start = Instant::now();
        let mut lanes = Lanes::default();
        lanes.report(start, "report 1");
        lanes.ask("ask 1");
        lanes.ask("ask 2");
        lanes.report(start, "report 2");
        lanes.report(start + PATIENCE, "report 3");
        assert_eq!(lanes.next(start), Some("ask 1"));
        assert_eq!(lanes.next(start + PATIENCE), Some("report 1"), "it has waited long enough");
        assert_eq!(lanes.next(start + PATIENCE), Some("ask 2"), "they take turns");
        assert_eq!(lanes.next(start + PATIENCE), Some("report 2"));
        assert_eq!(lanes.next(start + PATIENCE), Some("report 3"), "nobody else waits");
        assert_eq!((lanes.len(), lanes.next(start)), (0, None));
    }
}
