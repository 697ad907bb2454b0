//! The ledger: all holdings, the usage of every device, and the only commit that adds to it.
//!
//! Every verb checks its preconditions on `&self`, makes one [`Operation`], applies it, and returns
//! it for the journal. `Ledger::hold` is the only verb that places work, and it asks `fit` again on
//! the current ledger: a proposal made on an older ledger is re-checked, so that concurrent
//! planners cannot overcommit a device together. Locking devices while a planner works was
//! rejected: planners would block each other, and a crashed one would leave its locks.
//!
//! Operations carry results, not requests: a `Hold` has its charges, a `Restage` its stage.
//! Recovery applies them without deciding anything, so that a newer version with a better search
//! still recovers the same state. Applying is total: an operation about an unknown node or request
//! only counts as a revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::account::{Account, Allowance, Shares};
use crate::charge::{Activity, Charge, Holding, HoldingId, Stage};
use crate::device::{DEVICES_MAX, Node, Telemetry};
use crate::fit::{self, AdmissionError, Placement};
use crate::reason::{NodeReason, Reason};
use crate::request::{Request, RequestId};
use crate::room::{Measured, NodeView};
use crate::units::{Bytes, Millis, Name};

mod apply;
mod by_node;
mod changes;
mod error;
mod operation;
mod promise;
mod queries;
mod rows;
mod views;

pub use error::{LedgerError, Verb};
pub use operation::{Operation, OperationKind};
pub use promise::Promise;
pub use rows::{LedgerRows, NodeRow, RowsError};
pub use views::Views;

pub(crate) use by_node::ByNode;

use changes::{Changed, Changes};
use error::wrong_stage;
use operation::Change;

/// The index of a node in one ledger. Reused after a node is removed; never printed, and no answer
/// depends on its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// Returns the index into arrays by node.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Creates the id of an index into arrays by node.
    pub(crate) fn at(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("fewer nodes than 2^32"))
    }
}

/// All holdings on all nodes. `holdings`, `promises` and the nodes' facts and measurements are the
/// state; the other fields are sums and indexes over it, and [`LedgerRows`] leaves them out.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// By [`NodeId`]; `None` for a free id.
    nodes: Vec<Option<Entry>>,
    views: Views,
    /// Free ids.
    vacant: Vec<NodeId>,
    by_name: BTreeMap<Name, NodeId>,
    /// Shared with snapshots that are being written, so that taking a snapshot copies no holding.
    holdings: BTreeMap<HoldingId, Arc<Holding>>,
    by_request: BTreeMap<RequestId, HoldingId>,
    promises: BTreeMap<RequestId, Promise>,
    accounts: BTreeMap<Name, Account>,
    /// From the settings, which are state of the scheduler.
    shares: Arc<Shares>,
    /// Index of the holdings that are releasing.
    releasing: BTreeSet<HoldingId>,
    /// Index of the offers by expiry, so that `expire` does not scan all holdings.
    offered: BTreeMap<HoldingId, Millis>,
    /// Index of the queued holdings, so that the scheduler does not scan all holdings.
    queued: BTreeSet<HoldingId>,
    next_holding: u64,
    revision: u64,
    /// Counts the changes of what nodes are, as opposed to what is held on them.
    facts: u64,
    changes: Changes,
}

#[derive(Clone, Debug)]
struct Entry {
    measured: Vec<Measured>,
    holdings: BTreeSet<HoldingId>,
    /// The node was removed while it had holdings. It is dropped with the last of them.
    leaving: bool,
}

/// The verbs. Each journalled change of the ledger is made by one of them.
impl Ledger {
    /// Adds a node, or replaces its facts. Charges follow their devices (`identity`); a device that
    /// is no longer reported stays, as gone, while it has tenants.
    pub fn put_node(&mut self, mut node: Node) -> Operation {
        if let Some(contradiction) = node.contradiction() {
            node.unknown = Some(contradiction);
            node.devices.truncate(DEVICES_MAX);
        }
        self.commit(Change::PutNode { node: Box::new(node) })
    }

    /// Removes a node. While it has holdings it stays, with its devices gone.
    pub fn drop_node(&mut self, name: &Name) -> Result<Operation, LedgerError> {
        self.find(name)?;
        Ok(self.commit(Change::DropNode { name: name.clone() }))
    }

