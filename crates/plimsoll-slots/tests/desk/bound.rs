//! The bound of `evict::retire` under adversarial arrivals, on a virtual clock: streams of small
//! requests at several loads, several large requests over one, two and four GPUs with priorities,
//! and models that do not fit together.
//!
//! The checks are independent of the planner. They follow what each client holds, and know the
//! fleet: equal GPUs of one runner, filled by equal parts of slots.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::charge::Charge;
use plimsoll_core::ledger::Promise;
use plimsoll_core::policy::Policy;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Bytes, Timespan};
use plimsoll_slots::desk::{DeskConfig, ReservationId};
use proptest::prelude::*;

use super::fairness::{STOP_AND_START, Stream};
use super::world::{GIB, World};

const GPU: u64 = 80;

/// A request for a model that is too large to start beside the stream.
#[derive(Clone, Debug)]
struct Large {
    arrives: u64,
    /// The number of GPUs, a power of two.
    gpus: usize,
    gib_per_gpu: u64,
    priority: i32,
    hold: u64,
}

#[derive(Clone, Debug)]
struct Case {
    gpus: usize,
    packs: bool,
    small: usize,
    small_gib: u64,
    clients: usize,
    hold: u64,
    pause: u64,
    residency: u64,
    large: Vec<Large>,
}

