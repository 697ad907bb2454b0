//! The cases of the acceptance page that are about places, slots and runners.

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Ask, AskError, Ending, PlaceStatus, Unplaced};
use plimsoll_slots::wire::{OnDevice, SlotState};

use crate::world::{GIB, Process, World, slot_of, stages};

#[test]
fn a_place_is_waiting_then_coming_then_ready_and_is_given_back() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    let place = world.ask("m");
    assert_eq!(world.status(place), PlaceStatus::Waiting, "there is no runner yet");
    assert!(
        world.desk.why_waiting(place).contains("there is no runner yet"),
        "{}",
        world.desk.why_waiting(place)
    );
    world.runner("r", &[80]);
    assert!(matches!(world.status(place), PlaceStatus::Coming { .. }));
    world.beat("r");
    assert!(world.status(place).is_ready());
    assert_eq!(world.load("r", 0), 10 * GIB);
    assert!(world.desk.give_back(world.now(), place));
    assert!(world.desk.give_back(world.now(), place), "twice is as good as once");
    assert!(!world.desk.give_back(world.now(), 99));
    assert!(matches!(world.status(place), PlaceStatus::Ended { how: Ending::Released, .. }));
    assert_eq!(world.load("r", 0), 10 * GIB, "the slot stays warm");
}

#[test]
fn f6_a_slot_of_concurrency_eight_takes_eight_and_the_ninth_waits() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB\nconcurrency: 8");
    world.runner("r", &[80]);
    let places: Vec<u64> = (0..9).map(|_| world.ask("m")).collect();
    world.settle();
    assert!(places[..8].iter().all(|place| world.status(*place).is_ready()));
    assert_eq!(world.status(places[8]), PlaceStatus::Waiting);
    assert!(
        world.desk.why_waiting(places[8]).contains("all 8 places"),
        "{}",
        world.desk.why_waiting(places[8])
    );
    world.desk.give_back(world.now(), places[3]);
    assert!(world.status(places[8]).is_ready());
    assert_eq!(world.machines["r"].started, 1);
}

#[test]
fn f6_a_b_c_d_a_are_four_requirements_in_that_order() {
    let mut world = World::new(Policy::spread());
    for name in ["a", "b", "c", "d", "full"] {
        world.model(name, "memory: 60GiB\nconcurrency: 4\neviction: never");
    }
    world.runner("r", &[80]);
    world.ask("full");
    world.settle();
    for name in ["a", "b", "c", "d", "a"] {
        world.ask(name);
    }
    let waiting: Vec<(String, u32)> = world
        .desk
        .unplaced()
        .filter_map(|unplaced| match unplaced {
            Unplaced::Slot { slot, places, .. } => Some((slot.model.clone(), places)),
            Unplaced::Place(_) => None,
        })
        .collect();
    let expected =
        [("a", 2), ("b", 1), ("c", 1), ("d", 1)].map(|(name, places)| (name.to_string(), places));
    assert_eq!(waiting, expected);
}

#[test]
fn f6_what_no_empty_fleet_could_hold_is_refused_at_once_and_the_rest_waits() {
    let mut world = World::new(Policy::spread());
    world.model("huge", "memory: 81GiB");
    world.model("unknown", "");
    world.model("fits", "memory: 80GiB\nmax_slots: 2");
    world.runner("r", &[80]);
    for (name, part) in [("huge", "80 GiB"), ("unknown", "memory")] {
        let place = world.ask(name);
        let PlaceStatus::Ended { how: Ending::Refused, reason } = world.status(place) else {
            panic!("{name}")
        };
        assert!(reason.contains(part), "{reason}");
    }
    assert!(world.desk.slots().next().is_none(), "nothing is left of them");
    let (first, second) = (world.ask("fits"), world.ask("fits"));
    world.settle();
    assert!(world.status(first).is_ready());
    assert_eq!(world.status(second), PlaceStatus::Waiting);
}

