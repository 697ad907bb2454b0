//! Runners that come and go, fail, fall silent and end.

use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Ending, Manners, PlaceStatus, RunnerError, SlotStage};
use plimsoll_slots::wire::{Action, DeviceFacts, Heartbeat, OnDevice, Registration, SlotState};

use crate::world::{GIB, Process, World, registration, slot_of, stages};

#[test]
fn c7_a_silent_runner_keeps_its_slots_gets_no_work_and_is_adopted_on_return() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.model("n", "memory: 10GiB");
    world.runner("r", &[80]);
    let place = world.ask("m");
    world.settle();
    world.pass(6_000);
    assert!(!world.desk.is_silent("r"), "six seconds are no silence");
    world.pass(20_000);
    assert!(world.desk.is_silent("r"));
    assert_eq!(world.load("r", 0), 10 * GIB, "still charged");
    let second = world.ask("n");
    assert_eq!(world.status(second), PlaceStatus::Waiting);
    assert!(
        world.desk.why_waiting(second).contains("silent"),
        "{}",
        world.desk.why_waiting(second)
    );
    world.restart();
    world.runner("r", &[80]);
    world.settle();
    assert!(world.status(place).is_ready() && world.status(second).is_ready());
    assert_eq!(world.machines["r"].started, 2, "what ran was not started again");
}

#[test]
fn c7_nobody_is_sent_to_a_slot_whose_runner_is_silent_while_another_has_room() {
    let mut world = World::new(Policy::pack());
    world.model("m", "memory: 10GiB\nconcurrency: 4");
    world.runner("r1", &[80]);
    let before = world.ask("m");
    world.settle();
    world.pass(20_000);
    world.runner("r2", &[80]);
    let slot = slot_of(&world, before);
    assert_eq!(world.desk.stage(world.desk.slot(&slot).expect("kept")), SlotStage::Unknown);
    assert!(
        world.desk.why_waiting(before).contains("silent"),
        "{}",
        world.desk.why_waiting(before)
    );
    let after = world.ask("m");
    world.beat("r2");
    assert!(world.status(after).is_ready() && slot_of(&world, after) != slot);
    assert_eq!(
        (world.load("r1", 0), world.load("r2", 0)),
        (10 * GIB, 10 * GIB),
        "both are charged"
    );
    world.runner("r1", &[80]);
    world.settle();
    assert_eq!(world.desk.stage(world.desk.slot(&slot).expect("kept")), SlotStage::Running);
    assert_eq!(world.machines["r1"].started, 1, "it is adopted, not killed");
}

#[test]
fn c7_a_slot_that_nobody_knows_is_charged_at_what_it_uses_and_not_stopped() {
    let mut world = World::new(Policy::spread());
    world.runner("r", &[80]);
    let used = vec![OnDevice { index: 0, bytes: 30 * GIB }];
    let process = Process {
        generation: 77,
        model: "lost".to_string(),
        state: SlotState::Running,
        booked: Vec::new(),
        used,
    };
    world.machines.get_mut("r").expect("there").processes.insert("slot-900".to_string(), process);
    world.settle();
    assert_eq!(world.load("r", 0), 30 * GIB);
    assert_eq!(stages(&world), [("lost".to_string(), "running")]);
    world
        .machines
        .get_mut("r")
        .expect("there")
        .processes
        .get_mut("slot-900")
        .expect("there")
        .state = SlotState::Gone;
    world.settle();
    assert_eq!((world.load("r", 0), world.desk.slots().count()), (0, 0));
    world.model("m", "memory: 1GiB");
    world.ask("m");
    assert!(world.desk.slot("slot-901").is_some(), "its number is not given out again");
}

#[test]
fn two_agents_with_one_name_or_one_device_are_not_both_believed() {
    let mut world = World::new(Policy::spread());
    world.runner("r", &[80]);
    let now = world.now();
    let earlier = world.desk.register(now, "r", registration("r", 5, &[80]));
    assert_eq!(earlier, Err(RunnerError::Superseded { session: world.now }));
    let twin = world.desk.register(now, "twin", registration("r", world.now, &[80]));
    assert!(matches!(twin, Err(RunnerError::DeviceTaken { .. })), "{twin:?}");
    for name in ["", "a b", "a/b", &"x".repeat(201)] {
        assert_eq!(
            world.desk.register(now, name, registration("q", 1, &[])),
            Err(RunnerError::BadName),
            "{name}"
        );
    }
}

