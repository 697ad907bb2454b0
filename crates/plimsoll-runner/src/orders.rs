//! Execution of orders: slots are started, stopped and forgotten here.

use std::sync::Arc;
use std::thread;

use plimsoll_slots::reconcile::{self, Correction};
use plimsoll_slots::wire::{Order, Orders, StartCommand};
use tracing::{info, warn};

use super::agent::{Agent, now_ms};
use super::error::with_causes;
use super::files;
use super::launch::{self, StartError};
use super::listen::NoFreePort;
use super::processes;
use super::slot::{self, Phase, Slot};
use super::state::RunnerState;
use super::state_dir::{EndState, SlotEnd, SlotRecord};
use super::watch::{self, Origin};

/// Takes over orders, unless newer ones arrived meanwhile. `asked_with` is the revision that the
/// agent had when it sent the request.
pub(crate) fn apply_orders(agent: &Arc<Agent>, orders: Orders, asked_with: u64) {
    agent.shared.update(|state| {
        if reconcile::is_overtaken(orders.revision, state.revision, asked_with) {
            return;
        }
        state.revision = orders.revision;
        // A server that has started again believes heartbeats only from now on.
        if state.epoch.replace(orders.epoch) != Some(orders.epoch) {
            state.changes += 1;
        }
        state.orders = orders.orders;
        learn_launches(agent, state);
        files::inspect(agent, state, orders.files);
        reconcile(agent, state);
    });
}

/// Starts a thread that watches a slot until its end. After that the slot may have to start again,
/// with a later generation.
pub(crate) fn spawn_watcher(agent: &Arc<Agent>, slot: &str, origin: Origin) {
    let (agent, slot) = (Arc::clone(agent), slot.to_owned());
    thread::spawn(move || {
        watch::watch(&agent, &slot, origin);
        agent.shared.update(|state| reconcile(&agent, state));
    });
}

/// Completes slots whose launch is unknown, while the server still sends it.
fn learn_launches(agent: &Agent, state: &mut RunnerState) {
    for order in &state.orders {
        let Some(launch) = &order.launch else { continue };
        if let Some(slot) = state.slots.get_mut(&order.slot)
            && slot.record.launch.is_none()
            && !slot.phase.is_ended()
        {
            slot.record.launch = Some(launch.clone());
            agent.save(&slot.record);
        }
    }
}

fn reconcile(agent: &Arc<Agent>, state: &mut RunnerState) {
    let known = slot::known_slots(&state.slots);
    for correction in reconcile::reconcile(&state.orders, &known) {
        match correction {
            Correction::Start(order) => start(agent, state, order),
            Correction::SetGeneration(order) => set_generation(agent, state, &order),
            Correction::Stop(order) => stop(agent, state, &order),
            Correction::ReportMissing(order) => report_missing(agent, state, order),
            Correction::Forget(name) => forget(agent, state, &name),
        }
    }
}

fn start(agent: &Arc<Agent>, state: &mut RunnerState, order: Order) {
    let (slot, generation) = (order.slot.clone(), order.generation);
    info!(slot, generation, model = order.model, "starting slot");
    let mut record = new_record(order);
    match prepare_start(agent, state, &mut record) {
        Ok(()) => {
            state.insert(Slot::new(record, Phase::Starting));
            spawn_watcher(agent, &slot, Origin::New);
        }
        Err(error) => {
            let reason = with_causes(&error);
            warn!(slot, reason, "slot not started");
            let end = SlotEnd { state: EndState::Failed, reason: Some(reason) };
            record.end = Some(end.clone());
            agent.save(&record);
            state.insert(ended_slot(record, end));
        }
    }
}

/// Checks the launch, assigns a port and writes the record. The record is written before the
/// process starts, so that an agent that is killed in between leaves a trace for the next one.
fn prepare_start(
    agent: &Agent,
    state: &mut RunnerState,
    record: &mut SlotRecord,
) -> Result<(), StartError> {
    if state.is_ending {
        return Err(StartError::RunnerEnding);
    }
    if let Some(launch) = &record.launch {
        let command = launch::checked_command(launch, &state.devices.facts)?.clone();
        record.port = assign_port(agent, state, &command)?;
    }
    agent.state_dir.save(record).map_err(StartError::Record)
}

