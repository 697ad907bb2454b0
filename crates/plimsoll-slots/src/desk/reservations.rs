//! All reservations, pending, seated in a slot or ended, and the indexes that find them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::ChangeLog;
use super::backlog::Backlog;
use super::leases::Leases;
use super::reservation::{
    Ending, IdempotencyKey, NewReservation, Reservation, ReservationId, ReservationState,
};
use super::slots::SlotStage;
use crate::lease::Lease;

/// All reservations, and the indexes that find them.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    by_id: BTreeMap<ReservationId, Arc<Reservation>>,
    by_slot: BTreeMap<Name, BTreeSet<ReservationId>>,
    pending: BTreeMap<String, BTreeSet<ReservationId>>,
    deadlines: BTreeSet<(Millis, ReservationId)>,
    ended: BTreeSet<(Millis, ReservationId)>,
    by_key: BTreeMap<IdempotencyKey, ReservationId>,
    next_number: u64,
    leases: Leases,
    backlog: Backlog,
    /// Reservations whose clients may have something new to learn.
    changed: BTreeSet<ReservationId>,
}

/// A journalled change of `Reservations`. Rows are shared with the live state, so that a change
/// copies none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationChange {
    Put(Arc<Reservation>),
    Forgotten(ReservationId),
}

/// The saved form of `Reservations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReservationsState {
    reservations: Vec<Arc<Reservation>>,
    next_number: u64,
}

/// The seat that an ended reservation vacated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vacated {
    pub(super) model: String,
    /// The slot that it was in; `None` if it was pending.
    pub(super) slot: Option<Name>,
}

impl Reservations {
    pub(super) fn restore(state: ReservationsState) -> Reservations {
        let mut reservations = Reservations::default();
        let puts = state.reservations.into_iter().map(ReservationChange::Put);
        puts.for_each(|put| reservations.apply(put));
        reservations.next_number = state.next_number;
        reservations
    }

    pub(super) fn state(&self) -> ReservationsState {
        ReservationsState {
            reservations: self.by_id.values().cloned().collect(),
            next_number: self.next_number,
        }
    }

    /// Makes a change; the same for a new one and for recovery.
    pub(super) fn apply(&mut self, change: ReservationChange) {
        match change {
            ReservationChange::Put(reservation) => {
                self.next_number = self.next_number.max(reservation.id.0 + 1);
                self.forget(reservation.id);
                self.index(&reservation);
                self.by_id.insert(reservation.id, reservation);
            }
            ReservationChange::Forgotten(id) => self.forget(id),
        }
    }

    fn index(&mut self, reservation: &Reservation) {
        self.backlog.add(reservation);
        let id = reservation.id;
        let is_ended = match &reservation.state {
            ReservationState::Pending => {
                self.pending.entry(reservation.model.clone()).or_default().insert(id);
                false
            }
            ReservationState::Seated { slot, .. } => {
                self.by_slot.entry(slot.clone()).or_default().insert(id);
                false
            }
            ReservationState::Ended { at, .. } => {
                self.ended.insert((*at, id));
                self.leases.end(id);
                true
            }
        };
        if let Some(deadline) = reservation.deadline.filter(|_| !is_ended) {
            self.deadlines.insert((deadline, id));
        }
        if let Some(key) = &reservation.key {
            self.by_key.insert(key.clone(), id);
        }
    }

    fn forget(&mut self, id: ReservationId) {
        let Some(reservation) = self.by_id.remove(&id) else { return };
        self.backlog.remove(&reservation);
        match &reservation.state {
            ReservationState::Pending => remove_from(&mut self.pending, &reservation.model, &id),
            ReservationState::Seated { slot, .. } => remove_from(&mut self.by_slot, slot, &id),
            ReservationState::Ended { at, .. } => {
                self.ended.remove(&(*at, id));
            }
        }
        if let Some(deadline) = reservation.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(key) = &reservation.key
            && self.by_key.get(key) == Some(&id)
        {
            self.by_key.remove(key);
        }
    }

    fn put(&mut self, log: &mut ChangeLog, reservation: Reservation) {
        self.changed.insert(reservation.id);
        let change = ReservationChange::Put(Arc::new(reservation));
        log.push(change.clone());
        self.apply(change);
    }

    fn edit(
        &mut self,
        log: &mut ChangeLog,
        id: ReservationId,
        edit: impl FnOnce(&mut Reservation),
    ) {
        if let Some(reservation) = self.by_id.get(&id) {
            let mut reservation = Reservation::clone(reservation);
            edit(&mut reservation);
            self.put(log, reservation);
        }
    }

    /// Creates a pending reservation.
    pub(super) fn create(
        &mut self,
        log: &mut ChangeLog,
        new: NewReservation,
        default_lease: Lease,
        created: Millis,
    ) -> ReservationId {
        let id = ReservationId(self.next_number.max(1));
        let NewReservation { model, key, client, deadline, lease } = new;
        let lease = lease.unwrap_or(default_lease);
        let state = ReservationState::Pending;
        self.put(log, Reservation { id, model, key, client, created, deadline, lease, state });
        self.leases.start(id, lease, created);
        id
    }

    /// Renews the lease of a reservation that has not ended.
    pub(super) fn renew(&mut self, id: ReservationId, now: Millis) {
        if let Some(reservation) = self.by_id.get(&id) {
            self.leases.start(id, reservation.lease, now);
        }
    }

