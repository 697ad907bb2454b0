//! Random histories: the desk's rules hold after every step, and a restart at any step changes nothing.

use std::collections::BTreeMap;

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::charge::{Activity, Stage};
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Ask, Place, PlaceState, SlotStage};
use proptest::prelude::*;

use crate::world::{World, model};

#[derive(Clone, Debug)]
enum Move {
    Ask { model: usize, key: Option<u8>, deadline: Option<u64> },
    GiveBack { which: usize },
    Beat { runner: usize, well: bool },
    Say { runner: usize },
    Crash { runner: usize },
    Register { runner: usize },
    Pass { millis: u64 },
    Restart,
    StopSlot { which: usize },
    DropModel { model: usize },
    PutModel { model: usize, variant: usize },
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
    prop_oneof![
        6 => (0..5_usize, prop::option::of(0..4_u8), prop::option::of(0..8_000_u64))
            .prop_map(|(model, key, deadline)| Move::Ask { model, key, deadline }),
        5 => (0..40_usize).prop_map(|which| Move::GiveBack { which }),
        8 => (0..3_usize, prop::bool::weighted(0.85)).prop_map(|(runner, well)| Move::Beat { runner, well }),
        2 => (0..3_usize).prop_map(|runner| Move::Say { runner }),
        1 => (0..3_usize).prop_map(|runner| Move::Crash { runner }),
        1 => (0..3_usize).prop_map(|runner| Move::Register { runner }),
        4 => prop_oneof![0..900_u64, 900..20_000_u64].prop_map(|millis| Move::Pass { millis }),
        1 => Just(Move::Restart),
        1 => (0..8_usize).prop_map(|which| Move::StopSlot { which }),
        1 => (0..5_usize).prop_map(|model| Move::DropModel { model }),
        1 => (0..5_usize, 0..5_usize).prop_map(|(model, variant)| Move::PutModel { model, variant }),
    ]
}

fn play(world: &mut World, what: &Move) {
    let now = world.now();
    match what {
        Move::Ask { model, key, deadline } => {
            let ask = Ask {
                model: MODELS[*model].to_string(),
                key: key.map(|key| format!("k{key}")),
                who: None,
                deadline: deadline.map(|millis| Millis(world.now + millis)),
            };
            // A model that is not declared, or a key used for another, is refused; nothing else to see here.
            let _ = world.desk.ask(now, ask);
        }
        Move::GiveBack { which } => {
            let live = world
                .desk
                .places()
                .filter(|place| !matches!(place.state, PlaceState::Ended { .. }));
            let live: Vec<u64> = live.map(|place| place.id).collect();
            if !live.is_empty() {
                world.desk.give_back(now, live[which % live.len()]);
            }
        }
        Move::Beat { runner, well } => {
            let name = RUNNERS[*runner].0;
            if world.desk.runner(name).is_some() {
                let orders = world.desk.orders(name);
                world.machines.get_mut(name).expect("registered").obey(&orders, *well);
                world.say(name);
            }
        }
        Move::Say { runner } => {
            if world.desk.runner(RUNNERS[*runner].0).is_some() {
                world.say(RUNNERS[*runner].0);
            }
        }
        Move::Crash { runner } => {
            if let Some(machine) = world.machines.get_mut(RUNNERS[*runner].0) {
                machine.processes.clear();
            }
        }
        Move::Register { runner } => world.runner(RUNNERS[*runner].0, RUNNERS[*runner].1),
        Move::Pass { millis } => world.pass(*millis),
        Move::Restart => world.restart(),
        Move::StopSlot { which } => {
            let slots: Vec<_> = world.desk.slots().map(|slot| slot.id.clone()).collect();
            if !slots.is_empty() {
                world.desk.stop_slot(now, &slots[which % slots.len()]).expect("it is there");
            }
        }
        Move::DropModel { model } => {
            world.desk.drop_model(now, MODELS[*model]);
        }
        Move::PutModel { model: name, variant } => {
            world.desk.put_model(now, model(MODELS[*name], VARIANTS[*variant]));
        }
    }
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let desk = &world.desk;
    for place in desk.places() {
        if let PlaceState::In { slot, .. } = &place.state {
            prop_assert!(
                desk.slot(slot).is_some(),
                "place-{} is in {slot}, which is not there",
                place.id
            );
        }
    }
    for slot in desk.slots() {
        let taken = desk.active_requests(slot);
        prop_assert!(taken <= desk.concurrency(slot), "{} has {taken} places taken", slot.id);
        let stage = desk.stage(slot);
        prop_assert_ne!(stage, SlotStage::Gone, "{} is listed and gone", &slot.id);
        prop_assert!(
            stage != SlotStage::Releasing || taken == 0,
            "{} goes with {} places",
            &slot.id,
            taken
        );
        if let Some((_, holding)) = desk.holding(slot)
            && matches!(holding.stage, Stage::Running { .. })
        {
            let says = match holding.activity {
                Activity::Active { requests } => requests,
                Activity::Idle { .. } => 0,
                Activity::Unknown => u32::MAX,
            };
            prop_assert_eq!(says, taken, "{} is as busy as the ledger says", &slot.id);
        }
    }
    for held in desk.scheduler().ledger().holdings() {
        prop_assert!(
            desk.slot(&held.1.request.name).is_some(),
            "{} holds memory and is no slot",
            held.1.request
        );
    }
    for waiting in desk.scheduler().queue().iter() {
        prop_assert!(
            desk.slot(&waiting.request.id.name).is_some(),
            "{} waits and is no slot",
            waiting.request.id
        );
        prop_assert!(!waiting.reason.is_empty());
    }
    check_turns(world)?;
    let breaches = breach::audit(desk.scheduler().ledger());
    prop_assert!(
        !breaches
            .iter()
            .any(|found| matches!(found, Breach::SumsDiffer { .. } | Breach::OverLine { .. })),
        "{:?}",
        breaches
    );
    Ok(())
}

