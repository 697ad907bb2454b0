//! Why something does not fit, with its numbers, and what would lift it: the only wording of a refusal.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::request::Misuse;
use crate::units::{Bytes, MilliCpu, Millis, Name};

/// Why one device cannot take one need. The variants stand in the order in which they are checked,
/// from the most lasting to the most passing, so that the reason given is the one that must change first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Reason {
    /// There is no device of this ordinal on the node.
    NoSuchDevice {
        /// The ordinal that was named.
        ordinal: u16,
    },
    /// The device was reported faulty.
    Faulty,
    /// The device was there and is not reported any more.
    Gone,
    /// As many of the node's cards are unhealthy as are idle, and nobody says which.
    SomeCardFaulty {
        /// Cards that may be in use at once.
        bookable: u16,
    },
    /// Closed to new tenants by its operator.
    Cordoned,
    /// Closed because the ledger and reality disagree there.
    Closed,
    /// What is really used there was last measured too long ago.
    StaleTelemetry {
        /// When it was measured.
        since: Millis,
    },
    /// Another model or isolation mode was asked for.
    TypeMismatch {
        /// What was asked for.
        wanted: Name,
        /// What this is.
        is: Name,
    },
    /// The device would do, but its NUMA node has too few such devices.
    NumaNotFit {
        /// Devices of this NUMA node that would do.
        fitting: u16,
        /// Devices wanted on one NUMA node.
        wanted: u16,
    },
    /// The request names other devices.
    UuidMismatch,
    /// The request names devices by their place on the node, and this is at another.
    IndexMismatch,
    /// The same container already has this device; its devices must be different ones.
    SameContainer,
    /// Every slot is taken.
    SlotsExhausted {
        /// Slots the device has.
        slots: u32,
    },
    /// The request wants the device alone, and somebody is there.
    NotAlone,
    /// How much is needed is not known.
    NeedUnknown {
        /// What is missing.
        missing: Name,
    },
    /// How much the device has is not known.
    CapacityUnknown {
        /// What is missing.
        missing: Name,
    },
    /// The share asked for is less than one MiB of this device.
    ShareTooSmall,
    /// A token without a declared amount of memory, on a shared card, under the rule that refuses those.
    PlainRefused,
    /// Somebody is there whose use of memory is not bounded by anything.
    HeldUndeclared,
    /// The device is too small even when empty.
    TooSmall {
        /// What is needed.
        need: Bytes,
        /// What the device could ever give.
        usable: Bytes,
        /// What is free now, for the record.
        free: Bytes,
    },
    /// The device is large enough, but too much of it is taken.
    ShortOfMemory {
        /// What is needed.
        need: Bytes,
        /// What is free for this request.
        free: Bytes,
        /// What the device could give when empty.
        usable: Bytes,
    },
    /// Enough is free now, but it was promised to somebody who waits.
    PromisedAway {
        /// What is needed.
        need: Bytes,
        /// What is free now.
        free: Bytes,
        /// What of that is not promised.
        open: Bytes,
    },
    /// Too little compute is left.
    ShortOfCores {
        /// What is needed, in the device's unit.
        need: u32,
        /// What is left.
        free: u32,
        /// What the device has.
        total: u32,
    },
    /// The whole device is wanted, and somebody is there.
    Exclusive,
    /// All compute is booked, and a tenant without a booking would get none.
    ComputeExhausted,
    /// No hardware slice of the wanted size has a free place.
    NoSlice {
        /// The profile wanted, or the memory that a profile must have.
        wanted: Name,
    },
    /// It would fit here, but the device plugin picks the card, and another card is short.
    ChoiceNotOwned,
    /// The device plugin picks the cards and may give the same one twice.
    ChoiceNotDistinct {
        /// Different devices wanted.
        wanted: u16,
    },
    /// The device fits, but too few of its node do.
    TooFew {
        /// Devices that fit.
        fitting: u16,
        /// Devices wanted.
        wanted: u16,
    },
}

