//! The record of holders: who held devices of a node, for a process that was not watching.
//!
//! A pod can vanish while no process watches. Its object is gone, and nothing else says that its
//! containers may still run. So the holders of each node are written down, compactly and a moment
//! late. A process that starts reads the record: holders in it whose pods are missing count as
//! releasing, like pods that vanished before its eyes, until the same evidence ends their charges.
//! A record only ever adds charges; an outdated one delays work and frees nothing.
//!
//! This part is pure: [`Watch::take_records`] hands out what is to be stored, and
//! [`Observation::Recalled`](super::Observation::Recalled) brings what was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plimsoll_core::charge::Holding;
use plimsoll_core::checksum::checksum;
use plimsoll_core::device::Node;
use plimsoll_core::front::Core;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::release::{Departed, MIRROR, settles_after};
use super::{Watch, merge};
use crate::booking::{ALLOCATED, Booking};
use crate::finding::{Finding, LedgerProblem, Problem};
use crate::object::{Container, Metadata, Pod, PodSpec, PodStatus};
use crate::read::Object;
use crate::translate::Affected;

/// The largest part of a record, in bytes. An object of the API server has at most 1 MiB, and one
/// holder is smaller than all annotations of a pod together, which is 256 KiB.
const PART_BYTES: usize = 256 << 10;

/// The length of a checksum and the space after it.
const CHECKSUM: usize = 17;

/// The holders of one node, as they are written down. Very many of them are in several parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HoldersRecord {
    pub node: Name,
    pub part: u32,
    /// The boot of the node. Holders do not survive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Name>,
    pub holders: Vec<RecordedHolder>,
}

/// One holder of a node's devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedHolder {
    pub namespace: Name,
    pub name: Name,
    pub uid: Name,
    /// The time for which its kubelet must be heard once it vanished.
    pub settles_after: Millis,
    /// The static pod that it shows, if it is a mirror pod: the kubelet makes it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<String>,
    pub booking: Booking,
}

/// The name of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordKey {
    pub node: Name,
    pub part: u32,
}

impl fmt::Display for RecordKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} part {}", self.node, self.part)
    }
}

/// The reason why a stored record cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("its checksum does not match")]
    Checksum,
    #[error("it is no record of this version: {0}")]
    Content(#[from] serde_json::Error),
}

impl HoldersRecord {
    /// Returns the name under which this part is stored.
    pub fn key(&self) -> RecordKey {
        RecordKey { node: self.node.clone(), part: self.part }
    }

    /// Writes one line: a checksum and the record.
    pub fn encode(&self) -> String {
        let record = serde_json::to_string(self).expect("strings and numbers are valid JSON");
        format!("{} {record}", checksum([record.as_bytes()]))
    }

    /// Reads a line of [`HoldersRecord::encode`].
    ///
    /// # Errors
    ///
    /// [`RecordError`] for a line that this function's counterpart has not written like this.
    pub fn decode(line: &str) -> Result<HoldersRecord, RecordError> {
        let (sum, record) = line.split_once(' ').ok_or(RecordError::Checksum)?;
        if sum != checksum([record.as_bytes()]) {
            return Err(RecordError::Checksum);
        }
        Ok(serde_json::from_str(record)?)
    }
}

/// The stored records, as they were read.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// The time since which records are kept without a gap; `None` if none was kept yet.
    pub since: Option<Millis>,
    pub records: Vec<HoldersRecord>,
    pub damaged: Vec<DamagedRecord>,
}

/// A stored record that cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The object or file.
    pub place: String,
    pub why: String,
}

/// Records to store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordChanges {
    /// The term in which they were made; `None` where records do not depend on a lease.
    pub term: Option<u64>,
    /// The time since which no holder can have vanished unknown.
    pub since: Option<Millis>,
    pub changes: Vec<RecordChange>,
}

/// A record to store, in place of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    pub key: RecordKey,
    /// The line to store; `None` to remove what was stored.
    pub line: Option<String>,
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
    since: Option<Millis>,
    damaged: Vec<DamagedRecord>,
    /// The position in the ledger's change log up to which the records are current.
    position: u64,
    /// The checksum of each record that is stored, or was handed out to be.
    stored: BTreeMap<RecordKey, String>,
    /// The nodes with a record that may not have been stored.
    again: BTreeSet<Name>,
}

