//! Runners: their registrations, which are journalled, and their last heartbeats, which are not:
//! after a restart of the server each runner says everything again.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::ChangeLog;
use super::limits::{self, ReportProblem};
use super::maintenance::Intake;
use super::models::after;
use crate::size::Span;
use crate::wire::{DeviceStatus, Registration, SlotReport};

/// A runner as it registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    pub id: Name,
    /// The time of its first registration.
    pub created: Millis,
    pub registration: Registration,
    /// The pace that it was given when it registered.
    pub pace: Pace,
    /// The number of the last heartbeat of this session that changed something. It survives a
    /// restart of the server, so that an earlier heartbeat that arrives afterwards is not believed.
    #[serde(default)]
    pub heard: Option<u64>,
    /// The epoch in which its session registered. Its heartbeats that name none are of this one.
    #[serde(default)]
    pub epoch: u64,
    /// Set by an operator; it survives a new registration.
    #[serde(default, skip_serializing_if = "is_open")]
    pub intake: Intake,
}

fn is_open(intake: &Intake) -> bool {
    intake.is_open()
}

/// The timing of a runner's heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    pub heartbeat: Span,
    /// The silence after which a runner gets no new work and the state of its slots is unknown.
    pub lease: Span,
}

/// The last report of a runner.
#[derive(Clone, Debug, Default)]
pub struct LiveRunner {
    pub last_seen: Millis,
    /// The number of its last heartbeat; `None` before the first one of a session.
    pub sequence: Option<u64>,
    pub devices: Vec<DeviceStatus>,
    pub slots: Vec<SlotReport>,
    /// The number of the record that last changed its orders.
    pub work_revision: u64,
    /// The files that it has reported since its agent started.
    pub files: BTreeSet<String>,
    /// True if its agent is shutting down and starts nothing any more.
    pub ending: bool,
}

/// An error of a call by or about a runner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunnerError {
    #[error("the runner has not registered in this session; register again")]
    NotRegistered,
    #[error(
        "another agent with this name started later (session {session}); stop one of the two, or rename it"
    )]
    Superseded { session: u64 },
    #[error(
        "device {uuid} is reported by runner {runner}; remove that runner first if it is gone for good"
    )]
    DeviceTaken { uuid: String, runner: Name },
    #[error(
        "a runner's name has 1 to 200 characters, without whitespace, slashes or control characters"
    )]
    InvalidName,
    #[error(
        "an operator removed this runner (session {session}); it can register again with a later \
         session number"
    )]
    Removed { session: u64 },
    #[error("the runner is alive; stop its agent first")]
    Alive,
    #[error(transparent)]
    InvalidReport(#[from] ReportProblem),
}

/// All runners.
#[derive(Clone, Debug, Default)]
pub(super) struct Runners {
    registered: BTreeMap<Name, Arc<Runner>>,
    /// The last sessions of removed runners. Messages of such a session may still be under way, and
    /// the memory that they report on was released, so that none of them is believed.
    removed: BTreeMap<Name, u64>,
    /// The number of the last start of the server in which a runner was heard.
    epoch: u64,
    /// True once a runner was heard since the server started.
    has_begun_epoch: bool,
    live: BTreeMap<Name, LiveRunner>,
    /// Runners whose orders may have changed.
    changed: BTreeSet<Name>,
}

/// A journalled change of `Runners`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerChange {
    Put(Arc<Runner>),
    /// A heartbeat changed something.
    Heard {
        id: Name,
        sequence: u64,
    },
    Removed(Name),
    /// The server has started, and hears its first runner.
    Epoch(u64),
}

/// The saved form of `Runners`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunnersState {
    registered: Vec<Arc<Runner>>,
    #[serde(default)]
    removed: BTreeMap<Name, u64>,
    #[serde(default)]
    epoch: u64,
}

/// The comparison of a registration with the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registered {
    pub(super) is_same_session: bool,
    pub(super) has_same_facts: bool,
}

impl Runners {
    pub(super) fn restore(state: RunnersState) -> Runners {
        let registered = state.registered.into_iter().map(|r| (r.id.clone(), r)).collect();
        Runners { registered, removed: state.removed, epoch: state.epoch, ..Runners::default() }
    }

    pub(super) fn state(&self) -> RunnersState {
        let registered = self.registered.values().cloned().collect();
        RunnersState { registered, removed: self.removed.clone(), epoch: self.epoch }
    }

