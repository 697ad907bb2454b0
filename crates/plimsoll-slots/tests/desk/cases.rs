//! The acceptance cases about reservations and slots.

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{
    Ending, Loss, NewReservation, PendingEntry, ReservationId, ReservationStatus, ReserveError,
    StatusReason,
};
use plimsoll_slots::simulated_runner::{Delay, Telemetry};
use plimsoll_slots::wire::SlotState;

use crate::world::{GIB, World, running, used};

#[test]
fn a_reservation_is_pending_then_starting_then_ready_and_is_released() {
    let mut world = World::with_runners(&[("m", "memory: 10GiB")], &[]);
    let id = world.reserve_pending("m", "");
    assert_eq!(world.view().status_reason(id), Some(StatusReason::NoRunner));
    world.runner("r", &[80]);
    assert!(matches!(world.status(id), ReservationStatus::Starting { .. }));
    world.beat("r");
    world.assert_ready(&[id]);
    assert!(world.release(id) && world.release(id), "releasing twice is as good as once");
    assert!(!world.release(ReservationId(99)));
    assert_eq!(world.status(id), ReservationStatus::Ended(Ending::Released));
    world.assert_loads(&[("r", 10)]); // The slot stays warm.
}

#[test]
fn f6_a_slot_of_concurrency_eight_takes_eight_and_the_ninth_is_pending() {
    let mut world = World::with(&[("m", "memory: 10GiB\nconcurrency: 8")], &[80]);
    let ids: Vec<ReservationId> = (0..8).map(|_| world.reserve("m")).collect();
    let ninth = world.reserve("m");
    world.settle();
    world.assert_ready(&ids);
    world.assert_pending(ninth, "all 8 reservations");
    world.release(ids[3]);
    world.assert_ready(&[ninth]);
    assert_eq!(world.starts(), 1);
}

#[test]
fn f6_a_b_c_d_a_are_four_requirements_in_that_order() {
    let rest = "memory: 60GiB\nconcurrency: 4\neviction: never";
    let mut world = World::with(&["a", "b", "c", "d", "full"].map(|name| (name, rest)), &[80]);
    world.serve("full");
    for name in ["a", "b", "c", "d", "a"] {
        world.reserve(name);
    }
    let slots = world.view().pending().filter_map(|entry| match entry {
        PendingEntry::Slot { slot, reservations, .. } => Some((&*slot.model, reservations)),
        PendingEntry::Reservation(_) => None,
    });
    assert_eq!(slots.collect::<Vec<_>>(), [("a", 2), ("b", 1), ("c", 1), ("d", 1)]);
}

#[test]
fn f6_a_model_that_no_empty_fleet_could_hold_is_rejected_at_once() {
    let models = [("huge", "memory: 81GiB"), ("unknown", ""), ("m", "memory: 80GiB\nmax_slots: 2")];
    let mut world = World::with(&models, &[80]);
    for (name, part) in [("huge", "80.0 GiB"), ("unknown", "memory")] {
        let id = world.reserve(name);
        world.assert_impossible(id, part);
    }
    assert!(world.view().slots().next().is_none(), "nothing is left of them");
    world.serve("m");
    world.reserve_pending("m", "");
}

#[test]
fn f7_one_request_and_three_runners_make_one_slot_also_with_the_same_key_again() {
    let models = [("m", "memory: 10GiB\nmax_slots: 3"), ("other", "memory: 10GiB")];
    let mut world = World::with_runners(&models, &[("r1", &[80]), ("r2", &[80]), ("r3", &[80])]);
    let with_key = |world: &mut World, model: &str| {
        let key = Some(crate::world::key("k"));
        let new = NewReservation { key, ..NewReservation::of_model(model) };
        world.call(|desk, core| desk.reserve(core, new))
    };
    let first = with_key(&mut world, "m");
    world.settle();
    assert_eq!(with_key(&mut world, "m"), first);
    world.restart();
    assert_eq!(with_key(&mut world, "m"), first);
    let other = with_key(&mut world, "other");
    assert!(matches!(other, Err(ReserveError::KeyUsed { .. })), "{other:?}");
    world.settle();
    assert_eq!(world.starts(), 1);
    let unknown = world.call(|desk, core| desk.reserve(core, NewReservation::of_model("none")));
    assert_eq!(unknown, Err(ReserveError::UnknownModel));
}

