//! Runners that register, report, fall silent and are removed.
//!
//! A session is one run of an agent; a later agent has a larger number. Of two agents with one name
//! the later one wins and the calls of the earlier one are rejected, so that an agent that was
//! paused cannot report slots that its successor has stopped since. Within a session, sequence
//! numbers order the heartbeats. The number of the last one that changed something is journalled
//! with the change, and so is the session of a runner that was removed: a message from before a
//! removal is not believed after it.
//!
//! A heartbeat that was sent before a restart of the server is not believed after it, whether or
//! not the server has received it then: it may be older than one that was received and changed
//! nothing, of which nothing is journalled. Each start that hears a runner is an *epoch*. Answers
//! name it, heartbeats repeat it, and the first heartbeat after a restart only fetches the new one.
//! Journalling every heartbeat instead was rejected: a fleet sends hundreds in a second.
//!
//! The lease decides only about new work. A runner that is silent for longer than its lease gets
//! none, but its slots stay charged: a broken network looks like a broken machine, and the
//! processes may be running. Their memory is released when the runner reports again, or when an
//! operator removes the runner. A timeout that released it was rejected: it would overcommit the
//! GPUs of every machine whose network fails for that long.

use plimsoll_core::device::Node;
use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;
use plimsoll_core::room::Measured;
use plimsoll_core::units::Name;

use super::limits::{self, MAX_HELD, ReportProblem};
use super::measurements::{self, OwnUse};
use super::runners::{Pace, RunnerError};
use super::{Desk, reports};
use crate::translate;
use crate::wire::{FileReport, Heartbeat, OnDevice, Orders, Registration, SlotReport};

impl Desk {
    /// Registers a runner, or updates its registration.
    ///
    /// A new session gets no work before its first heartbeat: only that reports the slots that run
    /// on its devices and must be charged first.
    pub fn register(
        &mut self,
        core: &mut Core<'_>,
        runner: &str,
        registration: Registration,
    ) -> Result<Orders, RunnerError> {
        self.runners.check_registration(runner, &registration)?;
        let (id, now, pace) = (Name::from(runner), core.now(), self.pace());
        let next = core.next_seq();
        self.runners.begin_epoch(&mut self.log);
        if self.runners.is_overtaken(&id, &registration) {
            self.runners.ensure_live(&id, now, next);
            return Ok(self.view(core.scheduler()).orders(runner));
        }
        let registered = self.runners.register(&mut self.log, &id, registration, pace, now, next);
        let is_known = core.ledger().node_id(&id).is_some();
        let is_open =
            registered.is_same_session && is_known && !self.view(core.scheduler()).is_silent(&id);
        if !registered.has_same_facts || !is_open {
            let mut node = self.node(core, &id);
            if !registered.is_same_session {
                node.failed_starts = 0;
            }
            node.silent_since = (!is_open).then_some(now);
            self.update_node(core, node);
            self.models.on_fleet_changed();
        }
        if is_open {
            self.prewarm(core);
        }
        self.serve_pending(core);
        Ok(self.view(core.scheduler()).orders(runner))
    }

    /// Applies a heartbeat. One that arrives after a later one, or was sent before the server
    /// started, is dropped.
    pub fn heartbeat(
        &mut self,
        core: &mut Core<'_>,
        runner: &str,
        beat: Heartbeat,
    ) -> Result<Orders, RunnerError> {
        let known = self.runners.in_session(runner, beat.session)?;
        // A runner learns its pace when it registers, so that it has to register again after the
        // pace was changed.
        if known.pace != self.pace() {
            return Err(RunnerError::NotRegistered);
        }
        let id = known.id.clone();
        limits::check_heartbeat(&beat)?;
        self.check_held(core, &id, &beat)?;
        let (now, next, sequence) = (core.now(), core.next_seq(), beat.sequence);
        let known = std::sync::Arc::clone(known);
        self.runners.begin_epoch(&mut self.log);
        if !self.runners.is_of_this_epoch(&known, beat.epoch) {
            self.runners.ensure_live(&id, now, next);
        } else if self.runners.accept_heartbeat(&id, sequence, now, next) {
            let changes = self.log.0.len();
            self.apply_heartbeat(core, &id, beat);
            if core.next_seq() != next || self.log.0.len() != changes {
                self.runners.note_heard(&mut self.log, &id, sequence);
            }
        }
        Ok(self.view(core.scheduler()).orders(runner))
    }

    fn apply_heartbeat(&mut self, core: &mut Core<'_>, id: &Name, beat: Heartbeat) {
        // Before memory that the runner reports as released is given to others on it.
        self.set_ending(core, id, &beat);
        self.raise_foreign(core, id, &beat);
        for report in &beat.slots {
            self.apply_report(core, id, report);
        }
        self.apply_measurements(core, id, &beat);
        let Heartbeat { devices, slots, files, .. } = beat;
        self.runners.edit_live(id, |live| {
            live.devices = devices;
            live.slots = slots;
        });
        let has_other_files = self.apply_files(id, files);
        // Only now, with everything that the runner has charged, may something new go there.
        if self.view(core.scheduler()).is_silent(id) || has_other_files {
            let node = self.node(core, id);
            self.update_node(core, node);
            self.prewarm(core);
        }
        self.serve_pending(core);
    }

