//! Histories: moves drawn at random, and made into events by what is there when their turn comes.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use plimsoll_core::account::{Quota, Share, Shares};
use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::device::{Device, Identity, Node, Source, Telemetry};
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::request::{RequestId, Spec, Terms};
use plimsoll_core::room::Measured;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Cores, Millis, Name, Timespan};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::fleet;

/// The numbers of different clients and nodes.
const ASKERS: usize = 7;
const NODES: usize = 3;

/// Something that may happen.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    Node(usize, Box<Node>),
    Reorder(usize),
    Lose(usize, usize),
    Gone(usize),
    Ask(usize, Arc<Spec>, Terms),
    Take(usize, Option<usize>),
    Submit(usize, Arc<Spec>, Terms, Option<u64>),
    Gang(Vec<(usize, Arc<Spec>)>, u32),
    Withdraw(usize),
    Started(usize, bool, Option<u32>),
    Failed(usize, bool),
    Freed(usize, Option<u16>, bool),
    Observed(usize, usize, Vec<(u16, Option<Bytes>)>, bool),
    Measured(usize, u16, Bytes, bool),
    Grew(usize, u16, Bytes),
    Acted(usize, Option<u32>),
    Tick,
    Wait(u64),
}

fn asker() -> impl Strategy<Value = usize> {
    0..ASKERS
}

pub(crate) fn any_node() -> impl Strategy<Value = Node> {
    prop_oneof![4 => fleet::owned_node(1..4), 1 => fleet::plugin_node(1..4), 1 => unknown_node(), 1 => fleet::sliced_node()]
}

/// Generates a node with a card of unknown memory.
fn unknown_node() -> impl Strategy<Value = Node> {
    fleet::owned_node(1..3).prop_map(|mut node| {
        let mut card = Device::new("NVIDIA", Bytes::ZERO, Source::Declared);
        card.memory.total = plimsoll_core::device::Capacity::Unknown { missing: "a label".into() };
        node.devices.push(card);
        node
    })
}

/// One move.
pub(crate) fn one() -> impl Strategy<Value = Move> {
    let node = 0..NODES;
    let spec = fleet::spec(1..3).boxed();
    let single = fleet::spec(1..2);
    prop_oneof![
        4 => (node.clone(), any_node()).prop_map(|(at, node)| Move::Node(at, Box::new(node))),
        1 => node.clone().prop_map(Move::Reorder),
        1 => (node.clone(), 0_usize..4).prop_map(|(at, card)| Move::Lose(at, card)),
        1 => node.clone().prop_map(Move::Gone),
        5 => (asker(), spec.clone(), fleet::terms()).prop_map(|(who, spec, terms)| Move::Ask(who, spec, terms)),
        4 => (asker(), proptest::option::weighted(0.3, node.clone())).prop_map(|(who, node)| Move::Take(who, node)),
        8 => (asker(), spec, fleet::terms(), proptest::option::weighted(0.2, 0_u64..60_000))
            .prop_map(|(who, spec, terms, deadline)| Move::Submit(who, spec, terms, deadline)),
        1 => (vec((asker(), single), 2..4), 1_u32..4).prop_map(|(members, minimum)| Move::Gang(members, minimum)),
        4 => asker().prop_map(Move::Withdraw),
        6 => (asker(), prop::bool::weighted(0.9), proptest::option::of(0_u32..3)).prop_map(|(who, now, active)| Move::Started(who, now, active)),
        2 => (asker(), prop::bool::weighted(0.8)).prop_map(|(who, now)| Move::Failed(who, now)),
        6 => (asker(), proptest::option::weighted(0.4, 0_u16..4), prop::bool::weighted(0.7))
            .prop_map(|(who, on, named)| Move::Freed(who, on, named)),
        3 => (asker(), node.clone(), vec((0_u16..4, proptest::option::weighted(0.8, fleet::size(1..8))), 0..3), any::<bool>())
            .prop_map(|(who, node, charges, running)| Move::Observed(who, node, charges, running)),
        3 => (node, 0_u16..4, fleet::size(0..6), prop::bool::weighted(0.1))
            .prop_map(|(node, on, foreign, closed)| Move::Measured(node, on, foreign, closed)),
        1 => (asker(), 0_u16..4, fleet::size(0..12)).prop_map(|(who, on, bytes)| Move::Grew(who, on, bytes)),
        4 => (asker(), proptest::option::weighted(0.3, 1_u32..3)).prop_map(|(who, active)| Move::Acted(who, active)),
        4 => Just(Move::Tick),
        3 => (0_u64..40_000).prop_map(Move::Wait),
    ]
}

