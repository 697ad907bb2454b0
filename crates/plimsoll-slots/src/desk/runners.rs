//! Runners: what they say of themselves, their devices and their slots, turned into events for the core.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use plimsoll_core::device::{Node, Telemetry};
use plimsoll_core::event::Event;
use plimsoll_core::request::RequestId;
use plimsoll_core::room::Measured;
use plimsoll_core::units::{Bytes, Millis, Name};

use super::state::{Operation, Pace, Runner};
use super::{Desk, check};
use crate::translate;
use crate::wire::{DeviceStatus, Heartbeat, OnDevice, Orders, Registration, SlotReport};

/// What a runner said last. Not saved: it says it again.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// When it was heard last.
    pub last_seen: Millis,
    /// The number of its last heartbeat.
    pub sequence: u64,
    /// What was measured on its devices.
    pub devices: Vec<DeviceStatus>,
    /// What it reported of its slots.
    pub slots: Vec<SlotReport>,
    /// The number of the record that last changed its orders.
    pub work_revision: u64,
    /// The files that it has said something of since its agent started.
    pub files: BTreeSet<String>,
    /// Whether it is about to end, and starts nothing any more.
    pub ending: bool,
}

/// Why a runner is not listened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerError {
    /// It has not registered, or not in this session.
    NotRegistered,
    /// Another agent with its name started later.
    Superseded {
        /// When that one started.
        session: u64,
    },
    /// A device belongs to another runner.
    DeviceTaken {
        /// The device.
        uuid: String,
        /// The runner that has it.
        runner: Name,
    },
    /// Its name cannot be a name.
    BadName,
    /// It is alive, and cannot be removed.
    Alive,
    /// What it says cannot be so.
    BadReport {
        /// What is wrong.
        problem: String,
    },
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunnerError::NotRegistered => {
                f.write_str("the runner has not registered in this session; register again")
            }
            RunnerError::Superseded { session } => {
                write!(
                    f,
                    "another agent with this name started later (session {session}); stop one of the two, or name it anew"
                )
            }
            RunnerError::DeviceTaken { uuid, runner } => {
                write!(
                    f,
                    "device {uuid} is reported by runner {runner}; remove that runner first if it is gone for good"
                )
            }
            RunnerError::BadName => f.write_str(
                "a runner's name has 1 to 200 characters, and no blanks, slashes or control characters",
            ),
            RunnerError::BadReport { problem } => f.write_str(problem),
            RunnerError::Alive => f.write_str("the runner is alive; stop its agent first"),
        }
    }
}

impl Desk {
    /// A runner says what it is.
    pub fn register(
        &mut self,
        now: Millis,
        runner: &str,
        registration: Registration,
    ) -> Result<Orders, RunnerError> {
        let strange = |c: char| c.is_whitespace() || c.is_control() || c == '/';
        if runner.is_empty()
            || runner.len() > 200
            || runner.contains(strange)
            || [".", ".."].contains(&runner)
        {
            return Err(RunnerError::BadName);
        }
        let id = Name::from(runner);
        let known = self.state.runners.get(&id);
        if let Some(later) = known.filter(|known| known.registration.session > registration.session)
        {
            return Err(RunnerError::Superseded { session: later.registration.session });
        }
        check::registration(&registration)?;
        self.check_devices(&id, &registration)?;
        let same_facts = known.is_some_and(|known| {
            known.registration.devices == registration.devices
                && known.registration.labels == registration.labels
        });
        let same_session =
            known.is_some_and(|known| known.registration.session == registration.session);
        let mut node = translate::node(runner, &registration);
        self.label_files(&mut node);
        if same_session {
            self.keep_remarks(&mut node);
        }
        // An agent that has just come has not said yet what runs on its devices: nothing new goes there before it has.
        let opens = same_session
            && !self.is_silent(&id)
            && self.scheduler().ledger().node_id(&id).is_some();
        node.silent_since = (!opens).then_some(now);
        let pace = Some(self.pace());
        if known.is_none_or(|known| known.registration != registration || known.pace != pace) {
            let created = known.map_or(now, |known| known.created);
            self.note(Operation::PutRunner(Arc::new(Runner {
                id: id.clone(),
                created,
                registration,
                pace,
            })));
        }
        let revision = self.drive.next_seq();
        let live = self.live.entry(id.clone()).or_default();
        live.last_seen = now;
        if !same_session {
            (live.sequence, live.files, live.ending) = (0, BTreeSet::new(), false);
        }
        live.work_revision = live.work_revision.max(revision);
        self.telling.runners.insert(id.clone());
        if !same_facts || !opens {
            self.put_node(now, node);
            self.hopeless.clear();
        }
        // What it runs already is known after its first heartbeat, and so is what is to be warmed.
        if opens {
            self.prewarm(now);
        }
        self.seat_waiting(now);
        Ok(self.orders(runner))
    }