#[test]
fn a_deadline_ends_a_pending_reservation_and_not_a_served_one() {
    let models = [("m", "memory: 60GiB"), ("n", "memory: 60GiB\neviction: never")];
    let mut world = World::with(&models, &[80]);
    let in_five_seconds = |world: &mut World, model: &str| {
        let deadline = Some(Millis(world.now + 5_000));
        let new = NewReservation { deadline, ..NewReservation::of_model(model) };
        world.call(|desk, core| desk.reserve(core, new)).expect("declared")
    };
    let served = in_five_seconds(&mut world, "m");
    world.settle();
    let late = in_five_seconds(&mut world, "n");
    world.pass(4_000);
    world.assert_pending(late, "");
    world.pass(2_000);
    world.assert_ready(&[served]);
    assert!(matches!(world.status(late), ReservationStatus::Ended(Ending::Expired { .. })));
    let reason = world.reason(late);
    assert!(reason.contains("deadline") && reason.contains("20.0 GiB free"), "{reason}");
    assert!(world.host.scheduler().queue().is_empty(), "its slot is withdrawn");
}

#[test]
fn c6_a_start_that_always_fails_backs_off_says_why_and_starves_no_other() {
    let mut world = World::with(&[("bad", "memory: 60GiB"), ("good", "memory: 60GiB")], &[80]);
    let bad = world.reserve("bad");
    world.beat_failing("r");
    let reason = world.reason(bad);
    assert!(reason.contains("failed") && reason.contains("exit status 1"), "{reason}");
    world.serve("good");
}

#[test]
fn a2_a_runner_that_reports_more_than_a_card_has_is_a_breach_and_gets_nothing() {
    let on_first = "memory: 1GiB\nwhere: {required: {indices: [0]}}";
    let mut world = World::with(&[("m", on_first)], &[80, 80]);
    for (slot, gib) in [("slot-1", 75), ("slot-2", 15), ("slot-3", 40)] {
        world.machine("r").put_process(slot, running(slot, 1, &[(0, gib)]));
    }
    world.settle();
    let breaches = breach::audit(world.host.scheduler().ledger());
    assert!(matches!(&breaches[..], [Breach::OverLine { .. }]), "{breaches:?}");
    world.reserve_pending("m", "0 MiB free");
}

#[test]
fn c8_a_slow_load_delays_no_other_device_and_two_never_start_on_one_device_at_once() {
    let on = |index: u16| format!("memory: 10GiB\nwhere: {{required: {{indices: [{index}]}}}}");
    let models = [("slow", &*on(0)), ("beside", &*on(0)), ("other", &*on(1))];
    let mut world = World::with(&models, &[80, 80]);
    let ids = ["slow", "beside", "other"].map(|model| world.reserve(model));
    let orders = world.orders("r").orders;
    let models: Vec<&str> = orders.iter().map(|order| order.model.as_str()).collect();
    assert_eq!(models, ["slow", "other"], "the second start on the device is not ordered yet");
    world.obey("r");
    world.process("r", "slot-1").state = SlotState::Starting;
    world.report("r");
    world.pass(12_000);
    world.assert_ready(&ids[2..]);
    for id in &ids[..2] {
        assert!(matches!(world.status(*id), ReservationStatus::Starting { .. }));
    }
    world.process("r", "slot-1").state = SlotState::Running;
    world.settle();
    world.assert_ready(&ids);
}

#[test]
fn d1_an_idle_slot_makes_room_and_an_active_one_does_not() {
    let idle = "memory: 70GiB\nidle_limit: 10s";
    let mut world = World::with(&[("a", idle), ("b", idle), ("c", "memory: 45GiB")], &[80, 80]);
    let (a, b) = (world.serve("a"), world.serve("b"));
    let c = world.reserve_pending("c", "1 request in flight");
    world.release(a);
    world.release(b);
    world.pass(9_000);
    world.assert_pending(c, "");
    world.pass(2_000);
    assert_eq!(world.count_in_stage("releasing"), 1, "exactly one is evicted");
    world.assert_pending(c, ""); // Memory being released is not free.
    world.settle();
    world.assert_ready(&[c]);
}

