//! The input and output of the state machine: events, operations, effects and answers, all plain
//! data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::account::Shares;
use crate::breach::Breach;
use crate::charge::{Activity, Charge, Holding};
use crate::decide::Decision;
use crate::device::Node;
use crate::fit::Placement;
use crate::ledger::{self, LedgerError};
use crate::policy::Policy;
use crate::queue::{PendingReason, PendingRequest};
use crate::rejection::Rejection;
use crate::request::{Request, RequestId};
use crate::room::Measured;
use crate::units::{Bytes, Millis, Name, Timespan};

/// The settings of the state machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub policy: Policy,
    /// The time after which an offer expires.
    pub offer_for: Timespan,
    /// The age from which a measurement is stale; `None` if none ever is.
    pub telemetry_for: Option<Timespan>,
    /// The time that a holder is protected from eviction after its start. Prevents thrashing.
    pub residency: Timespan,
    /// Starts on one device wait for each other, and for releases there.
    pub serial_starts: bool,
    /// The shares of accounts.
    #[serde(default, skip_serializing_if = "Shares::is_empty")]
    pub accounts: Shares,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::pack(),
            offer_for: Timespan::seconds(30),
            telemetry_for: Some(Timespan::seconds(30)),
            residency: Timespan::seconds(30),
            serial_starts: false,
            accounts: Shares::default(),
        }
    }
}

/// An event: everything that the state machine reacts to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A node was added, or its facts changed.
    Node { node: Box<Node> },
    /// A node was removed.
    NodeGone { name: Name },
    /// Requests an offer, to take or to let expire. If there is none, nothing becomes pending.
    Ask { request: Request },
    /// Accepts an offer, on its node or on another one where the request fits too.
    Take {
        request: RequestId,
        /// The node, if the caller chose another one.
        node: Option<Name>,
    },
    /// Requests a placement. If there is none now, the request becomes pending.
    Submit { request: Request, deadline: Option<Millis> },
    /// Requests placements for all members of a gang, or at least for the minimum together.
    SubmitGang { name: Name, minimum: u32, members: Vec<Request> },
    /// The request is no longer wanted.
    Withdraw { request: RequestId },
    /// Evidence that a start happened.
    Started {
        request: RequestId,
        /// The generation that the effect named.
        generation: u64,
        /// The activity, if it is known already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activity: Option<Activity>,
    },
    /// Evidence that a start did not happen.
    Failed {
        request: RequestId,
        /// The generation that the effect named.
        generation: u64,
    },
    /// Evidence that memory is free again.
    Freed {
        request: RequestId,
        /// The generation that released it, if known: evidence about another one changes nothing.
        #[serde(default)]
        generation: Option<u64>,
        /// The device; all devices if `None`.
        ordinal: Option<u16>,
    },
    /// Work was seen running.
    Observed { holding: Box<Holding> },
    /// A device was measured.
    Measured { node: Name, ordinal: u16, measured: Measured },
    /// A holder uses more than its charge.
    Grew { request: RequestId, ordinal: u16, bytes: Bytes },
    /// A holder became active or idle.
    Acted { request: RequestId, activity: Activity },
    /// The settings change.
    Configured { settings: Box<Settings> },
    /// Decides a request that another scheduler places. Charges nothing, and nothing becomes
    /// pending.
    Judge { request: Request },
    /// Decides a request on the node that another scheduler chose, by its devices alone, and
    /// charges it as sent in the same step. Repeating it changes nothing. Nothing becomes pending.
    Admit { request: Request, node: Name },
    /// Demand arrived for speculative work: it counts as real work from now on.
    Claimed { request: RequestId },
    /// Checks every node for breaches, whether it changed or not.
    Audit,
    /// Time passed.
    Tick,
}