    /// Starts the leases of the reservations that recovery restored.
    pub(super) fn start_missing_leases(&mut self, now: Millis) {
        let is_open =
            |one: &&Arc<Reservation>| !matches!(one.state, ReservationState::Ended { .. });
        let open = self.by_id.values().filter(is_open).map(|one| (one.id, one.lease));
        self.leases.start_missing(open, now);
    }

    pub(super) fn with_expired_lease(&self, now: Millis) -> Vec<ReservationId> {
        self.leases.expired(now)
    }

    /// Notes the stage of a slot: the reservations in a pending slot are pending.
    pub(super) fn note_stage(&mut self, slot: &Name, stage: Option<SlotStage>) {
        let ids = self.by_slot.get(slot).into_iter().flatten();
        let inside = ids.filter_map(|id| self.by_id.get(id)).map(|reservation| &**reservation);
        self.backlog.note_stage(slot, stage, inside);
    }

    pub(super) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    pub(super) fn lease_expiry(&self, id: ReservationId) -> Option<Millis> {
        self.leases.expiry(id)
    }

    /// Seats a reservation in a slot.
    pub(super) fn seat(
        &mut self,
        log: &mut ChangeLog,
        id: ReservationId,
        slot: &Name,
        since: Millis,
    ) {
        let state = ReservationState::Seated { slot: slot.clone(), since };
        self.edit(log, id, |reservation| reservation.state = state);
    }

    /// Makes a seated reservation pending again: its slot will not serve it.
    pub(super) fn unseat(&mut self, log: &mut ChangeLog, id: ReservationId) {
        self.edit(log, id, |reservation| reservation.state = ReservationState::Pending);
    }

    /// Ends a reservation; `None` if it has ended already, which stays as it is.
    pub(super) fn end(
        &mut self,
        log: &mut ChangeLog,
        id: ReservationId,
        ending: Ending,
        at: Millis,
    ) -> Option<Vacated> {
        let known = self.by_id.get(&id)?;
        let slot = match &known.state {
            ReservationState::Pending => None,
            ReservationState::Seated { slot, .. } => Some(slot.clone()),
            ReservationState::Ended { .. } => return None,
        };
        let model = known.model.clone();
        self.edit(log, id, |known| known.state = ReservationState::Ended { ending, at });
        Some(Vacated { model, slot })
    }

    /// Drops the deadline of a reservation that is being served: it limits waiting only.
    pub(super) fn drop_deadline(&mut self, log: &mut ChangeLog, id: ReservationId) {
        self.edit(log, id, |reservation| reservation.deadline = None);
    }

    /// Forgets the reservations that ended first, so that at most `kept` ended ones remain.
    pub(super) fn forget_oldest(&mut self, log: &mut ChangeLog, kept: usize) {
        while self.ended.len() > kept
            && let Some((_, id)) = self.ended.first().copied()
        {
            log.push(ReservationChange::Forgotten(id));
            self.forget(id);
        }
    }

    /// Marks the reservations in a slot as changed: the slot is, which they show.
    pub(super) fn mark_changed_in(&mut self, slot: &Name) {
        self.changed.extend(self.by_slot.get(slot).into_iter().flatten());
    }

    /// Takes the reservations that changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<ReservationId> {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn get(&self, id: ReservationId) -> Option<&Arc<Reservation>> {
        self.by_id.get(&id)
    }

    pub(super) fn with_key(&self, key: &IdempotencyKey) -> Option<&Arc<Reservation>> {
        self.by_id.get(self.by_key.get(key)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.by_id.values()
    }

    pub(super) fn after(
        &self,
        id: Option<ReservationId>,
    ) -> impl Iterator<Item = &Arc<Reservation>> {
        let start = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.range((start, Bound::Unbounded)).map(|(_, reservation)| reservation)
    }

    pub(super) fn in_slot(&self, slot: &str) -> impl Iterator<Item = &Arc<Reservation>> {
        let ids = self.by_slot.get(slot).into_iter().flatten();
        ids.filter_map(|id| self.by_id.get(id))
    }

    pub(super) fn ids_in_slot(&self, slot: &str) -> Vec<ReservationId> {
        self.by_slot.get(slot).into_iter().flatten().copied().collect()
    }

    pub(super) fn first_in_slot(&self, slot: &str) -> Option<ReservationId> {
        self.by_slot.get(slot)?.first().copied()
    }

    /// Returns the number of reservations in a slot.
    pub(super) fn count_in_slot(&self, slot: &str) -> u32 {
        let count = self.by_slot.get(slot).map_or(0, BTreeSet::len);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn first_pending(&self, model: &str) -> Option<ReservationId> {
        self.pending.get(model)?.first().copied()
    }

    pub(super) fn pending_of_model(&self, model: &str) -> Vec<ReservationId> {
        self.pending.get(model).into_iter().flatten().copied().collect()
    }

    /// Returns the pending reservations of all models, in the order in which they are served.
    pub(super) fn pending(&self) -> Vec<&Arc<Reservation>> {
        let mut ids: Vec<ReservationId> = self.pending.values().flatten().copied().collect();
        ids.sort_unstable();
        ids.iter().filter_map(|id| self.by_id.get(id)).collect()
    }

    /// Returns the number of pending reservations of each model that has any.
    pub(super) fn pending_counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.pending.iter().map(|(model, ids)| (model.as_str(), ids.len() as u64))
    }

    /// Returns the reservations whose deadline has passed.
    pub(super) fn due(&self, now: Millis) -> Vec<ReservationId> {
        let due = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, id)| *id).collect()
    }
}

fn remove_from<K: Ord, V: Ord>(sets: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
