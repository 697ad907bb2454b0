//! Eviction plans: the cheapest set of holders whose release makes room for a request. The whole
//! set is planned before the first holder is asked to stop.

use std::collections::BinaryHeap;

use crate::candidate::Judge;
use crate::charge::{Activity, Charge, Holding, HoldingId, Stage};
use crate::draft::{Draft, View};
use crate::fit::{self, Placement};
use crate::ledger::{Ledger, NodeId, Promise};
use crate::policy::Policy;
use crate::reason::NotEvictable;
use crate::request::{Eviction, NodeNeed, Request, RequestId};
use crate::room::NodeView;
use crate::units::{Bytes, Millis, Timespan};

mod clearing;
mod cost;
mod retire;
mod together;

pub use clearing::{Clearing, EndlessHolders, clearing};
pub use cost::VictimOrder;
pub use retire::{Displaceable, Endless, check_retirable, plan_retirement};
pub use together::{gang_after_releases, gang_after_retirement};

use cost::{Cost, Rules};
pub(crate) use retire::can_retire;

/// A placement that fits once some holders are released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub placement: Placement,
    pub charges: Vec<Charge>,
    pub resources: NodeNeed,
    /// The holders to evict; empty if waiting for releases that are in progress is enough.
    pub victims: Vec<RequestId>,
    /// The holders to retire: they are evicted once they are idle (`retire`).
    pub retired: Vec<RequestId>,
    /// All holders whose release the plan waits for: releasing, to evict and to retire.
    pub after: Vec<RequestId>,
}

impl Plan {
    /// Returns the promise of the plan's memory, made at a time.
    pub fn promise(self, made: Millis) -> Promise {
        let Plan { placement, charges, resources, after, retired, .. } = self;
        Promise { placement, charges, resources, after, retired, made }
    }
}

/// The result of a search for a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The cheapest plan, or a plan without a superfluous victim if the search was cut off.
    Found(Plan),
    /// No set of evictable holders makes room.
    Impossible,
    /// The search was cut off after this many steps.
    NotFound { steps: u32 },
}

/// Returns the time since when a holder can be evicted, whatever request it would be evicted for.
pub fn evictable_since(
    holding: &Holding,
    now: Millis,
    residency: Timespan,
) -> Result<Millis, NotEvictable> {
    if holding.terms.pinned {
        return Err(NotEvictable::Pinned);
    }
    let started = match holding.stage {
        Stage::Offered { .. } | Stage::Queued | Stage::Sent => return Err(NotEvictable::Starting),
        Stage::Releasing { .. } => return Err(NotEvictable::Releasing),
        Stage::Running { since } => since,
    };
    let protected_until = started.after(residency);
    let idle_from = match holding.activity {
        Activity::Active { requests } => return Err(NotEvictable::Active { requests }),
        Activity::Unknown if holding.terms.speculative => started,
        Activity::Unknown => return Err(NotEvictable::ActivityUnknown),
        Activity::Idle { since } if holding.terms.speculative => since,
        Activity::Idle { since } => {
            since.after(holding.terms.idle_limit.ok_or(NotEvictable::NoIdleLimit)?)
        }
    };
    if idle_from > now {
        return Err(NotEvictable::NotIdleYet { until: idle_from });
    }
    if protected_until > now {
        return Err(NotEvictable::RecentlyStarted { until: protected_until });
    }
    Ok(idle_from.max(protected_until))
}

/// Checks that a holder can be evicted for this request.
pub fn check_evictable(
    holding: &Holding,
    request: &Request,
    now: Millis,
    residency: Timespan,
) -> Result<(), NotEvictable> {
    check_requester(holding, request)?;
    let lower = holding.terms.priority < request.terms.priority;
    match evictable_since(holding, now, residency) {
        Ok(_) => Ok(()),
        Err(
            NotEvictable::Active { .. }
            | NotEvictable::ActivityUnknown
            | NotEvictable::NoIdleLimit
            | NotEvictable::NotIdleYet { .. },
        ) if lower && request.terms.eviction == Eviction::LowerPriority => Ok(()),
        Err(reason) => Err(reason),
    }
}

/// Returns true if a request never has a holder evicted or retired, whatever the holder does.
pub(crate) fn displaces_nothing(request: &Request) -> bool {
    request.terms.speculative || request.terms.eviction == Eviction::Never
}

