//! A simulation of a cluster and a server that sees the same cluster as events come to the same
//! end.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::digest::digest;
use plimsoll_core::drive::Drive;
use plimsoll_core::event::{Answer, Event, Outcome, Settings};
use plimsoll_core::ledger::Promise;
use plimsoll_core::request::{RequestId, Spec, Terms};
use plimsoll_core::room::Measured;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Cores, Millis, Name};
use plimsoll_kube::cluster::{Cluster, GangFacts, NodeFacts, Pending};
use plimsoll_sim::fixture;
use plimsoll_sim::simulation::{Advising, Simulation, simulate};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use crate::fleet;
use crate::moves;

const NOW: Millis = Millis(0);

/// A node, and foreign memory on its first device.
fn node() -> impl Strategy<Value = NodeFacts> {
    (moves::any_node(), weighted(0.2, fleet::size(1..4))).prop_map(|(node, foreign)| {
        let mut facts = fixture::facts("n", Vec::new());
        facts.foreign = foreign.into_iter().map(|bytes| (0, bytes)).collect();
        facts.node = node;
        facts
    })
}

/// A running pod: on one of a few nodes and devices, some of which are not there.
fn running() -> impl Strategy<Value = Holding> {
    let stage = prop_oneof![
        3 => Just(Stage::Running { since: NOW }),
        2 => Just(Stage::Releasing { since: NOW }),
    ];
    let activity = prop_oneof![
        Just(Activity::Unknown),
        Just(Activity::Idle { since: NOW }),
        Just(Activity::Active { requests: 1 }),
    ];
    let charges = vec((0_u16..4, weighted(0.8, fleet::size(1..8))), 0..3);
    (0_usize..4, stage, activity, charges, fleet::terms()).prop_map(
        |(node, stage, activity, charges, terms)| Holding {
            stage,
            activity,
            charges: charges.into_iter().map(charge).collect(),
            terms: Terms { speculative: false, ..terms },
            ..fixture::holding("running", &format!("n{node}"), Booked::Undeclared, stage)
        },
    )
}

fn charge((ordinal, bytes): (u16, Option<Bytes>)) -> Charge {
    let bytes = bytes.and_then(|bytes| NonZeroU64::new(bytes.get()));
    Charge {
        on: vec![ordinal],
        amount: bytes.map_or(Booked::Undeclared, Booked::Share),
        cores: Cores(0),
        slots: 1,
        slice: None,
        parts: Vec::new(),
    }
}

/// Pods in the order of their turns: by priority, then by appearance.
fn pending(asked: Vec<(Arc<Spec>, Terms, Option<usize>)>) -> Vec<Pending> {
    let pod = |(number, (spec, terms, gang)): (usize, (Arc<Spec>, Terms, Option<usize>))| {
        let terms = Terms { speculative: false, ..terms };
        let request = fleet::request(number, spec, terms);
        Pending { request, gang, not_considered: Vec::new() }
    };
    let mut pods: Vec<Pending> = asked.into_iter().enumerate().map(pod).collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.request.terms.priority));
    pods
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let asked = (fleet::spec(1..3), fleet::terms(), weighted(0.3, 0_usize..2));
    let gangs = vec((1_u32..4, 0_u32..2), 2);
    let parts = (vec(node(), 1..4), vec(running(), 0..8), vec(asked, 1..12), gangs);
    parts.prop_map(|(mut nodes, mut running, asked, gangs)| {
        let named = fleet::named(nodes.iter().map(|facts| facts.node.clone()).collect());
        for (facts, node) in nodes.iter_mut().zip(named) {
            facts.node = node;
        }
        for (number, holding) in running.iter_mut().enumerate() {
            holding.request = RequestId::new("a0", format!("r{number}"));
        }
        let gangs = gangs.into_iter().enumerate().map(|(number, (minimum, running))| GangFacts {
            name: format!("g{number}").into(),
            minimum,
            running,
        });
        Cluster {
            nodes,
            running,
            pending: pending(asked),
            gangs: gangs.collect(),
            ..Cluster::default()
        }
    })
}

/// The events that a server would see of this cluster.
fn events(cluster: &Cluster, nodes: impl Iterator<Item = NodeFacts>) -> Vec<Event> {
    let mut events = Vec::new();
    let known: BTreeMap<Name, usize> = cluster
        .nodes
        .iter()
        .map(|facts| (facts.node.name.clone(), facts.node.devices.len()))
        .collect();
    for facts in nodes {
        let name = facts.node.name.clone();
        events.push(Event::Node { node: Box::new(facts.node) });
        events.extend(facts.foreign.into_iter().map(|(ordinal, foreign)| {
            let measured = Measured { foreign, ..Measured::default() };
            Event::Measured { node: name.clone(), ordinal, measured }
        }));
    }
    for holding in &cluster.running {
        let mut ordinals = holding.charges.iter().flat_map(|charge| &charge.on);
        let devices = known.get(&holding.node).copied();
        if devices.is_some_and(|devices| ordinals.all(|ordinal| usize::from(*ordinal) < devices)) {
            events.push(Event::Observed { holding: Box::new(holding.clone()) });
        }
    }
    let mut submitted = BTreeSet::new();
    for pod in &cluster.pending {
        match pod.gang {
            None => events.push(Event::Submit { request: pod.request.clone(), deadline: None }),
            Some(gang) if submitted.insert(gang) => events.push(submit_gang(cluster, gang)),
            Some(_) => {}
        }
    }
    events
}

