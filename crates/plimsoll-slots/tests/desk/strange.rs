//! Runners that report what the server did not expect: it is counted, and no other slot is harmed.

use plimsoll_slots::desk::RunnerError;
use plimsoll_slots::simulated_runner::{MemoryUse, SimulatedRunner, Telemetry};
use plimsoll_slots::wire::{DeviceStatus, Process};

use crate::world::{GIB, World, registration, running, used};

#[test]
fn a_report_does_not_count_for_a_pending_slot_of_the_same_name() {
    let mut world = World::with_runners(&[("b", "memory: 60GiB")], &[]);
    let id = world.reserve("b");
    let mut machine = SimulatedRunner::with_gpus("r", "NVIDIA A100", &[80]);
    machine.put_process("slot-1", running("a", 57, &[(0, 70)]));
    world.machines.insert("r".to_string(), machine);
    world.runner("r", &[80]);
    world.settle();
    world.assert_pending(id, ""); // Another model does not serve it.
    world.assert_loads(&[("r", 70)]);
    let generation = world.orders("r").orders[0].generation;
    assert_eq!(generation, 57, "the order has the number that the runner knows");
    world.machine("r").end_process("slot-1", "killed");
    world.settle();
    world.restart();
    world.settle();
    world.assert_ready(&[id]);
}

#[test]
fn a_runner_gets_nothing_new_before_its_first_heartbeat() {
    let mut world = World::with_runners(&[("b", "memory: 70GiB")], &[]);
    let id = world.reserve("b");
    let orders = world.register("r", registration("r", world.now, &[80]));
    assert!(orders.expect("the registration is valid").orders.is_empty());
    world.assert_pending(id, "");
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
    world.assert_loads(&[("r", 80)]); // 30 foreign and 50 charged.
}

#[test]
fn memory_that_a_slot_uses_on_a_device_that_it_was_not_booked_on_is_counted_there() {
    let on_first = "memory: 10GiB\nwhere: {required: {indices: [0]}}";
    let mut world = World::with(&[("m", on_first)], &[80, 80]);
    world.machine("r").conduct.telemetry = Telemetry::On;
    world.serve("m");
    world.process("r", "slot-1").used = used(&[(0, 10), (1, 40)]);
    world.settle();
    assert_eq!((world.load("r", 0), world.load("r", 1)), (10 * GIB, 40 * GIB));
}

#[test]
fn declared_foreign_memory_counts_where_nothing_is_measured() {
    let mut world = World::with(&[], &[80]);
    let mut beat = world.machine("r").report();
    let process = Process { pid: None, name: Some("declared".to_string()), bytes: Some(50 * GIB) };
    let foreign = vec![process];
    let (used, utilisation, stale_for) = (None, None, None);
    beat.devices = vec![DeviceStatus { index: 0, used, utilisation, foreign, stale_for }];
    world.heartbeat("r", beat).expect("the runner is registered");
    world.assert_loads(&[("r", 50)]);
}

#[test]
fn a_slot_on_a_device_that_the_runner_does_not_have_closes_those_that_it_has() {
    let mut world = World::with(&[("m", "memory: 1GiB")], &[80]);
    world.machine("r").put_process("odd", running("odd", 1, &[(0, 70), (7, 5)]));
    world.settle();
    world.assert_loads(&[("r", 70)]);
    world.reserve_pending("m", "");
}

#[test]
fn two_runners_with_a_slot_of_one_name_each_keep_their_own() {
    let mut world = World::with_runners(&[], &[("r1", &[80]), ("r2", &[80])]);
    world.machine("r1").put_process("y", running("m", 1, &[(0, 30)]));
    world.machine("r2").put_process("y", running("m", 1, &[(0, 20)]));
    world.settle();
    world.assert_loads(&[("r1", 30), ("r2", 20)]);
    for runner in ["r1", "r2"] {
        world.machine(runner).end_process("y", "killed");
        world.settle();
    }
    world.assert_loads(&[("r1", 0), ("r2", 0)]);
    assert_eq!(world.view().slots().count(), 0);
}

#[test]
fn a_slot_with_an_absurd_number_or_name_does_not_affect_later_ones() {
    let mut world = World::with(&[("d", "memory: 1GiB"), ("e", "memory: 1GiB")], &[80]);
    world.machine("r").put_process("slot-18446744073709551615", running("odd", 1, &[(0, 1)]));
    world.settle();
    world.serve("d");
    world.serve("e");
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