/// Checks that a request may have a holder evicted at all, now or later.
fn check_requester(holding: &Holding, request: &Request) -> Result<(), NotEvictable> {
    if displaces_nothing(request) {
        return Err(NotEvictable::RequesterMayNotEvict);
    }
    if request.terms.model.is_some() && holding.terms.model == request.terms.model {
        return Err(NotEvictable::SameModel);
    }
    Ok(())
}

/// Plans the cheapest eviction that makes room for a request that does not fit now.
pub fn plan(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    is_evictable: impl Fn(&Holding) -> bool,
) -> Planned {
    let nodes: Vec<NodeId> = ledger.nodes().map(|(id, _)| id).collect();
    let rules = Rules { is_evictable: &is_evictable, accepts: &|_| true, cost_with: &Cost::with };
    search(ledger, policy, request, &nodes, &[], &rules)
}

/// Plans the eviction with the fewest bytes on one of these nodes, whatever else it costs. For
/// advice: the result is shown, and no holder is evicted.
pub fn plan_by_bytes(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    nodes: &[NodeId],
    is_evictable: impl Fn(&Holding) -> bool,
) -> Planned {
    let by_bytes = |so_far: &Cost, holding: &Holding| Cost {
        priority: i32::MIN,
        active: 0,
        reload: Timespan::ZERO,
        ..so_far.with(holding)
    };
    let rules = Rules { is_evictable: &is_evictable, accepts: &|_| true, cost_with: &by_bytes };
    search(ledger, policy, request, nodes, &[], &rules)
}

/// Plans room for a request that does not fit now. The plan waits for releases in progress and
/// evicts where the request's terms allow it. `accepts` judges a whole set of victims.
pub fn plan_room(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    order: VictimOrder,
    is_evictable: impl Fn(&Holding) -> bool,
    accepts: impl Fn(&Plan) -> bool,
) -> Option<Plan> {
    let evicts = request.terms.eviction != Eviction::Never;
    if request.terms.speculative || (!evicts && !ledger.has_releasing()) {
        return None;
    }
    let nodes: Vec<NodeId> = ledger.nodes().map(|(id, _)| id).collect();
    let cost_with = |so_far: &Cost, holding: &Holding| order.cost_with(so_far, holding);
    let rules = Rules { is_evictable: &is_evictable, accepts: &accepts, cost_with: &cost_with };
    match search(ledger, policy, request, &nodes, &[], &rules) {
        Planned::Found(plan) if !plan.after.is_empty() => Some(plan),
        _ => None,
    }
}

/// Finds the cheapest set of victims by uniform-cost search.
///
/// The heap holds sets of victims by cost, starting with the empty set on each node where evicting
/// all evictable holders would help. The cheapest set is tried next; if it makes no room, it is
/// extended by each later holder of its node, so that every set is built once. Because adding a
/// holder never lowers the cost, the first set that makes room is the cheapest. Sets that differ
/// only in interchangeable holders are built once.
///
/// The number of sets is exponential in the number of holders, so that the search stops after
/// `Policy::search_steps / EVICTION_SHARE` steps and `spare_holders` makes a plan that may not be
/// the cheapest. The search ends in any case: sets only grow, and a node has finitely many holders.
/// Choosing victims greedily from the start was rejected: it evicts two small holders where one
/// larger holder is enough.
fn search(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    among: &[NodeId],
    without_promises_to: &[RequestId],
    rules: &Rules,
) -> Planned {
    let policy = policy.with_hints(&request.spec.hints);
    let mut base = Draft::new(ledger);
    without_promises_to.iter().for_each(|other| base.without_promise_to(other));
    let sites: Vec<Site> = among
        .iter()
        .filter_map(|id| Site::with_enough_holders(&base, *id, &policy, request, rules))
        .collect();
    let mut heap: BinaryHeap<std::cmp::Reverse<Attempt>> = BinaryHeap::new();
    for (at, _) in sites.iter().enumerate() {
        heap.push(std::cmp::Reverse(Attempt { cost: Cost::NONE, site: at, victims: Vec::new() }));
    }
    let mut steps = 0;
    while let Some(std::cmp::Reverse(attempt)) = heap.pop() {
        if steps == policy.search_steps / EVICTION_SHARE {
            return spare_holders(&sites, &policy, request, rules)
                .map_or(Planned::NotFound { steps }, Planned::Found);
        }
        steps += 1;
        let site = &sites[attempt.site];
        if let Some(plan) = site.plan_without(&policy, request, &attempt.victims)
            && (rules.accepts)(&plan)
        {
            return Planned::Found(plan);
        }
        let holders = &site.holders;
        let from = attempt.victims.last().map_or(0, |last| last + 1);
        for (next, (_, holder)) in holders.iter().enumerate().skip(from) {
            // Of interchangeable holders the first are evicted first, so that equal sets are tried
            // once.
            let is_repetition = |before: usize| {
                are_interchangeable(holders[before].1, holder) && !attempt.victims.contains(&before)
            };
            if next.checked_sub(1).is_some_and(is_repetition) {
                continue;
            }
            let cost = (rules.cost_with)(&attempt.cost, holder);
            let victims = attempt.victims.iter().copied().chain([next]).collect();
            heap.push(std::cmp::Reverse(Attempt { cost, site: attempt.site, victims }));
        }
    }
    Planned::Impossible
}

