//! The reasons of a request as a whole.

use serde::{Deserialize, Serialize};

use super::Change;
use crate::request::Misuse;
use crate::units::{Bytes, Name};

/// The reason why a request as a whole is rejected, whatever its devices say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum RequestReason {
    /// It is invalid or contradicts itself.
    Malformed(Misuse),
    /// It waits for something outside of it.
    Waiting(Misuse),
    /// The fleet is empty.
    NoNodes,
    /// Its account, or the parent of its account, would hold more memory than its maximum.
    AccountOverMemory {
        account: Name,
        need: Bytes,
        /// Held by the account, or promised to its other pending requests.
        held: Bytes,
        maximum: Bytes,
    },
    /// As `AccountOverMemory`, in devices.
    AccountOverDevices { account: Name, need: u32, held: u32, maximum: u32 },
    /// Its account has a maximum of memory, and holds or asks for memory of unknown size.
    AccountMemoryUnknown {
        account: Name,
        /// Charges of unknown size.
        unknown: u32,
    },
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

impl RequestReason {
    /// Returns the stable code: HAMi's where HAMi has one.
    pub fn code(&self) -> &'static str {
        match self {
            RequestReason::Malformed(_) => "Malformed",
            RequestReason::Waiting(_) => "RequestWaits",
            RequestReason::NoNodes => "NoNodes",
            RequestReason::AccountOverMemory { .. }
            | RequestReason::AccountOverDevices { .. }
            | RequestReason::AccountMemoryUnknown { .. } => "ResourceQuotaNotFit",
            RequestReason::GangIncomplete { .. } => "GangIncomplete",
            RequestReason::GangNotFound { .. } => "GangNotFound",
        }
    }

    /// Returns the change that could lift the reason; `None` if it comes with the node's changes.
    pub fn clears_on(&self) -> Option<Change> {
        match self {
            RequestReason::Malformed(_) | RequestReason::Waiting(_) => Some(Change::RequestChanged),
            RequestReason::NoNodes => None,
            RequestReason::AccountOverMemory { .. }
            | RequestReason::AccountOverDevices { .. }
            | RequestReason::AccountMemoryUnknown { .. }
            | RequestReason::GangIncomplete { .. }
            | RequestReason::GangNotFound { .. } => Some(Change::LoadFell),
        }
    }

    /// Returns true if a share of its account is the reason.
    pub fn is_by_account(&self) -> bool {
        matches!(
            self,
            RequestReason::AccountOverMemory { .. }
                | RequestReason::AccountOverDevices { .. }
                | RequestReason::AccountMemoryUnknown { .. }
        )
    }
}
