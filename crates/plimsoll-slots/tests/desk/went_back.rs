//! A server whose data is older than what its runners know, or new.

use plimsoll_core::policy::Policy;
use plimsoll_slots::wire::{OnDevice, SlotState};

use crate::world::{GIB, Process, World};

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
    world.hold_back();
    (world, copy, place)
}

fn ends_well(mut world: World, place: u64) {
    assert!(world.status(place).is_ready());
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
    assert!(world.status(place).is_ready());
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
    assert!(world.status(place).is_ready());
    assert_eq!(world.load("r", 0), 30 * GIB);
    let processes = &world.machines["r"].processes;
    let models: Vec<(&str, &str)> =
        processes.iter().map(|(slot, process)| (slot.as_str(), process.model.as_str())).collect();
    assert_eq!(models, [("slot-1", "m"), ("slot-2", "other")]);
    world.desk.stop_slot(world.now(), "slot-1@r").expect("it is there");
    world.settle();
    assert_eq!(world.load("r", 0), 10 * GIB, "the other one serves on");
    assert!(world.status(place).is_ready());
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
        assert!(world.status(place).is_ready(), "{}", world.desk.why_waiting(place));
    }
}