impl Case {
    /// Returns the GiB on each GPU that a model needs, and the GPUs.
    fn need(&self, model: &str) -> (u64, usize) {
        match model.strip_prefix("large").and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => (self.large[number].gib_per_gpu, self.large[number].gpus),
            None => (self.small_gib, 1),
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let large = (0_u64..20_000, 0_usize..3, 41_u64..80, prop::bool::weighted(0.3), 200_u64..2_000)
        .prop_map(|(arrives, gpus, gib_per_gpu, is_urgent, hold)| Large {
            arrives,
            gpus: 1 << gpus,
            gib_per_gpu,
            priority: if is_urgent { 10 } else { 0 },
            hold,
        });
    // Loads of about 30, 60 and 95 percent: clients for each GPU, and their pause.
    let load = prop::sample::select(vec![(2, 700_u64), (3, 300), (6, 0)]);
    (
        prop::sample::select(vec![2_usize, 4]),
        prop::bool::ANY,
        (2_usize..12, prop::sample::select(vec![10_u64, 20, 35, 60])),
        load,
        200_u64..1_500,
        prop::sample::select(vec![0_u64, 2_000, 30_000]),
        prop::collection::vec(large, 1..5),
    )
        .prop_map(
            |(gpus, packs, (small, small_gib), (clients, pause), hold, residency, large)| {
                let fits = |large: &Large| Large { gpus: large.gpus.min(gpus), ..large.clone() };
                let large = large.iter().map(fits).collect();
                let clients = clients * gpus;
                Case { gpus, packs, small, small_gib, clients, hold, pause, residency, large }
            },
        )
}

fn name(kind: &str, number: usize) -> String {
    format!("{kind}{number}")
}

fn stream(case: &Case) -> Stream {
    let policy = if case.packs { Policy::pack() } else { Policy::spread() };
    let residency = Timespan::millis(case.residency);
    let mut world = World::with_residency(policy, DeskConfig::default(), residency);
    let small: Vec<String> = (0..case.small).map(|number| name("small", number)).collect();
    small.iter().for_each(|name| world.model(name, &format!("memory: {}GiB", case.small_gib)));
    for (number, large) in case.large.iter().enumerate() {
        let memory = large.gib_per_gpu * large.gpus as u64;
        let rest = format!(
            "memory: {memory}GiB\ntensor_parallel: [{}]\npriority: {}\nidle_limit: 0s",
            large.gpus, large.priority
        );
        world.model(&name("large", number), &rest);
    }
    world.runner("r", &vec![GPU; case.gpus]);
    let names: Vec<&str> = small.iter().map(String::as_str).collect();
    Stream::new(world, &names, case.clients, case.hold, case.pause)
}

/// A promise of retired holders as it was made.
struct Made {
    at: u64,
    /// The latest time at which the request starts.
    until: u64,
    /// The reservations in the slots that are retired for it.
    seated: BTreeSet<ReservationId>,
    retired: Vec<RequestId>,
}

/// Follows the promises of one run.
#[derive(Default)]
struct Watch {
    made: BTreeMap<RequestId, Made>,
    promises: usize,
}

fn seated(stream: &Stream, retired: &[RequestId]) -> BTreeSet<ReservationId> {
    let view = stream.world.view();
    let slots = retired.iter().flat_map(|holder| view.reservations_in(&holder.name));
    slots.map(|reservation| reservation.id).collect()
}

impl Watch {
    /// Checks the promises after a step.
    fn check(
        &mut self,
        stream: &Stream,
        case: &Case,
        ends: &BTreeMap<ReservationId, u64>,
        longest: u64,
        urgent: Option<i32>,
    ) {
        let now = stream.world.now;
        let view = stream.world.view();
        let ledger = view.scheduler().ledger();
        let queue = view.scheduler().queue();
        // A higher priority may take the memory at any time, and ends the bound.
        self.made.retain(|id, _| {
            let priority = queue.get(id).map(|entry| entry.request.terms.priority);
            priority.is_some_and(|priority| urgent.is_none_or(|urgent| urgent <= priority))
        });
        let promises: BTreeMap<&RequestId, &Promise> =
            ledger.promises().filter(|(_, promise)| !promise.retired.is_empty()).collect();
        for (id, promise) in &promises {
            let is_same = |made: &Made| made.retired == promise.retired;
            let seats = seated(stream, &promise.retired);
            if let Some(made) = self.made.get(*id).filter(|made| is_same(made)) {
                let news = seats.difference(&made.seated).next();
                assert!(news.is_none(), "{news:?} joined a slot that is retired for {id}");
                continue;
            }
            // A client that is not served yet starts within the time of a start, and then holds.
            let end = |seat: &ReservationId| ends.get(seat).copied();
            let starts = STOP_AND_START * (1 + promise.retired.len() as u64);
            let left = seats.iter().map(|seat| end(seat).unwrap_or(now + longest + starts));
            let until = left.max().unwrap_or(now).max(now) + STOP_AND_START;
            // A better promise may replace one. It must not be later.
            let earlier = self.made.get(*id).map_or(until, |made| made.until.max(now));
            let made = Made {
                at: now,
                until: until.min(earlier.max(now + STOP_AND_START)),
                seated: seats,
                retired: promise.retired.clone(),
            };
            self.made.insert((*id).clone(), made);
            self.promises += 1;
        }
        self.made.retain(|id, made| {
            let Some(entry) = queue.get(id) else { return false };
            assert!(ledger.promise_to(id).is_some(), "{id} lost its promise");
            assert!(now <= made.until, "{id} waits since {} at {now}: {}", made.at, entry.reason);
            true
        });
        assert_first_is_promised(stream, case);
    }
}

/// Checks that the first request in turn that needs room has a promise if room can be made: on as
/// many GPUs as it needs, holders of a higher priority leave enough memory.
fn assert_first_is_promised(stream: &Stream, case: &Case) {
    let view = stream.world.view();
    let (scheduler, now) = (view.scheduler(), stream.world.now());
    let ledger = scheduler.ledger();
    let Some(first) = scheduler.queue().iter().next() else { return };
    let id = &first.request.id;
    let waits = scheduler.displaces_from(&first.request, now).is_some();
    if waits || ledger.promise_to(id).is_some() || !first.may_try(now) {
        return;
    }
    let model = first.request.terms.model.clone().expect("a slot has a model");
    let (gib_per_gpu, gpus) = case.need(&model);
    let (_, node) = ledger.nodes().next().expect("one runner");
    let free = (0_u16..).zip(&node.node.devices).filter(|(ordinal, _)| {
        let stays = ledger.holdings().filter(|(_, held)| {
            held.terms.priority > first.request.terms.priority
                || held.terms.model.as_ref() == Some(&model)
        });
        let charges = stays.flat_map(|(_, held)| &held.charges);
        let here = charges.filter(|charge| charge.on.contains(ordinal));
        let held = here.filter_map(Charge::bytes).fold(Bytes::ZERO, Bytes::plus);
        held.get() + gib_per_gpu * GIB <= GPU * GIB
    });
    // Another request got its promise while the first one had to wait for the residency.
    let others = ledger.promises().any(|(_, promise)| !promise.retired.is_empty());
    assert!(
        free.count() < gpus || others,
        "{id} is first in turn, room can be made, and it has no promise: {}",
        first.reason
    );
}

fn highest_priority_held(stream: &Stream) -> i32 {
    let view = stream.world.view();
    let held = view.scheduler().ledger().holdings().map(|(_, held)| held.terms.priority);
    held.max().unwrap_or(i32::MIN)
}

fn run(case: &Case) -> usize {
    let mut stream = stream(case);
    let mut watch = Watch::default();
    let mut ends: BTreeMap<ReservationId, u64> = BTreeMap::new();
    let longest = case.large.iter().map(|large| large.hold).max().unwrap_or(0).max(case.hold);
    let mut waiting: Vec<(ReservationId, &Large)> = Vec::new();
    stream.run(5_000);
    let began = stream.world.now;
    let mut arrived = 0;
    let mut order: Vec<&Large> = case.large.iter().collect();
    order.sort_by_key(|large| large.arrives);
    let names: Vec<String> = order
        .iter()
        .map(|large| {
            let number = case.large.iter().position(|other| std::ptr::eq(other, *large));
            name("large", number.expect("one of them"))
        })
        .collect();
    let limit = began + 20_000 + 8 * (case.residency + 4 * (longest + 2 * STOP_AND_START));
    while arrived < order.len() || !waiting.is_empty() {
        while order.get(arrived).is_some_and(|next| began + next.arrives <= stream.world.now) {
            let id = stream.world.reserve(&names[arrived]);
            waiting.push((id, order[arrived]));
            arrived += 1;
        }
        stream.step();
        let now = stream.world.now;
        let urgent = waiting.iter().filter(|(id, _)| !ends.contains_key(id));
        let urgent = urgent.map(|(_, large)| large.priority).max();
        for (id, large) in &waiting {
            if stream.world.is_ready(*id) {
                ends.entry(*id).or_insert(now + large.hold);
            }
        }
        waiting.retain(|(id, _)| {
            let is_over = ends.get(id).is_some_and(|end| *end <= now);
            if is_over {
                stream.world.release(*id);
            }
            !is_over
        });
        let served = stream.seats().filter_map(|(id, since)| Some((id, since? + case.hold)));
        ends.extend(served);
        watch.check(&stream, case, &ends, longest, urgent);
        if now >= limit {
            // Holders of a higher priority are never retired, so that these waits have no bound.
            let highest = highest_priority_held(&stream);
            let bounded = waiting.iter().filter(|(_, large)| large.priority >= highest);
            let pending = || -> Vec<String> {
                let view = stream.world.view();
                let pending = view.scheduler().queue().iter();
                pending.map(|entry| format!("{}: {}", entry.request.id, entry.reason)).collect()
            };
            assert_eq!(bounded.count(), 0, "requests are never served: {:?}", pending());
            break;
        }
    }
    watch.promises
}

proptest! {
    #![proptest_config(super::histories::tries(40))]

    #[test]
    fn a_promised_request_starts_within_its_bound_whatever_else_arrives(case in cases()) {
        run(&case);
    }
}

#[test]
fn most_cases_of_the_bound_make_promises() {
    let large = |gpus, priority| Large { arrives: 0, gpus, gib_per_gpu: 74, priority, hold: 500 };
    for packs in [true, false] {
        let case = Case {
            gpus: 4,
            packs,
            small: 10,
            small_gib: 20,
            clients: 12,
            hold: 1_000,
            pause: 100,
            residency: 30_000,
            large: vec![large(1, 0), large(2, 0), large(4, 0)],
        };
        assert!(run(&case) >= 2);
    }
}
