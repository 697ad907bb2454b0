//! The wording of answers and of pending requests.

use std::fmt::{self, Display};

use super::{Clause, Topic, list};
use crate::event::{Answer, RejectedCall};
use crate::queue::PendingReason;
use crate::request::RequestId;
use crate::units::Millis;

/// Renders why a request is not placed: `cannot place default/web: needs …`.
pub fn cannot_place(request: &RequestId, reason: &impl Display) -> String {
    format!("cannot place {request}: {reason}")
}

/// Renders why an answer does not place its request; `None` if it does.
pub fn answer_reason(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Offered { .. } | Answer::Placed { .. } => None,
        Answer::Pending { reason, .. } => Some(reason.to_string()),
        Answer::Impossible { rejection, .. } => Some(rejection.to_string()),
        Answer::Rejected { reason, .. } => Some(reason.to_string()),
    }
}

impl Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendingReason::NotTried => f.write_str("not tried yet"),
            PendingReason::Rejected(rejection) => rejection.fmt(f),
            PendingReason::BehindRealWork => {
                f.write_str("speculative, and other requests are pending")
            }
            PendingReason::EarlierHoldingReleasing => {
                f.write_str("its earlier holding is still being released")
            }
            PendingReason::StartFailed { node, retry_at } => {
                write!(f, "its start on {node} failed; retried from {retry_at}")
            }
            PendingReason::NotAdmitted(error) => error.fmt(f),
        }
    }
}

impl PendingReason {
    /// Renders the reason in a few words for a list. The count of failed starts and the next try
    /// are data of the pending request.
    pub fn brief(&self) -> String {
        match self {
            PendingReason::Rejected(rejection) => rejection.brief(),
            PendingReason::StartFailed { node, .. } => format!("its start on {node} failed"),
            other => other.to_string(),
        }
    }

    /// Returns the lines about the reason.
    pub fn clauses(&self, now: Millis) -> Vec<Clause> {
        match self {
            PendingReason::Rejected(rejection) => rejection.clauses(Some(now)),
            other => vec![Clause { topic: Topic::Reason, text: other.brief() }],
        }
    }
}

impl Display for RejectedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RejectedCall::NoPlacement(rejection) => rejection.fmt(f),
            RejectedCall::NoOffer => f.write_str("it has no offer, or its offer has expired"),
            RejectedCall::AlreadyOn { node } => write!(f, "it is already on {node}"),
            RejectedCall::NoSuchNode { node } => write!(f, "there is no node {node}"),
            RejectedCall::NotAdmitted(error) => error.fmt(f),
            RejectedCall::DeadlineExceeded { pending } => {
                write!(f, "deadline exceeded while pending: {pending}")
            }
        }
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Offered { request, placement, until } => {
                write!(f, "{request} is offered {} until {until}", placement.node)
            }
            Answer::Placed { request, node } => write!(f, "{request} is placed on {node}"),
            Answer::Pending { request, reason, promised } => {
                write!(f, "{request} is pending: {reason}")?;
                if promised.is_empty() {
                    return Ok(());
                }
                let after: Vec<String> = promised.iter().map(ToString::to_string).collect();
                write!(f, "; promised the memory of {}", list(&after, 0))
            }
            Answer::Impossible { request, rejection } => {
                write!(f, "{request} is impossible: {rejection}")
            }
            Answer::Rejected { request, reason } => write!(f, "{request} is rejected: {reason}"),
        }
    }
}
