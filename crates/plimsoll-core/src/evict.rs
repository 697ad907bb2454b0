//! Who would have to go so that a request fits: the cheapest set of holders, planned whole before anybody is asked to leave.

use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::candidate::Judge;
use crate::charge::{Activity, Charge, Holding, HoldingId, Stage};
use crate::draft::{Draft, View};
use crate::fit::{self, Placement};
use crate::ledger::{Ledger, NodeId, Promise};
use crate::policy::Policy;
use crate::reason::NotEvictable;
use crate::request::{Eviction, Request, RequestId};
use crate::units::{Bytes, Millis, Name, Timespan};

mod together;

pub use together::gang_after_releases;

/// A place that will be there once these have gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The place.
    pub placement: Placement,
    /// What will be charged.
    pub charges: Vec<Charge>,
    /// Who has to be asked to go; nobody where it is enough to wait for those who are going.
    pub victims: Vec<RequestId>,
    /// Whose going it waits for, the victims included.
    pub after: Vec<RequestId>,
}

impl From<Plan> for Promise {
    fn from(plan: Plan) -> Self {
        Promise { placement: plan.placement, charges: plan.charges, after: plan.after }
    }
}

/// Whether the search found a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The cheapest plan.
    Found(Plan),
    /// No set of holders that may go makes room.
    Impossible,
    /// The search was cut off.
    NotFound {
        /// Steps that were tried.
        steps: u32,
    },
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
    if request.terms.speculative || request.terms.eviction == Eviction::Never {
        return Err(NotEvictable::RequesterMayNotEvict);
    }
    if request.terms.model.is_some() && holding.terms.model == request.terms.model {
        return Err(NotEvictable::SameModel);
    }
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

/// What it costs to let a set of holders go, compared in this order. Adding a holder never makes a set cheaper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    priority: i32,
    active: u32,
    reload: Timespan,
    bytes: Bytes,
    count: usize,
    names: Vec<RequestId>,
}

impl Cost {
    const NONE: Cost = Cost {
        priority: i32::MIN,
        active: 0,
        reload: Timespan::ZERO,
        bytes: Bytes::ZERO,
        count: 0,
        names: Vec::new(),
    };

    fn with(&self, holding: &Holding) -> Cost {
        let priority = if holding.terms.speculative { i32::MIN } else { holding.terms.priority };
        let active = matches!(holding.activity, Activity::Active { .. } | Activity::Unknown);
        let mut names = self.names.clone();
        names.push(holding.request.clone());
        names.sort();
        Cost {
            priority: self.priority.max(priority),
            active: self.active + u32::from(active),
            reload: self.reload.plus(holding.terms.reload_cost),
            bytes: self.bytes.plus(holding.bytes().unwrap_or(Bytes::ZERO)),
            count: names.len(),
            names,
        }
    }
}

/// The cheapest set of holders whose going makes room for a request that does not fit now, among those that may go.
pub fn plan(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    may_go: impl Fn(&Holding) -> bool,
) -> Planned {
    let nodes: Vec<NodeId> = ledger.nodes().map(|(id, _)| id).collect();
    search(ledger, policy, request, &nodes, may_go, Cost::with)
}

/// The set with the fewest bytes on one of these nodes, whatever else it costs: for advice, where nobody is asked to go.
pub fn plan_by_bytes(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    nodes: &[NodeId],
    may_go: impl Fn(&Holding) -> bool,
) -> Planned {
    search(ledger, policy, request, nodes, may_go, |so_far, holding| Cost {
        priority: i32::MIN,
        active: 0,
        reload: Timespan::ZERO,
        ..so_far.with(holding)
    })
}

