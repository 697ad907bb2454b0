//! Random histories: the desk's invariants hold after every step, and a restart at any step changes
//! nothing.

use std::collections::BTreeMap;

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::charge::{Activity, Stage};
use plimsoll_core::front::Front;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{
    ClientName, Ending, NewReservation, Reservation, ReservationId, ReservationState,
    ReservationStatus, SlotStage,
};
use plimsoll_slots::lease::Lease;
use plimsoll_slots::size::Span;
use proptest::prelude::*;

use crate::world::{World, model};

#[derive(Clone, Debug)]
enum Move {
    Reserve { model: usize, key: Option<u8>, deadline: Option<u64>, lease: Option<Lease> },
    Renew { which: usize },
    Release { which: usize },
    Beat { runner: usize },
    BeatFailing { runner: usize },
    Report { runner: usize },
    ResetMachine { runner: usize },
    Register { runner: usize },
    Pass { millis: u64 },
    Restart,
    StopSlot { which: usize },
    RemoveModel { model: usize },
    DeclareModel { model: usize, variant: usize },
}

const MODELS: [&str; 5] = ["a", "b", "c", "d", "e"];
const VARIANTS: [&str; 5] = [
    "memory: 30GiB\nconcurrency: 2\nidle_limit: 5s",
    "memory: 50GiB\nmax_slots: 2\nidle_limit: 0s\neviction: lower-priority\npriority: 5",
    "memory: 70GiB\ntensor_parallel: [1, 2]\nidle_limit: 1s",
    "memory: 20GiB\nprewarm: true\nconcurrency: 3\nmax_slots: 3",
    "gpus: 0",
];
const RUNNERS: [(&str, &[u64]); 3] = [("r1", &[80, 80]), ("r2", &[40]), ("r3", &[])];

fn a_move() -> impl Strategy<Value = Move> {
    let (model, runner) = (0..5_usize, 0..3_usize);
    let (key, deadline) = (prop::option::of(0..4_u8), prop::option::of(0..8_000_u64));
    let lease = prop_oneof![
        Just(None),
        Just(Some(Lease::Off)),
        (1_000..30_000_u64).prop_map(|millis| Some(Lease::For(Span(millis)))),
    ];
    prop_oneof![
        12 => (model.clone(), key, deadline, lease).prop_map(
            |(model, key, deadline, lease)| Move::Reserve { model, key, deadline, lease }
        ),
        4 => (0..40_usize).prop_map(|which| Move::Renew { which }),
        10 => (0..40_usize).prop_map(|which| Move::Release { which }),
        13 => runner.clone().prop_map(|runner| Move::Beat { runner }),
        3 => runner.clone().prop_map(|runner| Move::BeatFailing { runner }),
        4 => runner.clone().prop_map(|runner| Move::Report { runner }),
        2 => runner.clone().prop_map(|runner| Move::ResetMachine { runner }),
        2 => runner.prop_map(|runner| Move::Register { runner }),
        8 => prop_oneof![0..900_u64, 900..20_000_u64].prop_map(|millis| Move::Pass { millis }),
        2 => Just(Move::Restart),
        2 => (0..8_usize).prop_map(|which| Move::StopSlot { which }),
        2 => model.clone().prop_map(|model| Move::RemoveModel { model }),
        2 => (model, 0..5_usize).prop_map(|(model, variant)| Move::DeclareModel { model, variant }),
    ]
}