    /// Reserves a placement until a time. Replaces an earlier offer to the same request.
    pub fn offer(
        &mut self,
        request: &Request,
        placement: &Placement,
        until: Millis,
    ) -> Result<Operation, LedgerError> {
        self.hold(request, placement, Stage::Offered { until })
    }

    /// Charges a placement whose start waits until its devices are quiet. Replaces an offer to the
    /// same request.
    pub fn queue(
        &mut self,
        request: &Request,
        placement: &Placement,
    ) -> Result<Operation, LedgerError> {
        self.hold(request, placement, Stage::Queued)
    }

    /// Charges a placement whose effect is sent at once. Replaces an offer to the same request.
    pub fn send(
        &mut self,
        request: &Request,
        placement: &Placement,
    ) -> Result<Operation, LedgerError> {
        self.hold(request, placement, Stage::Sent)
    }

    /// Charges a placement that another scheduler chose. No maximum of an account applies.
    pub fn book(
        &mut self,
        request: &Request,
        placement: &Placement,
    ) -> Result<Operation, LedgerError> {
        self.hold_within(&Allowance::default(), request, placement, Stage::Sent)
    }

    /// Accepts an offer, or starts queued work. Its effect is sent now.
    pub fn take(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Offered { .. } | Stage::Queued => Ok(self.restage(request, Stage::Sent)),
            stage => Err(wrong_stage(request, stage, Verb::Take)),
        }
    }

    /// Accepts an offer whose start must wait until its devices are quiet. It no longer expires.
    pub fn take_queued(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Offered { .. } => Ok(self.restage(request, Stage::Queued)),
            stage => Err(wrong_stage(request, stage, Verb::Queue)),
        }
    }

    /// Records that the work was seen running.
    pub fn confirm(&mut self, request: &RequestId, now: Millis) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Offered { .. } | Stage::Queued | Stage::Sent => {
                Ok(self.restage(request, Stage::Running { since: now }))
            }
            stage => Err(wrong_stage(request, stage, Verb::Confirm)),
        }
    }

    /// Records evidence that the effect did not happen, or withdraws an offer.
    pub fn fail(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Running { .. } => Err(wrong_stage(request, self.stage_of(request)?, Verb::Fail)),
            _ => Ok(self.commit(Change::Drop { request: request.clone() })),
        }
    }

    /// Records that the holder was asked to stop. The charge counts until there is evidence of
    /// release.
    pub fn begin_release(
        &mut self,
        request: &RequestId,
        now: Millis,
    ) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            stage @ Stage::Releasing { .. } => Err(wrong_stage(request, stage, Verb::Release)),
            _ => Ok(self.restage(request, Stage::Releasing { since: now })),
        }
    }

    /// Records evidence that all memory of a holding is released.
    pub fn freed(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        self.stage_of(request)?;
        Ok(self.commit(Change::Drop { request: request.clone() }))
    }

    /// Records evidence that a holding's memory on one device is released; its other charges stay.
    pub fn freed_on(
        &mut self,
        request: &RequestId,
        ordinal: u16,
    ) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Releasing { .. } => {
                Ok(self.commit(Change::DropCharges { request: request.clone(), ordinal }))
            }
            stage => Err(wrong_stage(request, stage, Verb::FreeInPart)),
        }
    }

    /// Withdraws the offers that were not accepted in time.
    pub fn expire(&mut self, now: Millis) -> Vec<Operation> {
        let late = self.offered.iter().filter(|(_, until)| **until <= now);
        let expired: Vec<RequestId> =
            late.map(|(id, _)| self.holdings[id].request.clone()).collect();
        expired.into_iter().map(|request| self.commit(Change::Drop { request })).collect()
    }

    /// Records work that already runs. It may overflow the device, which is then reported as a
    /// breach: rejecting it would only hide memory that is in use. Only an unknown device is
    /// rejected.
    pub fn observe(&mut self, mut holding: Holding) -> Result<Operation, LedgerError> {
        self.check_observed(&holding)?;
        let id = self.find(&holding.node)?;
        let all: Vec<u16> =
            (0_u16..).zip(&self.view_at(id).node.devices).map(|(ordinal, _)| ordinal).collect();
        for charge in holding.charges.iter_mut().filter(|charge| charge.on.is_empty()) {
            charge.on.clone_from(&all);
        }
        if let Some((_, own)) = self.of_request(&holding.request) {
            keep_booked_amounts(own, &mut holding);
        }
        Ok(self.commit(Change::Hold { holding: Box::new(holding) }))
    }

    /// Checks that [`Ledger::observe`] knows the node and the devices that a holding names.
    pub fn check_observed(&self, holding: &Holding) -> Result<(), LedgerError> {
        let node = self.find(&holding.node)?;
        self.check_ordinals(node, &holding.request, &holding.charges)
    }

    /// Raises a charge to the measured amount. Never lowers it: the holder may use all of its
    /// charge again.
    pub fn raise(
        &mut self,
        request: &RequestId,
        ordinal: u16,
        bytes: Bytes,
    ) -> Result<Operation, LedgerError> {
        self.stage_of(request)?;
        let bytes = bytes.min(Bytes::DEVICE_MAX);
        Ok(self.commit(Change::Raise { request: request.clone(), ordinal, bytes }))
    }

    /// Records the activity of a holder.
    pub fn act(
        &mut self,
        request: &RequestId,
        activity: Activity,
    ) -> Result<Operation, LedgerError> {
        self.stage_of(request)?;
        Ok(self.commit(Change::Act { request: request.clone(), activity }))
    }

    /// Records that a speculative holding now serves real demand.
    pub fn claim(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        self.stage_of(request)?;
        Ok(self.commit(Change::Claim { request: request.clone() }))
    }

    /// Records a measurement of a device.
    pub fn measure(
        &mut self,
        node: &Name,
        ordinal: u16,
        measured: Measured,
    ) -> Result<Operation, LedgerError> {
        self.find(node)?;
        let measured = Measured { foreign: measured.foreign.min(Bytes::DEVICE_MAX), ..measured };
        Ok(self.commit(Change::Measure { node: node.clone(), ordinal, measured }))
    }

    /// Marks measurements from before a time as stale.
    pub fn age_telemetry(&mut self, before: Millis) -> Vec<Operation> {
        let mut stale = Vec::new();
        for (name, id) in &self.by_name {
            for (ordinal, measured) in (0_u16..).zip(&self.entry(*id).measured) {
                if let Telemetry::Fresh { at } = measured.telemetry
                    && at < before
                {
                    let telemetry = Telemetry::Stale { since: at };
                    let measured = Measured { telemetry, ..*measured };
                    stale.push(Change::Measure { node: name.clone(), ordinal, measured });
                }
            }
        }
        stale.into_iter().map(|change| self.commit(change)).collect()
    }

    /// Promises memory being released. Replaces an earlier promise to the same request.
    pub fn promise(
        &mut self,
        request: &RequestId,
        promise: Promise,
    ) -> Result<Operation, LedgerError> {
        let id = self.find(&promise.placement.node)?;
        self.check_ordinals(id, request, &promise.charges)?;
        Ok(self.commit(Change::Promise { request: request.clone(), promise: Box::new(promise) }))
    }

    /// Withdraws a promise; `None` if there is none.
    pub fn unpromise(&mut self, request: &RequestId) -> Option<Operation> {
        self.promises
            .contains_key(request)
            .then(|| self.commit(Change::Unpromise { request: request.clone() }))
    }

    /// Returns true if the commit would accept this placement now.
    pub fn admits(&self, request: &Request, placement: &Placement) -> bool {
        self.view_for(&request.id, &placement.node)
            .is_ok_and(|view| self.admit(&view, request, placement).is_ok())
    }

    fn hold(
        &mut self,
        request: &Request,
        placement: &Placement,
        stage: Stage,
    ) -> Result<Operation, LedgerError> {
        self.hold_within(&self.allowance(&request.id), request, placement, stage)
    }

    /// The only commit: asks `fit` on the current ledger and charges the amounts that it returns.
    fn hold_within(
        &mut self,
        allowance: &Allowance,
        request: &Request,
        placement: &Placement,
        stage: Stage,
    ) -> Result<Operation, LedgerError> {
        let view = self.view_for(&request.id, &placement.node)?;
        let spec = &request.spec;
        let charges = fit::admit(&view, allowance, spec, placement)?; // mutant: commit-check
        let holding = Holding::placed(request, &placement.node, stage, charges);
        Ok(self.commit(Change::Hold { holding: Box::new(holding) }))
    }

    fn admit(
        &self,
        view: &NodeView,
        request: &Request,
        placement: &Placement,
    ) -> Result<Vec<Charge>, AdmissionError> {
        fit::admit(view, &self.allowance(&request.id), &request.spec, placement)
    }

    /// Returns the node as this request sees it: without its own offer and its own promise, because
    /// a new holding replaces both.
    fn view_for(&self, request: &RequestId, node: &Name) -> Result<NodeView, LedgerError> {
        let missing =
            || AdmissionError::Node { node: node.clone(), reason: NodeReason::NoSuchNode };
        let mut view = self.view_at(*self.by_name.get(node).ok_or_else(missing)?).clone();
        if let Some((id, own)) = self.of_request(request) {
            if !own.stage.is_before_start() {
                return Err(wrong_stage(request, own.stage, Verb::Place));
            }
            if own.node == *node {
                view.remove(id, own);
            }
        }
        if let Some(promise) =
            self.promises.get(request).filter(|promise| promise.placement.node == *node)
        {
            view.remove_promise(&promise.charges, &promise.resources);
        }
        Ok(view)
    }

    fn check_ordinals(
        &self,
        id: NodeId,
        request: &RequestId,
        charges: &[Charge],
    ) -> Result<(), LedgerError> {
        let node = &self.view_at(id).node;
        let missing = |ordinal: &&u16| usize::from(**ordinal) >= node.devices.len();
        match charges.iter().flat_map(|charge| &charge.on).find(missing) {
            None => Ok(()),
            Some(&ordinal) => Err(LedgerError::NotAdmitted(AdmissionError::Device {
                container: request.to_string().into(),
                device: node.device_label(usize::from(ordinal)),
                reason: Reason::NoSuchDevice { ordinal },
            })),
        }
    }

    fn restage(&mut self, request: &RequestId, stage: Stage) -> Operation {
        self.commit(Change::Restage { request: request.clone(), stage })
    }

    fn commit(&mut self, change: Change) -> Operation {
        self.apply(&change);
        Operation(change)
    }
}

