//! Room for a whole gang, from holders that are being released.

use super::Plan;
use crate::draft::View;
use crate::gang::{Gang, decide_gang_on};
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::request::RequestId;

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
    let mut draft = gang.draft(ledger);
    for (node, _) in ledger.nodes() {
        draft.without_releasing_on(node);
    }
    let decided = decide_gang_on(&draft, policy, gang);
    if !decided.placed {
        return None;
    }
    let mut plans = Vec::with_capacity(gang.members.len());
    for (member, decision) in gang.members.iter().zip(&decided.decisions) {
        plans.push(decision.placement().cloned().map(|placement| {
            let charges =
                draft.place(member, &placement).expect("the gang was decided on this draft");
            let resources = member.spec.resources.clone();
            let (victims, retired, after) = (Vec::new(), Vec::new(), Vec::new());
            Plan { placement, charges, resources, victims, retired, after }
        }));
    }
    let after = holders_in_the_way(ledger, &plans);
    for plan in plans.iter_mut().flatten() {
        plan.after.clone_from(&after);
    }
    (!after.is_empty()).then_some(plans)
}

/// Returns the holders being released that any of the plans waits for.
fn holders_in_the_way(ledger: &Ledger, plans: &[Option<Plan>]) -> Vec<RequestId> {
    let releasing = ledger.holdings().filter(|(_, holding)| holding.stage.is_releasing());
    let mut after: Vec<RequestId> = releasing
        .filter(|(_, holding)| {
            let mut here =
                plans.iter().flatten().filter(|plan| plan.placement.node == holding.node);
            let now = ledger.node_id(&holding.node).and_then(|id| ledger.node(id));
            now.is_some_and(|now| here.any(|plan| plan.waits_for(holding, now)))
        })
        .map(|(_, holding)| holding.request.clone())
        .collect();
    after.sort();
    after
}