fn play(world: &mut World, what: &Move) {
    match what {
        Move::Reserve { model, key, deadline, lease } => {
            let new = NewReservation {
                key: key.map(|number| crate::world::key(&format!("k{number}"))),
                deadline: deadline.map(|millis| Millis(world.now + millis)),
                lease: *lease,
                client: key.map(|key| ClientName {
                    namespace: format!("team-{}", key % 2),
                    name: format!("client-{key}"),
                }),
                ..NewReservation::of_model(MODELS[*model])
            };
            // An unknown model, or a key that was used for another one, is rejected.
            let _ = world.call(|desk, core| desk.reserve(core, new));
        }
        Move::Release { which } => {
            if let Some(id) = pick_open(world, *which) {
                world.release(id);
            }
        }
        Move::Renew { which } => {
            if let Some(id) = pick_open(world, *which) {
                world.call(|desk, core| desk.renew(core, id)).expect("it has not ended");
            }
        }
        Move::Beat { runner } => with_runner(world, *runner, World::beat),
        Move::BeatFailing { runner } => with_runner(world, *runner, World::beat_failing),
        Move::Report { runner } => with_runner(world, *runner, World::report),
        Move::ResetMachine { runner } => {
            if let Some(machine) = world.machines.get_mut(RUNNERS[*runner].0) {
                machine.reset_machine();
            }
        }
        Move::Register { runner } => world.runner(RUNNERS[*runner].0, RUNNERS[*runner].1),
        Move::Pass { millis } => world.pass(*millis),
        Move::Restart => world.restart(),
        Move::StopSlot { which } => {
            let slots: Vec<_> = world.view().slots().map(|slot| slot.id.clone()).collect();
            if !slots.is_empty() {
                world.stop_slot(&slots[which % slots.len()]);
            }
        }
        Move::RemoveModel { model } => {
            world.call(|desk, core| desk.remove_model(core, MODELS[*model]));
        }
        Move::DeclareModel { model: name, variant } => {
            let model = model(MODELS[*name], VARIANTS[*variant]);
            world.call(|desk, core| desk.declare_model(core, model));
        }
    }
}

fn pick_open(world: &World, which: usize) -> Option<ReservationId> {
    let open = world.view().reservations().filter(|one| is_open(one)).map(|one| one.id);
    let open: Vec<ReservationId> = open.collect();
    (!open.is_empty()).then(|| open[which % open.len()])
}

fn is_open(reservation: &Reservation) -> bool {
    !matches!(reservation.state, ReservationState::Ended { .. })
}

fn with_runner(world: &mut World, runner: usize, act: fn(&mut World, &str)) {
    let name = RUNNERS[runner].0;
    if world.view().runner(name).is_some() {
        act(world, name);
    }
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let view = world.view();
    for reservation in view.reservations() {
        if let ReservationState::Seated { slot, .. } = &reservation.state {
            let id = reservation.id;
            prop_assert!(view.slot(slot).is_some(), "{id} is in {slot}, which does not exist");
        }
    }
    for slot in view.slots() {
        let (id, taken, stage) = (&slot.id, view.active_requests(slot), view.stage(slot));
        prop_assert!(taken <= view.concurrency(slot), "{id} has {taken} reservations");
        prop_assert!(stage.is_some(), "{id} is listed and gone");
        let is_releasing = stage == Some(SlotStage::Releasing);
        prop_assert!(!is_releasing || taken == 0, "{id} is released with {taken} reservations");
        if let Some((_, holding)) = view.holding(slot)
            && matches!(holding.stage, Stage::Running { .. })
        {
            let requests = match holding.activity {
                Activity::Active { requests } => Some(requests),
                Activity::Idle { .. } => Some(0),
                Activity::Unknown => None,
            };
            prop_assert_eq!(requests, Some(taken), "{} is as busy as the ledger says", id);
        }
    }
    for (_, held) in view.scheduler().ledger().holdings() {
        let id = &held.request;
        prop_assert!(view.slot(&id.name).is_some(), "{id} holds memory and is no slot");
    }
    for waiting in view.scheduler().queue().iter() {
        let id = &waiting.request.id;
        prop_assert!(view.slot(&id.name).is_some(), "{id} is pending and is no slot");
        prop_assert!(!waiting.reason.to_string().is_empty());
    }
    check_order(world)?;
    check_leases(world)?;
    check_backlog(world)?;
    let breaches = breach::audit(view.scheduler().ledger());
    let is_broken =
        |found: &Breach| matches!(found, Breach::SumsDiffer { .. } | Breach::OverLine { .. });
    prop_assert!(!breaches.iter().any(is_broken), "{:?}", breaches);
    Ok(())
}

/// The backlog is the number of pending reservations, in total and by namespace.
fn check_backlog(world: &World) -> Result<(), TestCaseError> {
    let view = world.view();
    let mut pending: BTreeMap<Option<String>, u32> = BTreeMap::new();
    for reservation in view.reservations() {
        let namespace = reservation.client.as_ref().map(|client| client.namespace.clone());
        let is_pending =
            view.reservation_status(reservation.id) == Some(ReservationStatus::Pending);
        *pending.entry(namespace).or_default() += u32::from(is_pending);
    }
    // The slots that a restart restored are counted with the first tick.
    if world.has_ticked {
        prop_assert_eq!(view.pending_reservations(), pending.values().sum::<u32>());
        for (namespace, count) in pending {
            prop_assert_eq!(view.pending_reservations_of(&namespace), count, "{:?}", namespace);
        }
    }
    Ok(())
}

