//! Stage 1: evidence about holdings, measurements, and the passing of time.

use super::{Lifted, Step};
use crate::charge::{Activity, Holding, Stage};
use crate::device::{Node, Telemetry};
use crate::event::RejectedCall;
use crate::evict;
use crate::queue::{Backoff, PendingReason, PendingRequest};
use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::room::Measured;
use crate::units::{Millis, Name};

impl Step<'_> {
    pub(super) fn withdraw(&mut self, id: &RequestId) -> Lifted {
        self.dequeue(id);
        self.clear_failures(id);
        match self.scheduler.ledger.of_request(id).map(|(_, holding)| holding.stage) {
            Some(Stage::Offered { .. } | Stage::Queued) => {
                let dropped = self.scheduler.ledger.fail(id);
                self.record_if_accepted(dropped);
            }
            Some(Stage::Sent | Stage::Running { .. }) => self.stop(id),
            Some(Stage::Releasing { .. }) | None => {}
        }
        Lifted::from([Change::LoadFell])
    }

    pub(super) fn started(
        &mut self,
        id: &RequestId,
        generation: u64,
        activity: Option<Activity>,
    ) -> Lifted {
        if !self.is_generation(id, generation) {
            return Lifted::new();
        }
        let confirmed = self.scheduler.ledger.confirm(id, self.now);
        if self.record_if_accepted(confirmed)
            && let Some(activity) = activity
        {
            let acted = self.scheduler.ledger.act(id, activity);
            self.record_if_accepted(acted);
        }
        self.clear_failures(id);
        // The holder may be evictable at once, if its front end reports it as idle with the start.
        if self.is_evictable(id) { Lifted::from([Change::LoadFell]) } else { Lifted::new() }
    }

    fn is_evictable(&self, id: &RequestId) -> bool {
        let residency = self.scheduler.settings.residency;
        let holding = self.scheduler.ledger.of_request(id);
        holding.is_some_and(|(_, holding)| {
            evict::evictable_since(holding, self.now, residency).is_ok()
        })
    }

    pub(super) fn failed(&mut self, id: &RequestId, generation: u64) -> Lifted {
        let holding = self.scheduler.ledger.of_request(id).map(|(_, holding)| holding.clone());
        let Some(holding) = holding.filter(|_| self.is_generation(id, generation)) else {
            return Lifted::new();
        };
        let undone = self.scheduler.ledger.fail(id);
        if !self.record_if_accepted(undone) {
            return Lifted::new();
        }
        self.retry_start(holding);
        Lifted::from([Change::LoadFell])
    }

    /// Makes a request pending again after a failed start, unless it was already asked to stop.
    fn retry_start(&mut self, holding: Holding) {
        let id = holding.request;
        let retries = holding.terms.waits && !holding.stage.is_releasing();
        let Some(spec) = holding.spec.filter(|_| retries) else {
            return self.clear_failures_if_gone(&id);
        };
        let backoff = Backoff::after(self.scheduler.queue.failures(&id), self.now);
        let deadline = holding.terms.deadline;
        let request = Request { id, spec, terms: holding.terms };
        let entry = PendingRequest {
            deadline,
            backoff: Some(backoff),
            wakes_on: vec![Change::LoadFell],
            reason: PendingReason::StartFailed { node: holding.node, retry_at: backoff.until },
            ..PendingRequest::new(self.now, request)
        };
        self.keep_pending(entry, None);
    }

    pub(super) fn freed(
        &mut self,
        id: &RequestId,
        generation: Option<u64>,
        ordinal: Option<u16>,
    ) -> Lifted {
        if generation.is_some_and(|generation| !self.is_generation(id, generation)) {
            return Lifted::new();
        }
        let freed = match ordinal {
            Some(ordinal) => self.scheduler.ledger.freed_on(id, ordinal),
            None => self.scheduler.ledger.freed(id),
        };
        if !self.record_if_accepted(freed) {
            return Lifted::new();
        }
        self.clear_failures_if_gone(id);
        Lifted::from([Change::LoadFell])
    }

    pub(super) fn observed(&mut self, holding: Holding) -> Lifted {
        let id = holding.request.clone();
        if self.scheduler.ledger.node_id(&holding.node).is_none() {
            // Running work counts even if its node is reported only later.
            let highest = holding.charges.iter().flat_map(|charge| &charge.on).max();
            let devices = highest.map_or(0, |ordinal| usize::from(*ordinal) + 1);
            let node = Node::unreported(holding.node.clone(), devices);
            let operation = self.scheduler.ledger.put_node(node);
            self.record(operation);
        }
        let observed = self.scheduler.ledger.observe(holding);
        if !self.record_if_accepted(observed) {
            return Lifted::new();
        }
        self.dequeue(&id);
        self.clear_failures(&id);
        Lifted::from([Change::LoadFell])
    }

    /// Records a measurement, unless a newer one is known.
    pub(super) fn measured(&mut self, node: &Name, ordinal: u16, measured: Measured) -> Lifted {
        let ledger = &mut self.scheduler.ledger;
        let known = ledger
            .node_id(node)
            .and_then(|id| ledger.measured(id).get(usize::from(ordinal)).copied());
        if known.is_some_and(|known| measured_at(measured) < measured_at(known)) {
            return Lifted::new();
        }
        // More foreign memory lifts no reason.
        let helps = known.is_none_or(|known| {
            measured.foreign < known.foreign
                || (known.closed, known.telemetry) != (measured.closed, measured.telemetry)
        });
        let recorded = ledger.measure(node, ordinal, measured);
        if self.record_if_accepted(recorded) && helps {
            Lifted::from([Change::TelemetryArrived, Change::LoadFell, Change::DeviceOpened])
        } else {
            Lifted::new()
        }
    }

    /// Handles the passing of time: offers expire, telemetry becomes stale, deadlines pass.
    pub(super) fn tick(&mut self) -> Lifted {
        let Self { scheduler, now, .. } = self;
        let mut operations = scheduler.ledger.expire(*now);
        if let Some(age) = scheduler.settings.telemetry_for {
            operations.extend(scheduler.ledger.age_telemetry(now.before(age)));
        }
        for operation in operations {
            self.record(operation);
        }
        for id in self.late_requests() {
            if let Some(entry) = self.dequeue(&id) {
                self.clear_failures(&id);
                self.reject_call(&id, RejectedCall::DeadlineExceeded { pending: entry.reason });
            }
        }
        // Idle limits, residency and back-off end by time alone.
        Lifted::from([Change::LoadFell])
    }

    fn late_requests(&self) -> Vec<RequestId> {
        let pending = self.scheduler.queue.iter();
        pending
            .filter(|entry| entry.deadline.is_some_and(|deadline| deadline <= self.now))
            .map(|entry| entry.request.id.clone())
            .collect()
    }

    /// Returns true if the request's holding has this generation: evidence about an earlier one is
    /// late.
    fn is_generation(&self, id: &RequestId, generation: u64) -> bool {
        let holding = self.scheduler.ledger.of_request(id);
        holding.is_some_and(|(holding, _)| holding.0 == generation)
    }

    /// Resets the failed starts of a request that is neither pending nor placed.
    fn clear_failures_if_gone(&mut self, id: &RequestId) {
        let Self { scheduler, .. } = self;
        if scheduler.queue.get(id).is_none() && scheduler.ledger.of_request(id).is_none() {
            self.clear_failures(id);
        }
    }
}

fn measured_at(measured: Measured) -> Option<Millis> {
    match measured.telemetry {
        Telemetry::None => None,
        Telemetry::Fresh { at } | Telemetry::Stale { since: at } => Some(at),
    }
}