#[test]
fn d1_memory_that_does_not_come_back_is_not_given_out() {
    let models = [("a", "memory: 70GiB\nidle_limit: 0s"), ("b", "memory: 45GiB")];
    let mut world = World::with(&models, &[80]);
    let a = world.serve("a");
    world.release(a);
    world.machine("r").conduct.stop = Delay::Forever;
    let b = world.reserve("b");
    world.settle();
    world.assert_pending(b, "");
    world.assert_loads(&[("r", 70)]);
    world.machine("r").end_process("slot-1", "killed");
    world.settle();
    world.assert_ready(&[b]);
}

#[test]
fn d4_prewarming_never_evicts_and_becomes_real_with_the_first_reservation() {
    let warm = "memory: 30GiB\nprewarm: true";
    let mut world = World::with(&[("one", warm), ("two", warm)], &[40]);
    world.settle();
    assert_eq!(world.count_in_stage("running"), 1, "the set sums to at most 40 GiB");
    let id = world.serve("one");
    world.release(id);
    let second = world.reserve("two");
    world.settle();
    world.assert_ready(&[second]);
}

#[test]
fn f5_a_slot_that_grows_past_its_charge_raises_it_and_closes_the_device() {
    let mut world = World::with(&[("m", "memory: 70GiB"), ("n", "memory: 5GiB")], &[80]);
    world.serve("m");
    world.process("r", "slot-1").used = used(&[(0, 79)]);
    world.settle();
    world.assert_loads(&[("r", 79)]);
    world.reserve_pending("n", "");
}

#[test]
fn b13_foreign_memory_counts_to_the_byte() {
    let foreign = 21 * GIB + 3 * GIB / 10;
    let memory = |bytes: u64| format!("memory: {bytes}");
    let (exact, more) = (memory(80 * GIB - foreign), memory(80 * GIB - foreign + 1));
    let mut world = World::with(&[("exact", &exact), ("more", &more)], &[80]);
    world.machine("r").conduct.telemetry = Telemetry::On;
    world.machine("r").set_foreign(0, foreign, None);
    world.settle();
    world.reserve_pending("more", "foreign");
    world.serve("exact");
}

#[test]
fn a_crashed_slot_loses_its_reservations_and_the_next_one_gets_a_new_slot() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let id = world.serve("m");
    world.machine("r").reset_machine();
    world.settle();
    world.assert_lost(id);
    world.serve("m");
}

#[test]
fn removing_a_model_frees_everything() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let (first, second) = (world.serve("m"), world.reserve("m"));
    assert!(world.call(|desk, core| desk.remove_model(core, "m")));
    assert!(!world.call(|desk, core| desk.remove_model(core, "m")));
    world.settle();
    let lost = ReservationStatus::Ended(Ending::Lost(Loss::ModelRemoved));
    assert_eq!(world.status(first), lost);
    assert_eq!(world.status(second), ReservationStatus::Ended(Ending::ModelRemoved));
    assert_eq!((world.load("r", 0), world.view().slots().count()), (0, 0));
}

#[test]
fn a_slot_without_reservations_is_not_retried_after_a_failed_start() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let id = world.reserve("m");
    world.release(id);
    assert_eq!(world.stages(), [("m".to_string(), "starting")], "its order has left");
    world.beat_failing("r");
    assert_eq!(world.stages(), []);
    assert!(world.host.scheduler().queue().is_empty());
    world.assert_loads(&[("r", 0)]);
}

#[test]
fn f6_a_reservation_in_a_pending_slot_moves_up_when_an_earlier_slot_gets_room() {
    let mut world = World::with(&[("m", "memory: 50GiB\nmax_slots: 2")], &[80]);
    let first = world.serve("m");
    let second = world.reserve_pending("m", "");
    assert_eq!(world.stages().len(), 2);
    world.release(first);
    world.assert_ready(&[second]);
    assert_eq!(world.stages(), [("m".to_string(), "running")], "the empty slot is withdrawn");
    world.reserve_pending("m", ""); // It does not overtake.
}

#[test]
fn a_lost_reservation_says_why_the_process_ended() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let id = world.serve("m");
    let slot = world.slot_of(id);
    world.machine("r").end_process(&slot, "exit status 9: CUDA error: out of memory");
    world.report("r");
    assert_eq!(world.reason(id), "its slot ended: exit status 9: CUDA error: out of memory");
}