#[test]
fn a_runner_is_removed_only_when_it_is_silent_and_its_slots_go_with_it() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let place = world.ask("m");
    world.settle();
    assert_eq!(world.desk.remove_runner(world.now(), "r"), Err(RunnerError::Alive));
    world.pass(60_000);
    assert_eq!(world.desk.remove_runner(world.now(), "r"), Ok(()));
    assert!(matches!(world.status(place), PlaceStatus::Ended { how: Ending::Lost, .. }));
    assert_eq!((world.desk.runners().count(), world.desk.slots().count()), (0, 0));
    assert_eq!(world.desk.remove_runner(world.now(), "r"), Err(RunnerError::NotRegistered));
}

#[test]
fn c6_a_runner_where_every_start_fails_is_tried_after_those_where_they_do_not() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 30GiB");
    world.model("n", "memory: 50GiB");
    world.runner("bad", &[80]);
    world.runner("good", &[60]);
    let beat = |world: &mut World| {
        let orders = world.desk.orders("bad");
        world.machines.get_mut("bad").expect("there").obey(&orders, false);
        world.say("bad");
        world.beat("good");
        world.pass(5_000);
    };
    let m = world.ask("m");
    (0..8).for_each(|_| beat(&mut world));
    assert!(world.status(m).is_ready(), "{}", world.desk.why_waiting(m));
    world.desk.give_back(world.now(), m);
    let slot = world.desk.slots().next().expect("that of m").id.clone();
    world.desk.stop_slot(world.now(), &slot).expect("it is there");
    (0..2).for_each(|_| beat(&mut world));
    let n = world.ask("n");
    (0..2).for_each(|_| beat(&mut world));
    assert!(
        world.status(n).is_ready(),
        "what failed there for one is not tried with another first"
    );
}

#[test]
fn a_start_is_called_off_when_its_runner_comes_back_with_smaller_devices() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 50GiB");
    world.runner("r", &[80]);
    let place = world.ask("m");
    assert_eq!(world.desk.orders("r").orders[0].action, Action::Start);
    let mut smaller = registration("r", world.now + 1, &[24]);
    smaller.devices[0].uuid = None;
    world.desk.register(world.now(), "r", smaller).expect("it may register");
    let order = world.desk.orders("r").orders.remove(0);
    assert_eq!(order.action, Action::Stop, "nothing of it starts on 24 GiB");
    let gone = order.done(&[]);
    let session = world.now + 1;
    let beat = Heartbeat::of(session, 1, vec![gone]);
    world.desk.beat(world.now(), "r", beat).expect("it is registered");
    assert_eq!((world.load("r", 0), world.status(place)), (0, PlaceStatus::Waiting));
}

#[test]
fn a_registration_that_makes_no_sense_is_refused_with_its_field() {
    let mut world = World::new(Policy::spread());
    let mut wrong = |change: fn(&mut Registration)| {
        let mut registration = registration("r", 1, &[80, 80]);
        change(&mut registration);
        world
            .desk
            .register(Millis(1), "r", registration)
            .expect_err("it makes no sense")
            .to_string()
    };
    let doubled = wrong(|r| r.devices[1] = r.devices[0].clone());
    assert!(doubled.contains("devices[1].uuid") && doubled.contains("devices[0]"), "{doubled}");
    assert!(wrong(|r| r.devices[1].uuid = Some(String::new())).contains("devices[1].uuid"));
    assert!(wrong(|r| r.devices[0].reserve = 81 * GIB).contains("devices[0].reserve"));
    let many = wrong(|r| r.devices = vec![r.devices[0].clone(); 257]);
    assert_eq!(many, "257 devices are reported, and at most 256 may be");
    assert!(
        wrong(|r| drop(r.labels.insert("zone".to_string(), "a".repeat(257))))
            .contains("labels has 257 bytes")
    );
    assert!(
        wrong(|r| r.devices[1].model = Some("A".repeat(257)))
            .contains("devices[1].model has 257 bytes")
    );
    assert!(wrong(|r| r.version = "1".repeat(257)).contains("version has 257 bytes"));
}