fn submit_gang(cluster: &Cluster, gang: usize) -> Event {
    let facts = &cluster.gangs[gang];
    let members = cluster.pending.iter().filter(|pod| pod.gang == Some(gang));
    Event::SubmitGang {
        name: facts.name.clone(),
        minimum: facts.minimum.saturating_sub(facts.running),
        members: members.map(|pod| pod.request.clone()).collect(),
    }
}

/// The last word that each pending pod was given: whether it was placed.
fn last_words(outcomes: &[Outcome]) -> BTreeMap<RequestId, bool> {
    let mut words = BTreeMap::new();
    for answer in outcomes.iter().flat_map(|outcome| &outcome.answers) {
        match answer {
            Answer::Placed { request, .. } => words.insert(request.clone(), true),
            Answer::Pending { request, .. }
            | Answer::Impossible { request, .. }
            | Answer::Rejected { request, .. } => words.insert(request.clone(), false),
            Answer::Offered { .. } => None,
        };
    }
    words
}

/// The same as a simulation tells it.
fn told(cluster: &Cluster, simulation: &Simulation) -> BTreeMap<RequestId, bool> {
    let id = |pending: usize| cluster.pending[pending].request.id.clone();
    let placed = simulation.placed.iter().map(|placed| (id(placed.pending), true));
    placed.chain(simulation.rejected.iter().map(|pod| (id(pod.pending), false))).collect()
}

/// All holdings by request, without the times and numbers that tell two machines apart.
fn held(scheduler: &Scheduler) -> BTreeMap<RequestId, (Name, Stage, Vec<Charge>)> {
    let row = |holding: &Holding| {
        (holding.request.clone(), (holding.node.clone(), holding.stage, holding.charges.clone()))
    };
    scheduler.ledger().holdings().map(|(_, holding)| row(holding)).collect()
}

fn promised(scheduler: &Scheduler) -> BTreeMap<RequestId, Promise> {
    scheduler.ledger().promises().map(|(id, promise)| (id.clone(), promise.clone())).collect()
}

proptest! {
    #![proptest_config(fleet::tries(600))]

    #[test]
    fn a_simulation_places_what_the_scheduler_places_when_a_server_drives_it(
        settings in moves::settings(),
        cluster in cluster(),
    ) {
        let simulation =
            simulate(&cluster, &settings.policy, &Advising::all(), &mut |_| {});
        prop_assert_eq!(simulation.placed.len() + simulation.rejected.len(), cluster.pending.len());
        // Nodes come to a server in any order.
        let events = events(&cluster, cluster.nodes.iter().rev().cloned());
        let settings = Settings { policy: settings.policy, ..Settings::default() };
        let mut scheduler = Scheduler::new(settings);
        let outcomes: Vec<Outcome> =
            events.into_iter().map(|event| scheduler.step(NOW, event)).collect();
        prop_assert_eq!(told(&cluster, &simulation), last_words(&outcomes));
        prop_assert_eq!(held(&simulation.scheduler), held(&scheduler));
        prop_assert_eq!(promised(&simulation.scheduler), promised(&scheduler));
        for rejected in &simulation.rejected {
            let id = &cluster.pending[rejected.pending].request.id;
            let told = rejected.advice.promised.as_ref().map(|promised| &promised.promise);
            prop_assert_eq!(told, scheduler.ledger().promise_to(id));
        }
    }

    #[test]
    fn a_simulation_decides_what_a_journalled_machine_decides(
        settings in moves::settings(),
        cluster in cluster(),
    ) {
        let advising = Advising::all();
        let mut watched = Vec::new();
        let mut watch = |decision: &plimsoll_core::decide::Decision| {
            watched.push((decision.request.clone(), digest(decision)));
        };
        let simulation = simulate(&cluster, &settings.policy, &advising, &mut watch);
        let settings = Settings { policy: settings.policy, ..Settings::default() };
        let mut drive = Drive::resume(Scheduler::new(settings), 0);
        let mut journalled = Vec::new();
        for event in events(&cluster, cluster.nodes.iter().cloned()) {
            drive.handle(NOW, event);
            let decisions = drive.batch().into_iter().flat_map(|record| record.decisions);
            journalled.extend(decisions.map(|decision| (decision.request, decision.digest)));
            drive.committed();
        }
        prop_assert_eq!(watched, journalled);
        prop_assert_eq!(simulation.scheduler.snapshot(), drive.scheduler().snapshot());
    }

    #[test]
    fn what_if_says_what_happens_when_the_request_is_submitted(
        settings in moves::settings(),
        history in moves::many(1..40),
        spec in fleet::spec(1..3),
        terms in fleet::terms(),
    ) {
        let mut scheduler = Scheduler::new(settings);
        let mut now = NOW;
        for what in &history {
            if let Some(event) = moves::event(what, &scheduler, &mut now) {
                let _ = scheduler.step(now, event);
            }
        }
        let request = fleet::request(99, spec, Terms { speculative: false, ..terms });
        let decision = scheduler.what_if(&request);
        let plan = scheduler.plan_room(&request, now);
        let outcome = scheduler.clone().step(now, Event::Submit { request: request.clone(), deadline: None });
        let submitted = outcome.decisions.iter().find(|decision| decision.request == request.id);
        prop_assert_eq!(submitted.map(digest), Some(digest(&decision)));
        prop_assert_eq!(&submitted.expect("every request is decided").outcome, &decision.outcome);
        let promised = outcome.answers.iter().find_map(|answer| match answer {
            Answer::Pending { request: id, promised, .. } if *id == request.id => Some(promised.clone()),
            _ => None,
        });
        if let (None, Some(promised)) = (decision.chosen(), promised) {
            prop_assert_eq!(promised, plan.map(|plan| plan.after).unwrap_or_default());
        }
    }
}