#[test]
fn f7_one_request_and_three_runners_make_one_slot_also_with_the_same_key_again() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB\nmax_slots: 3");
    world.model("other", "memory: 10GiB");
    ["r1", "r2", "r3"].iter().for_each(|name| world.runner(name, &[80]));
    let ask = |model: &str| Ask {
        model: model.to_string(),
        key: Some("k".to_string()),
        who: None,
        deadline: None,
    };
    let first = world.desk.ask(world.now(), ask("m"));
    world.settle();
    assert_eq!(world.desk.ask(world.now(), ask("m")), first);
    world.restart();
    assert_eq!(world.desk.ask(world.now(), ask("m")), first);
    let other = world.desk.ask(world.now(), ask("other"));
    assert!(matches!(other, Err(AskError::KeyUsed { .. })), "{other:?}");
    world.settle();
    assert_eq!(world.machines.values().map(|machine| machine.started).sum::<u32>(), 1);
    assert_eq!(
        world.desk.ask(world.now(), Ask { key: None, ..ask("none") }),
        Err(AskError::NoSuchModel)
    );
}

#[test]
fn a_deadline_ends_waiting_and_not_being_served() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 60GiB");
    world.model("n", "memory: 60GiB\neviction: never");
    world.runner("r", &[80]);
    let at = |world: &World, millis| Some(Millis(world.now + millis));
    let served = Ask { model: "m".to_string(), key: None, who: None, deadline: at(&world, 5_000) };
    let served = world.desk.ask(world.now(), served).expect("declared");
    world.settle();
    let late = Ask { model: "n".to_string(), key: None, who: None, deadline: at(&world, 5_000) };
    let late = world.desk.ask(world.now(), late).expect("declared");
    world.pass(4_000);
    assert_eq!(world.status(late), PlaceStatus::Waiting);
    world.pass(2_000);
    assert!(world.status(served).is_ready());
    let PlaceStatus::Ended { how: Ending::Expired, reason } = world.status(late) else {
        panic!("it still waits")
    };
    assert!(reason.contains("deadline") && reason.contains("20 GiB free"), "{reason}");
    assert!(world.desk.scheduler().queue().is_empty(), "nobody waits for it any more");
}

#[test]
fn c6_a_start_that_always_fails_backs_off_tells_the_truth_and_starves_nobody() {
    let mut world = World::new(Policy::spread());
    world.model("bad", "memory: 60GiB");
    world.model("good", "memory: 60GiB");
    world.runner("r", &[80]);
    let bad = world.ask("bad");
    let orders = world.desk.orders("r");
    world.machines.get_mut("r").expect("there").obey(&orders, false);
    world.say("r");
    assert!(
        world.desk.why_waiting(bad).contains("failed")
            && world.desk.why_waiting(bad).contains("it went")
    );
    let good = world.ask("good");
    world.settle();
    assert!(world.status(good).is_ready());
}

#[test]
fn a2_a_runner_that_reports_more_than_a_card_has_is_a_breach_and_gets_nothing() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 1GiB\nwhere: {required: {indices: [0]}}");
    world.runner("r", &[80, 80]);
    for (slot, bytes) in
        [("slot-1", 79_982_566_400), ("slot-2", 15_767_897_088), ("slot-3", 41_875_931_136)]
    {
        let used = vec![OnDevice { index: 0, bytes }];
        let process = Process {
            generation: 1,
            model: slot.to_string(),
            state: SlotState::Running,
            booked: Vec::new(),
            used,
        };
        world.machines.get_mut("r").expect("there").processes.insert(slot.to_string(), process);
    }
    world.settle();
    let breaches = breach::audit(world.desk.scheduler().ledger());
    assert!(matches!(&breaches[..], [Breach::OverLine { .. }]), "{breaches:?}");
    let place = world.ask("m");
    assert_eq!(world.status(place), PlaceStatus::Waiting);
    assert!(world.desk.why_waiting(place).contains("0 free"), "{}", world.desk.why_waiting(place));
}