    /// Makes a change; the same for a new one and for recovery.
    pub(super) fn apply(&mut self, change: RunnerChange) {
        match change {
            RunnerChange::Put(runner) => {
                self.removed.remove(&runner.id);
                self.registered.insert(runner.id.clone(), runner);
            }
            RunnerChange::Heard { id, sequence } => {
                if let Some(runner) = self.registered.get_mut(&id) {
                    Arc::make_mut(runner).heard = Some(sequence);
                }
            }
            RunnerChange::Removed(id) => {
                if let Some(runner) = self.registered.remove(&id) {
                    self.removed.insert(id.clone(), runner.registration.session);
                }
                self.live.remove(&id);
            }
            RunnerChange::Epoch(epoch) => self.epoch = epoch,
        }
    }

    fn change(&mut self, log: &mut ChangeLog, change: RunnerChange) {
        log.push(change.clone());
        self.apply(change);
    }

    /// Rejects a registration that contradicts itself or another runner.
    pub(super) fn check_registration(
        &self,
        name: &str,
        registration: &Registration,
    ) -> Result<(), RunnerError> {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '/';
        if name.is_empty()
            || name.len() > 200
            || name.contains(is_odd)
            || [".", ".."].contains(&name)
        {
            return Err(RunnerError::InvalidName);
        }
        let known = self.registered.get(name).map(|known| known.registration.session);
        if let Some(session) = known.filter(|session| *session > registration.session) {
            return Err(RunnerError::Superseded { session });
        }
        let removed = self.removed.get(name).copied();
        if let Some(session) = removed.filter(|session| *session >= registration.session) {
            return Err(RunnerError::Removed { session });
        }
        limits::check_registration(registration)?;
        self.check_devices(name, registration)
    }

    /// Rejects a device that another runner reports: one card must not be counted twice.
    fn check_devices(&self, name: &str, registration: &Registration) -> Result<(), RunnerError> {
        let own: BTreeSet<&str> = uuids(registration).collect();
        for other in self.registered.values().filter(|other| other.id != name) {
            if let Some(uuid) = uuids(&other.registration).find(|uuid| own.contains(uuid)) {
                let (uuid, runner) = (uuid.to_string(), other.id.clone());
                return Err(RunnerError::DeviceTaken { uuid, runner });
            }
        }
        Ok(())
    }

    /// Takes a registration that was checked.
    ///
    /// `revision` is the number of the next record: it wakes an agent that waits for newer orders.
    pub(super) fn register(
        &mut self,
        log: &mut ChangeLog,
        id: &Name,
        registration: Registration,
        pace: Pace,
        now: Millis,
        revision: u64,
    ) -> Registered {
        let known = self.registered.get(id);
        let before = known.map(|known| &known.registration);
        let is_same_session = before.is_some_and(|known| known.session == registration.session);
        let has_same_facts = before.is_some_and(|known| {
            known.devices == registration.devices && known.labels == registration.labels
        });
        if known.is_none_or(|known| known.registration != registration || known.pace != pace) {
            let created = known.map_or(now, |known| known.created);
            let heard = known.filter(|_| is_same_session).and_then(|known| known.heard);
            let intake = known.map_or(Intake::Open, |known| known.intake);
            let epoch = known.filter(|_| is_same_session).map_or(self.epoch, |known| known.epoch);
            let id = id.clone();
            let runner = Runner { id, created, registration, pace, heard, epoch, intake };
            self.change(log, RunnerChange::Put(Arc::new(runner)));
        }
        let live = self.live.entry(id.clone()).or_default();
        live.last_seen = now;
        if !is_same_session {
            live.sequence = None;
            live.files = BTreeSet::new();
            live.ending = false;
        }
        live.work_revision = live.work_revision.max(revision);
        self.changed.insert(id.clone());
        Registered { is_same_session, has_same_facts }
    }