impl Reason {
    /// The stable name of the reason: HAMi's where HAMi has one.
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
            Reason::NotAlone | Reason::Exclusive => "ExclusiveDeviceAllocateConflict",
            Reason::NeedUnknown { .. } => "NeedUnknown",
            Reason::CapacityUnknown { .. } => "CardCapacityUnknown",
            Reason::ShareTooSmall => "ShareTooSmall",
            Reason::PlainRefused => "PlainRequestRefused",
            Reason::HeldUndeclared => "CardHeldUndeclared",
            Reason::TooSmall { .. }
            | Reason::ShortOfMemory { .. }
            | Reason::PromisedAway { .. } => "CardInsufficientMemory",
            Reason::ShortOfCores { .. } => "CardInsufficientCore",
            Reason::ComputeExhausted => "CardComputeUnitsExhausted",
            Reason::NoSlice { .. } => "CardMigTopologyInfeasible",
            Reason::ChoiceNotOwned | Reason::ChoiceNotDistinct { .. } => "CardChoiceNotOwned",
            Reason::TooFew { .. } => "AllocatedCardsInsufficientRequest",
        }
    }

    /// The reason in two or three words, for counts.
    pub fn phrase(&self) -> &'static str {
        match self {
            Reason::NoSuchDevice { .. } => "not there",
            Reason::Faulty => "faulty",
            Reason::Gone => "gone",
            Reason::SomeCardFaulty { .. } => "perhaps faulty",
            Reason::Cordoned => "cordoned",
            Reason::Closed => "closed",
            Reason::StaleTelemetry { .. } => "not measured lately",
            Reason::TypeMismatch { .. } => "of another type",
            Reason::NumaNotFit { .. } => "on a NUMA node with too few",
            Reason::UuidMismatch | Reason::IndexMismatch => "not among those named",
            Reason::SameContainer => "used by the same container",
            Reason::SlotsExhausted { .. } => "out of slots",
            Reason::NotAlone | Reason::Exclusive => "not empty",
            Reason::NeedUnknown { .. } => "not judged, as the need is unknown",
            Reason::CapacityUnknown { .. } => "of unknown memory",
            Reason::ShareTooSmall => "too small for the share",
            Reason::PlainRefused => "shared, and no memory is declared",
            Reason::HeldUndeclared => "held by tenants that declare no memory",
            Reason::TooSmall { .. } => "too small",
            Reason::ShortOfMemory { .. } => "short of memory",
            Reason::PromisedAway { .. } => "promised to others",
            Reason::ShortOfCores { .. } => "short of cores",
            Reason::ComputeExhausted => "out of compute",
            Reason::NoSlice { .. } => "without a free slice",
            Reason::ChoiceNotOwned | Reason::ChoiceNotDistinct { .. } => {
                "picked by the device plugin"
            }
            Reason::TooFew { .. } => "fitting, but too few",
        }
    }

    /// What was needed, where the reason is about memory.
    pub fn need(&self) -> Option<Bytes> {
        match self {
            Reason::TooSmall { need, .. }
            | Reason::ShortOfMemory { need, .. }
            | Reason::PromisedAway { need, .. } => Some(*need),
            _ => None,
        }
    }

    /// How much memory was lacking, where that is what was wrong.
    pub fn short_by(&self) -> Option<Bytes> {
        match self {
            Reason::TooSmall { need, free, .. } | Reason::ShortOfMemory { need, free, .. } => {
                Some(need.less(*free))
            }
            Reason::PromisedAway { need, open, .. } => Some(need.less(*open)),
            _ => None,
        }
    }

    /// What could make this reason untrue.
    pub fn clears_on(&self) -> Change {
        match self {
            Reason::Faulty | Reason::Gone => Change::DeviceRepaired,
            Reason::Cordoned | Reason::Closed => Change::DeviceOpened,
            Reason::StaleTelemetry { .. } => Change::TelemetryArrived,
            Reason::CapacityUnknown { .. } | Reason::NoSuchDevice { .. } => Change::NodeChanged,
            Reason::TypeMismatch { .. }
            | Reason::UuidMismatch
            | Reason::IndexMismatch
            | Reason::TooSmall { .. } => Change::NodeChanged,
            Reason::NeedUnknown { .. }
            | Reason::ShareTooSmall
            | Reason::PlainRefused
            | Reason::SameContainer
            | Reason::ChoiceNotDistinct { .. } => Change::RequestChanged,
            Reason::NumaNotFit { .. }
            | Reason::SlotsExhausted { .. }
            | Reason::NotAlone
            | Reason::HeldUndeclared
            | Reason::ShortOfMemory { .. }
            | Reason::PromisedAway { .. }
            | Reason::SomeCardFaulty { .. }
            | Reason::ShortOfCores { .. }
            | Reason::Exclusive
            | Reason::ComputeExhausted
            | Reason::NoSlice { .. }
            | Reason::ChoiceNotOwned
            | Reason::TooFew { .. } => Change::LoadFell,
        }
    }
}

