//! A server whose data is older than what its runners know, or new; and runners that come and go.

use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{Manners, PlaceStatus, RunnerError};
use plimsoll_slots::wire::{Action, DeviceFacts, OnDevice, SlotState};

use crate::world::{GIB, Process, World, registration};

/// A world whose only slot was sent to start when its data was copied.
fn copied_while_starting() -> (World, plimsoll_slots::desk::Desk, u64) {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let place = world.ask("m");
    world.commit();
    let copy = world.recovered();
    // Its first start fails, and another one is ordered.
    let orders = world.desk.orders("r");
    world.machines.get_mut("r").expect("there").obey(&orders, false);
    hold_back(&mut world);
    (world, copy, place)
}

/// Time passes until a start that failed is tried again, and the runners go on talking.
fn hold_back(world: &mut World) {
    for _ in 0..12 {
        let names: Vec<String> = world.machines.keys().cloned().collect();
        names.iter().for_each(|name| world.say(name));
        world.pass(5_000);
    }
}

fn is_ready(world: &World, place: u64) -> bool {
    matches!(world.status(place), PlaceStatus::Ready { .. })
}

fn ends_well(mut world: World, place: u64) {
    assert!(is_ready(&world, place));
    assert_eq!(world.load("r", 0), 10 * GIB);
    world.desk.stop_slot(world.now(), "slot-1").expect("it is there");
    world.settle();
    assert_eq!(world.load("r", 0), 0, "it was stopped, and its memory is back");
    assert!(world.machines["r"].processes.is_empty());
}

#[test]
fn a_slot_that_was_started_again_since_the_data_was_copied_is_known_and_can_be_stopped() {
    let (mut world, copy, place) = copied_while_starting();
    world.settle();
    assert!(is_ready(&world, place));
    world.desk = copy;
    world.say("r");
    assert_eq!(world.machines["r"].started, 2, "nothing is started beside it");
    ends_well(world, place);
}

#[test]
fn a_slot_whose_later_start_failed_since_the_data_was_copied_is_started_once_more() {
    let (mut world, copy, place) = copied_while_starting();
    let orders = world.desk.orders("r");
    world.machines.get_mut("r").expect("there").obey(&orders, false);
    world.desk = copy;
    world.say("r");
    world.settle();
    assert_eq!(world.machines["r"].started, 3);
    ends_well(world, place);
}

/// Something of model m runs on the machine of r, from before the server's data begins.
fn runs(world: &mut World, slot: &str, gib: u64) {
    let on = vec![OnDevice { index: 0, bytes: gib * GIB }];
    let running = Process {
        generation: 12,
        model: "m".to_string(),
        state: SlotState::Running,
        booked: on.clone(),
        used: on,
    };
    let machine = world.machines.entry("r".to_string()).or_default();
    machine.processes.insert(slot.to_string(), running);
}

#[test]
fn what_runs_is_counted_by_a_server_that_starts_anew_and_its_own_slots_get_other_names() {
    let mut world = World::new(Policy::spread());
    world.model("other", "memory: 10GiB");
    let place = world.ask("other");
    runs(&mut world, "slot-1", 20);
    world.runner("r", &[80]);
    world.settle();
    assert!(is_ready(&world, place));
    assert_eq!(world.load("r", 0), 30 * GIB);
    let processes = &world.machines["r"].processes;
    let models: Vec<(&str, &str)> =
        processes.iter().map(|(slot, process)| (slot.as_str(), process.model.as_str())).collect();
    assert_eq!(models, [("slot-1", "m"), ("slot-2", "other")]);
    world.desk.stop_slot(world.now(), "slot-1@r").expect("it is there");
    world.settle();
    assert_eq!(world.load("r", 0), 10 * GIB, "the other one serves on");
    assert!(is_ready(&world, place));
}

#[test]
fn what_a_runner_has_is_taken_for_what_is_to_be_warmed() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB\nprewarm: true");
    runs(&mut world, "slot-9", 10);
    world.runner("r", &[80]);
    world.settle();
    assert_eq!((world.load("r", 0), world.machines["r"].started), (10 * GIB, 0));
}

#[test]
fn a_runner_that_is_ending_gets_nothing_new_and_what_waits_goes_elsewhere() {
    let mut world = World::new(Policy::spread());
    world.model("a", "memory: 70GiB");
    world.model("b", "memory: 70GiB");
    world.runner("r1", &[80]);
    let first = world.ask("a");
    world.settle();
    assert!(is_ready(&world, first));
    let second = world.ask("b");
    let machine = world.machines.get_mut("r1").expect("there");
    machine.processes.values_mut().for_each(|process| process.state = SlotState::Gone);
    let last = plimsoll_slots::wire::Heartbeat { ending: true, ..machine.heartbeat() };
    let orders = world.desk.beat(world.now(), "r1", last).expect("it is registered");
    assert!(orders.orders.iter().all(|order| order.action != Action::Start), "{orders:?}");
    world.machines.remove("r1");
    world.runner("r2", &[80]);
    world.settle();
    assert!(is_ready(&world, second));
    // Its next agent gets work again.
    world.runner("r1", &[80]);
    let third = world.ask("a");
    world.settle();
    assert!(is_ready(&world, third));
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
    hold_back(&mut world);
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
    assert!(is_ready(&world, first), "{:?}", world.status(first));
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
    assert!(is_ready(&world, first));
    let process = world.machines.get_mut("r").expect("there").processes.get_mut("slot-1").expect("it runs");
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
fn a_slot_that_was_found_running_goes_by_the_declaration_of_its_model() {
    for declared_first in [true, false] {
        let mut world = World::new(Policy::spread());
        let declare = |world: &mut World| world.model("m", "memory: 20GiB\nidle_limit: 1s");
        if declared_first {
            declare(&mut world);
        }
        runs(&mut world, "slot-1", 20);
        world.runner("r", &[30]);
        world.settle();
        declare(&mut world);
        world.model("other", "memory: 20GiB");
        let place = world.ask("other");
        for _ in 0..5 {
            world.settle();
            world.pass(1_000);
        }
        assert!(is_ready(&world, place), "{}", world.desk.why_waiting(place));
    }
}

#[test]
fn a_runner_registers_again_where_it_is_to_report_at_another_pace() {
    let mut world = World::new(Policy::spread());
    world.runner("r", &[80]);
    world.commit();
    world.desk = world.recovered_with(Manners { heartbeat: 500, lease: 1000, ..Manners::default() });
    let (session, beat) = {
        let machine = world.machines.get_mut("r").expect("there");
        (machine.session, machine.heartbeat())
    };
    let refused = world.desk.beat(world.now(), "r", beat.clone()).expect_err("it does not know the pace");
    assert_eq!(refused, RunnerError::NotRegistered);
    world.desk.register(world.now(), "r", registration("r", session, &[80])).expect("it may register");
    world.desk.beat(world.now(), "r", beat).expect("and is heard");
}