    /// A device is one device, whoever reports it.
    fn check_devices(&self, id: &Name, registration: &Registration) -> Result<(), RunnerError> {
        let own: BTreeMap<&str, ()> = registration
            .devices
            .iter()
            .filter_map(|device| Some((device.uuid.as_deref()?, ())))
            .collect();
        for other in self.state.runners.values().filter(|other| other.id != *id) {
            let taken =
                other.registration.devices.iter().filter_map(|device| device.uuid.as_deref());
            if let Some(uuid) = taken.into_iter().find(|uuid| own.contains_key(uuid)) {
                return Err(RunnerError::DeviceTaken {
                    uuid: uuid.to_string(),
                    runner: other.id.clone(),
                });
            }
        }
        Ok(())
    }

    /// A runner says what is so now. What comes late is not taken for news.
    pub fn beat(
        &mut self,
        now: Millis,
        runner: &str,
        beat: Heartbeat,
    ) -> Result<Orders, RunnerError> {
        let known = self.state.runners.get(runner).ok_or(RunnerError::NotRegistered)?;
        let id = known.id.clone();
        is_of(known, beat.session)?;
        // It learns how often to report when it registers, and so it registers again where that was changed.
        if known.pace != Some(self.pace()) {
            return Err(RunnerError::NotRegistered);
        }
        check::report(&beat)?;
        self.check_crowd(&id, &beat)?;
        let first = self.drive.next_seq();
        let live = self
            .live
            .entry(id.clone())
            .or_insert_with(|| Live { work_revision: first, ..Live::default() });
        if beat.sequence <= live.sequence {
            return Ok(self.orders(runner));
        }
        (live.last_seen, live.sequence) = (now, beat.sequence);
        // Before what it gave back is given to others.
        if std::mem::replace(&mut live.ending, beat.ending) != beat.ending {
            let silent_since = self.silent_since(&id);
            let node = Node { silent_since, ..self.node_now(&id) };
            self.put_node(now, node);
        }
        for report in &beat.slots {
            self.take_report(now, &id, report);
        }
        self.take_measurements(now, &id, &beat);
        let Heartbeat { devices, slots, files, .. } = beat;
        if let Some(live) = self.live.get_mut(&id) {
            (live.devices, live.slots) = (devices, slots);
        }
        let has_other_files = self.take_files(&id, files);
        // Only now that everything it has is charged may something new go there.
        if self.is_silent(&id) || has_other_files {
            self.speak_again(now, &id);
            self.prewarm(now);
        }
        self.seat_waiting(now);
        Ok(self.orders(runner))
    }

    fn pace(&self) -> Pace {
        Pace { heartbeat: self.manners.heartbeat, lease: self.manners.lease }
    }

    /// However many names a runner makes up, it holds no more than so many slots.
    fn check_crowd(&self, id: &Name, beat: &Heartbeat) -> Result<(), RunnerError> {
        let ledger = self.scheduler().ledger();
        let held = ledger.node_id(id).map_or(0, |node| ledger.holdings_on(node).count());
        if held + beat.slots.len() <= check::MOST_HELD {
            return Ok(());
        }
        let is_new = |report: &&SlotReport| {
            let slot = self.state.slots.get(&self.name_here(id, report));
            !report.state.is_over() && slot.is_none_or(|slot| self.holding(slot).is_none())
        };
        let new = beat.slots.iter().filter(is_new).count();
        if new > 0 && held + new > check::MOST_HELD {
            let most = check::MOST_HELD;
            let problem = format!(
                "{new} slots are reported that nobody knows, beside {held} others; {most} may be there"
            );
            return Err(RunnerError::BadReport { problem });
        }
        Ok(())
    }

