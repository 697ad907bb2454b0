//! Room for a whole gang, from holders that are being released or can be retired.

use std::collections::BTreeSet;

use super::{Cost, Plan, VictimOrder};
use crate::charge::{Holding, HoldingId};
use crate::draft::{Draft, View};
use crate::gang::{Gang, decide_gang_on};
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::request::RequestId;

/// The most attempts to spare one more holder. Each decides the whole gang.
const SPARED: usize = 64;

/// Plans the placements of a gang's members after all releases in progress; `None` if they do not
/// make room for the gang's minimum. A member that is left out has no plan.
///
/// The gang is decided once, on a draft without the holders that are being released. Free memory
/// never rules a placement out, so that one attempt without all of them is enough, and the plan
/// need not wait for holders on other devices. All members wait for the same holders, because none
/// is placed before the others: a member whose own device is free now keeps it until the last
/// device of the gang is free.
pub fn gang_after_releases(
    ledger: &Ledger,
    policy: &Policy,
    gang: &Gang,
) -> Option<Vec<Option<Plan>>> {
    if !ledger.has_releasing() {
        return None;
    }
    let room = Room::new(ledger, policy, gang, &[]);
    let plans = room.plans_without(&BTreeSet::new())?;
    plans.iter().flatten().any(|plan| !plan.after.is_empty()).then_some(plans)
}

/// Plans the placements of a gang's members after the retirement of holders, or `None`. Ignores the
/// promises to `others`. `accepts` judges all holders and charges together.
///
/// The plan starts with all holders that can be retired, and spares each that the gang does not
/// need, those in use first: linear in the holders, not exponential as the search for one request
/// is, because each attempt decides the whole gang.
pub fn gang_after_retirement(
    ledger: &Ledger,
    policy: &Policy,
    gang: &Gang,
    can_retire: impl Fn(&Holding) -> bool,
    others: &[RequestId],
    accepts: impl Fn(&Plan) -> bool,
) -> Option<Vec<Option<Plan>>> {
    let mut holders: Vec<(HoldingId, &Holding)> =
        ledger.holdings().filter(|(_, holding)| can_retire(holding)).collect();
    if holders.is_empty() {
        return None;
    }
    let cost = |holding: &Holding| VictimOrder::IdleFirst.cost_with(&Cost::NONE, holding);
    holders.sort_by_cached_key(|(_, holding)| std::cmp::Reverse(cost(holding)));
    let room = Room::new(ledger, policy, gang, others);
    let mut victims: BTreeSet<HoldingId> = holders.iter().map(|(id, _)| *id).collect();
    let mut plans = room.plans_without(&victims)?;
    victims.retain(|id| room.is_in_the_way(*id, &plans));
    let in_the_way = holders.iter().filter(|(id, _)| victims.contains(id));
    let candidates: Vec<HoldingId> = in_the_way.map(|(id, _)| *id).take(SPARED).collect();
    for spared in candidates {
        let mut fewer = victims.clone();
        fewer.remove(&spared);
        if let Some(found) = room.plans_without(&fewer) {
            (victims, plans) = (fewer, found);
        }
    }
    let names = victims.iter().filter_map(|id| Some(ledger.holding(*id)?.request.clone()));
    let mut names: Vec<RequestId> = names.collect();
    names.sort();
    for plan in plans.iter_mut().flatten() {
        plan.after.extend(names.iter().cloned());
        plan.retired.clone_from(&names);
    }
    let first = plans.iter().flatten().next()?;
    let charges = plans.iter().flatten().flat_map(|plan| plan.charges.iter().cloned()).collect();
    let together = Plan { charges, victims: names.clone(), ..first.clone() };
    (!names.is_empty() && accepts(&together)).then_some(plans)
}

/// The fleet as a gang sees it: after all releases in progress, without promises to its members.
struct Room<'a> {
    ledger: &'a Ledger,
    policy: &'a Policy,
    gang: &'a Gang,
    base: Draft<'a>,
}

impl<'a> Room<'a> {
    fn new(ledger: &'a Ledger, policy: &'a Policy, gang: &'a Gang, others: &[RequestId]) -> Self {
        let mut base = gang.draft(ledger);
        others.iter().for_each(|other| base.without_promise_to(other));
        for (node, _) in ledger.nodes() {
            base.without_releasing_on(node);
        }
        Room { ledger, policy, gang, base }
    }

    /// Plans the members without some holders; `None` if the gang's minimum does not fit.
    fn plans_without(&self, victims: &BTreeSet<HoldingId>) -> Option<Vec<Option<Plan>>> {
        let mut draft = self.base.clone();
        victims.iter().for_each(|id| draft.without(*id));
        let decided = decide_gang_on(&draft, self.policy, self.gang);
        if !decided.placed {
            return None;
        }
        let mut plans = Vec::with_capacity(self.gang.members.len());
        for (member, decision) in self.gang.members.iter().zip(&decided.decisions) {
            plans.push(decision.placement().cloned().map(|placement| {
                let charges =
                    draft.place(member, &placement).expect("the gang was decided on this draft");
                let resources = member.spec.resources.clone();
                let (victims, retired, after) = (Vec::new(), Vec::new(), Vec::new());
                Plan { placement, charges, resources, victims, retired, after }
            }));
        }
        let after = releasing_in_the_way(self.ledger, &plans);
        for plan in plans.iter_mut().flatten() {
            plan.after.clone_from(&after);
        }
        Some(plans)
    }

    fn is_in_the_way(&self, id: HoldingId, plans: &[Option<Plan>]) -> bool {
        self.ledger.holding(id).is_some_and(|holding| is_in_the_way(self.ledger, holding, plans))
    }
}

/// Returns the holders being released that any of the plans waits for.
fn releasing_in_the_way(ledger: &Ledger, plans: &[Option<Plan>]) -> Vec<RequestId> {
    let releasing = ledger.releasing();
    let after = releasing.filter(|holding| is_in_the_way(ledger, holding, plans));
    let mut after: Vec<RequestId> = after.map(|holding| holding.request.clone()).collect();
    after.sort();
    after
}

fn is_in_the_way(ledger: &Ledger, holding: &Holding, plans: &[Option<Plan>]) -> bool {
    let mut here = plans.iter().flatten().filter(|plan| plan.placement.node == holding.node);
    let now = ledger.node_id(&holding.node).and_then(|id| ledger.node(id));
    now.is_some_and(|now| here.any(|plan| plan.waits_for(holding, now)))
}