#[test]
fn a_runner_that_is_ending_gets_nothing_new_and_what_waits_goes_elsewhere() {
    let mut world = World::new(Policy::spread());
    world.model("a", "memory: 70GiB");
    world.model("b", "memory: 70GiB");
    world.runner("r1", &[80]);
    let first = world.ask("a");
    world.settle();
    assert!(world.status(first).is_ready());
    let second = world.ask("b");
    let machine = world.machines.get_mut("r1").expect("there");
    machine.processes.values_mut().for_each(|process| process.state = SlotState::Gone);
    let last = Heartbeat { ending: true, ..machine.heartbeat() };
    let orders = world.desk.beat(world.now(), "r1", last).expect("it is registered");
    assert!(orders.orders.iter().all(|order| order.action != Action::Start), "{orders:?}");
    world.machines.remove("r1");
    world.runner("r2", &[80]);
    world.settle();
    assert!(world.status(second).is_ready());
    // Its next agent gets work again.
    world.runner("r1", &[80]);
    let third = world.ask("a");
    world.settle();
    assert!(world.status(third).is_ready());
}

#[test]
fn a_device_whose_health_changes_does_not_make_failed_starts_undone() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("broken", &[80, 80]);
    world.runner("sound", &[40]);
    let _ = world.ask("m");
    let orders = world.desk.orders("broken");
    assert_eq!(orders.orders.len(), 1);
    world.machines.get_mut("broken").expect("there").obey(&orders, false);
    world.say("broken");
    let session = world.machines["broken"].session;
    let mut sick = registration("broken", session, &[80, 80]);
    sick.devices[1] = DeviceFacts { healthy: false, ..sick.devices[1].clone() };
    world.desk.register(world.now(), "broken", sick).expect("it may register");
    world.hold_back();
    assert!(world.desk.orders("broken").orders.is_empty());
    assert_eq!(world.desk.orders("sound").orders.len(), 1);
}

#[test]
fn whoever_waits_for_a_start_on_a_runner_that_fell_silent_is_served_elsewhere() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 70GiB");
    world.runner("dead", &[80]);
    let first = world.ask("m");
    world.runner("other", &[80]);
    world.machines.remove("dead");
    let second = world.ask("m");
    for _ in 0..20 {
        world.settle();
        world.pass(1_000);
    }
    assert!(world.status(first).is_ready(), "{:?}", world.status(first));
    assert_eq!(world.load("dead", 0), 70 * GIB, "what was sent there stays charged");
    assert!(matches!(world.status(second), PlaceStatus::Waiting), "it came later");
}

#[test]
fn nobody_joins_a_slot_that_its_runner_stops_or_that_ends_by_itself() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 20GiB\nconcurrency: 4");
    world.runner("r", &[80]);
    let first = world.ask("m");
    world.settle();
    assert!(world.status(first).is_ready());
    let process =
        world.machines.get_mut("r").expect("there").processes.get_mut("slot-1").expect("it runs");
    process.state = SlotState::Stopping;
    world.say("r");
    let ended = world.status(first);
    assert!(
        matches!(&ended, PlaceStatus::Ended { reason, .. } if reason == "its slot went: its runner stops it")
    );
    let second = world.ask("m");
    assert_eq!(world.load("r", 0), 40 * GIB, "what stops is charged until it is gone");
    world.settle();
    assert!(matches!(world.status(second), PlaceStatus::Ready { slot } if &*slot == "slot-2"));
}

#[test]
fn a_runner_registers_again_where_it_is_to_report_at_another_pace() {
    let mut world = World::new(Policy::spread());
    world.runner("r", &[80]);
    world.commit();
    world.desk =
        world.recovered_with(Manners { heartbeat: 500, lease: 1000, ..Manners::default() });
    let (session, beat) = {
        let machine = world.machines.get_mut("r").expect("there");
        (machine.session, machine.heartbeat())
    };
    let refused =
        world.desk.beat(world.now(), "r", beat.clone()).expect_err("it does not know the pace");
    assert_eq!(refused, RunnerError::NotRegistered);
    world
        .desk
        .register(world.now(), "r", registration("r", session, &[80]))
        .expect("it may register");
    world.desk.beat(world.now(), "r", beat).expect("and is heard");
}
