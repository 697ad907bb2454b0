//! What an earlier agent left running goes on under this one: nothing is started twice, and nothing is killed.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use plimsoll_slots::wire::Launch;
use tracing::{info, warn};

use super::agent::{Agent, now_ms};
use super::books::{Phase, Slot};
use super::processes::{self, ProcessId, ProcessTable, Tag};
use super::record::Record;
use super::watch::Begin;

/// How long a process of which nothing is written down may take to go.
const GRACE_MS: u64 = 10_000;

/// Adopts everything that the records and the process list tell of.
pub(crate) fn adopt(agent: &Arc<Agent>) -> Result<()> {
    let census = ProcessTable::read(&agent.owner).context("could not look at the processes")?;
    let records = agent.state.records().context("could not read the state directory")?;
    let mut found: BTreeMap<String, Record> =
        records.into_iter().map(|record| (record.slot.clone(), record)).collect();
    for (_, tag) in census.tagged() {
        found.entry(tag.slot.clone()).or_insert_with(|| unrecorded(tag));
    }
    for (_, mut record) in found {
        record.leader = leader(&record, &census);
        take_in(agent, record, &census);
    }
    Ok(())
}

fn take_in(agent: &Arc<Agent>, record: Record, census: &ProcessTable) {
    let name = record.slot.clone();
    if let Some((state, reason)) = record.over.clone() {
        let mut slot = Slot::new(record, Phase::Over(state));
        slot.reason = reason;
        agent.shared.change(|books| books.slots.insert(name, slot));
        return;
    }
    let is_alive = record.leader.is_some_and(|leader| is_alive(leader, census));
    let begin = if is_alive {
        let pid = record.leader.map(|leader| leader.pid);
        info!(slot = name, pid, generation = record.generation, "the slot is adopted");
        agent.keep(&record);
        Begin::Adopted
    } else {
        warn!(
            slot = name,
            generation = record.generation,
            "the slot's process ended while no agent was there"
        );
        Begin::Remains
    };
    let phase = match begin {
        Begin::Remains => Phase::Stopping,
        _ if record.was_ready => Phase::Running,
        _ => Phase::Starting,
    };
    agent.shared.change(|books| books.slots.insert(name.clone(), Slot::new(record, phase)));
    agent.watch(&name, begin);
}

/// The slot's first process: the recorded one, if it is of this boot. Where the agent was killed before it could write it down, the
/// earliest tagged process that leads a group.
fn leader(record: &Record, census: &ProcessTable) -> Option<ProcessId> {
    match record.leader {
        Some(leader) => Some(leader).filter(|_| record.boot == processes::boot_id()),
        None => {
            let tagged = census
                .tagged()
                .filter(|(seen, tag)| tag.slot == record.slot && seen.id.pid == seen.group);
            tagged.map(|(seen, _)| seen.id).min_by_key(|id| id.start)
        }
    }
}

fn is_alive(leader: ProcessId, census: &ProcessTable) -> bool {
    census.get(leader.pid).is_some_and(|seen| seen.id == leader && !seen.has_exited)
}

/// How something was started of which only the model is known.
pub(crate) fn unknown_launch(model: &str) -> Launch {
    Launch {
        model: model.to_owned(),
        devices: Vec::new(),
        argv: Vec::new(),
        env: BTreeMap::new(),
        ready: None,
        ready_within_ms: u64::MAX,
        grace_ms: GRACE_MS,
        context: None,
        concurrency: 1,
        tensor_parallel: 1,
        told: None,
    }
}

/// What its variables tell of a process without a record. How it was started is learnt from the next order for it.
fn unrecorded(tag: &Tag) -> Record {
    Record {
        slot: tag.slot.clone(),
        generation: tag.generation,
        launch: unknown_launch(&tag.model),
        port: tag.port,
        leader: None,
        boot: processes::boot_id(),
        started_ms: now_ms(),
        was_ready: false,
        over: None,
    }
}