impl fmt::Display for Reason {
    /// Reads after the device's name: what is needed, what is there, no blame, no full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoSuchDevice { ordinal } => {
                write!(f, "is not there: the node has no device {ordinal}")
            }
            Reason::Faulty => f.write_str("is reported faulty"),
            Reason::Gone => f.write_str("is not reported any more"),
            Reason::SomeCardFaulty { bookable } => {
                write!(
                    f,
                    "may be the faulty one: only {bookable} of the node's cards work, and as many are in use"
                )
            }
            Reason::Cordoned => f.write_str("is cordoned"),
            Reason::Closed => f.write_str("is closed until its books and its memory agree again"),
            Reason::StaleTelemetry { since } => {
                write!(f, "was last measured at {since}, which is too old")
            }
            Reason::TypeMismatch { wanted, is } => write!(f, "is {is}, and {wanted} is wanted"),
            Reason::NumaNotFit { fitting, wanted } => {
                write!(
                    f,
                    "fits, but its NUMA node has {fitting} such devices and {wanted} are wanted on one"
                )
            }
            Reason::UuidMismatch => f.write_str("is not among the devices that the request names"),
            Reason::IndexMismatch => {
                f.write_str("is not at one of the places that the request names")
            }
            Reason::SameContainer => f.write_str("is already used by the same container"),
            Reason::SlotsExhausted { slots } => write!(f, "has all its {slots} slots taken"),
            Reason::NotAlone => f.write_str("has a tenant, and the request wants to be alone"),
            Reason::NeedUnknown { missing } => {
                write!(f, "cannot be judged: the request lacks {missing}")
            }
            Reason::CapacityUnknown { missing } => write!(f, "has unknown memory: {missing}"),
            Reason::ShareTooSmall => f.write_str("would give less than 1 MiB for the share asked"),
            Reason::PlainRefused => f.write_str("is shared, and the request declares no memory"),
            Reason::HeldUndeclared => {
                f.write_str("has a tenant that declares no memory, so what is left is unknown")
            }
            Reason::TooSmall { need, usable, .. } => {
                write!(f, "needs {need}, the device has {usable} usable")
            }
            Reason::ShortOfMemory { need, free, usable } => {
                write!(f, "needs {need}, {free} free of {usable}")
            }
            Reason::PromisedAway { need, free, open } => {
                write!(
                    f,
                    "needs {need}, {free} free, but only {open} of that is not promised to others"
                )
            }
            Reason::ShortOfCores { need, free, total } => {
                write!(f, "needs {need} cores, {free} free of {total}")
            }
            Reason::Exclusive => {
                f.write_str("has a tenant, and the request wants the whole device")
            }
            Reason::ComputeExhausted => f.write_str("has all its compute booked"),
            Reason::NoSlice { wanted } => write!(f, "has no free place for a slice of {wanted}"),
            Reason::ChoiceNotOwned => {
                f.write_str("fits, but the device plugin may pick another card, which does not")
            }
            Reason::ChoiceNotDistinct { wanted } => {
                write!(
                    f,
                    "is picked by the device plugin, which may give one card twice where {wanted} are wanted"
                )
            }
            Reason::TooFew { fitting, wanted } => {
                write!(f, "fits, but only {fitting} of {wanted} devices do")
            }
        }
    }
}

/// Why a node cannot take a request, before or beside its devices. In checking order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum NodeReason {
    /// There is no node of this name.
    NoSuchNode,
    /// The request names another node.
    NotNamed {
        /// The node it names.
        wanted: Name,
    },
    /// Closed to new work by its operator.
    Unschedulable,
    /// Nothing was heard from it for too long.
    Silent {
        /// When something was heard last.
        since: Millis,
    },
    /// A label is not as the request wants it.
    SelectorMismatch {
        /// The first requirement that does not hold.
        wanted: Name,
    },
    /// None of the request's affinity terms holds.
    AffinityMismatch,
    /// A taint is not tolerated.
    TaintNotTolerated {
        /// The taint.
        taint: Name,
    },
    /// What the node has is not known.
    CapacityUnknown {
        /// What is missing or contradicts.
        missing: Name,
    },
    /// Too little processor time is left.
    ShortOfCpu {
        /// What is needed.
        need: MilliCpu,
        /// What is free.
        free: MilliCpu,
    },
    /// Too little main memory is left.
    ShortOfNodeMemory {
        /// What is needed.
        need: Bytes,
        /// What is free.
        free: Bytes,
    },
    /// No further pod may run there.
    PodsExhausted {
        /// Pods the node admits.
        pods: u32,
    },
    /// The search was cut off: this is not a refusal by any rule.
    NotFound {
        /// Steps that were tried.
        steps: u32,
    },
}

