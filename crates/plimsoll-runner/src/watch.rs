//! The life of one slot, from the start of its process to the evidence that its memory is released.
//!
//! Each slot has a thread of its own, so that a model that takes an hour to load delays no other
//! slot.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tracing::{info, warn};

use super::agent::{Agent, now_ms};
use super::cpu_fallback;
use super::duration::ShortDuration;
use super::error::with_causes;
use super::gpu_use::GpuUse;
use super::launch::{self, LaunchError, StartError};
use super::model_server::{self, Preload, PreloadError};
use super::processes::{self, ProcessId, ProcessTable};
use super::slot::{Phase, Slot};
use super::slot_log;
use super::state::RunnerState;
use super::state_dir::{EndState, SlotEnd, SlotRecord};

/// Interval between checks of a slot that starts or stops.
const FAST_POLL: Duration = Duration::from_millis(50);

/// Interval between checks of a running slot.
const SLOW_POLL: Duration = Duration::from_millis(500);

/// The origin of the process that a watcher watches.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// The watcher starts the process.
    New,
    /// An earlier agent started it. It may have exited since.
    Adopted,
}

/// The first process of a slot.
enum Leader {
    /// Started by this agent, which therefore learns the exit status.
    Child(Child),
    /// Started by an earlier agent; only `/proc` shows its exit. `None` if it is not known or from
    /// an earlier boot.
    Adopted(Option<ProcessId>),
}

impl Leader {
    /// Returns the cause of the end, once the process exited.
    fn exit(&mut self) -> Option<EndCause> {
        match self {
            Leader::Child(child) => match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(EndCause::Exited(Some(status))),
                Err(_) => Some(EndCause::Exited(None)),
            },
            Leader::Adopted(Some(leader)) if processes::is_running(*leader) => None,
            Leader::Adopted(_) => Some(EndCause::Exited(None)),
        }
    }

    /// Collects an exited child, so that no zombie stays.
    fn collect(&mut self) {
        if let Leader::Child(child) = self {
            let _ = child.wait();
        }
    }
}

/// The cause of the end of a slot whose process was started.
enum EndCause {
    /// An order, or the shutdown of the runner.
    Requested,
    NotReady,
    PreloadFailed(PreloadError),
    /// It became ready without memory on any of its GPUs.
    OnCpu,
    /// The first process exited by itself. The status is known only if this agent started it.
    Exited(Option<ExitStatus>),
}

/// Progress of a slot that starts.
enum Readiness {
    Pending,
    Ready,
    Failed(PreloadError),
}

/// Watches a slot until it ended.
pub(crate) fn watch(agent: &Arc<Agent>, slot: &str, origin: Origin) {
    let watcher = Watcher { agent, slot };
    let leader = match origin {
        Origin::New => watcher.spawn().map(Leader::Child),
        Origin::Adopted => Ok(Leader::Adopted(watcher.read(|slot| slot.record.leader))),
    };
    let mut leader = match leader {
        Ok(leader) => leader,
        Err(error) => {
            // A process that was never started leaves nothing to clean up.
            let reason = with_causes(&error);
            warn!(slot, reason, "slot not started");
            return watcher.end(SlotEnd { state: EndState::Failed, reason: Some(reason) });
        }
    };
    let cause = watcher.run(&mut leader);
    let end = watcher.describe_end(&cause);
    if let Some(reason) = &end.reason {
        warn!(slot, reason, "slot is ending");
    }
    watcher.enter(Phase::Stopping, end.reason.clone());
    watcher.terminate(&mut leader);
    watcher.await_release(end.reason.clone());
    watcher.end(end);
}

struct Watcher<'a> {
    agent: &'a Arc<Agent>,
    slot: &'a str,
}

