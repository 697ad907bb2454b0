//! Runners that are cordoned and drained, and the records of slots that have ended.

use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{
    DeskConfig, EndedSlotLimits, Ending, Intake, Loss, ReservationStatus, RunnerError, SlotEnding,
};
use plimsoll_slots::size::Span;

use crate::world::World;

fn two_runners() -> World {
    World::with_runners(
        &[("m", "memory: 10GiB"), ("n", "memory: 10GiB\nconcurrency: 4")],
        &[("r1", &[80]), ("r2", &[40])],
    )
}

fn runner_of(world: &World, reservation: plimsoll_slots::desk::ReservationId) -> String {
    let slot = world.slot_of(reservation);
    let view = world.view();
    let slot = view.slot(&slot).expect("it exists");
    view.holding(slot).expect("it has GPUs").1.node.to_string()
}

#[test]
fn a_cordoned_runner_gets_no_new_slots_and_keeps_its_own() {
    let mut world = two_runners();
    let first = world.serve("m");
    let runner = runner_of(&world, first);
    let name = runner.clone();
    world.call(|desk, core| desk.cordon_runner(core, &name)).expect("it exists");
    let second = world.serve("n");
    assert_ne!(runner_of(&world, second), runner);
    world.assert_ready(&[first, second]);
    world.restart();
    assert_eq!(world.view().runner(&runner).expect("kept").intake, Intake::Cordoned);
    assert_eq!(
        world.call(|desk, core| desk.cordon_runner(core, "nosuch")),
        Err(RunnerError::NotRegistered)
    );
}

#[test]
fn a_drain_stops_idle_slots_at_once_and_busy_ones_when_they_are_idle() {
    let mut world = World::with(&[("m", "memory: 10GiB"), ("n", "memory: 10GiB")], &[80]);
    let (idle, busy) = (world.serve("m"), world.serve("n"));
    let (idle_slot, busy_slot) = (world.slot_of(idle), world.slot_of(busy));
    world.call(|desk, core| desk.release(core, idle));
    world.call(|desk, core| desk.drain_runner(core, "r", None)).expect("it exists");
    world.settle();
    assert!(world.view().slot(&idle_slot).is_none(), "it was idle");
    world.assert_ready(&[busy]);
    world.call(|desk, core| desk.release(core, busy));
    world.pass(2_000);
    world.settle();
    assert!(world.view().slot(&busy_slot).is_none(), "it is idle now");
    let ended = world.view().ended_slot(&busy_slot).expect("its record is kept").clone();
    assert_eq!(ended.ending, SlotEnding::Lost(Loss::Drained { runner: "r".into() }));
    let pending = world.reserve_pending("m", "unschedulable");
    world.call(|desk, core| desk.uncordon_runner(core, "r")).expect("it exists");
    world.settle();
    world.assert_ready(&[pending]);
}

#[test]
fn a_draining_slot_takes_no_more_reservations() {
    let mut world = two_runners();
    let first = world.serve("n");
    let runner = runner_of(&world, first);
    world.call(|desk, core| desk.drain_runner(core, &runner, None)).expect("it exists");
    let second = world.reserve("n");
    assert_ne!(world.status(second), ReservationStatus::Ready { slot: world.slot_of(first) });
}

#[test]
fn a_drain_stops_busy_slots_at_its_deadline() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let busy = world.serve("m");
    let within = Some(Span::seconds(10));
    world.call(|desk, core| desk.drain_runner(core, "r", within)).expect("it exists");
    world.pass(5_000);
    world.assert_ready(&[busy]);
    world.restart();
    world.runner("r", &[80]);
    world.pass(6_000);
    let lost = Ending::Lost(Loss::Drained { runner: "r".into() });
    assert_eq!(world.status(busy), ReservationStatus::Ended(lost));
}

#[test]
fn the_end_of_a_slot_is_kept_with_its_cause_over_a_restart() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let first = world.serve("m");
    let slot = world.slot_of(first);
    world.machine("r").end_process(&slot, "exited with status 3\nout of memory");
    world.settle();
    world.restart();
    let ended = world.view().ended_slot(&slot).expect("its record is kept").clone();
    assert_eq!(ended.slot.life.runner.as_deref(), Some("r"));
    assert_eq!(ended.ending.name(), "ended");
    assert_eq!(ended.ending.brief(), "exited with status 3");
    let failure = ended.slot.life.failure.as_ref().expect("it failed").to_string();
    assert!(failure.contains("out of memory"), "{failure}");
}

#[test]
fn the_records_of_ended_slots_are_bounded_by_number_and_age() {
    let ended_slots = EndedSlotLimits { count: 2, keep: Span::seconds(60) };
    let config = DeskConfig { ended_slots, ..DeskConfig::default() };
    let mut world = World::configured(Policy::spread(), config);
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    for _ in 0..4 {
        let served = world.serve("m");
        let slot = world.slot_of(served);
        world.call(|desk, core| desk.stop_slot(core, &slot)).expect("it exists");
        world.settle();
    }
    world.pass(1_000);
    let ids = |world: &World| -> Vec<String> {
        world.view().ended_slots().map(|ended| ended.slot.id.to_string()).collect()
    };
    assert_eq!(ids(&world), ["slot-4", "slot-3"]);
    world.restart();
    assert_eq!(ids(&world), ["slot-4", "slot-3"]);
    world.runner("r", &[80]);
    world.pass(61_000);
    assert_eq!(ids(&world), [""; 0]);
}
