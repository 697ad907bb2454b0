//! Counts decisions, effects and breaches once they are durable.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::decide::{self, Decision};
use plimsoll_core::event::{Effect, Event};
use plimsoll_core::front::Front;
use plimsoll_core::reason::{NodeReason, Reason};
use plimsoll_core::verdict::{NodeVerdict, Table};
use plimsoll_engine::engine::{Decided, Durable, Observer};

use super::Counted;
use crate::breaches::{self, Changed, KINDS, Watch};

/// Counts the results of durable batches, for any front end.
#[derive(Debug)]
pub(crate) struct Watcher {
    counted: Arc<Counted>,
    watch: Watch,
    changed: Changed,
}

impl Watcher {
    pub(super) fn new(counted: Arc<Counted>) -> Self {
        Watcher { counted, watch: Watch::default(), changed: Changed::default() }
    }

    fn count_decision(&self, decision: &Decision) {
        let placed = decision.chosen().is_some();
        let outcome = if placed { "placed" } else { "rejected" };
        self.counted.decisions.get_or_create(&[("outcome", outcome)]).inc();
        if !placed {
            for reason in codes(decision) {
                self.counted.rejections.get_or_create(&[("reason", reason)]).inc();
            }
        }
    }

    fn count_effect(&self, event: &Event, effect: &Effect) {
        let name = match effect {
            Effect::Start { .. } => "start",
            Effect::Stop { request, .. } => {
                // A stop that the request itself did not ask for is an eviction.
                if !matches!(event, Event::Withdraw { request: own } if own == request) {
                    self.counted.evictions.inc();
                }
                "stop"
            }
        };
        self.counted.effects.get_or_create(&[("effect", name)]).inc();
    }

    fn count_breaches(&mut self) {
        let Changed { found, .. } = std::mem::take(&mut self.changed);
        for breach in &found {
            self.counted.breaches_found.get_or_create(&[("kind", breaches::kind(breach))]).inc();
        }
        for kind in KINDS {
            let now = self.watch.now().filter(|breach| breaches::kind(breach) == kind).count();
            self.counted
                .breaches
                .get_or_create(&[("kind", kind)])
                .set(i64::try_from(now).unwrap_or(i64::MAX));
        }
    }
}

impl<F: Front> Observer<F> for Watcher {
    fn decided(&mut self, decided: &Decided<'_, F>) {
        self.changed = self.watch.update(decided);
    }

    fn durable(&mut self, durable: &Durable<'_, F>) {
        let rows = durable.records.len() + durable.change_sets;
        if rows > 0 {
            self.counted.deciding.observe(durable.deciding.as_secs_f64());
            self.counted.committing.observe(durable.committing.as_secs_f64());
            self.counted.batch.observe(u32::try_from(rows).unwrap_or(u32::MAX).into());
        }
        for (record, output) in durable.records.iter().zip(durable.outputs) {
            output.outcome.decisions.iter().for_each(|decision| self.count_decision(decision));
            for effect in &output.outcome.effects {
                self.count_effect(&record.event, effect);
            }
            if matches!(record.event, Event::Failed { .. }) {
                self.counted.start_failures.inc();
            }
        }
        self.count_breaches();
    }
}

/// Returns the codes of all reasons of a rejection, each once.
fn codes(decision: &Decision) -> BTreeSet<&'static str> {
    if let decide::Outcome::Rejected(Some(reason)) = &decision.outcome {
        return BTreeSet::from([reason.code()]);
    }
    decision.table().into_iter().flat_map(Table::unordered).flat_map(node_codes).collect()
}

fn node_codes(verdict: NodeVerdict<'_>) -> Vec<&'static str> {
    let devices = verdict.needs.iter().flat_map(|need| need.devices.iter());
    let of_devices = devices.filter_map(|device| device.reason.as_ref()).map(Reason::code);
    verdict.reason.iter().map(NodeReason::code).chain(of_devices).collect()
}