impl Watcher<'_> {
    fn spawn(&self) -> Result<Child, StartError> {
        let record = self.read(|slot| slot.record.clone());
        let command = record.command().ok_or(LaunchError::NoCommand)?;
        let listen = &self.agent.listen;
        let arguments = command.argv.iter();
        let argv: Vec<String> = arguments
            .map(|argument| launch::fill_placeholders(argument, listen, record.port))
            .collect();
        let owner = &self.agent.owner;
        let tags = [
            (processes::ENV_SLOT, record.slot.clone()),
            (processes::ENV_GENERATION, record.generation.to_string()),
            (processes::ENV_RUNNER, owner.runner.clone()),
            (processes::ENV_STATE, owner.state_dir.clone()),
            (processes::ENV_MODEL, record.model.clone()),
        ];
        let environment =
            launch::build_environment(command, record.devices(), listen, record.port, &tags);
        let log = slot_log::create(&self.log_path()).map_err(StartError::Log)?;
        let child = launch::spawn(&argv, &environment, &log)?;
        let leader = processes::process_info(child.id()).map(|process| process.id);
        self.update_record(|slot| {
            slot.record.leader = leader;
            slot.members.extend(leader);
        });
        Ok(child)
    }

    /// Waits until the process exits, the slot is to stop, or it fails to become ready.
    fn run(&self, leader: &mut Leader) -> EndCause {
        let started = Instant::now();
        let ready_timeout = self.remaining_ready_timeout();
        let mut preload = None;
        loop {
            if let Some(cause) = leader.exit() {
                return cause;
            }
            let phase = self.read(|slot| slot.phase);
            if !phase.is_live() {
                return EndCause::Requested;
            }
            if phase == Phase::Starting {
                let remaining =
                    ready_timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
                match self.check_readiness(&mut preload, remaining) {
                    Readiness::Failed(error) => return EndCause::PreloadFailed(error),
                    Readiness::Ready => {
                        // Another process may answer on the port of a process that exited.
                        if let Some(cause) = leader.exit() {
                            return cause;
                        }
                        if cpu_fallback::measure_gpu_use(self.agent, self.slot) == GpuUse::None {
                            return EndCause::OnCpu;
                        }
                        self.mark_ready();
                    }
                    Readiness::Pending => {
                        if remaining.is_some_and(|remaining| remaining.is_zero()) {
                            return EndCause::NotReady;
                        }
                    }
                }
            }
            let _ = slot_log::rotate_if_large(&self.log_path());
            self.pause(if phase == Phase::Starting { FAST_POLL } else { SLOW_POLL });
        }
    }

    /// Returns the time that is left for becoming ready. An adopted slot gets the rest of its time,
    /// not all of it again; if the clock was set back it gets at most the whole.
    fn remaining_ready_timeout(&self) -> Option<Duration> {
        let (started_ms, timeout) =
            self.read(|slot| (slot.record.started_ms, slot.record.ready_timeout()));
        let elapsed = Duration::from_millis(now_ms().saturating_sub(started_ms));
        timeout.map(|timeout| timeout.saturating_sub(elapsed))
    }

    /// Checks the model server first. Then, if the command has a preload, it sends that and waits
    /// for its result.
    fn check_readiness(
        &self,
        preload: &mut Option<Preload>,
        remaining: Option<Duration>,
    ) -> Readiness {
        if let Some(finished) = preload.take_if(|preload| preload.is_finished()) {
            return finished.join().map_or_else(Readiness::Failed, |()| Readiness::Ready);
        }
        let record = self.read(|slot| slot.record.clone());
        if preload.is_some() || !self.answers(&record) {
            return Readiness::Pending;
        }
        *preload = self.start_preload(&record, remaining);
        if preload.is_some() { Readiness::Pending } else { Readiness::Ready }
    }

    fn start_preload(&self, record: &SlotRecord, remaining: Option<Duration>) -> Option<Preload> {
        let preload = record.command()?.preload.as_ref()?;
        let port = record.port?;
        let body = launch::fill_placeholders(&preload.body, &self.agent.listen, Some(port));
        Some(Preload::start(self.address(port), &preload.path, body, remaining))
    }

    /// Returns true if the path answers 200; without a path, if the port accepts connections;
    /// without a port, always.
    fn answers(&self, record: &SlotRecord) -> bool {
        let Some(port) = record.port else { return true };
        let address = self.address(port);
        match record.command().and_then(|command| command.ready.as_ref()) {
            Some(path) => {
                let path = launch::fill_placeholders(path, &self.agent.listen, Some(port));
                model_server::answers_200(address, &path)
            }
            None => TcpStream::connect_timeout(&address, model_server::CHECK_TIMEOUT).is_ok(),
        }
    }

    fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.agent.listen.local_address(), port)
    }

    fn mark_ready(&self) {
        info!(slot = self.slot, "slot is ready");
        self.update_record(|slot| slot.record.was_ready = true);
        self.agent.shared.update(|state| {
            // An order to stop may have arrived during the check.
            let slot = slot_mut(state, self.slot);
            if slot.phase == Phase::Starting {
                slot.phase = Phase::Running;
                slot.reason = None;
                state.changes += 1;
            }
        });
    }

    fn describe_end(&self, cause: &EndCause) -> SlotEnd {
        let (was_ready, ready_timeout) =
            self.read(|slot| (slot.record.was_ready, slot.record.ready_timeout()));
        let what = match cause {
            EndCause::Requested => return SlotEnd { state: EndState::Gone, reason: None },
            EndCause::PreloadFailed(error) => with_causes(error),
            EndCause::OnCpu => cpu_fallback::REASON.to_owned(),
            EndCause::NotReady => {
                let limit = ready_timeout.map(|limit| format!(" within {}", ShortDuration(limit)));
                format!("the model server did not become ready{}", limit.unwrap_or_default())
            }
            EndCause::Exited(status) => {
                let when =
                    if was_ready { "while it was running" } else { "before it became ready" };
                let status =
                    status.map_or("exit status unknown".to_owned(), |status| status.to_string());
                format!("the process exited {when} ({status})")
            }
        };
        let reason = match slot_log::last_lines(&self.log_path()) {
            Some(lines) => format!("{what}; last output:\n{lines}"),
            None => format!("{what}; no output"),
        };
        let state = if was_ready { EndState::Gone } else { EndState::Failed };
        SlotEnd { state, reason: Some(reason) }
    }

    /// Terminates all processes of the slot: SIGTERM first, and SIGKILL after the grace period,
    /// until none is left. A process that survives SIGKILL is stuck in the kernel; its memory is
    /// not free, and the slot stays `stopping`.
    fn terminate(&self, leader: &mut Leader) {
        let started = Instant::now();
        let (leader_id, grace) = self.read(|slot| (slot.record.leader, slot.record.grace()));
        let mut is_term_sent = false;
        loop {
            let members = self.running_members();
            if members.as_ref().is_some_and(BTreeSet::is_empty) {
                return leader.collect();
            }
            let is_grace_over = started.elapsed() >= grace;
            if let Some(members) = members.filter(|_| is_grace_over || !is_term_sent) {
                let signal = if is_grace_over { Signal::KILL } else { Signal::TERM };
                let count = members.len();
                info!(slot = self.slot, ?signal, processes = count, "signalling slot processes");
                processes::send_signal(&members, leader_id, signal);
                is_term_sent = true;
            }
            std::thread::sleep(FAST_POLL);
        }
    }

    /// Returns the running processes of the slot; `None` if `/proc` cannot be read, which is not
    /// the same as no process.
    fn running_members(&self) -> Option<BTreeSet<ProcessId>> {
        let processes = ProcessTable::read(&self.agent.owner).ok()?;
        let (leader, known) = self.read(|slot| (slot.record.leader, slot.members.clone()));
        let members = processes.members(self.slot, leader, &known);
        slot_mut(&mut self.agent.shared.lock(), self.slot).members.extend(&members);
        Some(members)
    }

    /// Waits until a measurement shows that the memory is released, however long that takes.
    fn await_release(&self, reason: Option<String>) {
        self.enter(Phase::AwaitingRelease { since: Instant::now() }, reason);
        self.agent.shared.update(|state| state.measure_now = true);
        let is_released = |state: &RunnerState| {
            state.slots.get(self.slot).is_none_or(|slot| slot.phase == Phase::Released)
        };
        while !is_released(&self.agent.shared.lock()) {
            self.agent.shared.wait(Duration::from_secs(1), is_released);
        }
    }

    fn end(&self, end: SlotEnd) {
        info!(slot = self.slot, state = ?end.state, "slot ended");
        self.update_record(|slot| slot.record.end = Some(end.clone()));
        self.enter(Phase::Ended(end.state), end.reason);
    }

    fn enter(&self, phase: Phase, reason: Option<String>) {
        self.agent.shared.update(|state| {
            let slot = slot_mut(state, self.slot);
            slot.phase = phase;
            slot.reason = reason;
            state.changes += 1;
        });
    }

    /// Waits, unless the slot is to stop.
    fn pause(&self, time: Duration) {
        self.agent.shared.wait(time, |state| {
            state.slots.get(self.slot).is_none_or(|slot| !slot.phase.is_live())
        });
    }

    fn read<T>(&self, read: impl FnOnce(&Slot) -> T) -> T {
        read(slot_mut(&mut self.agent.shared.lock(), self.slot))
    }

    /// Changes the slot, and saves its record.
    fn update_record(&self, update: impl FnOnce(&mut Slot)) {
        let mut state = self.agent.shared.lock();
        let slot = slot_mut(&mut state, self.slot);
        update(slot);
        self.agent.save(&slot.record);
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.agent.state_dir.log_path(self.slot)
    }
}

fn slot_mut<'a>(state: &'a mut RunnerState, slot: &str) -> &'a mut Slot {
    state.slots.get_mut(slot).expect("only ended slots are removed, and their watcher is done")
}