impl Watch {
    /// Makes a record of each node whose holders change ([`Watch::take_records`]).
    #[must_use]
    pub fn keeping_records(mut self, keeping: RecordKeeping) -> Watch {
        self.records.keeping = keeping;
        self
    }

    /// Returns the condition under which records are kept.
    pub fn record_keeping(&self) -> RecordKeeping {
        self.records.keeping
    }

    /// Returns the time since which no holder can have vanished unknown: since the record is kept,
    /// or since this process watches.
    pub fn holders_known_since(&self) -> Option<Millis> {
        let recorded = self.records.since.filter(|_| self.records.damaged.is_empty());
        recorded.into_iter().chain(self.watching_since).min()
    }

    /// Returns the stored records that could not be believed.
    pub fn damaged_records(&self) -> &[DamagedRecord] {
        &self.records.damaged
    }

    pub(super) fn record_findings(&self) -> impl Iterator<Item = Finding> {
        self.records.damaged.iter().map(|DamagedRecord { place, why }| {
            let problem = LedgerProblem::RecordDamaged { place: place.clone(), why: why.clone() };
            Finding { node: None, device: None, problem: Problem::Ledger(problem) }
        })
    }

    /// Adds the holders of records whose pods are not known: they count as releasing. Lists may
    /// come before or after; a pod that is listed is judged by its object. One that ended while
    /// this process watched does not count: the replica that kept the record stopped before it
    /// could write that down.
    pub(super) fn recall(&mut self, now: Millis, recalled: Recalled, affected: &mut Affected) {
        let Recalled { since, records, damaged } = recalled;
        self.records.since = self.records.since.into_iter().chain(since).min();
        self.records.damaged = damaged;
        // Another replica may have written them since this one did.
        (self.records.stored, self.records.position) = (BTreeMap::new(), 0);
        for record in records {
            self.records.stored.insert(record.key(), sum_of(&record.encode()));
            let HoldersRecord { node, boot, holders, .. } = record;
            for holder in holders {
                self.recall_holder(now, &node, boot.as_ref(), holder, affected);
            }
        }
    }

