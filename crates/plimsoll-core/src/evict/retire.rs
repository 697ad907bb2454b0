//! Retirement: makes room by waiting for holders that may not be evicted yet.
//!
//! Eviction takes holders that are idle. A stream of small requests keeps some holder active on
//! every device all the time, so that a request for a whole device would wait for ever. The first
//! pending request therefore gets a promise of memory whose holders are still in use. Each of them
//! is retired: from the time of [`retires_at`] on, its front end gives it no new work. As soon as
//! all of them are idle they are evicted. None is interrupted.
//!
//! The wait is bounded: after [`retires_at`] of all victims, by the longest work that they had in
//! flight then, and the time to stop them. Later requests cannot prolong it. They cannot take the
//! memory, because it is promised, and cannot add work to the victims.
//!
//! Only one request at a time has such a promise. Retiring holders for every pending request was
//! rejected: under load nearly all holders would be retired at once, and each model would be
//! loaded again for every few requests.

use super::{Cost, Plan, Planned, Rules, check_requester, search};
use crate::charge::{Holding, Stage};
use crate::ledger::{Ledger, NodeId, Promise};
use crate::policy::Policy;
use crate::request::{Request, RequestId};
use crate::units::{Millis, Timespan};

/// Plans room from holders that can be evicted or retired for a request. Ignores the promises to
/// `others`. `accepts` judges a whole set of holders.
pub fn plan_retirement(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    others: &[RequestId],
    accepts: impl Fn(&Plan) -> bool,
) -> Option<Plan> {
    let nodes: Vec<NodeId> = ledger.nodes().map(|(id, _)| id).collect();
    let can_go = |holding: &Holding| can_retire(holding, request);
    let rules = Rules { is_evictable: &can_go, accepts: &accepts, cost_with: &Cost::with };
    match search(ledger, policy, request, &nodes, others, &rules) {
        Planned::Found(plan) if !plan.victims.is_empty() => {
            Some(Plan { retired: plan.victims, victims: Vec::new(), ..plan })
        }
        _ => None,
    }
}

/// Returns true if a holder can be retired for a request: its work ends, it has no higher priority,
/// and nothing says that it must stay. Holders without an idle limit, such as pods, end only by
/// themselves.
fn can_retire(holding: &Holding, request: &Request) -> bool {
    let can_end = match holding.stage {
        Stage::Queued | Stage::Sent | Stage::Running { .. } => holding.terms.idle_limit.is_some(),
        Stage::Offered { .. } | Stage::Releasing { .. } => false,
    };
    can_end
        && check_requester(holding, request).is_ok()
        && !holding.terms.pinned
        && holding.terms.priority <= request.terms.priority
}

/// Returns the time from which on a retired holder takes no new work; `None` before its start.
///
/// Until then it is protected as from eviction: for the residency after its start, and for its idle
/// limit since the request is pending. Without this protection two models that do not fit together
/// would replace each other at every request.
pub fn retires_at(holding: &Holding, promise: &Promise, residency: Timespan) -> Option<Millis> {
    let Stage::Running { since } = holding.stage else { return None };
    let idle_limit = holding.terms.idle_limit.unwrap_or(Timespan::ZERO);
    Some(since.after(residency).max(promise.since.after(idle_limit)))
}
