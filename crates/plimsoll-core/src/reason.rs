//! The reasons why something does not fit, with their numbers, and the change that would lift each.
//!
//! `fit` creates these values and nothing else does; `wording` renders them.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Millis, Name};

mod holder;
mod node;
mod request;

pub use holder::NotEvictable;
pub use node::NodeReason;
pub use request::RequestReason;

/// The reason why one device cannot take one need. The variants are in checking order, from the
/// most lasting to the most transient, so that the reported reason must change first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Reason {
    NoSuchDevice {
        ordinal: u16,
    },
    Faulty,
    /// No longer reported by its node.
    Gone,
    /// The node reports a number of unhealthy cards without naming them, and this idle card may be
    /// one of them.
    SomeCardFaulty {
        /// Cards that may be in use at once.
        bookable: u16,
    },
    /// Closed to new tenants by its operator.
    Cordoned,
    /// Closed because the ledger's sums and its holdings differ there.
    Closed,
    /// The last measurement is too old.
    StaleTelemetry {
        since: Millis,
    },
    /// The model is not the wanted one.
    TypeMismatch {
        wanted: Name,
        is: Name,
    },
    /// The request accepts other ways of sharing a device.
    ModeMismatch {
        wanted: Name,
        /// `None` if the node does not tell it.
        is: Option<Name>,
    },
    /// The device fits, but too few devices of its NUMA node do.
    NumaNotFit {
        fitting: u16,
        wanted: u16,
    },
    /// The request names other devices by UUID.
    UuidMismatch,
    /// The request names other devices by ordinal.
    IndexMismatch,
    /// The same container already has this device; its devices must be different ones.
    SameContainer,
    SlotsExhausted {
        slots: u32,
    },
    /// The request accepts only a device without tenants, and this one has some.
    NotAlone,
    NeedUnknown {
        missing: Name,
    },
    CapacityUnknown {
        missing: Name,
    },
    /// The share is less than one MiB of this device.
    ShareTooSmall,
    /// The request has a token without an amount of memory, the card is shared, and the rule for
    /// such requests rejects them.
    UndeclaredMemory,
    /// A tenant declares no memory, so that the free memory is unknown.
    HeldUndeclared,
    /// Too small even when empty.
    TooSmall {
        need: Bytes,
        usable: Bytes,
        /// For the record; it does not matter here.
        free: Bytes,
    },
    /// Large enough for this container, but not for all containers of the request that would be on
    /// it.
    TooSmallTogether {
        /// The peak of these containers.
        need: Bytes,
        /// The part of this container.
        alone: Bytes,
        usable: Bytes,
        /// For the record; it does not matter here.
        free: Bytes,
    },
    /// Large enough, but too much is in use.
    ShortOfMemory {
        need: Bytes,
        free: Bytes,
        usable: Bytes,
    },
    /// The device plugin picks the cards, and the requests that may get the tokens of this one are
    /// too large together.
    TenantsMayMeet {
        need: Bytes,
        /// Tokens of this card.
        tokens: u32,
        /// The load of the card with the largest requests that may be on it, this one included.
        together: Bytes,
        usable: Bytes,
    },
    /// Enough is free, but it is promised to pending requests.
    PromisedAway {
        need: Bytes,
        free: Bytes,
        /// The part of `free` that is not promised.
        open: Bytes,
    },
    /// In the device's own unit.
    ShortOfCores {
        need: u32,
        free: u32,
        total: u32,
    },
    /// The whole device is wanted, and it has tenants.
    Exclusive,
    /// The whole device is wanted, and it has tenants; it is shared, or may be, and its memory is
    /// unknown, so that no smaller amount can be wanted.
    ExclusiveOfUnknownSize {
        missing: Name,
    },
    /// All compute is booked, and a tenant without a booking would get none.
    ComputeExhausted,
    /// The device is divided into equal shares, and its tenants have another size.
    UnequalShare {
        need: Bytes,
        /// All memory of the tenants.
        load: Bytes,
        /// Shares in use.
        shares: u32,
    },
    /// The device has no hardware slices of the wanted profile.
    NoProfile {
        wanted: Name,
        /// The names of those that it has.
        known: Name,
    },
    /// No hardware slice of the wanted profile or size is free.
    NoSlice {
        wanted: Name,
    },
    /// It fits here, but the device plugin picks the card, and it does not fit on another one.
    ChoiceNotOwned,
    /// The device plugin picks the cards and may pick one twice.
    ChoiceNotDistinct {
        wanted: u16,
    },
    /// The device fits, but too few devices of its node do.
    TooFew {
        fitting: u16,
        wanted: u16,
    },
}