    /// A runner is gone for good, by the word of its operator: what it held is gone with it.
    pub fn remove_runner(&mut self, now: Millis, runner: &str) -> Result<(), RunnerError> {
        let id = self.state.runners.get(runner).ok_or(RunnerError::NotRegistered)?.id.clone();
        let heard = self.live.get(&id).map_or(now, |live| live.last_seen);
        if heard.after(self.manners.lease) > now {
            return Err(RunnerError::Alive);
        }
        let ledger = self.scheduler().ledger();
        let node = ledger.node_id(&id);
        let held: Vec<RequestId> = node
            .into_iter()
            .flat_map(|node| ledger.holdings_on(node))
            .map(|(_, h)| h.request.clone())
            .collect();
        self.step(now, Event::NodeGone { name: id.clone() });
        for request in held {
            self.step(now, Event::Freed { request, generation: None, ordinal: None });
        }
        self.live.remove(&id);
        self.note(Operation::DropRunner(id));
        self.seat_waiting(now);
        Ok(())
    }

    /// Closes runners that have been silent for longer than their lease. Their slots stay charged.
    pub(super) fn notice_silence(&mut self, now: Millis) {
        let ids: Vec<Name> = self.state.runners.keys().cloned().collect();
        for id in ids {
            // After a restart nobody was heard yet: each has one lease to speak.
            let first = self.drive.next_seq();
            let live = self.live.entry(id.clone());
            let live = live.or_insert_with(|| Live {
                last_seen: now,
                work_revision: first,
                ..Live::default()
            });
            let last_seen = live.last_seen;
            if last_seen.after(self.manners.lease) <= now && !self.is_silent(&id) {
                let mut node = self.node_now(&id);
                node.silent_since = Some(last_seen);
                self.put_node(now, node);
                self.unseat(now, &id);
            }
        }
    }

    /// The node that a runner is, with what was noted of it since it registered.
    fn node_now(&self, id: &Name) -> Node {
        let mut node = translate::node(id, &self.state.runners[id].registration);
        self.label_files(&mut node);
        self.keep_remarks(&mut node);
        node
    }

    /// What was noted of a runner while its agent runs, and does not come with its registration.
    fn keep_remarks(&self, node: &mut Node) {
        let known = self.scheduler().ledger().view_of(&node.name);
        translate::set_failed_starts(
            node,
            known.map_or(0, |view| translate::failed_starts(&view.node)),
        );
        node.unschedulable = self.live.get(&node.name).is_some_and(|live| live.ending);
    }

    fn speak_again(&mut self, now: Millis, id: &Name) {
        let node = self.node_now(id);
        self.put_node(now, node);
    }

    /// Whether a runner was found silent, and has not spoken since.
    pub fn is_silent(&self, runner: &str) -> bool {
        self.silent_since(runner).is_some()
    }

    /// Since when a runner has been silent; `None` for one that speaks.
    pub fn silent_since(&self, runner: &str) -> Option<Millis> {
        let ledger = self.scheduler().ledger();
        ledger.view_of(runner)?.node.silent_since
    }

    /// A runner is as it says, or fell silent, or speaks again: so its slots serve, or nobody knows whether they do.
    pub(super) fn put_node(&mut self, now: Millis, node: Node) {
        let name = node.name.clone();
        self.step(now, Event::Node { node: Box::new(node) });
        let ledger = self.scheduler().ledger();
        let holdings = ledger.node_id(&name).into_iter().flat_map(|id| ledger.holdings_on(id));
        let there: Vec<RequestId> = holdings.map(|(_, holding)| holding.request.clone()).collect();
        for request in there {
            self.settle(now, &request, None);
            self.unserved.insert(request.account.to_string());
        }
    }

    pub(super) fn new_orders(&mut self, node: &Name, seq: u64) {
        if let Some(live) = self.live.get_mut(node) {
            live.work_revision = live.work_revision.max(seq + 1);
        }
        self.telling.runners.insert(node.clone());
    }

