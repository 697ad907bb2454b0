//! The ledger: who holds what, one sum a device, and the one commit that adds to it.
//!
//! Every verb checks, makes one [`Operation`], applies it and returns it for the journal. Recovery applies operations
//! and never decides again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::charge::{Activity, Charge, Holding, HoldingId, Stage};
use crate::device::{Node, Telemetry};
use crate::fit::{self, Placement, Refusal};
use crate::reason::{NodeReason, Reason};
use crate::request::{Request, RequestId};
use crate::room::{Measured, NodeView};
use crate::units::{Bytes, Millis, Name};

mod apply;
mod by_node;
mod changes;
mod look;
mod rows;
mod views;

pub use rows::{LedgerRows, NodeRow};
pub use views::Views;

pub(crate) use by_node::ByNode;

use changes::{Changed, Changes};

/// A node inside one ledger. Never printed, never ordered by in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// Its place in arrays by node.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The node with this place in arrays by node.
    pub(crate) fn at(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("fewer nodes than 2^32"))
    }
}

/// Who holds what, on which device of which node.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    nodes: Vec<Option<Entry>>,
    views: Views,
    vacant: Vec<NodeId>,
    by_name: BTreeMap<Name, NodeId>,
    /// Shared with the rows that are being saved, so that saving many copies none.
    holdings: BTreeMap<HoldingId, Arc<Holding>>,
    by_request: BTreeMap<RequestId, HoldingId>,
    promises: BTreeMap<RequestId, Promise>,
    accounts: BTreeMap<Name, Account>,
    releasing: usize,
    /// Those who hold no more than an offer, and until when, so that time and quiet devices find them without looking at everybody.
    offered: BTreeMap<HoldingId, Millis>,
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
    /// Taken away while somebody still held something: it goes with its last holding.
    leaving: bool,
}

/// What one account holds over the whole fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Device memory, each charge once.
    pub bytes: Bytes,
    /// Holdings.
    pub holdings: u32,
}

/// Memory that is on its way back and promised to somebody who waits. Never granted before it is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// Where it will be.
    pub placement: Placement,
    /// What it will be charged.
    pub charges: Vec<Charge>,
    /// Whose going it waits for.
    pub after: Vec<RequestId>,
}

/// One change of the ledger, as the journal keeps it. Made only by the ledger's verbs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation(Change);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Change {
    PutNode { node: Box<Node> },
    DropNode { name: Name },
    Hold { holding: Box<Holding> },
    Restage { request: RequestId, stage: Stage },
    Drop { request: RequestId },
    DropCharges { request: RequestId, ordinal: u16 },
    Raise { request: RequestId, ordinal: u16, bytes: Bytes },
    Act { request: RequestId, activity: Activity },
    Claim { request: RequestId },
    Measure { node: Name, ordinal: u16, measured: Measured },
    Promise { request: RequestId, promise: Box<Promise> },
    Unpromise { request: RequestId },
}

/// Why a verb of the ledger does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Nothing is held under this name.
    #[error("{request} holds nothing")]
    NotHeld {
        /// Who was named.
        request: RequestId,
    },
    /// The holding is at another point of its life.
    #[error("{request} is {stage}, and cannot be {wanted}")]
    WrongStage {
        /// Who was named.
        request: RequestId,
        /// Where it is.
        stage: &'static str,
        /// What was wanted of it.
        wanted: &'static str,
    },
    /// There is no node of this name.
    #[error("there is no node {node}")]
    NoSuchNode {
        /// The name.
        node: Name,
    },
    /// It does not fit.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The verbs.
impl Ledger {
    /// Adds a node, or replaces its facts. Charges follow their devices by UUID; a device that is not reported any more
    /// stays as gone while somebody holds it.
    pub fn put_node(&mut self, mut node: Node) -> Operation {
        if let Some(contradiction) = node.contradiction() {
            node.unknown = Some(contradiction);
            node.devices.truncate(4096);
        }
        self.commit(Change::PutNode { node: Box::new(node) })
    }

    /// Takes a node away. While somebody holds something there it stays, with its devices gone.
    pub fn drop_node(&mut self, name: &Name) -> Result<Operation, LedgerError> {
        self.find(name)?;
        Ok(self.commit(Change::DropNode { name: name.clone() }))
    }