impl Reason {
    /// Returns the stable code: HAMi's where HAMi has one.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::NoSuchDevice { .. } => "CardNotFound",
            Reason::Faulty | Reason::SomeCardFaulty { .. } => "CardNotHealth",
            Reason::Gone => "CardGone",
            Reason::Cordoned => "CardCordoned",
            Reason::Closed => "CardClosed",
            Reason::StaleTelemetry { .. } => "CardTelemetryStale",
            Reason::TypeMismatch { .. } => "CardTypeMismatch",
            Reason::NumaNotFit { .. } => "NumaNotFit",
            Reason::UuidMismatch => "CardUuidMismatch",
            Reason::IndexMismatch => "CardIndexMismatch",
            Reason::SameContainer => "CardUsedBySameContainer",
            Reason::SlotsExhausted { .. } => "CardTimeSlicingExhausted",
            Reason::NotAlone | Reason::Exclusive | Reason::ExclusiveOfUnknownSize { .. } => {
                "ExclusiveDeviceAllocateConflict"
            }
            Reason::NeedUnknown { .. } => "NeedUnknown",
            Reason::CapacityUnknown { .. } => "CardCapacityUnknown",
            Reason::ShareTooSmall => "ShareTooSmall",
            Reason::UndeclaredMemory => "PlainRequestRejected",
            Reason::HeldUndeclared => "CardHeldUndeclared",
            Reason::TooSmall { .. }
            | Reason::TooSmallTogether { .. }
            | Reason::ShortOfMemory { .. }
            | Reason::TenantsMayMeet { .. }
            | Reason::PromisedAway { .. } => "CardInsufficientMemory",
            Reason::ShortOfCores { .. } => "CardInsufficientCore",
            Reason::ComputeExhausted => "CardComputeUnitsExhausted",
            Reason::ModeMismatch { .. } | Reason::UnequalShare { .. } => "ModeNotFit",
            Reason::NoProfile { .. } | Reason::NoSlice { .. } => "CardMigTopologyInfeasible",
            Reason::ChoiceNotOwned | Reason::ChoiceNotDistinct { .. } => "CardChoiceNotOwned",
            Reason::TooFew { .. } => "AllocatedCardsInsufficientRequest",
        }
    }

    /// Returns the needed memory, if the reason is about memory.
    pub fn need(&self) -> Option<Bytes> {
        match self {
            Reason::TooSmall { need, .. }
            | Reason::TooSmallTogether { need, .. }
            | Reason::ShortOfMemory { need, .. }
            | Reason::TenantsMayMeet { need, .. }
            | Reason::PromisedAway { need, .. } => Some(*need),
            _ => None,
        }
    }

    /// Returns the missing memory, if the reason is about memory.
    pub fn short_by(&self) -> Option<Bytes> {
        match self {
            Reason::TooSmall { need, free, .. }
            | Reason::TooSmallTogether { need, free, .. }
            | Reason::ShortOfMemory { need, free, .. } => Some(need.less(*free)),
            Reason::TenantsMayMeet { together, usable, .. } => Some(together.less(*usable)),
            Reason::PromisedAway { need, open, .. } => Some(need.less(*open)),
            _ => None,
        }
    }

    /// Returns true if the tenants of the device are the reason, whatever memory they hold.
    pub fn is_by_tenants(&self) -> bool {
        matches!(
            self,
            Reason::SlotsExhausted { .. }
                | Reason::NotAlone
                | Reason::HeldUndeclared
                | Reason::ShortOfCores { .. }
                | Reason::Exclusive
                | Reason::ExclusiveOfUnknownSize { .. }
                | Reason::ComputeExhausted
                | Reason::UnequalShare { .. }
                | Reason::NoSlice { .. }
        )
    }

    /// Returns the change that could make the request fit here.
    pub fn clears_on(&self) -> Change {
        match self {
            Reason::Faulty | Reason::Gone => Change::DeviceRepaired,
            Reason::Cordoned | Reason::Closed => Change::DeviceOpened,
            Reason::StaleTelemetry { .. } => Change::TelemetryArrived,
            Reason::CapacityUnknown { .. } | Reason::NoSuchDevice { .. } => Change::NodeChanged,
            Reason::TypeMismatch { .. }
            | Reason::ModeMismatch { .. }
            | Reason::NoProfile { .. }
            | Reason::UuidMismatch
            | Reason::IndexMismatch
            | Reason::TooSmall { .. }
            | Reason::TooSmallTogether { .. } => Change::NodeChanged,
            Reason::NeedUnknown { .. }
            | Reason::ShareTooSmall
            | Reason::UndeclaredMemory
            | Reason::SameContainer
            | Reason::ChoiceNotDistinct { .. } => Change::RequestChanged,
            Reason::NumaNotFit { .. }
            | Reason::SlotsExhausted { .. }
            | Reason::NotAlone
            | Reason::HeldUndeclared
            | Reason::ShortOfMemory { .. }
            | Reason::TenantsMayMeet { .. }
            | Reason::PromisedAway { .. }
            | Reason::SomeCardFaulty { .. }
            | Reason::ShortOfCores { .. }
            | Reason::Exclusive
            | Reason::ExclusiveOfUnknownSize { .. }
            | Reason::ComputeExhausted
            | Reason::UnequalShare { .. }
            | Reason::NoSlice { .. }
            | Reason::ChoiceNotOwned
            | Reason::TooFew { .. } => Change::LoadFell,
        }
    }
}

/// A change that can lift a reason. A pending request sleeps until one of its changes happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A holding ended or shrank, or may now be evicted.
    LoadFell,
    DeviceRepaired,
    /// A device was uncordoned or reopened.
    DeviceOpened,
    TelemetryArrived,
    /// A node was added, or its facts changed.
    NodeChanged,
    /// Only the author of the request can lift the reason.
    RequestChanged,
}
