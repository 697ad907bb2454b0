//! How much memory a device has by a number of MiB that some source gives, or why that is not known.

use plimsoll_core::device::{Capacity, Memory, Source};
use plimsoll_core::units::Bytes;

/// The memory of a device, with nothing reserved and no cap.
pub(super) fn memory(total: Capacity) -> Memory {
    Memory { total, reserve: Bytes::ZERO, cap: None }
}

/// So many MiB by this source; `said_by` names the field where that is no size a device can have.
pub(super) fn of_mib(mib: u64, source: Source, said_by: &str) -> Capacity {
    match bytes(mib) {
        Some(bytes) => Capacity::Known { bytes, source },
        None => unknown(format!("{said_by} is {mib} MiB, which no device has")),
    }
}

/// Not known, and what is missing.
pub(super) fn unknown(missing: impl AsRef<str>) -> Capacity {
    Capacity::Unknown { missing: missing.as_ref().into() }
}

/// So many MiB in bytes, where a device can have as much.
pub(super) fn bytes(mib: u64) -> Option<Bytes> {
    Bytes::from_mib(mib).filter(|bytes| !bytes.is_zero() && *bytes <= Bytes::DEVICE_MAX)
}