    /// Offers a place until a time. An earlier offer to the same request is given back in the same step.
    pub fn offer(
        &mut self,
        request: &Request,
        place: &Placement,
        until: Millis,
    ) -> Result<Operation, LedgerError> {
        self.hold(request, place, Stage::Offered { until })
    }

    /// Takes a place whose effect leaves at once, or moves an offer to it.
    pub fn send(&mut self, request: &Request, place: &Placement) -> Result<Operation, LedgerError> {
        self.hold(request, place, Stage::Sent)
    }

    /// Takes an offer as it stands: its effect leaves now, and the charge stays until there is evidence.
    pub fn take(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Offered { .. } => Ok(self.restage(request, Stage::Sent)),
            stage => Err(wrong_stage(request, stage, "taken")),
        }
    }

    /// Lets an offer stand until another time.
    pub fn extend(&mut self, request: &RequestId, until: Millis) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Offered { .. } => Ok(self.restage(request, Stage::Offered { until })),
            stage => Err(wrong_stage(request, stage, "offered")),
        }
    }

    /// Records that it was seen running.
    pub fn confirm(&mut self, request: &RequestId, now: Millis) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Offered { .. } | Stage::Sent => {
                Ok(self.restage(request, Stage::Running { since: now }))
            }
            stage => Err(wrong_stage(request, stage, "confirmed")),
        }
    }

    /// Records evidence that an effect that had left did not happen; gives an offer back.
    pub fn fail(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Running { .. } => Err(wrong_stage(request, self.stage_of(request)?, "undone")),
            _ => Ok(self.commit(Change::Drop { request: request.clone() })),
        }
    }

    /// Records that it was asked to go. It counts until its memory is seen to be back.
    pub fn begin_release(
        &mut self,
        request: &RequestId,
        now: Millis,
    ) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            stage @ Stage::Releasing { .. } => Err(wrong_stage(request, stage, "released again")),
            _ => Ok(self.restage(request, Stage::Releasing { since: now })),
        }
    }

    /// Records evidence that all of it is gone.
    pub fn freed(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        self.stage_of(request)?;
        Ok(self.commit(Change::Drop { request: request.clone() }))
    }

    /// Records evidence that its memory on one device is back; the rest of it stays.
    pub fn freed_on(
        &mut self,
        request: &RequestId,
        ordinal: u16,
    ) -> Result<Operation, LedgerError> {
        match self.stage_of(request)? {
            Stage::Releasing { .. } => {
                Ok(self.commit(Change::DropCharges { request: request.clone(), ordinal }))
            }
            stage => Err(wrong_stage(request, stage, "freed in part")),
        }
    }

    /// Gives back the offers that nobody took in time.
    pub fn expire(&mut self, now: Millis) -> Vec<Operation> {
        let late = self.offered.iter().filter(|(_, until)| **until <= now);
        let expired: Vec<RequestId> =
            late.map(|(id, _)| self.holdings[id].request.clone()).collect();
        expired.into_iter().map(|request| self.commit(Change::Drop { request })).collect()
    }

    /// Records what really runs. Reality is not refused: it may overflow a device, which then shows as a breach.
    /// Only a device that is not there is refused.
    pub fn observe(&mut self, mut holding: Holding) -> Result<Operation, LedgerError> {
        self.check_observed(&holding)?;
        let id = self.find(&holding.node)?;
        let all: Vec<u16> =
            (0_u16..).zip(&self.view_at(id).node.devices).map(|(ordinal, _)| ordinal).collect();
        for charge in holding.charges.iter_mut().filter(|charge| charge.on.is_empty()) {
            charge.on.clone_from(&all);
        }
        if let Some((_, own)) = self.of_request(&holding.request) {
            keep_what_was_booked(own, &mut holding);
        }
        Ok(self.commit(Change::Hold { holding: Box::new(holding) }))
    }

    /// Checks that [`Ledger::observe`] knows the node and the devices that a holding names.
    pub fn check_observed(&self, holding: &Holding) -> Result<(), LedgerError> {
        let node = self.find(&holding.node)?;
        self.check_ordinals(node, &holding.request, &holding.charges)
    }

    /// Raises a charge to what was measured; never lowers it.
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

    /// Records whether a holder is doing anything.
    pub fn act(
        &mut self,
        request: &RequestId,
        activity: Activity,
    ) -> Result<Operation, LedgerError> {
        self.stage_of(request)?;
        Ok(self.commit(Change::Act { request: request.clone(), activity }))
    }

    /// Records that what was speculative is real work from here on.
    pub fn claim(&mut self, request: &RequestId) -> Result<Operation, LedgerError> {
        self.stage_of(request)?;
        Ok(self.commit(Change::Claim { request: request.clone() }))
    }

    /// Records what was measured on a device.
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

    /// Marks as stale what was measured before a time.
    pub fn age_telemetry(&mut self, before: Millis) -> Vec<Operation> {
        let mut stale = Vec::new();
        for (name, id) in &self.by_name {
            for (ordinal, measured) in (0_u16..).zip(&self.entry(*id).measured) {
                if let Telemetry::Fresh { at } = measured.telemetry
                    && at < before
                {
                    let telemetry = Telemetry::Stale { since: at };
                    stale.push((name.clone(), ordinal, Measured { telemetry, ..*measured }));
                }
            }
        }
        let mark =
            |(node, ordinal, measured)| self.commit(Change::Measure { node, ordinal, measured });
        stale.into_iter().map(mark).collect()
    }

    /// Promises memory that is on its way back. The promise replaces an earlier one to the same request.
    pub fn promise(
        &mut self,
        request: &RequestId,
        promise: Promise,
    ) -> Result<Operation, LedgerError> {
        let id = self.find(&promise.placement.node)?;
        self.check_ordinals(id, request, &promise.charges)?;
        Ok(self.commit(Change::Promise { request: request.clone(), promise: Box::new(promise) }))
    }

    /// Takes a promise back; `None` when there is none.
    pub fn unpromise(&mut self, request: &RequestId) -> Option<Operation> {
        self.promises
            .contains_key(request)
            .then(|| self.commit(Change::Unpromise { request: request.clone() }))
    }

    /// Whether the commit would charge a place as the ledger stands.
    pub fn admits(&self, request: &Request, place: &Placement) -> bool {
        self.view_for(&request.id, &place.node)
            .is_ok_and(|view| fit::admit(&view, &request.spec, place).is_ok())
    }

    /// The one commit: asks `fit` again, on the ledger as it stands, and charges what it says.
    fn hold(
        &mut self,
        request: &Request,
        place: &Placement,
        stage: Stage,
    ) -> Result<Operation, LedgerError> {
        let view = self.view_for(&request.id, &place.node)?;
        let charges = fit::admit(&view, &request.spec, place)?; // mutant: commit-check
        let holding = Holding::placed(request, &place.node, stage, charges);
        Ok(self.commit(Change::Hold { holding: Box::new(holding) }))
    }

    /// The node as the request itself sees it: without its own offer and its own promise, which this would replace.
    fn view_for(&self, request: &RequestId, node: &Name) -> Result<NodeView, LedgerError> {
        let missing = || Refusal::Node { node: node.clone(), reason: NodeReason::NoSuchNode };
        let mut view = self.view_at(*self.by_name.get(node).ok_or_else(missing)?).clone();
        if let Some((id, own)) = self.of_request(request) {
            if !matches!(own.stage, Stage::Offered { .. }) {
                return Err(wrong_stage(request, own.stage, "placed again"));
            }
            if own.node == *node {
                view.remove(id, own);
            }
        }
        if let Some(promise) =
            self.promises.get(request).filter(|promise| promise.placement.node == *node)
        {
            view.promise(&promise.charges, false);
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
            Some(&ordinal) => Err(LedgerError::Refused(Refusal::Device {
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

/// What is seen of a holding that a decision of ours placed lowers nothing that was booked for it.
fn keep_what_was_booked(own: &Holding, seen: &mut Holding) {
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
    let (need, booked) = (&mut seen.resources, &own.resources);
    (need.cpu, need.memory) = (need.cpu.max(booked.cpu), need.memory.max(booked.memory));
    need.pods = need.pods.max(booked.pods);
    (seen.spec, seen.terms) = (own.spec.clone(), own.terms.clone());
}

fn wrong_stage(request: &RequestId, stage: Stage, wanted: &'static str) -> LedgerError {
    LedgerError::WrongStage { request: request.clone(), stage: stage.name(), wanted }
}