    /// Returns the orders of an agent; without a session, of whichever agent registered last. An
    /// agent with another session than the registered one is rejected.
    pub fn work(
        &mut self,
        core: &Core<'_>,
        runner: &str,
        session: Option<u64>,
    ) -> Result<Orders, RunnerError> {
        let known = match session {
            Some(session) => self.runners.in_session(runner, session)?,
            None => self.runners.get(runner).ok_or(RunnerError::NotRegistered)?,
        };
        let id = known.id.clone();
        // After a restart the revision must not be smaller than before it: the runner would take
        // orders from before the restart that arrive late for newer ones.
        self.runners.ensure_live(&id, core.now(), core.next_seq());
        Ok(self.view(core.scheduler()).orders(runner))
    }

    /// Closes a runner to new work when its agent shuts down.
    fn set_ending(&mut self, core: &mut Core<'_>, id: &Name, beat: &Heartbeat) {
        let is_known = self.runners.live(id).is_some_and(|live| live.ending == beat.ending);
        if !is_known {
            self.runners.edit_live(id, |live| live.ending = beat.ending);
            let silent_since = self.view(core.scheduler()).silent_since(id);
            let node = Node { silent_since, ..self.node(core, id) };
            self.update_node(core, node);
        }
    }

    /// Removes a runner that is gone for good. Its memory is released without evidence, on the
    /// operator's responsibility.
    pub fn remove_runner(&mut self, core: &mut Core<'_>, runner: &str) -> Result<(), RunnerError> {
        let now = core.now();
        let id = self.runners.get(runner).ok_or(RunnerError::NotRegistered)?.id.clone();
        let last_seen = self.runners.live(&id).map_or(now, |live| live.last_seen);
        if last_seen.after(self.config.lease.into()) > now {
            return Err(RunnerError::Alive);
        }
        let held = requests_on(core, &id);
        self.step(core, Event::NodeGone { name: id.clone() });
        for request in held {
            self.step(core, Event::Freed { request, generation: None, ordinal: None });
        }
        self.runners.remove(&mut self.log, &id);
        self.models.forget_runner(&mut self.log, &id);
        self.serve_pending(core);
        Ok(())
    }

    /// Closes runners that have been silent for a lease. Their slots stay charged: silence is no
    /// evidence that a process has ended.
    pub(super) fn close_silent_runners(&mut self, core: &mut Core<'_>) {
        let (lease, now, next) = (self.config.lease, core.now(), core.next_seq());
        for (id, last_seen) in self.runners.overdue(lease, now, next) {
            if !self.view(core.scheduler()).is_silent(&id) {
                let silent_since = Some(last_seen);
                let node = Node { silent_since, ..self.node(core, &id) };
                self.update_node(core, node);
                self.unseat_unstarted(core, &id);
            }
        }
    }

    /// Makes the reservations pending again whose slots were ordered on a silent runner and have
    /// not been seen running: another slot may serve them sooner. The slots stay charged.
    fn unseat_unstarted(&mut self, core: &Core<'_>, runner: &Name) {
        let sent: Vec<Name> = requests_on(core, runner)
            .into_iter()
            .filter_map(|request| self.slots.get(&request.name))
            .filter(|slot| slot.life.sent.is_some())
            .map(|slot| slot.id.clone())
            .collect();
        for slot in sent {
            self.lose_reservations(core, &slot, &super::Loss::Ended { failure: None });
        }
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { heartbeat: self.config.heartbeat, lease: self.config.lease }
    }

    /// Rejects a heartbeat that would charge more than [`MAX_HELD`] slots on one runner, however
    /// many names it makes up.
    fn check_held(
        &self,
        core: &Core<'_>,
        id: &Name,
        beat: &Heartbeat,
    ) -> Result<(), ReportProblem> {
        let ledger = core.ledger();
        let held = ledger.node_id(id).map_or(0, |node| ledger.holdings_on(node).count());
        if held + beat.slots.len() <= MAX_HELD {
            return Ok(());
        }
        let view = self.view(core.scheduler());
        let is_new = |report: &&SlotReport| {
            let slot = self.slots.get(&reports::name_here(view, id, report));
            !report.state.is_over() && slot.is_none_or(|slot| view.holding(slot).is_none())
        };
        let new = beat.slots.iter().filter(is_new).count();
        match new > 0 && held + new > MAX_HELD {
            true => Err(ReportProblem::TooManyHeld { new, held }),
            false => Ok(()),
        }
    }

    /// Returns the core's node of a registered runner: its registration, with the files and failed
    /// starts that are known besides. It is not silent.
    pub(super) fn node(&self, core: &Core<'_>, id: &Name) -> Node {
        let Some(runner) = self.runners.get(id) else { return Node::new(id.clone()) };
        Node {
            files: self.models.files_on(id),
            failed_starts: core.ledger().view_of(id).map_or(0, |view| view.node.failed_starts),
            unschedulable: !runner.intake.is_open()
                || self.runners.live(id).is_some_and(|live| live.ending),
            ..translate::node(id, &runner.registration)
        }
    }

