//! The usage of one device.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::floating::{Meetable, Meeting};
use crate::charge::{Booked, Charge, Holding, HoldingId, Stage};
use crate::device::{Device, Telemetry};
use crate::mixer::Mixer;
use crate::units::{Bytes, Name};

/// The usage of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRoom {
    pub(super) usable: Option<Bytes>,
    /// The slots of the device; `None` if they are not limited.
    pub(super) slots_in_all: Option<u32>,
    pub(super) held: Bytes,
    pub(super) floating: Meeting,
    /// Slots of floating charges; `slots` includes them.
    pub(super) floating_slots: u32,
    pub(super) releasing: Bytes,
    pub(super) foreign: Bytes,
    pub(super) promised: Bytes,
    pub(super) cores: u32,
    pub(super) slots: u32,
    pub(super) undeclared: u32,
    pub(super) occupied: u64,
    pub(super) closed: bool,
    pub(super) telemetry: Telemetry,
    pub(super) tenants: Vec<Tenant>,
}

/// A charge on a device as seen from the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub holding: HoldingId,
    /// The request, as `account/name`.
    pub name: Name,
    /// `None` if the amount is undeclared.
    pub bytes: Option<Bytes>,
    pub stage: Stage,
    /// The charge floats: it may be on another card instead.
    pub floating: bool,
    /// The charge is on the card of a token, together with nothing that has no token there.
    pub(super) tokened: bool,
    pub(super) slots: u32,
    /// The occupied hardware slices as a bit mask.
    pub(super) slices: u64,
}

/// The latest measurement of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Memory in use that belongs to no holding.
    pub foreign: Bytes,
    pub telemetry: Telemetry,
    /// The device is closed to new work, because its measured use contradicts its charges.
    pub closed: bool,
}

impl DeviceRoom {
    pub(super) fn empty(device: &Device, measured: Measured) -> Self {
        DeviceRoom {
            usable: device.memory.usable(),
            slots_in_all: device.slots,
            held: Bytes::ZERO,
            floating: Meeting::default(),
            floating_slots: 0,
            releasing: Bytes::ZERO,
            foreign: measured.foreign,
            promised: Bytes::ZERO,
            cores: 0,
            slots: 0,
            undeclared: 0,
            occupied: 0,
            closed: measured.closed,
            telemetry: measured.telemetry,
            tenants: Vec::new(),
        }
    }

