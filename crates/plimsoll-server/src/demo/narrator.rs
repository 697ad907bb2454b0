//! A line of text for every decision, start, eviction and release, for a terminal that shows the
//! demo.

use std::collections::BTreeMap;
use std::io::Write;

use anstyle::AnsiColor;
use plimsoll_core::charge::Charge;
use plimsoll_core::decide::Decision;
use plimsoll_core::event::{Answer, Effect, Event};
use plimsoll_core::front::Front;
use plimsoll_core::rejection::DecisionSummary;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Bytes;
use plimsoll_core::wording::SizeFormat;

use plimsoll_engine::engine::{Decided, Durable, Observer};

/// Prints durable events on standard output.
pub(crate) struct Narrator<W> {
    out: W,
    /// Pending requests, each with the shortfall of its nearest miss. A line is printed again only
    /// if that changes.
    pending: BTreeMap<RequestId, Option<Bytes>>,
    /// The memory of each running request, to print when it is released: the ledger no longer has
    /// it then.
    charged: BTreeMap<RequestId, Bytes>,
}

impl Narrator<anstream::Stdout> {
    pub(crate) fn to_stdout() -> Self {
        Narrator::new(anstream::stdout())
    }
}

impl<W: Write> Narrator<W> {
    fn new(out: W) -> Self {
        Narrator { out, pending: BTreeMap::new(), charged: BTreeMap::new() }
    }

    fn print_decision(&mut self, decision: &Decision, answers: &[Answer]) {
        let request = &decision.request;
        if let DecisionSummary::Placed(placed) = decision.summary() {
            self.pending.remove(request);
            let text = format!("{request} on {}", placed.location());
            return self.line(AnsiColor::Green, "placed", &text);
        }
        let reason = decision.rejection().map(|rejection| rejection.brief()).unwrap_or_default();
        let is_impossible = |answer: &Answer| {
            matches!(answer, Answer::Impossible { .. }) && answer.request() == request
        };
        if answers.iter().any(is_impossible) {
            self.pending.remove(request);
            return self.line(AnsiColor::Red, "impossible", &format!("{request}: {reason}"));
        }
        let nearest = decision.rejection().and_then(|rejection| rejection.nearest.as_ref());
        let short_by = nearest.map(|nearest| nearest.short_by);
        if self.pending.insert(request.clone(), short_by) != Some(short_by) {
            self.line(AnsiColor::Yellow, "pending", &format!("{request}: {reason}"));
        }
    }

    fn print_event(&mut self, event: &Event) {
        match event {
            Event::Started { request, .. } => {
                self.line(AnsiColor::Cyan, "running", &format!("{request} is ready"));
            }
            Event::Failed { request, .. } => {
                self.line(AnsiColor::Red, "failed", &format!("{request} did not start"));
            }
            Event::Freed { request, .. } => {
                let released = self.charged.remove(request);
                let size = released
                    .map_or("its memory".to_string(), |size| SizeFormat::for_size(size).show(size));
                self.line(AnsiColor::Blue, "released", &format!("{request} released {size}"));
            }
            _ => {}
        }
    }

    fn line(&mut self, color: AnsiColor, what: &str, text: &str) {
        let style = color.on_default();
        // A closed standard output must not stop the demo.
        let _ = writeln!(self.out, "{style}{what:>10}{style:#}  {text}");
    }
}

impl<F: Front, W: Write + Send> Observer<F> for Narrator<W> {
    fn decided(&mut self, decided: &Decided<'_, F>) {
        for (_, holding) in decided.scheduler.ledger().holdings() {
            if !self.charged.contains_key(&holding.request) {
                let charges = holding.charges.iter().filter_map(Charge::bytes);
                let bytes = charges.fold(Bytes::ZERO, Bytes::plus);
                self.charged.insert(holding.request.clone(), bytes);
            }
        }
    }

    fn durable(&mut self, durable: &Durable<'_, F>) {
        for (record, output) in durable.records.iter().zip(durable.outputs) {
            // The event is the cause of the decisions: memory is released before it is given away.
            self.print_event(&record.event);
            for decision in &output.outcome.decisions {
                self.print_decision(decision, &output.outcome.answers);
            }
            for effect in &output.outcome.effects {
                if let Effect::Stop { request, node, .. } = effect {
                    let text = format!("{request} is evicted from {node}");
                    self.line(AnsiColor::Magenta, "evicted", &text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::policy::Policy;

    use super::*;
    use crate::rehearsal::Rehearsal;

    #[test]
    fn memory_is_released_before_it_is_given_away() {
        let mut world = Rehearsal::new(Policy::pack(), &[80]);
        let mut narrator = Narrator::new(Vec::new());
        for model in ["first", "second"] {
            world.model(model, "memory: 60GiB");
        }
        let first = world.reserve("first");
        world.beat(&[]);
        world.show(&mut [&mut narrator]);
        world.reserve("second");
        world.release(first);
        world.pass(600_000);
        for _ in 0..3 {
            world.beat(&[]);
            world.show(&mut [&mut narrator]);
        }
        let text = String::from_utf8(narrator.out).expect("text");
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
        assert!(at("first/slot-1 is evicted") < at("first/slot-1 released 60.0 GiB"), "{text}");
        assert!(at("first/slot-1 released") < at("second/slot-2 on "), "{text}");
    }
}