    /// Hands a node to the core, and updates the slots on it: their stage depends on whether the
    /// node is silent.
    pub(super) fn update_node(&mut self, core: &mut Core<'_>, node: Node) {
        let name = node.name.clone();
        self.step(core, Event::Node { node: Box::new(node) });
        let there = requests_on(core, &name);
        self.to_serve.extend(there.iter().map(|request| request.account.to_string()));
        self.update_slots(core, there);
    }

    /// Applies file reports; returns true if the files on the runner changed.
    fn apply_files(&mut self, runner: &Name, reports: Vec<FileReport>) -> bool {
        if reports.is_empty() {
            return false;
        }
        let before = self.models.files_on(runner);
        for FileReport { path, content } in reports {
            if !self.models.is_wanted_file(&path) {
                continue;
            }
            self.runners.edit_live(runner, |live| {
                live.files.insert(path.clone());
            });
            let affected = self.models.note_file(&mut self.log, runner, path, content);
            self.to_serve.extend(affected);
        }
        before != self.models.files_on(runner)
    }

    /// Counts memory of others that is new, before the ends of slots are applied: the memory that a
    /// slot has released may be in use already, and would be given to a pending request otherwise.
    /// All that the reported slots use counts as theirs, also that of slots to be adopted.
    fn raise_foreign(&mut self, core: &mut Core<'_>, id: &Name, beat: &Heartbeat) {
        let ledger = core.ledger();
        let Some(node) = ledger.node_id(id) else { return };
        let known: Vec<Measured> = ledger.measured(node).to_vec();
        for (ordinal, known) in (0_u16..).zip(known) {
            let Some(status) = measurements::status_of(beat, ordinal) else { continue };
            let own = reported_use(ordinal, &beat.slots);
            let measured = measurements::with_status(core.now(), status, &own, known);
            // The exact measurement follows, and opens a device that was not measured.
            let foreign = measured.foreign.max(known.foreign); // mutant: raise-foreign
            if foreign > known.foreign {
                let measured = Measured { foreign, ..known };
                self.step(core, Event::Measured { node: id.clone(), ordinal, measured });
            }
        }
    }

    fn apply_measurements(&mut self, core: &mut Core<'_>, id: &Name, beat: &Heartbeat) {
        let ledger = core.ledger();
        let Some(node) = ledger.node_id(id) else { return };
        let known: Vec<Measured> = ledger.measured(node).to_vec();
        for (ordinal, known) in (0_u16..).zip(known) {
            let measured = match measurements::status_of(beat, ordinal) {
                Some(status) => {
                    let own = self.own_use(core, id, ordinal, &beat.slots);
                    measurements::with_status(core.now(), status, &own, known)
                }
                None => measurements::without_status(core.now(), known),
            };
            if measurements::is_news(known, measured) {
                self.step(core, Event::Measured { node: id.clone(), ordinal, measured });
            }
        }
    }

    /// Returns the use of a device by slots that are charged on it. Use of a device by a slot that
    /// is charged elsewhere counts as foreign, because no charge covers it.
    fn own_use(
        &self,
        core: &Core<'_>,
        runner: &Name,
        index: u16,
        reports: &[SlotReport],
    ) -> OwnUse {
        let view = self.view(core.scheduler());
        let mut own = OwnUse::default();
        for report in reports.iter().filter(|report| !report.state.is_over()) {
            let slot = self.slots.get(&reports::name_here(view, runner, report));
            let holding = slot.and_then(|slot| view.holding(slot));
            let charges = holding.map(|(_, holding)| &holding.charges);
            if charges.into_iter().flatten().any(|charge| charge.on.contains(&index)) {
                let used = bytes_on(&report.used, index);
                own.is_estimated |= used.is_none();
                let bytes = used.or_else(|| bytes_on(&report.booked, index)).unwrap_or(0);
                own.bytes = own.bytes.saturating_add(bytes);
            }
        }
        own
    }
}

/// Returns the use of a device by all slots that a runner reports.
fn reported_use(index: u16, reports: &[SlotReport]) -> OwnUse {
    let mut own = OwnUse::default();
    for report in reports.iter().filter(|report| !report.state.is_over()) {
        let (used, booked) = (bytes_on(&report.used, index), bytes_on(&report.booked, index));
        own.is_estimated |= used.is_none() && booked.is_some();
        own.bytes = own.bytes.saturating_add(used.or(booked).unwrap_or(0));
    }
    own
}

fn bytes_on(list: &[OnDevice], index: u16) -> Option<u64> {
    list.iter().find(|on| on.index == index).map(|on| on.bytes)
}

pub(super) fn requests_on(core: &Core<'_>, node: &str) -> Vec<RequestId> {
    let ledger = core.ledger();
    let holdings = ledger.node_id(node).into_iter().flat_map(|id| ledger.holdings_on(id));
    holdings.map(|(_, holding)| holding.request.clone()).collect()
}
