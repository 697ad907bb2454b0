//! The reasons of a request as a whole.

use serde::{Deserialize, Serialize};

use crate::request::Misuse;
use crate::units::Name;

/// The reason why a request as a whole is rejected, whatever its devices say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum RequestReason {
    /// It is invalid or contradicts itself.
    Malformed(Misuse),
    /// The fleet is empty.
    NoNodes,
    /// Too few members of its gang can be placed together.
    GangIncomplete {
        gang: Name,
        /// Members that must be placed together.
        minimum: u32,
        /// Members that can be placed.
        placed: u32,
        members: u32,
    },
    /// The search for its gang ran out of steps. A placement may still exist.
    GangNotFound { gang: Name, minimum: u32, placed: u32, steps: u32 },
}
