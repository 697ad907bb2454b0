//! A placement is valid, and a rejection within the search's steps means that brute force finds
//! none either.

use plimsoll_core::decide::decide;
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::gang::{Gang, decide_gang};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::reason::NodeReason;
use plimsoll_core::request::{Request, Spec, Terms};
use plimsoll_core::room::Measured;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};
use plimsoll_sim::scenario::{State, from_state};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::brute::{self, Assignment, Site};
use crate::fleet;

/// A fleet with some tenants.
pub(crate) fn filled(
    nodes: Vec<plimsoll_core::device::Node>,
    tenants: &[(std::sync::Arc<Spec>, Terms)],
    policy: &Policy,
) -> Scheduler {
    let mut scheduler = Scheduler::new(Settings { policy: policy.clone(), ..Settings::default() });
    for node in fleet::named(nodes) {
        let _ = scheduler.step(Millis(0), Event::Node { node: Box::new(node) });
    }
    for (number, (spec, terms)) in tenants.iter().enumerate() {
        let request = fleet::request(
            number,
            spec.clone(),
            Terms { eviction: plimsoll_core::request::Eviction::Never, ..terms.clone() },
        );
        let _ = scheduler.step(Millis(0), Event::Ask { request: request.clone() });
        let _ = scheduler.step(Millis(0), Event::Take { request: request.id, node: None });
    }
    scheduler
}

/// The policies, drawn at random.
pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    (0_usize..4).prop_map(|at| Policy::all()[at].clone())
}

fn picks(place: &plimsoll_core::fit::Placement) -> Assignment {
    place.picks.iter().map(|pick| pick.iter().map(|at| usize::from(*at)).collect()).collect()
}

/// Returns the measurements of all devices.
pub(crate) fn measured(ledger: &Ledger) -> Vec<(Name, u16, Measured)> {
    let rows = |(id, view): (plimsoll_core::ledger::NodeId, &plimsoll_core::room::NodeView)| {
        let row =
            |(ordinal, measured): (u16, &Measured)| (view.node.name.clone(), ordinal, *measured);
        (0_u16..)
            .zip(ledger.measured(id))
            .map(row)
            .filter(|(.., m)| *m != Measured::default())
            .collect::<Vec<_>>()
    };
    ledger.nodes().flat_map(rows).collect()
}

/// The state and the request as a scenario, for a failure that people can read.
pub(crate) fn told(ledger: &Ledger, request: &Request) -> String {
    from_state(&State {
        nodes: ledger.nodes().map(|(_, view)| (*view.node).clone()).collect(),
        measured: measured(ledger),
        holdings: ledger.holdings().map(|(_, holding)| holding.clone()).collect(),
        pending: vec![request.clone()],
        gangs: Vec::new(),
    })
}

fn check(ledger: &Ledger, policy: &Policy, request: &Request) -> Result<(), TestCaseError> {
    let sites = brute::sites(ledger, &[]);
    let decision = decide(ledger, policy, request);
    let cut = |verdict: &plimsoll_core::verdict::NodeVerdict| {
        matches!(verdict.reason, Some(NodeReason::NotFound { .. }))
    };
    if decision.tables().any(|table| table.by_name().iter().any(cut)) {
        return Ok(());
    }
    let found = brute::first_shape(&sites, &request.spec);
    match decision.chosen() {
        Some(candidate) => {
            let place = &candidate.placement;
            prop_assert_eq!(
                Some(usize::from(place.shape)),
                found,
                "the first shape that fits is taken:\n{}",
                told(ledger, request)
            );
            let site = sites
                .iter()
                .find(|site| site.name == *place.node)
                .expect("placed on a node that is there");
            let shape = &request.spec.shapes()[usize::from(place.shape)];
            prop_assert!(
                site.with(&request.spec, shape, &picks(place)).is_some(),
                "{:?} is not valid:\n{}",
                place,
                told(ledger, request)
            );
            let mut ledger = ledger.clone();
            prop_assert!(
                ledger.offer(request, place, Millis(1)).is_ok(),
                "what the planner proposes the commit admits"
            );
        }
        None => {
            prop_assert_eq!(found, None, "brute force finds a place:\n{}", told(ledger, request));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(fleet::tries(1500))]

    #[test]
    fn a_placement_is_valid_and_a_rejection_means_that_no_placement_exists(
        nodes in vec(fleet::owned_node(1..5), 1..4),
        tenants in vec((fleet::spec(1..2), fleet::terms()), 0..6),
        asked in fleet::spec(1..4),
        policy in policy(),
    ) {
        let scheduler = filled(nodes, &tenants, &policy);
        check(scheduler.ledger(), &policy, &fleet::request(99, asked, Terms::default()))?;
    }

    #[test]
    fn a_gang_is_placed_whole_or_brute_force_finds_no_way(
        nodes in vec(fleet::owned_node(1..4), 1..3),
        tenants in vec((fleet::spec(1..2), fleet::terms()), 0..3),
        members in vec(fleet::spec(1..2), 2..5),
        left_out in 0_usize..2,
        policy in policy(),
    ) {
        let scheduler = filled(nodes, &tenants, &policy);
        let minimum = members.len() - left_out;
        let members: Vec<Request> = (50..).zip(members).map(|(at, spec)| fleet::request(at, spec, Terms::default())).collect();
        let name: Name = "g".into();
        let gang = Gang { name, minimum: u32::try_from(minimum).expect("few"), members: members.clone() };
        let decided = decide_gang(scheduler.ledger(), &policy, &gang);
        let sites = brute::sites(scheduler.ledger(), &[]);
        if decided.placed {
            let mut sites = sites;
            let mut placed = 0;
            for (member, decision) in members.iter().zip(&decided.decisions) {
                let Some(candidate) = decision.chosen() else { continue };
                let site = sites.iter_mut().find(|site| site.name == *candidate.placement.node).expect("a node that is there");
                let shape = &member.spec.shapes()[usize::from(candidate.placement.shape)];
                let with = site.with(&member.spec, shape, &picks(&candidate.placement));
                prop_assert!(with.is_some(), "{:?} is not valid beside the members before it", candidate.placement);
                *site = with.expect("just checked");
                placed += 1;
            }
            prop_assert!(placed >= minimum, "{} of {} placed", placed, minimum);
        } else if !decided.cut_off {
            prop_assert!(!placeable(&sites, &members, left_out), "brute force places the gang");
            prop_assert!(decided.decisions.iter().all(|decision| decision.chosen().is_none()), "none or all");
        }
    }
}

/// Returns true if all members but `left_out` find a place together.
fn placeable(sites: &[Site], members: &[Request], left_out: usize) -> bool {
    let Some((member, rest)) = members.split_first() else { return true };
    if left_out > 0 && placeable(sites, rest, left_out - 1) {
        return true;
    }
    member.spec.shapes().iter().any(|shape| {
        sites.iter().enumerate().any(|(at, site)| {
            site.each(&member.spec, shape, &mut |with, _| {
                let mut sites = sites.to_vec();
                sites[at] = with.clone();
                placeable(&sites, rest, left_out)
            })
        })
    })
}
