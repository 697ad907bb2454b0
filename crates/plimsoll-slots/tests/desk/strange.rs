//! Runners that report what the server did not expect: it is counted, and no other slot is harmed.

use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{ReservationStatus, RunnerError};
use plimsoll_slots::simulated_runner::{MemoryUse, SimulatedRunner, Telemetry};
use plimsoll_slots::wire::{DeviceStatus, Process};

use crate::world::{GIB, World, registration, running, used};

#[test]
fn a_report_does_not_stand_for_a_pending_slot_of_the_same_name() {
    let mut world = World::new(Policy::spread());
    world.model("b", "memory: 60GiB");
    let id = world.reserve("b");
    let mut machine = SimulatedRunner::with_gpus("r", "NVIDIA A100", &[80]);
    machine.put_process("slot-1", running("a", 57, &[(0, 70)]));
    world.machines.insert("r".to_string(), machine);
    world.runner("r", &[80]);
    world.settle();
    assert_eq!(world.status(id), ReservationStatus::Pending, "another model does not serve it");
    assert_eq!(world.load("r", 0), 70 * GIB);
    let orders = world.orders("r").orders;
    assert_eq!(orders[0].generation, 57, "the order has the number that the runner knows");
    world.machine("r").end_process("slot-1", "killed");
    world.settle();
    world.restart();
    world.settle();
    assert!(world.is_ready(id));
}

#[test]
fn a_runner_gets_nothing_new_before_its_first_heartbeat() {
    let mut world = World::new(Policy::spread());
    world.model("b", "memory: 70GiB");
    let id = world.reserve("b");
    let orders = world.register("r", registration("r", world.now, &[80]));
    assert!(orders.expect("the registration is valid").orders.is_empty());
    assert_eq!(world.status(id), ReservationStatus::Pending);
}

#[test]
fn foreign_memory_stays_counted_beside_a_slot_whose_use_is_not_measured() {
    let mut world = World::with(&[("m", "memory: 50GiB")], &[80]);
    world.machine("r").conduct.telemetry = Telemetry::On;
    world.machine("r").set_foreign(0, 30 * GIB, None);
    world.settle();
    world.machine("r").conduct.memory = MemoryUse::Unmeasured;
    world.reserve("m");
    world.beat("r");
    assert_eq!(world.load("r", 0), 80 * GIB, "30 foreign and 50 booked");
}

#[test]
fn memory_that_a_slot_uses_on_a_device_that_it_was_not_booked_on_is_counted_there() {
    let mut world =
        World::with(&[("m", "memory: 10GiB\nwhere: {required: {indices: [0]}}")], &[80, 80]);
    world.machine("r").conduct.telemetry = Telemetry::On;
    world.reserve("m");
    world.settle();
    world.process("r", "slot-1").used = used(&[(0, 10), (1, 40)]);
    world.settle();
    assert_eq!((world.load("r", 0), world.load("r", 1)), (10 * GIB, 40 * GIB));
}

#[test]
fn declared_foreign_memory_counts_where_nothing_is_measured() {
    let mut world = World::with(&[], &[80]);
    let mut beat = world.machine("r").report();
    let process = Process { pid: 0, name: Some("declared".to_string()), bytes: Some(50 * GIB) };
    let foreign = vec![process];
    let (used, utilisation, stale_for) = (None, None, None);
    beat.devices = vec![DeviceStatus { index: 0, used, utilisation, foreign, stale_for }];
    world.heartbeat("r", beat).expect("the runner is registered");
    assert_eq!(world.load("r", 0), 50 * GIB);
}

#[test]
fn a_slot_on_a_device_that_the_runner_does_not_have_closes_those_that_it_has() {
    let mut world = World::with(&[("m", "memory: 1GiB")], &[80]);
    world.machine("r").put_process("odd", running("odd", 1, &[(0, 70), (7, 5)]));
    world.settle();
    assert_eq!(world.load("r", 0), 70 * GIB);
    let id = world.reserve("m");
    assert_eq!(world.status(id), ReservationStatus::Pending);
}

#[test]
fn two_runners_with_a_slot_of_one_name_each_keep_their_own() {
    let mut world = World::new(Policy::spread());
    for (runner, gib) in [("r1", 30), ("r2", 20)] {
        world.runner(runner, &[80]);
        world.machine(runner).put_process("y", running("m", 1, &[(0, gib)]));
    }
    world.settle();
    assert_eq!((world.load("r1", 0), world.load("r2", 0)), (30 * GIB, 20 * GIB));
    for runner in ["r1", "r2"] {
        world.machine(runner).end_process("y", "killed");
        world.settle();
    }
    assert_eq!((world.load("r1", 0), world.load("r2", 0)), (0, 0));
    assert_eq!(world.view().slots().count(), 0);
}

#[test]
fn a_slot_with_an_absurd_number_or_name_does_not_affect_later_ones() {
    let mut world = World::with(&[("d", "memory: 1GiB"), ("e", "memory: 1GiB")], &[80]);
    world.machine("r").put_process("slot-18446744073709551615", running("odd", 1, &[(0, 1)]));
    world.settle();
    let (d, e) = (world.reserve("d"), world.reserve("e"));
    world.settle();
    assert!(world.is_ready(d) && world.is_ready(e));
    assert!(world.view().slot("slot-1").is_some() && world.view().slot("slot-2").is_some());
    world.machine("r").put_process("", running("odd", 1, &[]));
    assert!(rejected(&mut world).contains("slots[].slot"));
}

fn rejected(world: &mut World) -> String {
    let beat = world.machine("r").report();
    match world.heartbeat("r", beat) {
        Err(RunnerError::InvalidReport(problem)) => problem.to_string(),
        other => panic!("it is accepted: {other:?}"),
    }
}

#[test]
fn a_runner_that_makes_up_names_without_end_is_rejected() {
    let mut world = World::with(&[], &[80]);
    for crowd in 0..4 {
        world.machine("r").reset_machine();
        for number in 0..1024 {
            let slot = format!("s-{crowd}-{number}");
            world.machine("r").put_process(slot, running("odd", 1, &[]));
        }
        world.report("r");
    }
    world.machine("r").reset_machine();
    world.machine("r").put_process("one-more", running("odd", 1, &[]));
    let problem = rejected(&mut world);
    assert!(problem.contains("1 unknown slots are reported beside 4096 known ones"), "{problem}");
    assert_eq!(world.view().slots().count(), 4096);
}
