//! The life of one slot, from its start to the moment when nothing is left of it. Every slot has a watcher of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Launch, SlotState};
use rustix::process::Signal;
use tracing::{info, warn};

use super::agent::{Agent, now_ms};
use super::books::{Books, Phase, Slot};
use super::launch;
use super::model_server::{self, Preload};
use super::processes::{self, ProcessId, ProcessTable};
use super::record::Record;
use super::slot_log;

/// How often a slot is looked at while it starts or goes.
const SOON: Duration = Duration::from_millis(50);

/// How often a slot is looked at while it runs.
const SELDOM: Duration = Duration::from_millis(500);

/// What a watcher finds when it begins.
#[derive(Clone, Copy)]
pub(crate) enum Begin {
    /// Nothing: the process is to be started.
    Start,
    /// A process that an earlier agent started.
    Adopted,
    /// No first process any more, but perhaps others, or their memory.
    Remains,
}

/// Why a slot ends.
enum End {
    /// It was asked to.
    Asked,
    /// It took too long to become ready.
    NotReady,
    /// It answered, and could not load its model.
    NotLoaded(String),
    /// Its first process ended by itself.
    Ended(Option<ExitStatus>),
    /// It could not be started.
    NotStarted(String),
}

/// How far a slot has come that is not ready yet.
#[derive(PartialEq, Eq)]
enum Progress {
    Waits,
    Ready,
    Failed(String),
}

/// Watches a slot until it is over.
pub(crate) fn watch(agent: &Arc<Agent>, slot: &str, begin: Begin) {
    let watcher = Watcher { agent, slot };
    let mut child = None;
    let end = match begin {
        Begin::Start => match watcher.start() {
            Ok(started) => watcher.live(child.insert(started)),
            Err(error) => End::NotStarted(format!("not started: {error}")),
        },
        Begin::Adopted => watcher.live_adopted(),
        Begin::Remains => End::Ended(None),
    };
    let (state, reason) = watcher.outcome(&end);
    if let Some(reason) = &reason {
        warn!(slot, reason, "the slot ends");
    }
    // What never ran left nothing behind.
    if !matches!(end, End::NotStarted(_)) {
        watcher.enter(Phase::Stopping, reason.clone());
        watcher.clear_out(&mut child);
        watcher.settle(reason.as_deref());
    }
    watcher.finish(state, reason);
}

struct Watcher<'a> {
    agent: &'a Arc<Agent>,
    slot: &'a str,
}

