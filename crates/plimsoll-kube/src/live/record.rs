//! The record of holders: who held devices of a node, for a process that was not watching.
//!
//! A pod can vanish while no process watches. Its object is gone, and nothing else says that its
//! containers may still run. So the holders of each node are written down, compactly and a moment
//! late. A process that starts reads the record: holders in it whose pods are missing count as
//! releasing, like pods that vanished before its eyes, until the same evidence ends their charges.
//! A record only ever adds charges; an outdated one delays work and frees nothing.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::front::Core;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::release::{Departed, settles_after};
use super::{Leadership, Watch, merge};
use crate::booking::{ALLOCATED, Booking};
use crate::object::{Container, Metadata, Pod, PodSpec, PodStatus};
use crate::read::Object;
use crate::translate::Affected;

/// The holders of one node, as they are written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldersRecord {
    pub node: Name,
    /// The boot of the node. Holders do not survive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Name>,
    pub holders: Vec<RecordedHolder>,
}

/// One holder of a node's devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedHolder {
    pub namespace: Name,
    pub name: Name,
    pub uid: Name,
    /// The time for which its kubelet must be heard once it vanished.
    pub settles_after: Millis,
    pub booking: Booking,
}

/// The condition under which records are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordKeeping {
    #[default]
    Never,
    /// By the leader of several replicas.
    WhileLeading,
    Always,
}

/// The state of record keeping.
#[derive(Debug, Default)]
pub(super) struct Records {
    keeping: RecordKeeping,
    /// The position in the ledger's change log up to which the records are current.
    position: u64,
    /// The last record of each node that was handed out.
    written: BTreeMap<Name, String>,
    due: Vec<(Name, String)>,
}

impl Watch {
    /// Makes a record of each node whose holders change ([`Watch::take_records`]).
    #[must_use]
    pub fn keeping_records(mut self, keeping: RecordKeeping) -> Watch {
        self.records.keeping = keeping;
        self
    }

    /// Adds the holders of records whose pods are not known: they count as releasing. Lists may
    /// come before or after; a pod that is listed is judged by its object.
    pub fn remember(&mut self, core: &mut Core<'_>, records: Vec<HoldersRecord>) {
        let mut affected = Affected::default();
        for HoldersRecord { node, boot, holders } in records {
            for holder in holders {
                self.remember_one(core.now(), &node, boot.as_ref(), holder, &mut affected);
            }
        }
        self.follow(core, &affected);
        self.free_by_evidence(core);
    }

    fn remember_one(
        &mut self,
        now: Millis,
        node: &Name,
        boot: Option<&Name>,
        holder: RecordedHolder,
        affected: &mut Affected,
    ) {
        let RecordedHolder { namespace, name, uid, settles_after, booking } = holder;
        let id = RequestId::new(namespace, name).with_uid(uid);
        if self.index.pod(&id).is_some() || self.departed.contains_key(&id) {
            return;
        }
        let containers = booking.containers.keys();
        let containers =
            containers.map(|name| Container { name: name.clone(), ..Container::default() });
        let departed = Departed::new(now, node.clone(), boot.cloned(), settles_after);
        let stored = self.depart(id.clone(), departed);
        let pod = Pod {
            metadata: Metadata {
                name: stored.to_string(),
                namespace: Some(id.account.to_string()),
                uid: Some(id.uid.to_string()),
                deletion_timestamp: Some(String::new()),
                annotations: [(ALLOCATED, booking.encode())].into_iter().collect(),
                ..Metadata::default()
            },
            spec: PodSpec {
                node_name: Some(node.to_string()),
                containers: containers.collect(),
                ..PodSpec::default()
            },
            status: PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() },
        };
        merge(affected, self.index.apply(Object::Pod(pod.into())));
    }

    /// Hands out the records that have changed.
    pub(super) fn write_records(&mut self, ledger: &Ledger) {
        let is_due = match self.records.keeping {
            RecordKeeping::Never => false,
            RecordKeeping::WhileLeading => self.leadership() == Leadership::Leading,
            RecordKeeping::Always => true,
        };
        if !is_due {
            return;
        }
        let (changed, position) = ledger.changed_since(self.records.position);
        let changed: BTreeSet<Name> = match changed {
            Some(nodes) => {
                nodes.filter_map(|id| ledger.view(id)).map(|view| view.node.name.clone()).collect()
            }
            None => ledger.nodes().map(|(_, view)| view.node.name.clone()).collect(),
        };
        self.records.position = position;
        for node in changed {
            let record = self.record_of(ledger, &node);
            let text = serde_json::to_string(&record).expect("strings and numbers are valid JSON");
            if self.records.written.get(&node) != Some(&text) {
                self.records.written.insert(node.clone(), text.clone());
                self.records.due.push((node, text));
            }
        }
    }

    /// Takes the records to store, by node, each in place of the one before.
    pub fn take_records(&mut self) -> Vec<(Name, String)> {
        std::mem::take(&mut self.records.due)
    }

    /// Makes a record again that may not have been stored.
    pub fn record_not_stored(&mut self, node: &Name) {
        self.records.written.remove(node);
        self.records.position = 0;
    }

    fn record_of(&self, ledger: &Ledger, node: &Name) -> HoldersRecord {
        let view = ledger.view_of(node);
        let holdings = ledger.node_id(node).into_iter().flat_map(|id| ledger.holdings_on(id));
        let holders = holdings.filter(|(_, holding)| !holding.charges.is_empty()).filter_map(
            |(_, holding)| {
                let id = &holding.request;
                Some(RecordedHolder {
                    namespace: id.account.clone(),
                    name: id.name.clone(),
                    uid: id.uid.clone(),
                    settles_after: self.settles_after(id),
                    booking: Booking::new(holding, &view?.node),
                })
            },
        );
        let boot = self.health.get(node).and_then(|health| health.boot.clone());
        HoldersRecord { node: node.clone(), boot, holders: holders.collect() }
    }

    fn settles_after(&self, id: &RequestId) -> Millis {
        match self.departed.get(id) {
            Some(departed) => departed.of,
            None => settles_after(self.index.pod(id)),
        }
    }
}
