//! The health of a node: when its kubelet was heard, and which boot it is.

use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::units::{Millis, Name};

use super::{Topic, Watch};
use crate::object::Node;

/// The time without a heartbeat after which a node takes nothing new, as in Kubernetes' own node
/// controller. Kubelets renew their lease every ten seconds.
pub const SILENT_AFTER: Millis = Millis(40_000);

/// The health of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeHealth {
    /// The last heartbeat by the kubelet's clock.
    renewed: Option<Millis>,
    /// The time by our clock at which the lease was last seen to change.
    changed: Option<Millis>,
    pub(super) boot: Option<Name>,
    /// The time since which the node controller reports that it does not hear the kubelet.
    unknown_since: Option<Millis>,
}

impl NodeHealth {
    /// Records a heartbeat, and returns for how many milliseconds the kubelet was heard since the
    /// previous one: none after a gap, in which it may have been away.
    pub(super) fn heartbeat(&mut self, now: Millis, renewed: Millis) -> u64 {
        let Some(before) = self.renewed else {
            // A stale lease is as old as it says; that it changes is not known yet.
            (self.renewed, self.changed) = (Some(renewed), Some(renewed.min(now)));
            return 0;
        };
        if renewed <= before {
            return 0;
        }
        (self.renewed, self.changed) = (Some(renewed), Some(now));
        let heard = renewed.0 - before.0;
        if heard <= SILENT_AFTER.0 { heard } else { 0 }
    }

    pub(super) fn describe(&mut self, now: Millis, node: &Node) {
        self.boot = node.status.node_info.boot_id.as_deref().map(Name::from);
        let ready = node.status.conditions.iter().find(|condition| condition.kind == "Ready");
        self.unknown_since = match ready.map(|ready| ready.status.as_str()) {
            Some("Unknown") => self.unknown_since.or(Some(now)),
            _ => None,
        };
    }

    /// Returns since when the kubelet is silent; `None` if it is heard, or never renewed a lease.
    pub(super) fn silent_since(&self, now: Millis) -> Option<Millis> {
        let stale = self.changed.filter(|at| at.0.saturating_add(SILENT_AFTER.0) < now.0);
        stale.or(self.unknown_since)
    }
}

impl Watch {
    /// Tells the core which nodes have fallen silent, and which are heard again.
    pub(super) fn report_silence(&mut self, core: &mut Core<'_>) {
        let now = core.now();
        let changed: Vec<Name> = self
            .reported
            .iter()
            .filter(|(name, node)| node.silent_since != self.silent_since(name, now))
            .map(|(name, _)| name.clone())
            .collect();
        changed.iter().for_each(|name| self.report_node(core, name));
    }

    /// Reports a node to the core, or that it is gone.
    pub(super) fn report_node(&mut self, core: &mut Core<'_>, name: &Name) {
        self.topics.insert(Topic::Node(name.clone()));
        let Some(translated) = self.index.node(name) else {
            if self.reported.remove(name).is_some() {
                core.step(Event::NodeGone { name: name.clone() });
            }
            return;
        };
        let mut node = translated.value.node.clone();
        node.silent_since = self.silent_since(name, core.now());
        if self.reported.get(name) == Some(&node) {
            return;
        }
        let foreign = translated.value.foreign.clone();
        self.reported.insert(name.clone(), node.clone());
        core.step(Event::Node { node: Box::new(node) });
        for (ordinal, bytes) in foreign {
            let measured = plimsoll_core::room::Measured { foreign: bytes, ..Default::default() };
            core.step(Event::Measured { node: name.clone(), ordinal, measured });
        }
    }

    fn silent_since(&self, name: &Name, now: Millis) -> Option<Millis> {
        self.health.get(name).and_then(|health| health.silent_since(now))
    }
}
