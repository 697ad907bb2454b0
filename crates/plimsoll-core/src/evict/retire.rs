//! Retirement: makes room by waiting for holders that may not be evicted yet.
//!
//! Eviction takes holders that are idle for long enough. A stream of small requests keeps some
//! holder active on every device all the time, so that a request for a whole device would wait for
//! ever. The first pending request therefore gets a promise of memory whose holders are still in
//! use. Each of them is *retired* from the moment of the promise: its front end gives it no new
//! work. As soon as all of them are idle they are evicted. None is interrupted.
//!
//! The bound: the request starts after at most the longest work that its victims had in flight when
//! the promise was made, and the time to stop them. Later requests cannot prolong it: they cannot
//! take the memory, because it is promised, and cannot add work to the victims. Idle limits and the
//! residency of a holder do not either: they protect it from requests that are not first in turn.
//!
//! Without another rule two models that do not fit together would replace each other at every
//! request. A model that lost a holder to another request displaces holders of its own priority
//! only after the residency (`Displaceable`), so that each model causes at most one exchange in
//! each residency. Protecting the holder instead of delaying the model was rejected: a steady
//! stream always has a holder that has just started, and any request would wait for it.
//!
//! Only one request, or one gang, has such a promise at a time. Retiring holders for every pending
//! request was rejected: under load nearly all holders would be retired at once, and each model
//! would be loaded again for every few requests.

use serde::{Deserialize, Serialize};

use super::{Cost, Plan, Planned, Rules, VictimOrder, displaces_nothing, search};
use crate::charge::{Holding, Stage};
use crate::ledger::{Ledger, NodeId};
use crate::policy::Policy;
use crate::request::{Request, RequestId};

/// The holders that may be retired for a request, by their priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displaceable {
    /// Up to its own priority.
    UpToEqual,
    /// Only of lower priority: its model was evicted less than a residency ago.
    OnlyLower,
}

/// The reason why the wait for a holder has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endless {
    /// The pending request never displaces work.
    RequesterDisplacesNothing,
    Pinned,
    /// Its priority is higher than that of the pending request.
    HigherPriority {
        priority: i32,
    },
    /// It serves the model that the pending request asks for.
    SameModel,
    /// It ends only by itself, such as a pod.
    EndsByItself,
    /// Only an offer: it becomes work, or expires.
    Offered,
}

impl Endless {
    /// Returns the stable code.
    pub fn code(self) -> &'static str {
        match self {
            Endless::RequesterDisplacesNothing => "requester_displaces_nothing",
            Endless::Pinned => "pinned",
            Endless::HigherPriority { .. } => "higher_priority",
            Endless::SameModel => "same_model",
            Endless::EndsByItself => "ends_by_itself",
            Endless::Offered => "offered",
        }
    }
}

/// Checks that a holder can be retired for a request, now or when its model has waited for the
/// residency. Holders that are being released leave anyway.
pub fn check_retirable(holding: &Holding, request: &Request) -> Result<(), Endless> {
    let terms = &request.terms;
    if displaces_nothing(request) {
        return Err(Endless::RequesterDisplacesNothing);
    }
    match holding.stage {
        Stage::Releasing { .. } => return Ok(()),
        Stage::Offered { .. } => return Err(Endless::Offered),
        Stage::Queued | Stage::Sent | Stage::Running { .. } => {}
    }
    if holding.terms.pinned {
        return Err(Endless::Pinned);
    }
    if terms.model.is_some() && holding.terms.model == terms.model {
        return Err(Endless::SameModel);
    }
    if holding.terms.priority > terms.priority {
        return Err(Endless::HigherPriority { priority: holding.terms.priority });
    }
    if holding.terms.idle_limit.is_none() {
        return Err(Endless::EndsByItself);
    }
    Ok(())
}

/// Returns true if a holder can be retired for a request now.
pub(crate) fn can_retire(holding: &Holding, request: &Request, displaceable: Displaceable) -> bool {
    let is_lower = holding.terms.priority < request.terms.priority;
    !holding.stage.is_releasing()
        && check_retirable(holding, request).is_ok()
        && (is_lower || displaceable == Displaceable::UpToEqual)
}

/// Plans room from holders that `can_retire` allows, with as few of them in use as possible,
/// because each of those must end its work first. Ignores the promises to `others`. `accepts`
/// judges a whole set of holders.
pub fn plan_retirement(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    can_retire: impl Fn(&Holding) -> bool,
    others: &[RequestId],
    accepts: impl Fn(&Plan) -> bool,
) -> Option<Plan> {
    if displaces_nothing(request) {
        return None;
    }
    let nodes: Vec<NodeId> = ledger.nodes().map(|(id, _)| id).collect();
    let cost_with =
        |so_far: &Cost, holding: &Holding| VictimOrder::IdleFirst.cost_with(so_far, holding);
    let rules = Rules { is_evictable: &can_retire, accepts: &accepts, cost_with: &cost_with };
    match search(ledger, policy, request, &nodes, others, &rules) {
        Planned::Found(plan) if !plan.victims.is_empty() => Some(plan.retiring()),
        _ => None,
    }
}

impl Plan {
    /// Turns the victims into holders to retire.
    pub(super) fn retiring(self) -> Plan {
        Plan { retired: self.victims, victims: Vec::new(), ..self }
    }
}
