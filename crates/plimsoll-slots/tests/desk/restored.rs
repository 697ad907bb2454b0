//! A server whose data is older than what its runners know, or new.

use plimsoll_core::front::Host;
use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{Desk, ReservationId};
use plimsoll_slots::simulated_runner::SimulatedRunner;

use crate::world::{GIB, World, running};

/// A world, and a copy of its server from the moment when its only slot was ordered to start. Since
/// then that start has failed, and another one is ordered.
fn copied_while_starting() -> (World, Host<Desk>, ReservationId) {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let id = world.reserve("m");
    world.commit();
    let copy = world.recovered();
    world.beat_failing("r");
    world.wait_for_retry();
    (world, copy, id)
}

fn ends_well(mut world: World, id: ReservationId) {
    assert!(world.is_ready(id));
    assert_eq!(world.load("r", 0), 10 * GIB);
    world.stop_slot("slot-1");
    world.settle();
    assert_eq!(world.load("r", 0), 0, "it was stopped and released its memory");
    assert!(world.machines["r"].processes().is_empty());
}

#[test]
fn a_slot_that_was_started_again_since_the_copy_is_known_and_can_be_stopped() {
    let (mut world, copy, id) = copied_while_starting();
    world.settle();
    assert!(world.is_ready(id));
    world.host = copy;
    world.report("r");
    assert_eq!(world.machines["r"].starts(), 2, "nothing is started beside it");
    ends_well(world, id);
}

#[test]
fn a_slot_whose_later_start_failed_since_the_copy_is_started_once_more() {
    let (mut world, copy, id) = copied_while_starting();
    world.machine("r").conduct.failure = Some("exit status 1".to_string());
    world.obey("r");
    world.machine("r").conduct.failure = None;
    world.host = copy;
    world.report("r");
    world.settle();
    assert_eq!(world.machines["r"].starts(), 3);
    ends_well(world, id);
}

/// Adds runner `r` with a slot of model `m` that runs from before the server's data begins.
fn runner_with(world: &mut World, slot: &str, used: u64, gpu: u64) {
    let mut machine = SimulatedRunner::with_gpus("r", "NVIDIA A100", &[gpu]);
    machine.put_process(slot, running("m", 12, &[(0, used)]));
    world.machines.insert("r".to_string(), machine);
    world.runner("r", &[gpu]);
    world.settle();
}

#[test]
fn a_server_with_new_data_counts_what_runs_and_gives_its_own_slots_other_names() {
    let mut world = World::new(Policy::spread());
    world.model("other", "memory: 10GiB");
    let id = world.reserve("other");
    runner_with(&mut world, "slot-1", 20, 80);
    assert!(world.is_ready(id));
    assert_eq!(world.load("r", 0), 30 * GIB);
    let processes = world.machines["r"].processes();
    let models: Vec<(&str, &str)> =
        processes.iter().map(|(slot, process)| (slot.as_str(), process.model.as_str())).collect();
    assert_eq!(models, [("slot-1", "m"), ("slot-2", "other")]);
    world.stop_slot("slot-1@r");
    world.settle();
    assert_eq!(world.load("r", 0), 10 * GIB, "the other one goes on");
    assert!(world.is_ready(id));
}

#[test]
fn a_slot_that_already_runs_counts_as_prewarmed() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB\nprewarm: true");
    runner_with(&mut world, "slot-9", 10, 80);
    assert_eq!((world.load("r", 0), world.machines["r"].starts()), (10 * GIB, 0));
}

#[test]
fn an_adopted_slot_gets_the_terms_of_its_model_whenever_that_is_declared() {
    for declared_first in [true, false] {
        let mut world = World::new(Policy::spread());
        let declare = |world: &mut World| world.model("m", "memory: 20GiB\nidle_limit: 1s");
        if declared_first {
            declare(&mut world);
        }
        runner_with(&mut world, "slot-1", 20, 30);
        declare(&mut world);
        world.model("other", "memory: 20GiB");
        let id = world.reserve("other");
        for _ in 0..5 {
            world.settle();
            world.pass(1_000);
        }
        assert!(world.is_ready(id), "{}", world.reason(id));
    }
}