#[test]
fn c8_a_slow_load_delays_nobody_else_and_two_never_start_on_one_device_at_once() {
    let mut world = World::new(Policy::spread());
    world.model("slow", "memory: 10GiB\nwhere: {required: {indices: [0]}}");
    world.model("beside", "memory: 10GiB\nwhere: {required: {indices: [0]}}");
    world.model("other", "memory: 10GiB\nwhere: {required: {indices: [1]}}");
    world.runner("r", &[80, 80]);
    let (slow, beside, other) = (world.ask("slow"), world.ask("beside"), world.ask("other"));
    let models = |world: &World| {
        let orders = world.desk.orders("r").orders;
        orders.iter().map(|order| order.model.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        models(&world),
        ["slow", "other"],
        "the second start on the device is not ordered yet"
    );
    let orders = world.desk.orders("r");
    let machine = world.machines.get_mut("r").expect("there");
    machine.obey(&orders, true);
    machine.processes.get_mut("slot-1").expect("ordered").state = SlotState::Starting;
    world.say("r");
    world.pass(20 * 60_000 / 100);
    assert!(world.status(other).is_ready());
    assert!(matches!(world.status(slow), PlaceStatus::Coming { .. }));
    assert!(matches!(world.status(beside), PlaceStatus::Coming { .. }));
    world.machines.get_mut("r").expect("there").processes.get_mut("slot-1").expect("there").state =
        SlotState::Running;
    world.settle();
    assert!([slow, beside, other].iter().all(|place| world.status(*place).is_ready()));
}

#[test]
fn d1_an_idle_slot_makes_room_and_an_active_one_does_not() {
    let mut world = World::new(Policy::spread());
    for name in ["a", "b"] {
        world.model(name, "memory: 70GiB\nidle_limit: 10s");
    }
    world.model("c", "memory: 45GiB");
    world.runner("r", &[80, 80]);
    let (a, b) = (world.ask("a"), world.ask("b"));
    world.settle();
    let c = world.ask("c");
    assert!(
        world.desk.why_waiting(c).contains("active (1 in flight)"),
        "{}",
        world.desk.why_waiting(c)
    );
    world.desk.give_back(world.now(), a);
    world.desk.give_back(world.now(), b);
    world.pass(9_000);
    assert_eq!(world.status(c), PlaceStatus::Waiting);
    world.pass(2_000);
    assert_eq!(
        stages(&world).iter().filter(|(_, stage)| *stage == "releasing").count(),
        1,
        "exactly one goes"
    );
    assert_eq!(world.status(c), PlaceStatus::Waiting, "what is going back is not free");
    world.settle();
    assert!(world.status(c).is_ready());
}

#[test]
fn d4_prewarming_never_evicts_and_becomes_real_when_somebody_asks() {
    let mut world = World::new(Policy::spread());
    world.model("one", "memory: 30GiB\nprewarm: true");
    world.model("two", "memory: 30GiB\nprewarm: true");
    world.runner("r", &[40]);
    world.settle();
    let running =
        |world: &World| stages(world).iter().filter(|(_, stage)| *stage == "running").count();
    assert_eq!(running(&world), 1, "the set sums to at most 40");
    let place = world.ask("one");
    world.settle();
    assert!(world.status(place).is_ready());
    world.desk.give_back(world.now(), place);
    world.pass(60_000);
    let second = world.ask("two");
    world.settle();
    assert_eq!(
        world.status(second),
        PlaceStatus::Waiting,
        "what was asked for is not warm any more but real: five minutes"
    );
    world.pass(300_000);
    world.settle();
    assert!(world.status(second).is_ready());
}

#[test]
fn f5_a_slot_that_grows_past_its_charge_raises_it_and_closes_the_device() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 70GiB");
    world.model("n", "memory: 5GiB");
    world.runner("r", &[80]);
    world.ask("m");
    world.settle();
    let machine = world.machines.get_mut("r").expect("there");
    machine.processes.get_mut("slot-1").expect("there").used[0].bytes = 79 * GIB;
    world.settle();
    assert_eq!(world.load("r", 0), 79 * GIB);
    let place = world.ask("n");
    assert_eq!(world.status(place), PlaceStatus::Waiting);
}

