//! An eviction plan is the cheapest set of holders whose going makes room, by brute force; and it
//! is whole or not at all.

use std::sync::Arc;

use plimsoll_core::charge::{Activity, Charge, Holding};
use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::Event;
use plimsoll_core::evict::{Planned, check_evictable, plan};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{Amount, Eviction, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Timespan};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::search::{filled, policy, told};
use crate::{brute, fleet};

const NOW: Millis = Millis(10_000);

/// The cost of evicting a set of holders, in the order of comparison.
type Cost = (i32, usize, u64, u128, usize, Vec<RequestId>);

fn cost(holders: &[&Holding]) -> Cost {
    let rank = |holding: &&Holding| {
        if holding.terms.speculative { i32::MIN } else { holding.terms.priority }
    };
    let active = |holding: &&&Holding| !matches!(holding.activity, Activity::Idle { .. });
    let mut names: Vec<RequestId> = holders.iter().map(|holding| holding.request.clone()).collect();
    names.sort();
    (
        holders.iter().map(rank).max().unwrap_or(i32::MIN),
        holders.iter().filter(active).count(),
        holders.iter().map(|holding| holding.terms.reload_cost.as_millis()).sum(),
        holders
            .iter()
            .flat_map(|holding| &holding.charges)
            .filter_map(Charge::bytes)
            .map(|bytes| u128::from(bytes.get()))
            .sum(),
        names.len(),
        names,
    )
}

/// The cost of the cheapest set on one node whose going makes room.
fn cheapest(ledger: &Ledger, request: &Request) -> Option<Cost> {
    let mut best: Option<Cost> = None;
    for (id, view) in ledger.nodes() {
        let holders: Vec<&Holding> = ledger
            .holdings_on(id)
            .map(|(_, holding)| holding)
            .filter(|holding| check_evictable(holding, request, NOW, Timespan::ZERO).is_ok())
            .collect();
        for mask in 0_u32..1 << holders.len() {
            let gone: Vec<&Holding> = holders
                .iter()
                .enumerate()
                .filter(|(at, _)| mask & (1 << at) != 0)
                .map(|(_, holding)| *holding)
                .collect();
            let without: Vec<RequestId> =
                gone.iter().map(|holding| holding.request.clone()).collect();
            let sites = brute::sites(ledger, &without);
            let site = sites.iter().find(|site| site.name == *view.node.name).expect("the node");
            if request.spec.shapes().iter().any(|shape| site.fits(&request.spec, shape)) {
                let cost = cost(&gone);
                best = Some(best.map_or(cost.clone(), |best| best.min(cost)));
            }
        }
    }
    best
}

/// A fleet whose tenants were seen running, some of them at work.
fn settled(
    nodes: Vec<Node>,
    tenants: &[(Arc<Spec>, Terms)],
    active: Vec<bool>,
    policy: &Policy,
) -> Scheduler {
    let mut scheduler = filled(nodes, tenants, policy);
    let held: Vec<(u64, RequestId)> =
        scheduler.ledger().holdings().map(|(g, h)| (g.0, h.request.clone())).collect();
    for ((generation, request), active) in held.into_iter().zip(active) {
        let _ = scheduler.step(
            Millis(0),
            Event::Started { request: request.clone(), generation, activity: None },
        );
        let activity = if active {
            Activity::Active { requests: 1 }
        } else {
            Activity::Idle { since: Millis(0) }
        };
        let _ = scheduler.step(Millis(0), Event::Acted { request, activity });
    }
    scheduler
}

/// One card or two, and nothing that limits it but memory.
fn plain_node() -> impl Strategy<Value = Node> {
    vec(6_u64..11, 1..3).prop_map(|sizes| {
        let mut node = Node::new("n");
        node.devices = sizes
            .into_iter()
            .map(|gib| Device::new("NVIDIA", Bytes::gib(gib), Source::Nvml))
            .collect();
        node
    })
}

/// Something that asks some memory of one card.
fn some_of_a_card(gib: std::ops::Range<u64>) -> impl Strategy<Value = Arc<Spec>> {
    gib.prop_map(|gib| {
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(gib)));
        Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]))
    })
}

proptest! {
    #![proptest_config(fleet::tries(500))]

    #[test]
    fn of_holders_that_differ_only_in_what_they_cost_the_cheapest_go(
        nodes in vec(plain_node(), 1..3),
        tenants in vec((some_of_a_card(2..5), fleet::terms()), 3..8),
        active in vec(any::<bool>(), 8),
        asked in some_of_a_card(3..9),
        policy in policy(),
    ) {
        let even = |(spec, terms): (Arc<Spec>, Terms)| (spec, Terms { priority: terms.priority / 2, idle_limit: Some(Timespan::ZERO), ..terms });
        let tenants: Vec<_> = tenants.into_iter().map(even).collect();
        let scheduler = settled(nodes, &tenants, active, &policy);
        let terms = Terms { priority: 2, eviction: Eviction::LowerPriority, ..Terms::default() };
        check(scheduler.ledger(), &policy, &fleet::request(99, asked, terms))?;
    }

    #[test]
    fn an_eviction_plan_is_the_cheapest_set_that_makes_room(
        nodes in vec(fleet::owned_node(1..3), 1..3),
        tenants in vec((fleet::spec(1..2), fleet::terms()), 1..7),
        active in vec(any::<bool>(), 7),
        asked in fleet::spec(1..2),
        lower in any::<bool>(),
        policy in policy(),
    ) {
        let scheduler = settled(nodes, &tenants, active, &policy);
        let eviction = if lower { Eviction::LowerPriority } else { Eviction::Idle };
        let request = fleet::request(99, asked, Terms { priority: 2, eviction, ..Terms::default() });
        check(scheduler.ledger(), &policy, &request)?;
    }
}

fn check(ledger: &Ledger, policy: &Policy, request: &Request) -> Result<(), TestCaseError> {
    if plimsoll_core::decide::decide(ledger, policy, request).chosen().is_some() {
        return Ok(());
    }
    let expected = cheapest(ledger, request);
    let spec: &Arc<Spec> = &request.spec;
    match plan(ledger, policy, request, |holding| {
        check_evictable(holding, request, NOW, Timespan::ZERO).is_ok()
    }) {
        Planned::Found(plan) => {
            let victims: Vec<&Holding> = plan
                .victims
                .iter()
                .map(|id| ledger.of_request(id).expect("a victim holds something").1)
                .collect();
            prop_assert_eq!(
                Some(cost(&victims)),
                expected,
                "not the cheapest:\n{}",
                told(ledger, request)
            );
            let sites = brute::sites(ledger, &plan.victims);
            let site = sites
                .iter()
                .find(|site| site.name == *plan.placement.node)
                .expect("a node that is there");
            let shape = &spec.shapes()[usize::from(plan.placement.shape)];
            let picks = plan
                .placement
                .picks
                .iter()
                .map(|pick| pick.iter().map(|at| usize::from(*at)).collect())
                .collect();
            prop_assert!(
                site.with(spec, shape, &picks).is_some(),
                "the plan can be completed:\n{}",
                told(ledger, request)
            );
        }
        Planned::Impossible => {
            prop_assert_eq!(expected, None, "there is a way:\n{}", told(ledger, request));
        }
        Planned::NotFound { .. } => {}
    }
    Ok(())
}
