//! Charging placements, and stage 2: starting queued work on quiet devices.
//!
//! With `Settings::serial_starts`, at most one holding at a time starts or stops on a device.
//! Model servers allocate their memory while they start; two at once, or a start beside a release,
//! would see each other's memory as free and fail. A placement whose devices are not quiet is
//! charged as `Stage::Queued`, so that its memory is not given away while it waits.

use super::{Scope, Step};
use crate::charge::Stage;
use crate::event::{Effect, Operation};
use crate::fit::Placement;
use crate::ledger::LedgerError;
use crate::request::{Request, RequestId};
use crate::units::Name;

impl Step<'_> {
    /// Charges a placement. Its start leaves now, or as soon as its devices are quiet.
    pub(super) fn charge(
        &mut self,
        request: &Request,
        placement: &Placement,
    ) -> Result<(), LedgerError> {
        let devices = placement.picks.iter().flatten().copied();
        let starts_now = !self.scheduler.settings.serial_starts
            || self.is_quiet(&request.id, &placement.node, devices);
        if starts_now {
            let sent = self.scheduler.ledger.send(request, placement)?;
            self.record(sent);
            self.start(&request.id);
        } else {
            let queued = self.scheduler.ledger.queue(request, placement)?;
            self.record(queued);
            self.answer_placed(&request.id, placement.node.clone());
        }
        Ok(())
    }

    /// Adds the effect and the answer of a start. The charge must be in the ledger.
    pub(super) fn start(&mut self, id: &RequestId) {
        let (generation, holding) = self.scheduler.ledger.of_request(id).expect("just charged");
        let (node, charges) = (holding.node.clone(), holding.charges.clone());
        let (request, generation) = (id.clone(), generation.0);
        self.answer_placed(id, node.clone());
        self.outcome.effects.push(Effect::Start { request, generation, node, charges });
    }

    /// Stops a holder for another request, and remembers its model (`Scheduler::displaces_from`).
    pub(super) fn evict(&mut self, victim: &RequestId) {
        let holding = self.scheduler.ledger.of_request(victim).map(|(_, holding)| holding);
        let model = holding.and_then(|holding| holding.terms.model.clone());
        if let Some(model) = model {
            let at = self.now;
            self.scheduler.queue.note_eviction(model.clone(), at);
            self.outcome.operations.push(Operation::Evicted { model, at });
        }
        self.stop(victim);
    }

    /// Asks a holder to stop. Its charge stays until there is evidence of release.
    pub(super) fn stop(&mut self, id: &RequestId) {
        let Some((generation, holding)) = self.scheduler.ledger.of_request(id) else { return };
        let (request, generation, node) = (id.clone(), generation.0, holding.node.clone());
        let releasing = self.scheduler.ledger.begin_release(id, self.now);
        if self.record_if_accepted(releasing) {
            self.outcome.effects.push(Effect::Stop { request, generation, node });
        }
    }

    /// Starts queued work whose devices have become quiet, at most one per device.
    pub(super) fn start_queued(&mut self, scope: Scope) {
        let is_serial = self.scheduler.settings.serial_starts;
        // Without serial starts nothing is queued, except what was queued before the settings
        // changed; then the scope is all nodes.
        if !is_serial && matches!(scope, Scope::ChangedSince(_)) {
            return;
        }
        for id in self.queued(scope) {
            if !is_serial || self.is_quiet_for(&id) {
                let taken = self.scheduler.ledger.take(&id);
                if self.record_if_accepted(taken) {
                    self.start(&id);
                }
            }
        }
    }

    fn queued(&self, scope: Scope) -> Vec<RequestId> {
        let ledger = &self.scheduler.ledger;
        if ledger.queued().next().is_none() {
            return Vec::new();
        }
        match scope.nodes(ledger) {
            Some(nodes) => {
                let queued = nodes.into_iter().flat_map(|node| ledger.queued_on(node));
                queued.map(|holding| holding.request.clone()).collect()
            }
            None => ledger.queued().map(|holding| holding.request.clone()).collect(),
        }
    }

    /// Returns true if no other holding starts or stops on the devices that a request holds.
    pub(super) fn is_quiet_for(&self, id: &RequestId) -> bool {
        let Some((_, holding)) = self.scheduler.ledger.of_request(id) else { return false };
        let devices = holding.charges.iter().flat_map(|charge| charge.on.iter().copied());
        self.is_quiet(id, &holding.node, devices)
    }

    fn is_quiet(
        &self,
        request: &RequestId,
        node: &Name,
        mut devices: impl Iterator<Item = u16>,
    ) -> bool {
        let ledger = &self.scheduler.ledger;
        let Some(view) = ledger.view_of(node) else { return false };
        let own = ledger.of_request(request).map(|(id, _)| id);
        devices.all(|ordinal| {
            let tenants = view.room.devices()[usize::from(ordinal)].tenants().iter();
            let mut others = tenants.filter(|tenant| Some(tenant.holding) != own);
            others.all(|tenant| is_still(tenant.stage))
        })
    }
}

/// Returns true if a holding in this stage neither starts nor stops.
fn is_still(stage: Stage) -> bool {
    match stage {
        Stage::Offered { .. } | Stage::Queued | Stage::Running { .. } => true,
        Stage::Sent | Stage::Releasing { .. } => false,
    }
}