impl Event {
    /// Returns the name in the journal and in APIs.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Node { .. } => "node",
            Event::NodeGone { .. } => "node_gone",
            Event::Ask { .. } => "ask",
            Event::Take { .. } => "take",
            Event::Submit { .. } => "submit",
            Event::SubmitGang { .. } => "submit_gang",
            Event::Withdraw { .. } => "withdraw",
            Event::Started { .. } => "started",
            Event::Failed { .. } => "failed",
            Event::Freed { .. } => "freed",
            Event::Observed { .. } => "observed",
            Event::Measured { .. } => "measured",
            Event::Grew { .. } => "grew",
            Event::Acted { .. } => "acted",
            Event::Configured { .. } => "configured",
            Event::Judge { .. } => "judge",
            Event::Admit { .. } => "admit",
            Event::Claimed { .. } => "claimed",
            Event::Audit => "audit",
            Event::Tick => "tick",
        }
    }
}

/// An action outside of the scheduler. It leaves only after the operations are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    Start {
        request: RequestId,
        /// Evidence of the start must name it.
        generation: u64,
        node: Name,
        charges: Vec<Charge>,
    },
    Stop {
        request: RequestId,
        /// Evidence of the release must name it.
        generation: u64,
        node: Name,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Offered {
        request: RequestId,
        placement: Placement,
        until: Millis,
    },
    Placed {
        request: RequestId,
        node: Name,
    },
    /// It is in the queue.
    Pending {
        request: RequestId,
        reason: PendingReason,
        /// The holders whose memory it is promised.
        promised: Vec<RequestId>,
    },
    /// No empty fleet could hold it. It is not in the queue.
    Impossible {
        request: RequestId,
        rejection: Arc<Rejection>,
    },
    /// The call failed; another one may succeed later. It is not in the queue.
    Rejected {
        request: RequestId,
        reason: RejectedCall,
    },
}

impl Answer {
    /// Returns the request that is answered.
    pub fn request(&self) -> &RequestId {
        match self {
            Answer::Offered { request, .. }
            | Answer::Placed { request, .. }
            | Answer::Pending { request, .. }
            | Answer::Impossible { request, .. }
            | Answer::Rejected { request, .. } => request,
        }
    }

    /// Returns the rejection behind a request that is not placed.
    pub fn rejection(&self) -> Option<&Arc<Rejection>> {
        match self {
            Answer::Pending { reason, .. }
            | Answer::Rejected {
                reason: RejectedCall::DeadlineExceeded { pending: reason }, ..
            } => reason.rejection(),
            Answer::Impossible { rejection, .. }
            | Answer::Rejected { reason: RejectedCall::NoPlacement(rejection), .. } => {
                Some(rejection)
            }
            Answer::Offered { .. } | Answer::Placed { .. } | Answer::Rejected { .. } => None,
        }
    }
}

/// The reason why a call was rejected that does not make the request pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectedCall {
    /// An offer was asked for, or an offer was to be moved, and there is no placement now.
    NoPlacement(Arc<Rejection>),
    /// An offer was to be taken, but there is none, or it has expired.
    NoOffer,
    /// It was to be taken on another node than the one it runs on.
    AlreadyOn {
        node: Name,
    },
    NoSuchNode {
        node: Name,
    },
    NotAdmitted(Arc<LedgerError>),
    /// It was pending until its deadline.
    DeadlineExceeded {
        pending: PendingReason,
    },
}

/// One change of the state, as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Ledger(ledger::Operation),
    /// Adds a pending request, or replaces its entry.
    Enqueue(Box<PendingRequest>),
    Dequeue(RequestId),
    /// Resets the failed starts of a request.
    ClearFailures(RequestId),
    /// A holder of a model was evicted for another request.
    Evicted {
        model: Name,
        at: Millis,
    },
    Configure(Box<Settings>),
}

/// Everything that came of one event.
#[derive(Clone, Debug, Default)]
#[must_use = "operations must be made durable before effects leave"]
pub struct Outcome {
    /// In order.
    pub operations: Vec<Operation>,
    /// In order.
    pub decisions: Vec<Decision>,
    pub effects: Vec<Effect>,
    pub answers: Vec<Answer>,
    /// Breaches on the nodes that changed.
    pub breaches: Vec<Breach>,
}

impl Outcome {
    /// Returns true if nothing changed and nothing was decided.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
            && self.decisions.is_empty()
            && self.effects.is_empty()
            && self.answers.is_empty()
            && self.breaches.is_empty()
    }
}