/// Generates settings.
pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    (0_usize..4, any::<bool>(), prop_oneof![Just(0_u64), Just(30_000)]).prop_map(
        |(policy, serial_starts, residency)| Settings {
            policy: plimsoll_core::policy::Policy::all()[policy].clone(),
            serial_starts,
            residency: Timespan::millis(residency),
            ..Settings::default()
        },
    )
}

/// Generates settings, often with shares of accounts.
pub(crate) fn settings_with_shares() -> impl Strategy<Value = Settings> {
    (settings(), shares()).prop_map(|(settings, accounts)| Settings { accounts, ..settings })
}

/// Generates shares of both accounts of [`id`], with and without a parent; often none.
fn shares() -> impl Strategy<Value = Shares> {
    let share = (0_u64..40, 0_u64..60, 0_u32..4, 1_u32..4).prop_map(
        |(guaranteed, more, devices, weight)| Share {
            guaranteed: Quota { memory: Some(Bytes::gib(guaranteed)), devices: None },
            maximum: Quota {
                memory: (more % 3 > 0).then(|| Bytes::gib(guaranteed + more)),
                devices: (devices > 0).then_some(devices),
            },
            weight: NonZeroU32::new(weight).expect("at least 1"),
            ..Share::default()
        },
    );
    let with_parent = |(a0, mut a1, has_parent): (Share, Share, bool)| {
        let mut rows = BTreeMap::from([(Name::from("a0"), a0)]);
        if has_parent {
            a1.parent = Some("parent".into());
            let maximum = Quota { memory: Some(Bytes::gib(70)), devices: Some(4) };
            rows.insert("parent".into(), Share { maximum, ..Share::default() });
        }
        rows.insert("a1".into(), a1);
        Shares::try_from(rows).expect("valid shares")
    };
    let both = (share.clone(), share, any::<bool>()).prop_map(with_parent);
    prop_oneof![Just(Shares::default()), both]
}

fn id(who: usize) -> RequestId {
    RequestId::new(format!("a{}", who % 2), format!("p{who}"))
}

fn name(node: usize) -> Name {
    format!("n{node}").into()
}