impl Ledger {
    fn entry(&self, id: NodeId) -> &Entry {
        self.nodes[id.index()].as_ref().expect("every named node has an entry")
    }

    fn entry_mut(&mut self, id: NodeId) -> &mut Entry {
        self.nodes[id.index()].as_mut().expect("every named node has an entry")
    }

    fn view_at(&self, id: NodeId) -> &NodeView {
        self.views.get(id).expect("every named node has a row")
    }

    fn find(&self, node: &Name) -> Result<NodeId, LedgerError> {
        self.by_name
            .get(node)
            .copied()
            .ok_or_else(|| LedgerError::NoSuchNode { node: node.clone() })
    }

    fn stage_of(&self, request: &RequestId) -> Result<Stage, LedgerError> {
        let held = self.of_request(request);
        held.map(|(_, h)| h.stage).ok_or_else(|| LedgerError::NotHeld { request: request.clone() })
    }
}

/// Raises an observation to what the ledger booked for the same request on the same node. A pod
/// that has just started is observed with less memory than it will use; lowering its charge to that
/// would give the rest away.
fn keep_booked_amounts(own: &Holding, seen: &mut Holding) {
    if own.node != seen.node || own.spec.is_none() {
        return;
    }
    for charge in &mut seen.charges {
        let booked = own
            .charges
            .iter()
            .find(|booked| booked.on == charge.on && booked.bytes() > charge.bytes());
        if let Some(booked) = booked {
            *charge = booked.clone();
        }
    }
    seen.resources.cpu = seen.resources.cpu.max(own.resources.cpu);
    seen.resources.memory = seen.resources.memory.max(own.resources.memory);
    seen.resources.pods = seen.resources.pods.max(own.resources.pods);
    seen.resources.extended.raise_to(&own.resources.extended);
    seen.spec = own.spec.clone();
    seen.terms = own.terms.clone();
}