/// Plans room for a request that does not fit now: the scheduler carries the plan out, what-if shows it.
/// Holders that are being released are waited for; others are evicted where the request's terms allow it.
pub fn plan_room(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    now: Millis,
    residency: Timespan,
) -> Option<Plan> {
    let evicts = request.terms.eviction != Eviction::Never;
    if request.terms.speculative || (!evicts && !ledger.has_releasing()) {
        return None;
    }
    match plan(ledger, policy, request, |held| {
        check_evictable(held, request, now, residency).is_ok()
    }) {
        Planned::Found(plan) if !plan.after.is_empty() => Some(plan),
        _ => None,
    }
}

fn search(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    among: &[NodeId],
    may_go: impl Fn(&Holding) -> bool,
    cost_with: impl Fn(&Cost, &Holding) -> Cost,
) -> Planned {
    let policy = policy.leaning(&request.spec.leaning);
    let worth = |id: &NodeId| Site::worth_trying(ledger, *id, &policy, request, &may_go);
    let sites: Vec<Site> = among.iter().filter_map(worth).collect();
    let mut heap: BinaryHeap<std::cmp::Reverse<Attempt>> = BinaryHeap::new();
    for (at, _) in sites.iter().enumerate() {
        heap.push(std::cmp::Reverse(Attempt { cost: Cost::NONE, site: at, victims: Vec::new() }));
    }
    let mut steps = 0;
    while let Some(std::cmp::Reverse(attempt)) = heap.pop() {
        if steps == policy.search_steps / EVICTION_SHARE {
            return thinned(&sites, &policy, request, &cost_with)
                .map_or(Planned::NotFound { steps }, Planned::Found);
        }
        steps += 1;
        let site = &sites[attempt.site];
        if let Some(plan) = site.without(&policy, request, &attempt.victims) {
            return Planned::Found(plan);
        }
        let holders = &site.holders;
        let from = attempt.victims.last().map_or(0, |last| last + 1);
        for (next, (_, holder)) in holders.iter().enumerate().skip(from) {
            // Of holders that are alike the first ones go first, so that sets that are alike are tried once.
            let alike = |before: usize| {
                same_to_lose(holders[before].1, holder) && !attempt.victims.contains(&before)
            };
            if next.checked_sub(1).is_some_and(alike) {
                continue;
            }
            let cost = cost_with(&attempt.cost, holder);
            let victims = attempt.victims.iter().copied().chain([next]).collect();
            heap.push(std::cmp::Reverse(Attempt { cost, site: attempt.site, victims }));
        }
    }
    Planned::Impossible
}

/// The part of a search's steps that looking for victims may take: each of its steps judges a node.
const EVICTION_SHARE: u32 = 10;

/// What is left of the set of all who may go after everybody who need not go is taken out of it, the dearest first:
/// not always the cheapest set, but nobody in it could stay.
fn thinned(
    sites: &[Site],
    policy: &Policy,
    request: &Request,
    cost_with: &impl Fn(&Cost, &Holding) -> Cost,
) -> Option<Plan> {
    let thin = |site: &Site| {
        let holders = &site.holders;
        let mut dearest: Vec<usize> = (0..holders.len()).collect();
        dearest.sort_by_key(|at| std::cmp::Reverse(cost_with(&Cost::NONE, holders[*at].1)));
        let mut victims: Vec<usize> = (0..holders.len()).collect();
        for spared in dearest {
            let fewer: Vec<usize> = victims.iter().copied().filter(|at| *at != spared).collect();
            if site.without(policy, request, &fewer).is_some() {
                victims = fewer;
            }
        }
        let cost = victims.iter().fold(Cost::NONE, |cost, at| cost_with(&cost, holders[*at].1));
        Some((cost, site.without(policy, request, &victims)?))
    };
    sites.iter().filter_map(thin).min_by(|one, other| one.0.cmp(&other.0)).map(|(_, plan)| plan)
}