/// A place waits only where no slot of its model has room and no further one may be made; and nobody overtakes.
fn check_turns(world: &World) -> Result<(), TestCaseError> {
    let desk = &world.desk;
    let waiting: Vec<&Place> =
        desk.places().filter(|place| place.state == PlaceState::Waiting).collect();
    for place in waiting {
        let slots: Vec<_> = desk.slots().filter(|slot| slot.model == place.model).collect();
        let open = slots.iter().filter(|slot| desk.stage(slot) < SlotStage::Unknown);
        let (mut most, mut room) = (0, false);
        for slot in open {
            most += 1;
            room |= desk.active_requests(slot) < desk.concurrency(slot);
        }
        prop_assert!(!room, "place-{} waits beside a slot with room", place.id);
        let declared = desk.model(&place.model).map_or(0, |model| model.declared().max_slots);
        prop_assert!(
            most >= declared,
            "place-{} waits and {most} of {declared} slots are there",
            place.id
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_desk_keeps_its_rules_through_any_history(moves in prop::collection::vec(a_move(), 1..120)) {
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
        prop_assert_eq!(again.rows(), world.desk.rows());
        prop_assert_eq!(again.scheduler().snapshot(), world.desk.scheduler().snapshot());
        leave(&mut world)?;
    }
}

/// When everybody has left and every model is gone, nothing is held and nobody waits.
fn leave(world: &mut World) -> Result<(), TestCaseError> {
    for (name, gpus) in RUNNERS {
        world.runner(name, gpus);
    }
    for name in MODELS {
        world.desk.drop_model(world.now(), name);
    }
    world.settle();
    world.settle();
    let left: BTreeMap<_, _> =
        world.desk.slots().map(|slot| (slot.id.clone(), world.desk.stage(slot).name())).collect();
    prop_assert_eq!(left, BTreeMap::new());
    prop_assert!(world.desk.scheduler().queue().is_empty());
    prop_assert_eq!(world.desk.scheduler().ledger().holdings().count(), 0);
    Ok(())
}