    /// Hashes everything that an explanation shows of this device.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        (self.usable, self.held, self.floating.bytes, self.releasing, self.foreign, self.promised)
            .hash(&mut hasher);
        (self.cores, self.slots, self.tenants.len()).hash(&mut hasher);
        for tenant in &self.tenants {
            (&tenant.name, tenant.bytes, tenant.stage.name()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns the usable memory of the empty device; `None` if unknown.
    pub fn usable(&self) -> Option<Bytes> {
        self.usable
    }

    /// Returns the memory charged to this device and not being released.
    pub fn held(&self) -> Bytes {
        self.held
    }

    /// Returns the most memory of charges on one of several devices that can be on this one: all of
    /// them, or as many of the largest as the device has tokens.
    pub fn floating(&self) -> Bytes {
        self.floating.bytes
    }

    /// Returns the memory being released. It is not free until there is evidence of the release.
    pub fn releasing(&self) -> Bytes {
        self.releasing
    }

    /// Returns the measured memory that belongs to no holding.
    pub fn foreign(&self) -> Bytes {
        self.foreign
    }

    /// Returns the memory promised to pending requests.
    pub fn promised(&self) -> Bytes {
        self.promised
    }

    /// Returns the charged compute in the device's unit.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Returns the number of occupied slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the occupied hardware slices as a bit mask.
    pub fn occupied(&self) -> u64 {
        self.occupied
    }

    /// Returns true if a tenant's memory is undeclared, so that nothing bounds its use.
    pub fn has_undeclared(&self) -> bool {
        self.undeclared > 0
    }

    /// Returns true if the device was closed because its measured use contradicts its charges.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Returns the age of the measurements.
    pub fn telemetry(&self) -> Telemetry {
        self.telemetry
    }

    /// Returns the charges on the device in order of arrival.
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    /// Returns all memory that counts against the device: held, floating, releasing and foreign.
    pub fn load(&self) -> Bytes {
        let charged = self.held.plus(self.floating.bytes);
        charged.plus(self.releasing).plus(self.foreign) // mutant: releasing-counts
    }

    /// Returns the free memory: zero if the device is overcommitted, `None` if it is unknown.
    pub fn free(&self) -> Option<Bytes> {
        if self.undeclared > 0 {
            return None;
        }
        Some(self.usable?.less(self.load()))
    }

    /// Returns the memory that a new request may take: free now, and not needed for promises later.
    ///
    /// Promises are covered first by the memory being released and only then by free memory, so
    /// that a promise does not block more of the device than it needs: after all releases `usable -
    /// (load - releasing) - promised` must stay free.
    pub fn open(&self) -> Option<Bytes> {
        let free = self.free()?;
        if self.promised.is_zero() {
            return Some(free);
        }
        let later = self.usable?.less(self.load().less(self.releasing)).less(self.promised);
        Some(free.min(later))
    }

    /// Returns the part of a new charge with a token of this device that takes the place of another
    /// charge: the rest must be open. Memory is promised to charges that will have tokens too, so
    /// that a device with promises displaces nothing.
    pub(super) fn displaced(&self) -> Bytes {
        if self.displaces() { self.floating.displaced } else { Bytes::ZERO }
    }

    fn displaces(&self) -> bool {
        self.promised.is_zero() && self.usable.is_none_or(|usable| self.load() <= usable)
    }

    /// Returns what new charges add to the most that can be on this device: `tokened` are those
    /// with a token of it, the largest first, and `rest` is the sum of the others.
    pub(crate) fn added_by(&self, tokened: &[Bytes], rest: Bytes) -> Bytes {
        if !self.displaces() {
            return tokened.iter().fold(rest, |sum, next| sum.plus(*next));
        }
        let present = self.meetable();
        let added = tokened.iter().enumerate().map(|(index, bytes)| {
            present.displaced_by(index).map_or(Bytes::ZERO, |displaced| bytes.less(displaced))
        });
        added.fold(rest, Bytes::plus)
    }

    /// Lists the floating charges that can meet on this device.
    pub(super) fn meetable(&self) -> Meetable {
        Meetable::list(self.slots_in_all, &self.tenants)
    }

    /// Returns the memory that a new request with a token of this device may take.
    pub fn open_with_token(&self) -> Option<Bytes> {
        Some(self.open()?.plus(self.displaced()).min(self.usable?))
    }

    /// Returns the excess of the memory that is certainly on this device over its usable memory.
    /// Floating charges do not count: they may be on another card.
    pub fn over_by(&self) -> Bytes {
        let fixed = self.tenants.iter().filter(|tenant| !tenant.floating);
        let certain = fixed.filter_map(|tenant| tenant.bytes).fold(self.foreign, Bytes::plus);
        self.usable.map_or(Bytes::ZERO, |usable| certain.less(usable))
    }

    /// Returns true if a breach closes the device to new work: its measured use contradicts its
    /// charges, or its certain load exceeds its usable memory.
    pub fn takes_nothing(&self) -> bool {
        self.closed || !self.over_by().is_zero()
    }

    /// Returns true if the device has no tenants and no foreign memory.
    pub fn is_idle(&self) -> bool {
        self.tenants.is_empty() && self.foreign.is_zero()
    }

    pub(super) fn add(&mut self, id: HoldingId, holding: &Holding, charge: &Charge) {
        let bytes = charge.bytes();
        if let Some(column) = self.column(holding.stage, charge) {
            *column = column.plus(bytes.unwrap_or(Bytes::ZERO));
        }
        self.cores = self.cores.saturating_add(charge.cores.0);
        self.slots = self.slots.saturating_add(charge.slots);
        if charge.floats() {
            self.floating_slots = self.floating_slots.saturating_add(charge.slots);
        }
        self.undeclared += u32::from(charge.amount == Booked::Undeclared);
        let slices = match (&charge.slice, charge.amount) {
            (Some(slice), _) => slice.span.mask(),
            (None, Booked::Whole { .. }) => u64::MAX,
            (None, _) => 0,
        };
        self.occupied |= slices;
        let name = Name::from(holding.request.to_string());
        let tenant = Tenant {
            holding: id,
            name,
            bytes,
            stage: holding.stage,
            floating: charge.floats(),
            tokened: charge.slots > 0 && charge.parts.len() < 2,
            slots: charge.slots,
            slices,
        };
        // Sorted by arrival even for a holding that `Ledger::amend` removes and adds again.
        // Otherwise two ledgers with equal holdings but different histories would have different
        // digests.
        let at = self.tenants.partition_point(|other| other.holding <= id);
        self.tenants.insert(at, tenant);
        self.refresh_floating();
    }

    pub(super) fn remove(&mut self, id: HoldingId, holding: &Holding, charge: &Charge) {
        let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
        if let Some(column) = self.column(holding.stage, charge) {
            *column = column.less(bytes);
        }
        self.cores = self.cores.saturating_sub(charge.cores.0);
        self.slots = self.slots.saturating_sub(charge.slots);
        if charge.floats() {
            self.floating_slots = self.floating_slots.saturating_sub(charge.slots);
        }
        self.undeclared -= u32::from(charge.amount == Booked::Undeclared);
        self.tenants.retain(|tenant| tenant.holding != id);
        self.occupied = self.tenants.iter().fold(0, |mask, tenant| mask | tenant.slices);
        self.refresh_floating();
    }

    /// Returns the sum that a charge counts in; `None` for a floating charge that stays, which
    /// counts only together with the others (`floating`).
    fn column(&mut self, stage: Stage, charge: &Charge) -> Option<&mut Bytes> {
        if stage.is_releasing() {
            Some(&mut self.releasing)
        } else if charge.floats() {
            None
        } else {
            Some(&mut self.held)
        }
    }

    /// Sums the floating charges again. A device without them and with a free slot has nothing to
    /// sum; one without a free slot takes no new charge, whatever it weighs.
    fn refresh_floating(&mut self) {
        let full = self.slots_in_all.is_some_and(|slots| self.slots >= slots);
        self.floating = if full || self.tenants.iter().any(|tenant| tenant.floating) {
            Meeting::sum(self.slots_in_all, self.usable, &self.tenants)
        } else {
            Meeting::default()
        };
    }
}