impl Watcher<'_> {
    fn start(&self) -> io::Result<Child> {
        let record = self.with(|slot| slot.record.clone());
        let launch = &record.launch;
        let places = &self.agent.places;
        let argv: Vec<String> =
            launch.argv.iter().map(|arg| launch::fill(arg, places, record.port)).collect();
        let owner = &self.agent.owner;
        let tags = [
            (processes::ENV_SLOT, record.slot.clone()),
            (processes::ENV_GENERATION, record.generation.to_string()),
            (processes::ENV_RUNNER, owner.runner.clone()),
            (processes::ENV_STATE, owner.state_dir.clone()),
            (processes::ENV_MODEL, launch.model.clone()),
        ];
        let environment = launch::environment(launch, places, record.port, &tags);
        let log: File = slot_log::create(&self.agent.state.log(self.slot))?;
        let child = launch::spawn(&argv, &environment, &log)?;
        let leader = processes::process_info(child.id()).map(|seen| seen.id);
        self.change(|slot| {
            slot.record.leader = leader;
            slot.members.extend(leader);
        });
        Ok(child)
    }

    /// Waits while the process that this agent started lives.
    fn live(&self, child: &mut Child) -> End {
        self.live_while(|| match child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(End::Ended(Some(status))),
            Err(_) => Some(End::Ended(None)),
        })
    }

    /// Waits while a process lives that another agent started, which only `/proc` tells.
    fn live_adopted(&self) -> End {
        let leader = self.with(|slot| slot.record.leader);
        let is_alive = |leader: ProcessId| {
            processes::process_info(leader.pid)
                .is_some_and(|seen| seen.id == leader && !seen.has_exited)
        };
        self.live_while(|| (!leader.is_some_and(is_alive)).then_some(End::Ended(None)))
    }

    fn live_while(&self, mut has_ended: impl FnMut() -> Option<End>) -> End {
        let patience = self.patience();
        let began = Instant::now();
        let mut loading = None;
        loop {
            if let Some(end) = has_ended() {
                return end;
            }
            let (phase, is_asked) = self.with(|slot| (slot.phase, slot.stop));
            if is_asked {
                return End::Asked;
            }
            if phase == Phase::Starting {
                let record = self.with(|slot| slot.record.clone());
                let left = patience.saturating_sub(began.elapsed());
                let progress = self.progress(&record, &mut loading, left);
                if let Progress::Failed(why) = progress {
                    return End::NotLoaded(why);
                }
                if progress == Progress::Ready {
                    // A process that has ended is not ready, whoever answers in its place.
                    if let Some(end) = has_ended() {
                        return end;
                    }
                    info!(slot = self.slot, "the slot is ready");
                    self.change(|slot| slot.record.was_ready = true);
                    self.enter(Phase::Running, None);
                } else if began.elapsed() >= patience {
                    return End::NotReady;
                }
            }
            let _ = slot_log::cap(&self.agent.state.log(self.slot));
            self.pause(if phase == Phase::Starting { SOON } else { SELDOM });
        }
    }

    /// How much of its time to become ready is left. The clock can jump; nobody gets more time than was given, and an adopted slot
    /// does not get all of it again.
    fn patience(&self) -> Duration {
        let (started, within) =
            self.with(|slot| (slot.record.started_ms, slot.record.launch.ready_within_ms));
        Duration::from_millis(within.saturating_sub(now_ms().saturating_sub(started)))
    }

    /// How far a slot has come that is not ready yet: it answers first, and then loads its model where it is asked to.
    fn progress(&self, record: &Record, loading: &mut Option<Preload>, left: Duration) -> Progress {
        if let Some(over) = loading.take_if(|loading| loading.is_finished()) {
            return match over.join() {
                Ok(()) => Progress::Ready,
                Err(error) => Progress::Failed(error.to_string()),
            };
        }
        if loading.is_some() || !self.is_ready(&record.launch, record.port) {
            return Progress::Waits;
        }
        *loading = self.load(record, left);
        if loading.is_some() { Progress::Waits } else { Progress::Ready }
    }

    fn load(&self, record: &Record, left: Duration) -> Option<Preload> {
        let (preload, port) = (record.launch.told.as_ref()?.preload.as_ref()?, record.port?);
        let places = &self.agent.places;
        let body = launch::fill(&preload.body, places, Some(port));
        Some(Preload::start(SocketAddr::new(places.local(), port), &preload.path, body, left))
    }

    fn is_ready(&self, launch: &Launch, port: Option<u16>) -> bool {
        let Some(port) = port else { return true };
        let address = SocketAddr::new(self.agent.places.local(), port);
        match &launch.ready {
            Some(path) => {
                let path = launch::fill(path, &self.agent.places, Some(port));
                model_server::answers_200(address, &path)
            }
            None => TcpStream::connect_timeout(&address, model_server::CHECK_TIMEOUT).is_ok(),
        }
    }

    /// What is reported once nothing is left, and why.
    fn outcome(&self, end: &End) -> (SlotState, Option<String>) {
        let (was_ready, within) =
            self.with(|slot| (slot.record.was_ready, slot.record.launch.ready_within_ms));
        let failed = if was_ready { SlotState::Gone } else { SlotState::Failed };
        match end {
            End::Asked => (SlotState::Gone, None),
            End::NotStarted(why) => (SlotState::Failed, Some(why.clone())),
            End::NotLoaded(why) => (failed, Some(self.with_last_lines(why))),
            End::NotReady => (
                failed,
                Some(self.with_last_lines(&format!("it was not ready within {within} ms"))),
            ),
            End::Ended(status) => {
                let how = status.map_or("ended, nobody saw how".to_owned(), |status| {
                    format!("ended with {status}")
                });
                let when = if was_ready { "while it was running" } else { "before it was ready" };
                (failed, Some(self.with_last_lines(&format!("its process {how}, {when}"))))
            }
        }
    }

    fn with_last_lines(&self, what: &str) -> String {
        match slot_log::last_lines(&self.agent.state.log(self.slot)) {
            Some(lines) => format!("{what}; it said last:\n{lines}"),
            None => format!("{what}; it said nothing"),
        }
    }

    /// Ends every process of the slot: first by asking, then, after the grace, without.
    fn clear_out(&self, child: &mut Option<Child>) {
        let began = Instant::now();
        let (leader, grace) = self.with(|slot| (slot.record.leader, slot.record.launch.grace_ms));
        let mut has_asked = false;
        loop {
            let members = self.members();
            if members.as_ref().is_some_and(BTreeSet::is_empty) {
                // It has ended and only waits to be collected.
                let _ = child.as_mut().map(Child::wait);
                return;
            }
            let is_patient = began.elapsed() < Duration::from_millis(grace);
            if let Some(members) = members.filter(|_| !has_asked || !is_patient) {
                let signal = if is_patient { Signal::TERM } else { Signal::KILL };
                info!(
                    slot = self.slot,
                    ?signal,
                    processes = members.len(),
                    "the slot's processes are ended"
                );
                processes::send_signal(&members, leader, signal);
                has_asked = true;
            }
            std::thread::sleep(SOON);
        }
    }

    /// The living processes of the slot; nothing where that cannot be read, which is not the same as none.
    fn members(&self) -> Option<BTreeSet<ProcessId>> {
        let census = ProcessTable::read(&self.agent.owner).ok()?;
        let (leader, known) = self.with(|slot| (slot.record.leader, slot.members.clone()));
        let members = census.members(self.slot, leader, &known);
        self.change_quietly(|slot| slot.members.extend(&members));
        Some(members)
    }

    /// Waits until a measurement shows that the memory is back, however long that takes.
    fn settle(&self, reason: Option<&str>) {
        self.enter(Phase::Draining(Instant::now()), reason.map(str::to_owned));
        self.agent.shared.change(|books| books.wants_measure = true);
        let is_back =
            |books: &Books| books.slots.get(self.slot).is_none_or(|slot| slot.phase == Phase::Back);
        while !is_back(&self.agent.shared.open()) {
            self.agent.shared.wait(Duration::from_secs(1), is_back);
        }
    }

    fn finish(&self, state: SlotState, reason: Option<String>) {
        info!(slot = self.slot, ?state, "nothing is left of the slot");
        self.change(|slot| slot.record.over = Some((state, reason.clone())));
        self.enter(Phase::Over(state), reason);
        // What was ordered anew while this one was going can begin now.
        self.agent.shared.change(|books| self.agent.reconcile(books));
    }

    fn enter(&self, phase: Phase, reason: Option<String>) {
        self.agent.shared.change(|books| {
            let slot =
                books.slots.get_mut(self.slot).expect("a slot that is not over is not forgotten");
            slot.phase = phase;
            slot.reason = reason;
            books.news += 1;
        });
    }

    /// Waits, unless the slot is asked to go.
    fn pause(&self, time: Duration) {
        self.agent
            .shared
            .wait(time, |books| books.slots.get(self.slot).is_none_or(|slot| slot.stop));
    }

    fn with<T>(&self, look: impl FnOnce(&Slot) -> T) -> T {
        look(
            self.agent
                .shared
                .open()
                .slots
                .get(self.slot)
                .expect("a slot that is not over is not forgotten"),
        )
    }

    fn change_quietly(&self, change: impl FnOnce(&mut Slot)) {
        let mut books = self.agent.shared.open();
        change(books.slots.get_mut(self.slot).expect("a slot that is not over is not forgotten"));
    }

    /// Changes the record, here and on disk.
    fn change(&self, change: impl FnOnce(&mut Slot)) {
        let mut books = self.agent.shared.open();
        let slot =
            books.slots.get_mut(self.slot).expect("a slot that is not over is not forgotten");
        change(slot);
        self.agent.keep(&slot.record);
    }
}
