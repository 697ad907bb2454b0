//! Holdings, their charges on devices, and the stages of their life.
//!
//! ```text
//!          offer            take           effect sent         seen running          asked to stop           evidence
//! (none) ────────▶ Offered ──────▶ Queued ─────────────▶ Sent ─────────────▶ Running ─────────────▶ Releasing ────────▶ (none)
//!                     │ expires      │ withdrawn           │ evidence that it did not happen           ▲
//!                     └──▶ (none)    └──▶ (none)           └──▶ (none)       observe: straight to Running, never rejected
//! ```
//!
//! A placement that nobody has to accept starts in `Queued` or `Sent`. `Queued` is skipped where
//! the devices are quiet, or where starts need not wait for each other (`Settings::serial_starts`).

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::Span;
use crate::request::{NodeNeed, Request, RequestId, Role, Spec, Terms};
use crate::units::{Bytes, Cores, Millis, Name};

/// A holding inside one ledger. Never printed, never ordered by in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HoldingId(pub u64);

/// Everything that one request holds on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Who holds it.
    pub request: RequestId,
    /// Where.
    pub node: Name,
    /// Where it is in its life.
    pub stage: Stage,
    /// What it holds of devices: one charge a device, or one for several where the card is not known.
    pub charges: Vec<Charge>,
    /// What it holds of the node besides.
    pub resources: NodeNeed,
    /// On which terms.
    pub terms: Terms,
    /// Whether it is doing anything.
    pub activity: Activity,
    /// What was asked, where a decision of ours placed it; `None` for what was only observed.
    pub spec: Option<Arc<Spec>>,
}

impl Holding {
    /// What a request holds once it is placed.
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

    /// The same with every amount cut to what a sum of many can hold, and every list of cards in order.
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

    /// The bytes it holds over all devices, each charge once; `None` when some of it is undeclared.
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

/// Whether a holder is doing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Nobody says; it is treated as active.
    Unknown,
    /// It serves so many requests now. However long they take, it is not idle.
    Active {
        /// How many.
        requests: u32,
    },
    /// It serves none.
    Idle {
        /// Since when.
        since: Millis,
    },
}

/// What is held of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The ordinals it may be on: one where the card is known, several where it is one of those and nobody says which.
    pub on: Vec<u16>,
    /// How much memory.
    pub amount: Booked,
    /// How much compute, in the device's unit.
    pub cores: Cores,
    /// How many slots.
    pub slots: u32,
    /// The hardware slice it sits in, on a partitioned device.
    pub slice: Option<Slice>,
    /// Which container accounts for what.
    pub parts: Vec<Part>,
}

impl Charge {
    /// Whether it is on one of several cards and nobody knows which.
    pub fn floats(&self) -> bool {
        self.on.len() > 1
    }

    /// The bytes booked; `None` when undeclared or when the device's size is not known.
    pub fn bytes(&self) -> Option<Bytes> {
        match self.amount {
            Booked::Share(bytes) => Some(Bytes::new(bytes.get())),
            Booked::Whole { bytes } => bytes,
            Booked::Undeclared => None,
        }
    }
}

/// How much memory a charge books. Nothing at all cannot be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Booked {
    /// So many bytes.
    Share(NonZeroU64),
    /// All that is usable, and nobody beside; so many bytes where the device's size is known.
    Whole {
        /// How much that is.
        bytes: Option<Bytes>,
    },
    /// Nobody said how much. Observed only: it closes the device to new work.
    Undeclared,
}

impl Booked {
    /// So many bytes; nothing at all is undeclared.
    pub fn share(bytes: Bytes) -> Self {
        NonZeroU64::new(bytes.get()).map_or(Booked::Undeclared, Booked::Share)
    }
}

/// The hardware slice of a partitioned device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// Its profile.
    pub profile: Name,
    /// Where it sits.
    pub span: Span,
}

/// One container's part of a charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The container.
    pub container: Name,
    /// When it runs.
    pub role: Role,
    /// Its own memory; `None` when undeclared.
    pub bytes: Option<Bytes>,
    /// Its own compute.
    pub cores: Cores,
}