/// Whether letting one go is as good, and costs as much, as letting the other go.
fn same_to_lose(one: &Holding, other: &Holding) -> bool {
    let amounts = |holding: &Holding| -> Vec<_> {
        let amount = |charge: &Charge| {
            (charge.on.clone(), charge.amount, charge.cores, charge.slots, charge.slice.clone())
        };
        holding.charges.iter().map(amount).collect()
    };
    (one.terms == other.terms && one.resources == other.resources && one.activity == other.activity)
        && amounts(one) == amounts(other)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    cost: Cost,
    site: usize,
    victims: Vec<usize>,
}

/// A node on which room could be made.
struct Site<'a> {
    id: NodeId,
    /// The node once everybody who is going has gone, and without what was promised to the one who asks.
    base: Draft<'a>,
    /// Those who may be asked to go.
    holders: Vec<(HoldingId, &'a Holding)>,
}

impl<'a> Site<'a> {
    /// A node where the request would fit if all who may go went. Where even that does not help, nobody is worth asking.
    fn worth_trying(
        ledger: &'a Ledger,
        id: NodeId,
        policy: &Policy,
        request: &Request,
        may_go: &impl Fn(&Holding) -> bool,
    ) -> Option<Site<'a>> {
        let leaving = |(_, holding): &(HoldingId, &Holding)| {
            !holding.stage.is_releasing() && holding.request != request.id && may_go(holding)
        };
        let mut holders: Vec<(HoldingId, &Holding)> =
            ledger.holdings_on(id).filter(leaving).collect();
        holders.sort_by(|one, other| one.1.request.cmp(&other.1.request));
        if holders.is_empty()
            && !ledger.holdings_on(id).any(|(_, holding)| holding.stage.is_releasing())
        {
            return None;
        }
        let mut base = Draft::of(ledger);
        base.without_releasing_on(id);
        base.without_promise_to(&request.id);
        let site = Site { id, base, holders };
        let everybody: Vec<usize> = (0..site.holders.len()).collect();
        site.without(policy, request, &everybody).map(|_| site)
    }

    /// The place that is there once these holders have gone.
    fn without(&self, policy: &Policy, request: &Request, victims: &[usize]) -> Option<Plan> {
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
    let mut found =
        shapes.filter_map(|shape| Judge::new(policy, &request.spec, shape).judge(view).best);
    let placement = found.next()?.placement;
    let charges = fit::admit(view, &request.spec, &placement).ok()?;
    let mut after: Vec<RequestId> = draft
        .ledger()
        .holdings_on(id)
        .filter(|(_, holding)| holding.stage.is_releasing() && touches(holding, &charges))
        .map(|(_, holding)| holding.request.clone())
        .collect();
    after.extend(victims.iter().cloned());
    Some(Plan { placement, charges, victims, after })
}

fn touches(holding: &Holding, charges: &[Charge]) -> bool {
    let on = |charge: &Charge| {
        charge.on.iter().any(|o| charges.iter().any(|other| other.on.contains(o)))
    };
    holding.charges.iter().any(on)
}

/// What could be had on a device if all who may go went: each holder counted once, with what it holds there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evictable {
    /// The node.
    pub node: Name,
    /// The device.
    pub ordinal: u16,
    /// The bytes.
    pub bytes: Bytes,
}

/// What could be had on each device if all who may go went.
pub fn evictable_bytes(ledger: &Ledger, may_go: impl Fn(&Holding) -> bool) -> Vec<Evictable> {
    let mut rows = Vec::new();
    for (id, view) in ledger.nodes() {
        for (ordinal, _) in (0_u16..).zip(&view.node.devices) {
            let here = |charge: &&Charge| charge.on.contains(&ordinal);
            let bytes = ledger
                .holdings_on(id)
                .filter(|(_, holding)| may_go(holding))
                .flat_map(|(_, holding)| holding.charges.iter().filter(here))
                .fold(Bytes::ZERO, |sum, charge| sum.plus(charge.bytes().unwrap_or(Bytes::ZERO)));
            rows.push(Evictable { node: view.node.name.clone(), ordinal, bytes });
        }
    }
    rows
}