/// The divisor of `Policy::search_steps` for eviction. Each of its steps judges a whole node.
const EVICTION_SHARE: u32 = 10;

/// Plans an eviction in linear time: starts with all evictable holders of a node, and spares each
/// holder that the plan does not need, the most expensive first. The result is not always the
/// cheapest set, but no victim in it could stay. Returns the cheapest over the nodes.
fn spare_holders(
    sites: &[Site],
    policy: &Policy,
    request: &Request,
    rules: &Rules,
) -> Option<Plan> {
    let cost_with = rules.cost_with;
    let plans = sites.iter().filter_map(|site| {
        let holders = &site.holders;
        let victims = site.needed_victims(policy, request, cost_with);
        let cost = victims.iter().fold(Cost::NONE, |cost, at| cost_with(&cost, holders[*at].1));
        let plan = site.plan_without(policy, request, &victims);
        Some((cost, plan.filter(rules.accepts)?))
    });
    plans.min_by(|one, other| one.0.cmp(&other.0)).map(|(_, plan)| plan)
}

/// Returns true if evicting either holder has the same cost and frees the same.
fn are_interchangeable(one: &Holding, other: &Holding) -> bool {
    one.terms == other.terms
        && one.resources == other.resources
        && one.activity == other.activity
        && one.charges.len() == other.charges.len()
        && one.charges.iter().zip(&other.charges).all(|(one, other)| frees_same(one, other))
}

/// Compares two charges without the parts of their containers.
fn frees_same(one: &Charge, other: &Charge) -> bool {
    one.on == other.on
        && one.amount == other.amount
        && one.cores == other.cores
        && one.slots == other.slots
        && one.slice == other.slice
}

/// A set of victims on one site. The heap of `search` orders attempts by cost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    cost: Cost,
    /// The index of the site.
    site: usize,
    /// Ascending indexes into `Site::holders`.
    victims: Vec<usize>,
}

/// A node on which evictions could make room.
struct Site<'a> {
    id: NodeId,
    /// The node after all releases in progress, and without the promise to the request.
    base: Draft<'a>,
    /// The evictable holders.
    holders: Vec<(HoldingId, &'a Holding)>,
}

