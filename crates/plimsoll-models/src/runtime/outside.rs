//! What a runtime takes on a GPU outside the memory that it counts itself, and who says so.

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::estimate::fixed;
use crate::settings::RuntimeKind;

/// What a runtime takes on each GPU beside what it counts itself. It is part of the charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// How much, on each GPU.
    pub bytes: Bytes,
    /// Who says so: `declared`, or the row of a table.
    pub source: String,
}

impl Outside {
    /// As it was declared.
    pub fn declared(bytes: Bytes) -> Self {
        Outside { bytes, source: "declared".to_string() }
    }

    /// The number that counts where nobody declares one: the one that an estimate has in it.
    pub fn of(runtime: RuntimeKind) -> Self {
        let part = fixed::of(runtime);
        Outside { bytes: part.bytes.unwrap_or(Bytes::ZERO), source: part.source.to_string() }
    }
}