/// The move as an event, as things stand; nothing for one that only lets time pass.
pub(crate) fn event(what: &Move, scheduler: &Scheduler, now: &mut Millis) -> Option<Event> {
    let request = |who: usize, spec: &Arc<Spec>, terms: &Terms| {
        fleet::request(who, spec.clone(), terms.clone())
    };
    let generation = |who: usize, current: bool| {
        let held =
            scheduler.ledger().of_request(&id(who)).map_or(0, |(generation, _)| generation.0);
        if current { held } else { held.wrapping_sub(1) }
    };
    Some(match what {
        Move::Node(at, node) => Event::Node { node: Box::new(renamed(node, *at)) },
        Move::Reorder(at) => changed(scheduler, *at, |devices| devices.reverse())?,
        Move::Lose(at, card) => changed(scheduler, *at, |devices| {
            if *card < devices.len() && devices.len() > 1 {
                devices.remove(*card);
            }
        })?,
        Move::Gone(at) => Event::NodeGone { name: name(*at) },
        Move::Ask(who, spec, terms) => Event::Ask { request: request(*who, spec, terms) },
        Move::Take(who, node) => Event::Take { request: id(*who), node: node.map(name) },
        Move::Submit(who, spec, terms, deadline) => Event::Submit {
            request: request(*who, spec, terms),
            deadline: deadline.map(|after| now.after(Timespan::millis(after))),
        },
        Move::Gang(members, minimum) => {
            let mut members: Vec<_> =
                members.iter().map(|(who, spec)| request(*who, spec, &Terms::default())).collect();
            members.sort_by(|one, other| one.id.cmp(&other.id));
            members.dedup_by(|one, other| one.id == other.id);
            Event::SubmitGang { name: "g".into(), minimum: *minimum, members }
        }
        Move::Withdraw(who) => Event::Withdraw { request: id(*who) },
        Move::Started(who, current, active) => {
            let generation = generation(*who, *current);
            let activity = active.map(|requests| match requests {
                0 => Activity::Idle { since: *now },
                requests => Activity::Active { requests },
            });
            Event::Started { request: id(*who), generation, activity }
        }
        Move::Failed(who, current) => {
            Event::Failed { request: id(*who), generation: generation(*who, *current) }
        }
        Move::Freed(who, ordinal, named) => {
            let generation = named.then(|| generation(*who, true));
            Event::Freed { request: id(*who), generation, ordinal: *ordinal }
        }
        Move::Observed(who, at, charges, running) => observed(*who, *at, charges, *running, *now),
        Move::Measured(at, ordinal, foreign, closed) => {
            let measured = Measured {
                foreign: *foreign,
                telemetry: Telemetry::Fresh { at: *now },
                closed: *closed,
            };
            Event::Measured { node: name(*at), ordinal: *ordinal, measured }
        }
        Move::Grew(who, ordinal, bytes) => {
            Event::Grew { request: id(*who), ordinal: *ordinal, bytes: *bytes }
        }
        // A front end gives no work to a retired holder.
        Move::Acted(who, Some(_)) if scheduler.is_retired(&id(*who)) => return None,
        Move::Acted(who, active) => {
            let activity = active
                .map_or(Activity::Idle { since: *now }, |requests| Activity::Active { requests });
            Event::Acted { request: id(*who), activity }
        }
        Move::Tick => Event::Tick,
        Move::Wait(span) => {
            *now = now.after(Timespan::millis(*span));
            return None;
        }
    })
}

fn renamed(node: &Node, at: usize) -> Node {
    let mut node = node.clone();
    node.name = name(at);
    for device in &mut node.devices {
        if let Identity::Uuid(uuid) = &mut device.identity {
            *uuid = format!("{uuid}-{at}").into();
        }
    }
    node
}

/// A node that is there, reported again with its devices changed.
fn changed(
    scheduler: &Scheduler,
    at: usize,
    change: impl FnOnce(&mut Vec<Device>),
) -> Option<Event> {
    let ledger = scheduler.ledger();
    let mut node = (*ledger.view(ledger.node_id(&name(at))?)?.node).clone();
    node.devices.retain(|device| device.health != plimsoll_core::device::Health::Gone);
    node.unschedulable = false;
    change(&mut node.devices);
    Some(Event::Node { node: Box::new(node) })
}

fn observed(
    who: usize,
    at: usize,
    seen: &[(u16, Option<Bytes>)],
    running: bool,
    now: Millis,
) -> Event {
    let charge = |(on, bytes): &(u16, Option<Bytes>)| Charge {
        on: vec![*on],
        amount: bytes
            .and_then(|bytes| NonZeroU64::new(bytes.get()))
            .map_or(Booked::Undeclared, Booked::Share),
        cores: Cores(0),
        slots: 1,
        slice: None,
        parts: Vec::new(),
    };
    let holding = Holding {
        request: id(who),
        node: name(at),
        stage: if running {
            Stage::Running { since: now }
        } else {
            Stage::Releasing { since: now }
        },
        charges: seen.iter().map(charge).collect(),
        resources: plimsoll_core::request::NodeNeed::default(),
        terms: Terms { idle_limit: Some(Timespan::seconds(1)), ..Terms::default() },
        activity: Activity::Idle { since: now },
        spec: None,
    };
    Event::Observed { holding: Box::new(holding) }
}

/// Generates a history of `count` moves that begins with a node.
pub(crate) fn many(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Move>> {
    (any_node(), any_node(), vec(one(), count)).prop_map(|(first, second, mut rest)| {
        rest.insert(0, Move::Node(0, Box::new(first)));
        rest.insert(1, Move::Node(1, Box::new(second)));
        rest
    })
}