#[test]
fn b13_foreign_memory_counts_to_the_byte() {
    let mut world = World::new(Policy::spread());
    let foreign = 21 * GIB + 3 * GIB / 10;
    world.model("exact", &format!("memory: {}", 80 * GIB - foreign));
    world.model("more", &format!("memory: {}", 80 * GIB - foreign + 1));
    world.runner("r", &[80]);
    world.machines.get_mut("r").expect("there").measured = Some(vec![foreign]);
    world.settle();
    let more = world.ask("more");
    assert!(world.desk.why_waiting(more).contains("foreign"), "{}", world.desk.why_waiting(more));
    let exact = world.ask("exact");
    world.settle();
    assert!(world.status(exact).is_ready());
}

#[test]
fn a_crashed_slot_loses_its_places_and_the_next_who_asks_gets_a_new_one() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let place = world.ask("m");
    world.settle();
    world.machines.get_mut("r").expect("there").processes.clear();
    world.settle();
    assert!(matches!(world.status(place), PlaceStatus::Ended { how: Ending::Lost, .. }));
    let next = world.ask("m");
    world.settle();
    assert!(world.status(next).is_ready());
}

#[test]
fn a_model_that_is_no_longer_declared_frees_everything() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let (first, second) = (world.ask("m"), world.ask("m"));
    world.settle();
    assert!(world.desk.drop_model(world.now(), "m"));
    assert!(!world.desk.drop_model(world.now(), "m"));
    world.settle();
    assert!(
        [first, second]
            .iter()
            .all(|place| matches!(world.status(*place), PlaceStatus::Ended { .. }))
    );
    assert_eq!((world.load("r", 0), world.desk.slots().count()), (0, 0));
}

#[test]
fn a_slot_that_fails_to_start_is_not_tried_again_when_nobody_waits_for_it() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let place = world.ask("m");
    world.desk.give_back(world.now(), place);
    assert_eq!(stages(&world), [("m".to_string(), "starting")], "it has left, and is waited for");
    let orders = world.desk.orders("r");
    world.machines.get_mut("r").expect("there").obey(&orders, false);
    world.say("r");
    assert_eq!(stages(&world), []);
    assert!(world.desk.scheduler().queue().is_empty());
    assert_eq!(world.load("r", 0), 0);
}

#[test]
fn f6_one_who_waits_for_a_further_slot_gets_the_place_that_comes_free_in_an_earlier_one() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 50GiB\nmax_slots: 2");
    world.runner("r", &[80]);
    let first = world.ask("m");
    world.settle();
    let second = world.ask("m");
    assert_eq!(world.status(second), PlaceStatus::Waiting);
    assert_eq!(stages(&world).len(), 2);
    world.desk.give_back(world.now(), first);
    assert!(world.status(second).is_ready(), "{:?}", world.status(second));
    assert_eq!(
        stages(&world),
        [("m".to_string(), "running")],
        "the slot that nobody waits for is gone"
    );
    let third = world.ask("m");
    assert_eq!(world.status(third), PlaceStatus::Waiting, "nobody overtakes");
}

#[test]
fn one_who_loses_a_place_is_told_why_the_process_ended() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let place = world.ask("m");
    world.settle();
    let slot = slot_of(&world, place).to_string();
    let mut beat = world.machines.get_mut("r").expect("there").heartbeat();
    beat.slots[0].state = SlotState::Gone;
    beat.slots[0].reason = Some("exit status 9: CUDA error: out of memory".to_string());
    assert_eq!(beat.slots[0].slot, slot);
    world.desk.beat(world.now(), "r", beat).expect("it is registered");
    assert_eq!(
        world.desk.why_waiting(place),
        "its slot went: exit status 9: CUDA error: out of memory"
    );
}
