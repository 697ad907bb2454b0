//! The life of a charge after it was made: evidence that comes in, time that passes.

use super::Step;
use crate::charge::{Activity, Holding, Stage};
use crate::device::{Node, Telemetry};
use crate::event::{Operation, RejectedCall};
use crate::evict;
use crate::queue::{Backoff, PendingReason, PendingRequest};
use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::room::Measured;
use crate::units::Name;

impl Step<'_> {
    pub(super) fn clear_failures(&mut self, id: &RequestId) {
        if self.machine.queue.failures(id) > 0 {
            self.machine.queue.clear_failures(id);
            self.out.operations.push(Operation::ClearFailures(id.clone()));
        }
    }

    /// Failed starts are remembered only while somebody may start again.
    fn clear_failures_if_gone(&mut self, id: &RequestId) {
        if self.machine.queue.get(id).is_none() && self.machine.ledger.of_request(id).is_none() {
            self.clear_failures(id);
        }
    }

    pub(super) fn withdraw(&mut self, id: &RequestId) {
        self.dequeue(id);
        self.clear_failures(id);
        match self.machine.ledger.of_request(id).map(|(_, holding)| holding.stage) {
            Some(Stage::Offered { .. } | Stage::Queued) => {
                let given_back = self.machine.ledger.fail(id);
                self.keep(given_back);
            }
            Some(Stage::Sent | Stage::Running { .. }) => self.ask_to_go(id),
            Some(Stage::Releasing { .. }) | None => {}
        }
        self.lifted.insert(Change::LoadFell);
    }

    pub(super) fn is_generation(&self, id: &RequestId, generation: u64) -> bool {
        self.machine.ledger.of_request(id).is_some_and(|(holding, _)| holding.0 == generation)
    }

    pub(super) fn started(&mut self, id: &RequestId, generation: u64, activity: Option<Activity>) {
        if self.is_generation(id, generation) {
            let confirmed = self.machine.ledger.confirm(id, self.now);
            if self.keep(confirmed)
                && let Some(activity) = activity
            {
                let acted = self.machine.ledger.act(id, activity);
                self.keep(acted);
            }
            self.clear_failures(id);
            // One who was said to be idle before it was said to run may go from here on.
            let residency = self.machine.settings.residency;
            let started = self.machine.ledger.of_request(id);
            if started.is_some_and(|(_, holding)| {
                evict::evictable_since(holding, self.now, residency).is_ok()
            }) {
                self.lifted.insert(Change::LoadFell);
            }
        }
    }

    pub(super) fn failed(&mut self, id: &RequestId, generation: u64) {
        if !self.is_generation(id, generation) {
            return;
        }
        let Some((_, holding)) = self.machine.ledger.of_request(id) else {
            return;
        };
        let holding = holding.clone();
        let undone = self.machine.ledger.fail(id);
        if !self.keep(undone) {
            return;
        }
        self.lifted.insert(Change::LoadFell);
        // A start that never happened does not bring back one who was asked to go.
        let waits = holding.terms.waits && !holding.stage.is_releasing();
        let Some(spec) = holding.spec.filter(|_| waits) else {
            return self.clear_failures_if_gone(id);
        };
        let deadline = holding.terms.deadline;
        let backoff = Backoff::after(self.machine.queue.failures(id), self.now);
        let request = Request { id: id.clone(), spec, terms: holding.terms };
        let reason = PendingReason::StartFailed { node: holding.node, retry_at: backoff.until };
        let pending = PendingRequest {
            deadline,
            backoff: Some(backoff),
            wakes_on: vec![Change::LoadFell],
            reason,
            ..PendingRequest::new(self.now, request)
        };
        self.keep_pending(pending, None);
    }

    pub(super) fn freed(&mut self, id: &RequestId, generation: Option<u64>, ordinal: Option<u16>) {
        if generation.is_some_and(|generation| !self.is_generation(id, generation)) {
            return;
        }
        let freed = match ordinal {
            Some(ordinal) => self.machine.ledger.freed_on(id, ordinal),
            None => self.machine.ledger.freed(id),
        };
        if self.keep(freed) {
            self.lifted.insert(Change::LoadFell);
            self.clear_failures_if_gone(id);
        }
    }

    pub(super) fn observed(&mut self, holding: Holding) {
        let (id, node) = (holding.request.clone(), holding.node.clone());
        if self.machine.ledger.node_id(&node).is_none() {
            // What runs counts even where the node is reported only later.
            let highest = holding.charges.iter().flat_map(|charge| &charge.on).max();
            let devices = highest.map_or(0, |ordinal| usize::from(*ordinal) + 1);
            let operation = self.machine.ledger.put_node(Node::unreported(node, devices));
            self.record(operation);
        }
        let observed = self.machine.ledger.observe(holding);
        if self.keep(observed) {
            self.dequeue(&id);
            self.clear_failures(&id);
            self.lifted.insert(Change::LoadFell);
        }
    }

    /// What was speculative is real work now: one that waits takes its turn among the real ones.
    pub(super) fn claimed(&mut self, id: &RequestId) {
        if let Some(mut waiting) = self.machine.queue.get(id).cloned()
            && waiting.request.terms.speculative
        {
            self.dequeue(id);
            waiting.request.terms.speculative = false;
            self.enqueue(waiting.clone());
            self.try_place(waiting);
        }
        let claimed = self.machine.ledger.claim(id);
        self.keep(claimed);
    }

    /// Records a measurement, unless a newer one is there already.
    pub(super) fn measured(&mut self, node: &Name, ordinal: u16, measured: Measured) {
        let taken = |telemetry: Telemetry| match telemetry {
            Telemetry::None => None,
            Telemetry::Fresh { at } | Telemetry::Stale { since: at } => Some(at),
        };
        let id = self.machine.ledger.node_id(node);
        let known =
            id.and_then(|id| self.machine.ledger.measured(id).get(usize::from(ordinal)).copied());
        if known.is_some_and(|known| taken(measured.telemetry) < taken(known.telemetry)) {
            return;
        }
        // More that is foreign makes room for nobody.
        let helps = known.is_none_or(|known| {
            let seen = (known.closed, known.telemetry) != (measured.closed, measured.telemetry);
            measured.foreign < known.foreign || seen
        });
        let measured = self.machine.ledger.measure(node, ordinal, measured);
        if self.keep(measured) && helps {
            self.lifted.extend([Change::TelemetryArrived, Change::LoadFell, Change::DeviceOpened]);
        }
    }

    pub(super) fn tick(&mut self) {
        let expired = self.machine.ledger.expire(self.now);
        if !expired.is_empty() {
            self.lifted.insert(Change::LoadFell);
        }
        let telemetry_for = self.machine.settings.telemetry_for;
        let stale = telemetry_for
            .map(|age| self.machine.ledger.age_telemetry(self.now.before(age)))
            .unwrap_or_default();
        for operation in expired.into_iter().chain(stale) {
            self.record(operation);
        }
        let late = |w: &&PendingRequest| w.deadline.is_some_and(|deadline| deadline <= self.now);
        let late: Vec<RequestId> =
            self.machine.queue.iter().filter(late).map(|w| w.request.id.clone()).collect();
        for id in late {
            if let Some(entry) = self.dequeue(&id) {
                self.clear_failures(&id);
                self.reject_call(&id, RejectedCall::DeadlineExceeded { pending: entry.reason });
            }
        }
        // Idleness, residency and back-off all end by time alone.
        self.lifted.insert(Change::LoadFell);
    }
}
