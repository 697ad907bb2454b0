//! The effects of a change: what must be translated again.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use super::super::dra::PoolKey;
use super::{KnownPod, PodKey, PodState};

/// The objects that a change can have altered. Everything else translates as before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// Nodes that are new, changed or removed.
    pub nodes: BTreeSet<Name>,
    /// Pods whose request, holding or findings can have changed, and removed pods.
    pub pods: BTreeSet<RequestId>,
    /// Claims whose holding can have changed, and removed claims. See
    /// [`claim_holding`](crate::translate::claim_holding).
    pub claims: BTreeSet<RequestId>,
    /// Pod groups, as `namespace/name`, whose minimum or members can have changed.
    pub gangs: BTreeSet<Name>,
}

impl Affected {
    /// Returns true if nothing must be translated again.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
            && self.pods.is_empty()
            && self.claims.is_empty()
            && self.gangs.is_empty()
    }
}

/// The effect of storing a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeChange {
    Same,
    Described,
    /// It is new or removed.
    Existence,
}

/// Objects touched while changes were stored, before the effects are computed.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) affected: Affected,
    pub(super) nodes: BTreeMap<Name, NodeChange>,
    /// Nodes whose tenants must be seated again.
    pub(super) sites: BTreeSet<Name>,
    /// Groups whose members changed.
    pub(super) groups: BTreeSet<Name>,
    /// Groups whose own object changed.
    pub(super) group_objects: BTreeSet<Name>,
    /// Nodes whose published devices changed.
    pub(super) published: BTreeSet<Name>,
    pub(super) pools: BTreeSet<PoolKey>,
    /// Claims that changed.
    pub(super) claims: BTreeSet<PodKey>,
    pub(super) device_classes: bool,
    pub(super) classes: bool,
    pub(super) workloads: bool,
}

impl Touched {
    pub(super) fn node(&mut self, name: &Name, change: NodeChange) {
        if change != NodeChange::Same {
            self.affected.nodes.insert(name.clone());
            self.sites.insert(name.clone());
            let known = self.nodes.entry(name.clone()).or_insert(change);
            *known = change.max(*known);
        }
    }

    pub(super) fn pod(&mut self, known: &KnownPod) {
        self.affected.pods.insert(known.id.clone());
        let takes_part = match known.state {
            PodState::Bound => known.concerns_devices,
            PodState::Reservation => true,
            PodState::Finished | PodState::Gated | PodState::Pending => false,
        };
        if let Some(node) = known.pod.node_name().filter(|_| takes_part) {
            self.sites.insert(node.into());
        }
        let is_member = matches!(known.state, PodState::Bound | PodState::Pending);
        if let Some(group) = known.group.as_ref().filter(|_| is_member) {
            self.groups.insert(group.name.clone());
        }
    }
}
