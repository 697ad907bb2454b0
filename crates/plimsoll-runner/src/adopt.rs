//! Adoption of model servers that an earlier agent left running.
//!
//! A model takes minutes to load, so that an agent that exits, crashes or is upgraded must not take
//! its model servers down, and its successor must not start them twice. Two sources tell the
//! successor what runs:
//!
//! - The records in the state directory. A record is written before the process starts, so that
//!   there is no process without a record, except after a disk error.
//! - The environment of all processes (`processes::Tag`). It finds the process if the agent was
//!   killed between writing the record and noting the PID, and if the record is lost.
//!
//! A recorded PID counts only with the same start time and boot id, because PIDs are reused. A slot
//! whose first process has exited is not adopted as running: its remaining processes are
//! terminated, and it is reported as ended after the usual evidence. Nothing else is killed.
//! Supervising the model servers from a separate process that never restarts was rejected: that
//! process would itself have to be upgraded some day.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use procfs::ProcError;
use tracing::{info, warn};

use super::agent::{Agent, now_ms};
use super::orders;
use super::processes::{self, ProcessId, ProcessTable, Tag};
use super::slot::{Phase, Slot};
use super::state_dir::SlotRecord;
use super::watch::Origin;

/// Failure to find out what runs.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error("cannot list the processes of this machine")]
    Processes(#[source] ProcError),
    #[error("cannot read the state directory")]
    Records(#[source] io::Error),
}

/// Adopts all slots that have a record or a running process.
pub(crate) fn adopt_slots(agent: &Arc<Agent>) -> Result<(), AdoptError> {
    let processes = ProcessTable::read(&agent.owner).map_err(AdoptError::Processes)?;
    let records = agent.state_dir.load_records().map_err(AdoptError::Records)?;
    let mut found: BTreeMap<String, SlotRecord> =
        records.into_iter().map(|record| (record.slot.clone(), record)).collect();
    for (_, tag) in processes.tagged() {
        found.entry(tag.slot.clone()).or_insert_with(|| record_from_tag(tag));
    }
    for (_, mut record) in found {
        record.leader = find_leader(&record, &processes);
        adopt_slot(agent, record, &processes);
    }
    Ok(())
}

fn adopt_slot(agent: &Arc<Agent>, record: SlotRecord, processes: &ProcessTable) {
    if let Some(end) = record.end.clone() {
        let mut slot = Slot::new(record, Phase::Ended(end.state));
        slot.reason = end.reason;
        agent.shared.update(|state| state.insert(slot));
        return;
    }
    let (slot, generation) = (record.slot.clone(), record.generation);
    let leader = record.leader.filter(|leader| processes.is_running(*leader));
    let phase = match leader {
        Some(leader) => {
            info!(slot, pid = leader.pid, generation, "slot adopted");
            agent.save(&record);
            if record.was_ready { Phase::Running } else { Phase::Starting }
        }
        None => {
            warn!(slot, generation, "slot process exited while no agent was running");
            Phase::Stopping
        }
    };
    agent.shared.update(|state| state.insert(Slot::new(record, phase)));
    orders::spawn_watcher(agent, &slot, Origin::Adopted);
}

/// Returns the first process of a slot: the recorded one, if it is from this boot. If the agent was
/// killed before it recorded the process, the earliest tagged process that leads a group.
fn find_leader(record: &SlotRecord, processes: &ProcessTable) -> Option<ProcessId> {
    match record.leader {
        Some(leader) => Some(leader).filter(|_| record.boot == processes::boot_id()),
        None => processes
            .tagged()
            .filter(|(process, tag)| tag.slot == record.slot && process.id.pid == process.group)
            .map(|(process, _)| process.id)
            .min_by_key(|id| id.start),
    }
}

/// Returns a record for a process that has none. The next order for the slot completes it with the
/// launch.
fn record_from_tag(tag: &Tag) -> SlotRecord {
    SlotRecord {
        slot: tag.slot.clone(),
        generation: tag.generation,
        model: tag.model.clone(),
        launch: None,
        port: tag.port,
        leader: None,
        boot: processes::boot_id(),
        started_ms: now_ms(),
        was_ready: false,
        end: None,
    }
}