impl NodeReason {
    /// The stable name of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            NodeReason::NoSuchNode => "NodeNotFound",
            NodeReason::NotNamed { .. } => "NodeNameMismatch",
            NodeReason::Unschedulable => "NodeUnschedulable",
            NodeReason::Silent { .. } => "NodeSilent",
            NodeReason::SelectorMismatch { .. } => "NodeSelectorMismatch",
            NodeReason::AffinityMismatch => "NodeAffinityMismatch",
            NodeReason::TaintNotTolerated { .. } => "NodeTaintNotTolerated",
            NodeReason::CapacityUnknown { .. } => "NodeCapacityUnknown",
            NodeReason::ShortOfCpu { .. } => "NodeInsufficientCpu",
            NodeReason::ShortOfNodeMemory { .. } => "NodeInsufficientMemory",
            NodeReason::PodsExhausted { .. } => "NodePodsExhausted",
            NodeReason::NotFound { .. } => "NotFoundInSteps",
        }
    }

    /// What could make this reason untrue.
    pub fn clears_on(&self) -> Change {
        match self {
            NodeReason::ShortOfCpu { .. }
            | NodeReason::ShortOfNodeMemory { .. }
            | NodeReason::PodsExhausted { .. }
            | NodeReason::NotFound { .. } => Change::LoadFell,
            _ => Change::NodeChanged,
        }
    }
}

impl fmt::Display for NodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeReason::NoSuchNode => f.write_str("is not there"),
            NodeReason::NotNamed { wanted } => {
                write!(f, "is not {wanted}, which the request names")
            }
            NodeReason::Unschedulable => f.write_str("is marked unschedulable"),
            NodeReason::Silent { since } => write!(f, "has been silent since {since}"),
            NodeReason::SelectorMismatch { wanted } => write!(f, "does not match {wanted}"),
            NodeReason::AffinityMismatch => {
                f.write_str("matches none of the required affinity terms")
            }
            NodeReason::TaintNotTolerated { taint } => {
                write!(f, "has the taint {taint}, which is not tolerated")
            }
            NodeReason::CapacityUnknown { missing } => write!(f, "has unknown devices: {missing}"),
            NodeReason::ShortOfCpu { need, free } => write!(f, "needs {need} CPU, {free} free"),
            NodeReason::ShortOfNodeMemory { need, free } => {
                write!(f, "needs {need} of main memory, {free} free")
            }
            NodeReason::PodsExhausted { pods } => write!(f, "runs all the {pods} pods it admits"),
            NodeReason::NotFound { steps } => {
                write!(f, "was not decided: no place found in {steps} steps")
            }
        }
    }
}

/// Why a request as a whole is refused, whatever the fleet looks like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum RequestReason {
    /// It contradicts itself or cannot be read.
    Malformed(Misuse),
    /// There is no node at all.
    NoNodes,
    /// It is part of a gang that cannot be placed whole.
    GangIncomplete {
        /// The gang's name.
        gang: Name,
        /// Members that must be placed together.
        minimum: u32,
        /// Members for which a place was found.
        placed: u32,
        /// Members there are.
        members: u32,
    },
    /// It is part of a gang whose search ended before all placements were tried.
    GangNotFound { gang: Name, minimum: u32, placed: u32, steps: u32 },
}

impl fmt::Display for RequestReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestReason::Malformed(misuse) => f.write_str(&misuse.problem),
            RequestReason::NoNodes => f.write_str("there are no nodes"),
            RequestReason::GangIncomplete { gang, minimum, placed, members }
                if members < minimum =>
            {
                write!(
                    f,
                    "gang {gang} needs {minimum} members, and there are {members} ({placed} have a place)"
                )
            }
            RequestReason::GangIncomplete { gang, minimum, placed, .. } => {
                write!(
                    f,
                    "gang {gang} needs {minimum} members placed together, and {placed} can be"
                )
            }
            RequestReason::GangNotFound { gang, minimum, placed, steps } => {
                write!(
                    f,
                    "gang {gang} needs {minimum} members placed together, and {placed} can be as far as {steps} steps of search found"
                )
            }
        }
    }
}

/// What can make a refusal untrue; a waiting request sleeps until its change comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Somebody left, or holds less.
    LoadFell,
    /// A device works again.
    DeviceRepaired,
    /// A device was uncordoned or reopened.
    DeviceOpened,
    /// A measurement arrived.
    TelemetryArrived,
    /// A node came, or its facts changed.
    NodeChanged,
    /// Only the asker can change this.
    RequestChanged,
}
