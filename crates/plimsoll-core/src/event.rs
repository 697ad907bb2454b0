//! What comes into the state machine and what goes out of it: events, operations, effects and answers, all plain data.

use serde::{Deserialize, Serialize};

use crate::breach::Breach;
use crate::charge::{Activity, Charge, Holding};
use crate::decide::Decision;
use crate::device::Node;
use crate::fit::Placement;
use crate::ledger;
use crate::policy::Policy;
use crate::queue::Waiting;
use crate::request::{Request, RequestId};
use crate::room::Measured;
use crate::units::{Bytes, Millis, Name};

/// How the machine behaves; plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Which place is the best.
    pub policy: Policy,
    /// How long an offer stands, in milliseconds.
    pub offer_for: u64,
    /// How old a measurement may be to place by, in milliseconds.
    pub telemetry_for: u64,
    /// How long a holder stays before it may be swapped out again, in milliseconds: the guard against thrashing.
    pub residency: u64,
    /// Whether two starts on one device, or a start beside a release, wait for each other.
    pub serial_starts: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::pack(),
            offer_for: 30_000,
            telemetry_for: 30_000,
            residency: 30_000,
            serial_starts: false,
        }
    }
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A node came, or its facts changed.
    Node {
        /// Its facts.
        node: Box<Node>,
    },
    /// A node went.
    NodeGone {
        /// Its name.
        name: Name,
    },
    /// Somebody asks for an offer, and will take it or let it expire. Nobody waits.
    Ask {
        /// What is asked.
        request: Request,
    },
    /// Somebody takes an offer; on the node that was offered, or on another where it fits too.
    Take {
        /// Who.
        request: RequestId,
        /// The node, where another one chose it.
        node: Option<Name>,
    },
    /// Somebody asks for a place, and waits for it where there is none.
    Submit {
        /// What is asked.
        request: Request,
        /// When they give up.
        deadline: Option<Millis>,
    },
    /// A gang asks for places together.
    SubmitGang {
        /// Its name.
        name: Name,
        /// How many must be placed together.
        minimum: u32,
        /// The members.
        members: Vec<Request>,
    },
    /// Somebody does not want a place any more.
    Withdraw {
        /// Who.
        request: RequestId,
    },
    /// An effect that had left was seen to have happened.
    Started {
        /// Who.
        request: RequestId,
        /// The generation that the effect named.
        generation: u64,
        /// Whether it is doing anything already, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activity: Option<Activity>,
    },
    /// An effect that had left was seen not to have happened.
    Failed {
        /// Who.
        request: RequestId,
        /// The generation that the effect named.
        generation: u64,
    },
    /// Memory was seen to be back.
    Freed {
        /// Who held it.
        request: RequestId,
        /// The generation that it was started as, where that is known: what is late for another one changes nothing.
        #[serde(default)]
        generation: Option<u64>,
        /// On which device; all of it where none is named.
        ordinal: Option<u16>,
    },
    /// Something was seen running.
    Observed {
        /// What it holds.
        holding: Box<Holding>,
    },
    /// A device was measured.
    Measured {
        /// The node.
        node: Name,
        /// The device.
        ordinal: u16,
        /// What was measured.
        measured: Measured,
    },
    /// A holder was seen to use more than its charge.
    Grew {
        /// Who.
        request: RequestId,
        /// On which device.
        ordinal: u16,
        /// What it uses.
        bytes: Bytes,
    },
    /// A holder became active or idle.
    Acted {
        /// Who.
        request: RequestId,
        /// What it does.
        activity: Activity,
    },
    /// The operator wants the machine to behave differently from here on.
    Configured {
        /// How.
        settings: Box<Settings>,
    },
    /// Somebody waits now for what was speculative: it is real work from here on.
    Claimed {
        /// What.
        request: RequestId,
    },
    /// Every node is to be checked, whether it changed or not.
    Audit,
    /// Time passed.
    Tick,
}

/// What must be done outside. It leaves only after the operations are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Start this, there.
    Start {
        /// Who.
        request: RequestId,
        /// What evidence of it must name.
        generation: u64,
        /// Where.
        node: Name,
        /// On which devices, with how much.
        charges: Vec<Charge>,
    },
    /// Stop this.
    Stop {
        /// Who.
        request: RequestId,
        /// What evidence of it must name.
        generation: u64,
        /// Where it is.
        node: Name,
    },
}

/// What somebody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// A place is offered, until a time.
    Offered {
        /// To whom.
        request: RequestId,
        /// The place.
        place: Placement,
        /// Until when.
        until: Millis,
    },
    /// A place is taken.
    Placed {
        /// By whom.
        request: RequestId,
        /// The node.
        node: Name,
    },
    /// There is no place now.
    Waiting {
        /// For whom.
        request: RequestId,
        /// Why.
        reason: String,
        /// Whose going it was promised the memory of, where it was.
        promised: Vec<RequestId>,
    },
    /// There will be no place.
    Refused {
        /// For whom.
        request: RequestId,
        /// Why.
        reason: String,
    },
}

/// One change of the state, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A change of the ledger.
    Ledger(ledger::Operation),
    /// Somebody waits.
    Wait(Box<Waiting>),
    /// Somebody waits no more.
    Unwait(RequestId),
    /// Somebody's failed starts are forgotten.
    Forgive(RequestId),
    /// The machine behaves differently.
    Configure(Box<Settings>),
}

/// All that came of one event.
#[derive(Clone, Debug, Default)]
#[must_use = "operations must be made durable before effects leave"]
pub struct Outcome {
    /// What changed, in order.
    pub operations: Vec<Operation>,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
    /// What must be done outside.
    pub effects: Vec<Effect>,
    /// Who is told what.
    pub answers: Vec<Answer>,
    /// What is wrong on the nodes that changed.
    pub breaches: Vec<Breach>,
}

impl Outcome {
    /// Whether nothing came of it.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
            && self.decisions.is_empty()
            && self.effects.is_empty()
            && self.answers.is_empty()
            && self.breaches.is_empty()
    }
}