    fn recall_holder(
        &mut self,
        now: Millis,
        node: &Name,
        boot: Option<&Name>,
        holder: RecordedHolder,
        affected: &mut Affected,
    ) {
        let RecordedHolder { namespace, name, uid, settles_after, mirror, booking } = holder;
        let shown = self.index.pod_named(&namespace, &name);
        let shown = shown.and_then(|pod| pod.metadata.annotations.get(MIRROR));
        let is_same_mirror = mirror.is_some() && shown == mirror.as_deref();
        let id = RequestId::new(namespace, name).with_uid(uid);
        let claim = self.index.claim(&id);
        let is_allocated = claim.is_some_and(|claim| claim.status.allocation.is_some());
        let is_known = is_allocated || self.index.pod(&id).is_some();
        let has_ended = self.ended.contains(&id);
        if is_same_mirror || is_known || has_ended || self.departed.contains_key(&id) {
            return;
        }
        let containers = booking.containers.keys();
        let containers =
            containers.map(|name| Container { name: name.clone(), ..Container::default() });
        let departed = Departed::new(now, node.clone(), boot.cloned(), settles_after);
        let stored = self.depart(id.clone(), departed.of_mirror(mirror));
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

    /// Takes the records to store: those of nodes whose holders have changed since the last call.
    pub fn take_records(&mut self, core: &Core<'_>) -> RecordChanges {
        let term = match self.records.keeping {
            RecordKeeping::Never => return RecordChanges::default(),
            RecordKeeping::Always => None,
            RecordKeeping::WhileLeading => match self.decides_in(core.now()) {
                Some(term) => Some(term),
                None => return RecordChanges::default(),
            },
        };
        let ledger = core.ledger();
        let (changed, position) = ledger.changed_since(self.records.position);
        self.records.position = position;
        let mut nodes: BTreeSet<Name> = match changed {
            Some(changed) => changed
                .filter_map(|id| ledger.view(id))
                .map(|view| view.node.name.clone())
                .collect(),
            None => ledger.nodes().map(|(_, view)| view.node.name.clone()).collect(),
        };
        nodes.append(&mut self.records.again);
        let gone = self.records.stored.keys().map(|key| &key.node);
        nodes.extend(gone.filter(|node| ledger.node_id(node).is_none()).cloned());
        let changes = nodes.iter().flat_map(|node| self.changes_of(ledger, node)).collect();
        RecordChanges { term, since: self.holders_known_since(), changes }
    }

    /// Hands a record out again, with the next ones, because it may not have been stored.
    pub fn record_not_stored(&mut self, key: RecordKey) {
        self.records.again.insert(key.node.clone());
        self.records.stored.insert(key, String::new());
    }

    /// Returns the parts of a node's record that differ from what is stored.
    fn changes_of(&mut self, ledger: &Ledger, node: &Name) -> Vec<RecordChange> {
        let mut changes = Vec::new();
        let records = self.records_of(ledger, node);
        let first_unused = u32::try_from(records.len()).unwrap_or(u32::MAX);
        for record in records {
            let (key, line) = (record.key(), record.encode());
            let sum = sum_of(&line);
            if self.records.stored.get(&key) != Some(&sum) {
                self.records.stored.insert(key.clone(), sum);
                changes.push(RecordChange { key, line: Some(line) });
            }
        }
        let unused = RecordKey { node: node.clone(), part: first_unused }..;
        let unused = self.records.stored.range(unused).take_while(|(key, _)| key.node == *node);
        let unused: Vec<RecordKey> = unused.map(|(key, _)| key.clone()).collect();
        for key in unused {
            self.records.stored.remove(&key);
            changes.push(RecordChange { key, line: None });
        }
        changes
    }

    /// Returns the record of a node in parts; none where no pod holds a device.
    fn records_of(&self, ledger: &Ledger, node: &Name) -> Vec<HoldersRecord> {
        let Some(view) = ledger.view_of(node) else { return Vec::new() };
        let holdings = ledger.node_id(node).into_iter().flat_map(|id| ledger.holdings_on(id));
        let holdings = holdings.map(|(_, holding)| holding);
        let mut holders: Vec<RecordedHolder> =
            holdings.filter_map(|holding| self.recorded(holding, &view.node)).collect();
        holders.sort_by(|one, other| {
            (&one.namespace, &one.name, &one.uid).cmp(&(&other.namespace, &other.name, &other.uid))
        });
        let boot = self.health.get(node).and_then(|health| health.boot.clone());
        let mut parts: Vec<HoldersRecord> = Vec::new();
        let mut room = 0;
        for holder in holders {
            let bytes = serde_json::to_string(&holder).map_or(0, |text| text.len());
            if bytes > room || parts.is_empty() {
                let part = u32::try_from(parts.len()).unwrap_or(u32::MAX);
                let (node, boot) = (node.clone(), boot.clone());
                parts.push(HoldersRecord { node, part, boot, holders: Vec::new() });
                room = PART_BYTES;
            }
            room = room.saturating_sub(bytes);
            parts.last_mut().expect("one was added").holders.push(holder);
        }
        parts
    }

    /// Returns what is written down of a holding, of a pod or of a claim; `None` for one without
    /// devices, or whose object has not been seen yet.
    fn recorded(&self, holding: &Holding, node: &Node) -> Option<RecordedHolder> {
        let id = &holding.request;
        let departed = self.departed.get(id);
        let pod = self.index.pod(id);
        let is_known = departed.is_some() || pod.is_some() || self.index.claim(id).is_some();
        if holding.charges.is_empty() || !is_known {
            return None;
        }
        let mirror = pod.and_then(|pod| pod.metadata.annotations.get(MIRROR).map(str::to_owned));
        Some(RecordedHolder {
            namespace: id.account.clone(),
            name: id.name.clone(),
            uid: id.uid.clone(),
            settles_after: departed.map_or_else(|| settles_after(pod), |departed| departed.of),
            mirror: mirror.or_else(|| departed.and_then(|departed| departed.mirror.clone())),
            booking: Booking::new(holding, node),
        })
    }
}

/// Returns the checksum at the beginning of a line.
fn sum_of(line: &str) -> String {
    line.chars().take(CHECKSUM - 1).collect()
}
