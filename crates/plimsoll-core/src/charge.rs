//! Holdings, their charges on devices, and the stages of their life.
//!
//! ```text
//!         offer           take          effect sent        seen running
//! (none) ───────▶ Offered ─────▶ Queued ────────────▶ Sent ─────────────▶ Running
//!                    │ expires     │ withdrawn          │ evidence that it     │ asked to stop
//!                    ▼             ▼                    ▼ did not happen       ▼
//!                  (none)        (none)               (none)               Releasing
//!                                                                              │ evidence
//!                                                                              ▼
//!                                                                            (none)
//! ```
//!
//! Work that is observed rather than placed starts in `Running` and is never rejected. A placement
//! that needs no acceptance starts in `Queued` or `Sent`. `Queued` is skipped where nothing starts
//! or stops on the devices, or where starts need not wait for each other
//! (`Settings::serial_starts`).

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::Span;
use crate::request::{NodeNeed, Request, RequestId, Role, Spec, Terms};
use crate::units::{Bytes, Cores, Millis, Name};

/// The key of a holding inside one ledger. Never printed, and no answer depends on its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HoldingId(pub u64);

/// Everything that one request holds on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub request: RequestId,
    pub node: Name,
    pub stage: Stage,
    /// One charge per device, or one for several devices if the card is unknown.
    pub charges: Vec<Charge>,
    /// CPU, main memory and pods of the node.
    pub resources: NodeNeed,
    pub terms: Terms,
    pub activity: Activity,
    /// The spec of a holding that a decision placed; `None` if it was only observed.
    pub spec: Option<Arc<Spec>>,
}

impl Holding {
    /// Creates the holding of a placed request.
    pub(crate) fn placed(
        request: &Request,
        node: &Name,
        stage: Stage,
        charges: Vec<Charge>,
    ) -> Self {
        Holding {
            request: request.id.clone(),
            node: node.clone(),
            stage,
            charges,
            resources: request.spec.resources.clone(),
            terms: request.terms.clone(),
            activity: Activity::Unknown,
            spec: Some(request.spec.clone()),
        }
    }

    /// Returns a copy with every amount clamped, so that sums of many holdings do not overflow, and
    /// with sorted lists of cards.
    pub(crate) fn bounded(&self) -> Holding {
        let mut holding = self.clone();
        let need = &mut holding.resources;
        (need.cpu.0, need.pods) = (need.cpu.0.min(1 << 40), need.pods.min(1 << 16));
        need.memory = need.memory.min(Bytes::DEVICE_MAX);
        for charge in &mut holding.charges {
            if let Booked::Share(bytes) = charge.amount {
                charge.amount = Booked::share(Bytes::new(bytes.get()).min(Bytes::DEVICE_MAX));
            }
            (charge.cores.0, charge.slots) =
                (charge.cores.0.min(1 << 16), charge.slots.min(1 << 16));
            charge.on.sort_unstable();
            charge.on.dedup();
        }
        holding
    }

    /// Returns the bytes over all devices, each charge once; `None` if a charge is undeclared.
    pub fn bytes(&self) -> Option<Bytes> {
        self.charges.iter().try_fold(Bytes::ZERO, |sum, charge| Some(sum.plus(charge.bytes()?)))
    }
}

/// The stage of a holding in its life. Only an offer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Reserved for a caller that has not accepted it yet.
    Offered { until: Millis },
    /// Booked; its start waits until no other holding starts or stops on its devices.
    Queued,
    /// The effect has left. The charge counts until there is evidence that it did not happen.
    Sent,
    /// Seen running.
    Running { since: Millis },
    /// Asked to stop. The charge counts until there is evidence that the memory is free.
    Releasing { since: Millis },
}

impl Stage {
    /// Returns the name in APIs and text.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Offered { .. } => "offered",
            Stage::Queued => "queued",
            Stage::Sent => "sent",
            Stage::Running { .. } => "running",
            Stage::Releasing { .. } => "releasing",
        }
    }

    /// Returns true while the memory is being released.
    pub fn is_releasing(self) -> bool {
        matches!(self, Stage::Releasing { .. })
    }

    /// Returns true if no effect has left yet, so that the holding can be moved or dropped.
    pub fn is_before_start(self) -> bool {
        matches!(self, Stage::Offered { .. } | Stage::Queued)
    }
}

/// The activity of a holder, as its front end reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Not reported. Treated as active.
    Unknown,
    /// The holder serves this many requests now. It is not idle, however long they take.
    Active {
        requests: u32,
    },
    Idle {
        since: Millis,
    },
}

/// The part of one device that a holding occupies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The ordinals of the possible cards: one if the card is known, several if the device plugin
    /// picked one of them and does not report which.
    pub on: Vec<u16>,
    pub amount: Booked,
    /// Compute in the device's own unit.
    pub cores: Cores,
    pub slots: u32,
    /// Set on a partitioned device.
    pub slice: Option<Slice>,
    /// The parts of the single containers.
    pub parts: Vec<Part>,
}

impl Charge {
    /// Creates the charge of a container whose memory is undeclared.
    pub fn undeclared(on: Vec<u16>, container: Name, role: Role) -> Charge {
        Charge {
            on,
            amount: Booked::Undeclared,
            cores: Cores(0),
            slots: 0,
            slice: None,
            parts: vec![Part { container, role, bytes: None, cores: Cores(0) }],
        }
    }

    /// Returns true if the charge is on one of several cards and it is unknown which.
    pub fn floats(&self) -> bool {
        self.on.len() > 1
    }

    /// Returns the booked bytes; `None` if undeclared, or if the device's size is unknown.
    pub fn bytes(&self) -> Option<Bytes> {
        match self.amount {
            Booked::Share(bytes) => Some(Bytes::new(bytes.get())),
            Booked::Whole { bytes } => bytes,
            Booked::Undeclared => None,
        }
    }
}

/// The memory that a charge books. Zero bytes cannot be expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Booked {
    /// A number of bytes.
    Share(NonZeroU64),
    /// All usable memory, without other tenants; `None` if the device's size is unknown.
    Whole { bytes: Option<Bytes> },
    /// An unknown amount. Only observed work has it, and it closes the device to new work.
    Undeclared,
}

impl Booked {
    /// Converts bytes. Zero becomes [`Booked::Undeclared`].
    pub fn share(bytes: Bytes) -> Self {
        NonZeroU64::new(bytes.get()).map_or(Booked::Undeclared, Booked::Share)
    }
}

/// The hardware slice of a partitioned device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slice {
    pub profile: Name,
    pub span: Span,
}

/// One container's part of a charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub container: Name,
    pub role: Role,
    /// `None` if undeclared.
    pub bytes: Option<Bytes>,
    pub cores: Cores,
}
