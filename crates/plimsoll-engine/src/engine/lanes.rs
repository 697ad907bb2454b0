//! Two queues in front of the decision thread: calls that a client waits for, and reports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// After this wait a report takes turns with calls: it may free the memory that they wait for, and
/// a runner whose reports are not served would be taken for silent.
const REPORT_PATIENCE: Duration = Duration::from_millis(25);

/// Pending work, each lane in order of arrival.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    calls: VecDeque<T>,
    reports: VecDeque<(Instant, T)>,
    last: Lane,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Calls,
    Reports,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Lanes { calls: VecDeque::new(), reports: VecDeque::new(), last: Lane::Calls }
    }
}

impl<T> Lanes<T> {
    /// Adds work that a client waits for.
    pub(super) fn push_call(&mut self, call: T) {
        self.calls.push_back(call);
    }

    /// Adds a report.
    pub(super) fn push_report(&mut self, now: Instant, report: T) {
        self.reports.push_back((now, report));
    }

    /// Takes the next work: calls first. A report older than [`REPORT_PATIENCE`] takes turns with
    /// them, so that neither lane starves the other.
    pub(super) fn next(&mut self, now: Instant) -> Option<T> {
        self.last = self.next_lane(now);
        match self.last {
            Lane::Reports => self.reports.pop_front().map(|(_, report)| report),
            Lane::Calls => self.calls.pop_front(),
        }
    }

    fn next_lane(&self, now: Instant) -> Lane {
        let is_overdue = self
            .reports
            .front()
            .is_some_and(|(since, _)| now.saturating_duration_since(*since) >= REPORT_PATIENCE);
        if self.calls.is_empty() || (is_overdue && self.last == Lane::Calls) {
            Lane::Reports
        } else {
            Lane::Calls
        }
    }

    /// Returns the amount of pending work.
    pub(super) fn len(&self) -> usize {
        self.calls.len() + self.reports.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_first_and_an_overdue_report_takes_turns_with_them() {
        let start = Instant::now();
        let mut lanes = Lanes::default();
        lanes.push_report(start, "report 1");
        lanes.push_call("call 1");
        lanes.push_call("call 2");
        lanes.push_report(start, "report 2");
        lanes.push_report(start + REPORT_PATIENCE, "report 3");
        assert_eq!(lanes.next(start), Some("call 1"));
        assert_eq!(lanes.next(start + REPORT_PATIENCE), Some("report 1"), "it is overdue");
        assert_eq!(lanes.next(start + REPORT_PATIENCE), Some("call 2"), "they take turns");
        assert_eq!(lanes.next(start + REPORT_PATIENCE), Some("report 2"));
        assert_eq!(lanes.next(start + REPORT_PATIENCE), Some("report 3"), "no call is left");
        assert_eq!((lanes.len(), lanes.next(start)), (0, None));
    }
}
