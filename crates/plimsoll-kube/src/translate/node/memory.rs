//! The memory of a device from a number of MiB, or the reason why it is unknown.

use plimsoll_core::device::{Capacity, Memory, Source};
use plimsoll_core::units::Bytes;

/// Creates the memory of a device without reserve and cap.
pub(super) fn memory(total: Capacity) -> Memory {
    Memory { total, reserve: Bytes::ZERO, cap: None }
}

/// Creates the capacity of a device; `said_by` names the field if the number is impossible.
pub(super) fn of_mib(mib: u64, source: Source, said_by: &str) -> Capacity {
    match bytes(mib) {
        Some(bytes) => Capacity::Known { bytes, source },
        None => unknown(format!("{said_by} is {mib} MiB, which no device has")),
    }
}

pub(super) fn unknown(missing: impl AsRef<str>) -> Capacity {
    Capacity::Unknown { missing: missing.as_ref().into() }
}

/// Converts MiB to bytes; `None` if no device can have that much.
pub(super) fn bytes(mib: u64) -> Option<Bytes> {
    Bytes::from_mib(mib).filter(|bytes| !bytes.is_zero() && *bytes <= Bytes::DEVICE_MAX)
}