impl<'a> Site<'a> {
    /// Returns the site of a node; `None` if the request would not fit even without all evictable
    /// holders.
    fn with_enough_holders(
        base: &Draft<'a>,
        id: NodeId,
        policy: &Policy,
        request: &Request,
        rules: &Rules,
    ) -> Option<Site<'a>> {
        let ledger = base.ledger();
        let could_be_victim = |(_, holding): &(HoldingId, &Holding)| {
            !holding.stage.is_releasing()
                && holding.request != request.id
                && (rules.is_evictable)(holding)
        };
        let mut holders: Vec<(HoldingId, &Holding)> =
            ledger.holdings_on(id).filter(could_be_victim).collect();
        // Most searches visit many nodes without a victim, where this is all that they do.
        if holders.is_empty()
            && !(ledger.has_releasing()
                && ledger.holdings_on(id).any(|(_, holding)| holding.stage.is_releasing()))
        {
            return None;
        }
        holders.sort_by(|one, other| one.1.request.cmp(&other.1.request));
        let mut base = base.clone();
        base.without_releasing_on(id);
        base.without_promise_to(&request.id);
        let site = Site { id, base, holders };
        let all: Vec<usize> = (0..site.holders.len()).collect();
        site.plan_without(policy, request, &all).map(|_| site)
    }

    /// Returns the holders that remain after sparing each holder that can stay, the most expensive
    /// first.
    fn needed_victims(
        &self,
        policy: &Policy,
        request: &Request,
        cost_with: &dyn Fn(&Cost, &Holding) -> Cost,
    ) -> Vec<usize> {
        let mut by_cost: Vec<usize> = (0..self.holders.len()).collect();
        by_cost.sort_by_key(|at| std::cmp::Reverse(cost_with(&Cost::NONE, self.holders[*at].1)));
        let mut victims: Vec<usize> = (0..self.holders.len()).collect();
        for spared in by_cost {
            let fewer: Vec<usize> = victims.iter().copied().filter(|at| *at != spared).collect();
            if self.plan_without(policy, request, &fewer).is_some() {
                victims = fewer;
            }
        }
        victims
    }

    /// Plans the request on the node without these holders; `None` if it does not fit.
    fn plan_without(&self, policy: &Policy, request: &Request, victims: &[usize]) -> Option<Plan> {
        let mut draft = self.base.clone();
        let mut names: Vec<RequestId> = Vec::with_capacity(victims.len());
        for &victim in victims {
            let (id, holding) = &self.holders[victim];
            draft.without(*id);
            names.push(holding.request.clone());
        }
        names.sort();
        place_on(&draft, self.id, policy, request, names)
    }
}

fn place_on(
    draft: &Draft,
    id: NodeId,
    policy: &Policy,
    request: &Request,
    victims: Vec<RequestId>,
) -> Option<Plan> {
    let view = draft.node(id)?;
    let shapes = (0_u16..).zip(request.spec.shapes()).map(|(shape, _)| shape);
    let found =
        shapes.filter_map(|shape| Judge::new(policy, &request.spec, shape).judge(view).best);
    let allowance = draft.allowance(&request.id);
    let (placement, charges) = found.map(|found| found.placement).find_map(|placement| {
        let charges = fit::admit(view, &allowance, &request.spec, &placement).ok()?;
        Some((placement, charges))
    })?;
    let resources = request.spec.resources.clone();
    let (retired, after) = (Vec::new(), Vec::new());
    let mut plan = Plan { placement, charges, resources, victims, retired, after };
    let now = draft.ledger().node(id)?;
    plan.after = draft
        .ledger()
        .holdings_on(id)
        .filter(|(_, holding)| holding.stage.is_releasing() && plan.waits_for(holding, now))
        .map(|(_, holding)| holding.request.clone())
        .collect();
    plan.after.extend(plan.victims.iter().cloned());
    Some(plan)
}

impl Plan {
    /// Returns true if a holder that is being released is on a device of the plan, or holds a
    /// resource of which its node has too little left now.
    fn waits_for(&self, holding: &Holding, now: &NodeView) -> bool {
        touches(holding, &self.charges) || frees_missing(now, &self.resources, &holding.resources)
    }
}

fn touches(holding: &Holding, charges: &[Charge]) -> bool {
    let on = |charge: &Charge| {
        charge.on.iter().any(|o| charges.iter().any(|other| other.on.contains(o)))
    };
    holding.charges.iter().any(on)
}

/// Returns true if `held` includes a resource of which less is free on a node than `need`.
fn frees_missing(now: &NodeView, need: &NodeNeed, held: &NodeNeed) -> bool {
    let (node, room) = (&*now.node, &*now.room);
    let is_short = |free: Option<u64>, need: u64| free.is_some_and(|free| need > free);
    held.cpu.0 > 0 && is_short(room.free_cpu(node).map(|cpu| cpu.0), need.cpu.0)
        || !held.memory.is_zero()
            && is_short(room.free_memory(node).map(Bytes::get), need.memory.get())
        || held.pods > 0 && is_short(room.free_pods(node).map(u64::from), need.pods.into())
        || need.extended.iter().any(|(resource, need)| {
            held.extended.get(resource) > 0 && need > room.free_extended(node, resource)
        })
}