/// A lease that runs ends in time, and only a lease that ran out has expired.
fn check_leases(world: &World) -> Result<(), TestCaseError> {
    let (view, now) = (world.view(), world.now());
    for reservation in view.reservations() {
        let (id, expiry) = (reservation.id, view.lease_expiry(reservation.id));
        match (&reservation.state, reservation.lease) {
            (ReservationState::Ended { ending: Ending::LeaseExpired { lease }, at }, _) => {
                prop_assert!(reservation.created.after((*lease).into()) <= *at, "{id}: {at}");
                prop_assert_eq!((reservation.lease, expiry), (Lease::For(*lease), None));
            }
            (ReservationState::Ended { .. }, _) | (_, Lease::Off) => prop_assert_eq!(expiry, None),
            // After a restart a lease starts with the first tick.
            (_, Lease::For(lease)) => prop_assert!(
                expiry.is_none_or(|expiry| now < expiry && expiry <= now.after(lease.into())),
                "{id}: {expiry:?} at {now} with a lease of {lease}"
            ),
        }
    }
    Ok(())
}

/// A reservation is pending only if no slot of its model has room, unless it is retired, and no
/// further one may be created.
fn check_order(world: &World) -> Result<(), TestCaseError> {
    let view = world.view();
    let is_pending = |state: &ReservationState| *state == ReservationState::Pending;
    for reservation in view.reservations().filter(|one| is_pending(&one.state)) {
        let id = reservation.id;
        let mut usable = 0;
        for slot in view.slots_of(&reservation.model) {
            if view.stage(slot).is_some_and(|stage| stage < SlotStage::Unknown) {
                usable += 1;
                let is_retired = view.scheduler().is_retired(&slot.request());
                let has_room = view.active_requests(slot) < view.concurrency(slot);
                prop_assert!(
                    !has_room || is_retired,
                    "{id} is pending beside {} with room",
                    slot.id
                );
            }
        }
        let model = view.model(&reservation.model);
        let max_slots = model.map_or(0, |model| model.declared().max_slots);
        prop_assert!(usable >= max_slots, "{id} is pending with {usable} of {max_slots} slots");
    }
    Ok(())
}

proptest! {
    #![proptest_config(tries(400))]

    #[test]
    fn the_desk_keeps_its_invariants_through_any_history(
        moves in prop::collection::vec(a_move(), 1..120),
    ) {
        let mut world = World::new(Policy::spread());
        for (name, variant) in MODELS.iter().zip(VARIANTS) {
            world.model(name, variant);
        }
        world.runner("r1", RUNNERS[0].1);
        for what in &moves {
            play(&mut world, what);
            check(&world).map_err(|error| TestCaseError::fail(format!("after {what:?}: {error}")))?;
        }
        world.commit();
        let again = world.recovered();
        prop_assert_eq!(again.front().state(), world.host.front().state());
        prop_assert_eq!(again.scheduler().snapshot(), world.host.scheduler().snapshot());
        prop_assert_eq!(again.next_numbers(), world.host.next_numbers());
        leave(&mut world)?;
    }
}

/// When every model is removed, nothing is held and nothing is pending.
fn leave(world: &mut World) -> Result<(), TestCaseError> {
    for (name, gpus) in RUNNERS {
        world.runner(name, gpus);
    }
    for name in MODELS {
        world.call(|desk, core| desk.remove_model(core, name));
    }
    world.settle();
    world.settle();
    let left: BTreeMap<_, _> =
        world.view().slots().map(|slot| (slot.id.clone(), world.view().stage(slot))).collect();
    prop_assert_eq!(left, BTreeMap::new());
    prop_assert!(world.host.scheduler().queue().is_empty());
    prop_assert_eq!(world.host.scheduler().ledger().holdings().count(), 0);
    Ok(())
}

/// Returns the number of cases to try: `cases`, times `PLIMSOLL_TRIES` for longer runs.
pub(crate) fn tries(cases: u32) -> ProptestConfig {
    let times = std::env::var("PLIMSOLL_TRIES").ok().and_then(|times| times.parse::<u32>().ok());
    ProptestConfig { cases: cases * times.unwrap_or(1), ..ProptestConfig::default() }
}
