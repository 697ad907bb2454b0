//! Telemetry of a runner's devices: the part that is new to the ledger, and the memory in use that
//! belongs to no slot.
//!
//! A device reports one sum. The ledger needs the foreign part of it, because slots are charged
//! separately: sum minus use of the slots. Heartbeats arrive every few seconds from every device,
//! so only changes of that part, and of whether it can be trusted, become events.

use plimsoll_core::device::Telemetry;
use plimsoll_core::room::Measured;
use plimsoll_core::units::{Bytes, Millis};

use crate::wire::{DeviceStatus, Heartbeat};

/// The memory that the slots of a runner use on one device.
#[derive(Debug, Default)]
pub(super) struct OwnUse {
    pub(super) bytes: u64,
    /// True if the use of some slot is not measured and its charge is counted instead.
    pub(super) is_estimated: bool,
}

/// Returns the status of a device in a heartbeat, if it says anything about memory.
pub(super) fn status_of(beat: &Heartbeat, ordinal: u16) -> Option<&DeviceStatus> {
    let says_memory = |status: &&DeviceStatus| {
        status.used.is_some() || status.foreign.iter().any(|process| process.bytes.is_some())
    };
    beat.devices.iter().filter(says_memory).find(|status| status.index == ordinal)
}

/// Returns the measurement after a heartbeat that says nothing about the device: a fresh one has
/// become stale.
pub(super) fn without_status(now: Millis, known: Measured) -> Measured {
    match known.telemetry {
        Telemetry::Fresh { .. } => Measured { telemetry: Telemetry::Stale { since: now }, ..known },
        Telemetry::None | Telemetry::Stale { .. } => known,
    }
}

/// Returns the measurement after a heartbeat.
///
/// Foreign memory is the larger of two numbers: the memory in use that no slot accounts for, and
/// the sum over the foreign processes that the runner named. Where a slot's own use is only
/// estimated, the foreign memory measured before may be hidden behind the estimate, so it still
/// counts as far as the device's total use allows.
pub(super) fn with_status(
    now: Millis,
    status: &DeviceStatus,
    own: &OwnUse,
    known: Measured,
) -> Measured {
    let processes = status.foreign.iter().filter_map(|process| process.bytes);
    let named = processes.fold(0_u64, u64::saturating_add);
    let mut foreign = status.used.unwrap_or(0).saturating_sub(own.bytes).max(named);
    if let Some(used) = status.used.filter(|_| own.is_estimated) {
        foreign = foreign.max(known.foreign.get().min(used));
    }
    let telemetry = match (status.used, status.stale_for, known.telemetry) {
        (Some(_), None, _) => Telemetry::Fresh { at: now },
        (Some(_), Some(for_ms), _) => {
            Telemetry::Stale { since: Millis(now.0.saturating_sub(for_ms)) }
        }
        // An operator declared foreign memory; nothing was measured.
        (None, _, Telemetry::None) => Telemetry::None,
        (None, _, Telemetry::Fresh { .. }) => Telemetry::Stale { since: now },
        (None, _, stale @ Telemetry::Stale { .. }) => stale,
    };
    Measured { foreign: Bytes::new(foreign), telemetry, closed: known.closed }
}

/// Returns true if a measurement is worth a record: a fresh one after a fresh one with the same
/// foreign memory is not, or every heartbeat would be journalled.
pub(super) fn is_news(known: Measured, measured: Measured) -> bool {
    known.foreign != measured.foreign
        || std::mem::discriminant(&known.telemetry) != std::mem::discriminant(&measured.telemetry)
}