    /// What was measured goes into the ledger where it is news.
    fn take_measurements(&mut self, now: Millis, id: &Name, beat: &Heartbeat) {
        let ledger = self.scheduler().ledger();
        let Some(node) = ledger.node_id(id) else { return };
        let known: Vec<Measured> = ledger.measured(node).to_vec();
        let says = |status: &&DeviceStatus| {
            status.used.is_some() || status.foreign.iter().any(|process| process.bytes.is_some())
        };
        for (ordinal, known) in (0_u16..).zip(known) {
            let status = beat.devices.iter().filter(says).find(|status| status.index == ordinal);
            let measured = match (status, known.telemetry) {
                (Some(status), _) => {
                    measured(now, status, &self.own_use(id, status.index, &beat.slots), known)
                }
                // What was measured before and is not any more is stale from now on.
                (None, Telemetry::Fresh { .. }) => {
                    Measured { telemetry: Telemetry::Stale { since: now }, ..known }
                }
                (None, Telemetry::None | Telemetry::Stale { .. }) => known,
            };
            if is_news(known, measured) {
                self.step(now, Event::Measured { node: id.clone(), ordinal, measured });
            }
        }
    }

    /// What a runner's slots use of a device that they are charged on. What they use elsewhere is nobody's, and so foreign.
    fn own_use(&self, runner: &Name, index: u16, reports: &[SlotReport]) -> OwnUse {
        let mut own = OwnUse::default();
        for report in reports.iter().filter(|report| !report.state.is_over()) {
            let slot = self.state.slots.get(&self.name_here(runner, report));
            let charges =
                slot.and_then(|slot| self.holding(slot)).map(|(_, holding)| &holding.charges);
            if charges.into_iter().flatten().any(|charge| charge.on.contains(&index)) {
                let on =
                    |list: &[OnDevice]| list.iter().find(|on| on.index == index).map(|on| on.bytes);
                let used = on(&report.used);
                own.is_guessed |= used.is_none();
                own.bytes =
                    own.bytes.saturating_add(used.or_else(|| on(&report.booked)).unwrap_or(0));
            }
        }
        own
    }
}

/// What the slots of a runner use of one device.
#[derive(Default)]
struct OwnUse {
    bytes: u64,
    /// Whether somebody's use is not measured, and what was booked stands in for it.
    is_guessed: bool,
}

/// Whether an agent is the one that registered last.
pub(super) fn is_of(known: &Runner, session: u64) -> Result<(), RunnerError> {
    let registered = known.registration.session;
    match session.cmp(&registered) {
        Ordering::Less => Err(RunnerError::Superseded { session: registered }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(RunnerError::NotRegistered),
    }
}

/// What of a device's use belongs to no slot. Where a slot's own use is only guessed, what was foreign before may be hidden
/// behind the guess, and still counts.
fn measured(now: Millis, status: &DeviceStatus, own: &OwnUse, known: Measured) -> Measured {
    let seen =
        status.foreign.iter().filter_map(|process| process.bytes).fold(0_u64, u64::saturating_add);
    let mut foreign = status.used.unwrap_or(0).saturating_sub(own.bytes).max(seen);
    if let Some(used) = status.used.filter(|_| own.is_guessed) {
        foreign = foreign.max(known.foreign.get().min(used));
    }
    let telemetry = match (status.used, status.stale_for, known.telemetry) {
        (Some(_), None, _) => Telemetry::Fresh { at: now },
        (Some(_), Some(for_ms), _) => {
            Telemetry::Stale { since: Millis(now.0.saturating_sub(for_ms)) }
        }
        // Somebody only says what is foreign; nothing was measured.
        (None, _, Telemetry::None) => Telemetry::None,
        (None, _, Telemetry::Fresh { .. }) => Telemetry::Stale { since: now },
        (None, _, stale @ Telemetry::Stale { .. }) => stale,
    };
    Measured { foreign: Bytes::new(foreign), telemetry, closed: known.closed }
}

/// That a measurement is as fresh as the one before is not news.
fn is_news(known: Measured, measured: Measured) -> bool {
    let kind = |telemetry: Telemetry| match telemetry {
        Telemetry::None => 0,
        Telemetry::Fresh { .. } => 1,
        Telemetry::Stale { .. } => 2,
    };
    known.foreign != measured.foreign || kind(known.telemetry) != kind(measured.telemetry)
}