    /// Begins the epoch of this start of the server, when the first runner is heard. It is
    /// journalled with the same call, so that no answer names an epoch that a later start repeats.
    pub(super) fn begin_epoch(&mut self, log: &mut ChangeLog) {
        if !self.has_begun_epoch {
            self.has_begun_epoch = true;
            self.change(log, RunnerChange::Epoch(self.epoch + 1));
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns true if a heartbeat was sent since the server started: it names this epoch, or its
    /// session has registered in it.
    pub(super) fn is_of_this_epoch(&self, runner: &Runner, named: Option<u64>) -> bool {
        named.unwrap_or(runner.epoch) == self.epoch // mutant: epoch
    }

    /// Returns true if a later registration of the same session was taken before.
    pub(super) fn is_overtaken(&self, id: &str, registration: &Registration) -> bool {
        let known = self.registered.get(id).map(|known| &known.registration);
        let known = known.filter(|known| known.session == registration.session);
        let last = known.map(|known| known.sequence);
        last.is_some_and(|last| last > registration.sequence) // mutant: registration-sequence
    }

    /// Sets whether a runner gets new slots; `false` if it is so already.
    pub(super) fn set_intake(&mut self, log: &mut ChangeLog, id: &Name, intake: Intake) -> bool {
        let Some(known) = self.registered.get(id).filter(|known| known.intake != intake) else {
            return false;
        };
        let runner = Runner { intake, ..Runner::clone(known) };
        self.change(log, RunnerChange::Put(Arc::new(runner)));
        true
    }

    /// Returns the runner of a call, if no other agent has registered it since.
    pub(super) fn in_session(&self, name: &str, session: u64) -> Result<&Arc<Runner>, RunnerError> {
        let Some(known) = self.registered.get(name) else {
            let removed = self.removed.get(name).copied();
            return Err(match removed.filter(|removed| *removed >= session) {
                Some(session) => RunnerError::Removed { session },
                None => RunnerError::NotRegistered,
            });
        };
        let registered = known.registration.session;
        match session.cmp(&registered) {
            Ordering::Less => Err(RunnerError::Superseded { session: registered }),
            Ordering::Equal => Ok(known),
            Ordering::Greater => Err(RunnerError::NotRegistered),
        }
    }

    /// Accepts a heartbeat by its sequence number; `false` if it is not later than the last one.
    pub(super) fn accept_heartbeat(
        &mut self,
        id: &Name,
        sequence: u64,
        now: Millis,
        revision: u64,
    ) -> bool {
        let heard = self.registered.get(id).and_then(|runner| runner.heard);
        let live = self.live_or_new(id, Millis::default(), revision);
        let is_news = live.sequence.max(heard).is_none_or(|last| sequence > last);
        if is_news {
            live.last_seen = now;
            live.sequence = Some(sequence);
        }
        is_news
    }

    /// Remembers a heartbeat that changed something.
    pub(super) fn note_heard(&mut self, log: &mut ChangeLog, id: &Name, sequence: u64) {
        self.change(log, RunnerChange::Heard { id: id.clone(), sequence });
    }

    /// Gives a runner that was not heard since the start of the server a first entry.
    pub(super) fn ensure_live(&mut self, id: &Name, now: Millis, revision: u64) {
        self.live_or_new(id, now, revision);
    }

    fn live_or_new(&mut self, id: &Name, last_seen: Millis, revision: u64) -> &mut LiveRunner {
        let new = || LiveRunner { last_seen, work_revision: revision, ..LiveRunner::default() };
        self.live.entry(id.clone()).or_insert_with(new)
    }

    /// Edits what was heard of a runner.
    pub(super) fn edit_live(&mut self, id: &Name, edit: impl FnOnce(&mut LiveRunner)) {
        if let Some(live) = self.live.get_mut(id) {
            edit(live);
        }
    }

    /// Returns the runners that have been silent for a lease, with the time they were heard last.
    ///
    /// After a restart of the server no runner has been heard. Each gets one lease from the first
    /// call on, so that a restart does not take every runner for dead.
    pub(super) fn overdue(
        &mut self,
        lease: Span,
        now: Millis,
        revision: u64,
    ) -> Vec<(Name, Millis)> {
        let ids: Vec<Name> = self.registered.keys().cloned().collect();
        let seen = ids.into_iter().map(|id| {
            let last_seen = self.live_or_new(&id, now, revision).last_seen;
            (id, last_seen)
        });
        seen.filter(|(_, last_seen)| last_seen.after(lease.into()) <= now).collect()
    }

    /// Marks a runner's orders as changed by the record with this number.
    pub(super) fn mark_orders_changed(&mut self, id: &Name, record: u64) {
        self.edit_live(id, |live| live.work_revision = live.work_revision.max(record + 1));
        self.changed.insert(id.clone());
    }

    pub(super) fn remove(&mut self, log: &mut ChangeLog, id: &Name) {
        self.change(log, RunnerChange::Removed(id.clone()));
    }

    /// Takes the runners whose orders may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Runner>> {
        self.registered.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Runner>> {
        self.registered.values()
    }

    pub(super) fn after<'a>(
        &'a self,
        name: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Runner>> {
        self.registered.range::<str, _>(after(name)).map(|(_, runner)| runner)
    }

    pub(super) fn live(&self, id: &str) -> Option<&LiveRunner> {
        self.live.get(id)
    }
}

fn uuids(registration: &Registration) -> impl Iterator<Item = &str> {
    registration.devices.iter().filter_map(|device| device.uuid.as_deref())
}