fn assign_port(
    agent: &Agent,
    state: &mut RunnerState,
    command: &StartCommand,
) -> Result<Option<u16>, NoFreePort> {
    if !launch::needs_port(command) {
        return Ok(None);
    }
    let slots = state.slots.values().filter(|slot| !slot.phase.is_ended());
    let taken = slots.filter_map(|slot| slot.record.port).collect();
    let port = agent.listen.free_port(state.last_port, &taken)?;
    state.last_port = Some(port);
    Ok(Some(port))
}

fn stop(agent: &Agent, state: &mut RunnerState, order: &Order) {
    info!(slot = order.slot, generation = order.generation, "stopping slot");
    if let Some(slot) = state.slots.get_mut(&order.slot) {
        slot.request_stop();
        state.changes += 1;
    }
    set_generation(agent, state, order);
}

/// Reports the slot under the generation of the order from now on.
fn set_generation(agent: &Agent, state: &mut RunnerState, order: &Order) {
    let Some(slot) = state.slots.get_mut(&order.slot) else { return };
    let (from, to) = (slot.record.generation, order.generation);
    if from == to {
        return;
    }
    info!(slot = order.slot, from, to, "slot generation changed");
    slot.record.generation = to;
    slot.is_end_acknowledged = false;
    agent.save(&slot.record);
    state.changes += 1;
}

/// Reports an unknown slot as gone, if this agent can be sure of that.
fn report_missing(agent: &Agent, state: &mut RunnerState, order: Order) {
    if let Some(reason) = reason_for_doubt(agent, state, &order) {
        if state.unverifiable.insert(order.slot.clone()) {
            let (slot, generation) = (order.slot, order.generation);
            warn!(slot, generation, reason, "slot not reported: it may still be running");
        }
        return;
    }
    state.unverifiable.remove(&order.slot);
    let reason = "this runner has no process of the slot".to_owned();
    let end = SlotEnd { state: EndState::Gone, reason: Some(reason) };
    state.insert(ended_slot(new_record(order), end));
}

/// Returns the reason why an unknown slot may still be running: another agent had the name of this
/// runner before, on another machine or with another state directory. A wrong `gone` would free
/// memory that is in use.
fn reason_for_doubt(agent: &Agent, state: &RunnerState, order: &Order) -> Option<String> {
    let launch = order.launch.as_ref();
    if let Some(uuid) = launch.and_then(|launch| launch.missing_uuid(&state.devices.facts)) {
        return Some(format!(
            "it was started on GPU {uuid}, which this machine does not have; \
             if it has ended, remove this runner from the server"
        ));
    }
    let pid = processes::find_under_other_state_dir(&agent.owner, &order.slot)?;
    Some(format!(
        "its process {pid} was started by an agent with another state directory; \
         terminate it, or start the agent with that --state"
    ))
}

/// Drops the report of an ended slot, once the server answered it.
fn forget(agent: &Agent, state: &mut RunnerState, name: &str) {
    if state.slots.get(name).is_some_and(|slot| slot.is_end_acknowledged) {
        state.slots.remove(name);
        agent.state_dir.remove(name);
    }
}

fn ended_slot(record: SlotRecord, end: SlotEnd) -> Slot {
    let mut slot = Slot::new(record, Phase::Ended(end.state));
    slot.reason = end.reason;
    slot
}

fn new_record(order: Order) -> SlotRecord {
    SlotRecord {
        slot: order.slot,
        generation: order.generation,
        model: order.model,
        launch: order.launch,
        port: None,
        leader: None,
        boot: processes::boot_id(),
        started_ms: now_ms(),
        was_ready: false,
        end: None,
    }
}
