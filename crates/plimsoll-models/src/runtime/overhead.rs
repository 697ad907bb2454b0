//! The memory that a runtime uses on a GPU outside the pool that it manages itself.

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::estimate::fixed;
use crate::settings::RuntimeKind;

/// The memory that a runtime uses on each GPU outside its own pool. It is part of the charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overhead {
    pub bytes: Bytes,
    /// `declared`, or the row of the table.
    pub source: String,
}

impl Overhead {
    /// Uses a declared number.
    pub fn declared(bytes: Bytes) -> Self {
        Overhead { bytes, source: "declared".to_string() }
    }

    /// Uses the default of the runtime, which is the fixed part of its estimates.
    pub fn default_of(runtime: RuntimeKind) -> Self {
        let part = fixed::overhead_of(runtime);
        Overhead { bytes: part.bytes.unwrap_or(Bytes::ZERO), source: part.source.to_string() }
    }
}
