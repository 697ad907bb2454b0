//! Runners that come and go, fail, fall silent and shut down.

use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{DeskConfig, RunnerError, SlotStage, StatusReason};
use plimsoll_slots::simulated_runner::Telemetry;
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::{Action, DeviceFacts, Registration, SlotState};

use crate::world::{GIB, World, registration, running};

#[test]
fn c7_a_silent_runner_keeps_its_slots_gets_no_work_and_is_adopted_on_return() {
    let mut world = World::with(&[("m", "memory: 10GiB"), ("n", "memory: 10GiB")], &[80]);
    let first = world.serve("m");
    world.pass(6_000);
    assert!(!world.view().is_silent("r"), "six seconds are less than a lease");
    world.pass(20_000);
    assert!(world.view().is_silent("r"));
    world.assert_loads(&[("r", 10)]);
    let second = world.reserve_pending("n", "silent");
    world.restart();
    world.runner("r", &[80]);
    world.settle();
    world.assert_ready(&[first, second]);
    assert_eq!(world.starts(), 2, "a running slot is not started again");
}

#[test]
fn c7_no_reservation_joins_a_slot_on_a_silent_runner_while_another_has_room() {
    let mut world = World::new(Policy::pack());
    world.model("m", "memory: 10GiB\nconcurrency: 4");
    world.runner("r1", &[80]);
    let before = world.serve("m");
    world.pass(20_000);
    world.runner("r2", &[80]);
    let slot = world.slot_of(before);
    let stage = |world: &World| world.view().stage(world.view().slot(&slot).expect("it is kept"));
    assert_eq!(stage(&world), Some(SlotStage::Unknown));
    let reason = world.view().status_reason(before);
    assert!(matches!(reason, Some(StatusReason::RunnerSilent { .. })), "{reason:?}");
    let after = world.reserve("m");
    world.beat("r2");
    world.assert_ready(&[after]);
    assert_ne!(world.slot_of(after), slot);
    world.assert_loads(&[("r1", 10), ("r2", 10)]);
    world.runner("r1", &[80]);
    world.settle();
    assert_eq!(stage(&world), Some(SlotStage::Running));
    assert_eq!(world.machines["r1"].starts(), 1, "it is adopted, not replaced");
}

#[test]
fn c7_an_unknown_slot_is_charged_at_what_it_uses_and_not_stopped() {
    let mut world = World::with(&[], &[80]);
    world.machine("r").put_process("slot-900", running("lost", 77, &[(0, 30)]));
    world.settle();
    world.assert_loads(&[("r", 30)]);
    assert_eq!(world.stages(), [("lost".to_string(), "running")]);
    world.machine("r").end_process("slot-900", "killed");
    world.settle();
    assert_eq!((world.load("r", 0), world.view().slots().count()), (0, 0));
    world.model("m", "memory: 1GiB");
    world.reserve("m");
    assert!(world.view().slot("slot-901").is_some(), "its number is not used again");
}

#[test]
fn two_agents_with_one_name_or_one_device_are_not_both_accepted() {
    let mut world = World::with(&[], &[80]);
    let session = world.now;
    let earlier = world.register("r", registration("r", 5, &[80]));
    assert_eq!(earlier, Err(RunnerError::Superseded { session }));
    let twin = world.register("twin", registration("r", session, &[80]));
    assert!(matches!(twin, Err(RunnerError::DeviceTaken { .. })), "{twin:?}");
    for name in ["", "a b", "a/b", &"x".repeat(201)] {
        let invalid = world.register(name, registration("q", 1, &[]));
        assert_eq!(invalid, Err(RunnerError::InvalidName), "{name}");
    }
}

#[test]
fn a_runner_is_removed_only_when_it_is_silent_and_its_slots_with_it() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    let remove = |world: &mut World| world.call(|desk, core| desk.remove_runner(core, "r"));
    let id = world.serve("m");
    assert_eq!(remove(&mut world), Err(RunnerError::Alive));
    world.pass(60_000);
    assert_eq!(remove(&mut world), Ok(()));
    world.assert_lost(id);
    assert_eq!((world.view().runners().count(), world.view().slots().count()), (0, 0));
    assert_eq!(remove(&mut world), Err(RunnerError::NotRegistered));
}

#[test]
fn a_heartbeat_from_before_a_restart_is_not_believed_after_it() {
    let mut world = World::with(&[("m", "memory: 70GiB")], &[80]);
    world.machine("r").conduct.telemetry = Telemetry::On;
    let idle = world.machine("r").report();
    world.heartbeat("r", idle.clone()).expect("the runner is registered");
    world.machine("r").set_foreign(0, 60 * GIB, Some("python"));
    world.beat("r");
    world.restart();
    world.heartbeat("r", idle).expect("the runner is registered");
    world.reserve_pending("m", "foreign");
}

#[test]
fn a_message_of_a_removed_session_is_not_believed_and_a_later_session_is() {
    let mut world = World::with(&[("m", "memory: 50GiB")], &[80]);
    let (registration, before) = {
        let machine = world.machine("r");
        (machine.registration(), machine.report())
    };
    let session = registration.session;
    world.serve("m");
    world.pass(60_000);
    world.call(|desk, core| desk.remove_runner(core, "r")).expect("it is silent");
    for restart in [false, true] {
        if restart {
            world.restart();
        }
        let rejected = RunnerError::Removed { session };
        assert_eq!(world.register("r", registration.clone()), Err(rejected.clone()));
        assert_eq!(world.heartbeat("r", before.clone()), Err(rejected));
    }
    world.runner("r", &[80]);
    assert_eq!(world.load("r", 0), 50 * GIB, "what still runs there is charged");
}

#[test]
fn orders_after_a_restart_are_never_older_than_those_before_it() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    world.serve("m");
    let before = world.orders("r").revision;
    world.restart();
    let polled = world.call(|desk, core| desk.work(core, "r", None)).expect("it is registered");
    assert!(polled.revision >= before, "{} after {before}", polled.revision);
}

#[test]
fn c6_a_runner_where_every_start_fails_is_tried_after_those_where_they_do_not() {
    let models = [("m", "memory: 30GiB"), ("n", "memory: 50GiB")];
    let mut world = World::with_runners(&models, &[("bad", &[80]), ("good", &[60])]);
    let rounds = |world: &mut World, count: usize| {
        for _ in 0..count {
            world.beat_failing("bad");
            world.beat("good");
            world.pass(5_000);
        }
    };
    let m = world.reserve("m");
    rounds(&mut world, 8);
    world.assert_ready(&[m]);
    let slot = world.slot_of(m);
    world.release(m);
    world.stop_slot(&slot);
    rounds(&mut world, 2);
    // The next model is not tried first where the last one failed.
    let n = world.reserve("n");
    rounds(&mut world, 2);
    world.assert_ready(&[n]);
}

#[test]
fn a_start_is_called_off_when_its_runner_comes_back_with_smaller_devices() {
    let mut world = World::with(&[("m", "memory: 50GiB")], &[80]);
    let id = world.reserve("m");
    assert_eq!(world.orders("r").orders[0].action, Action::Start);
    let session = world.now + 1;
    let machine = world.machine("r");
    machine.restart_agent(session);
    machine.registration_mut().devices =
        vec![DeviceFacts { uuid: None, ..DeviceFacts::new("", 24 * GIB) }];
    let smaller = machine.registration();
    world.register("r", smaller).expect("the registration is valid");
    assert_eq!(world.orders("r").orders[0].action, Action::Stop, "it must not start on 24 GiB");
    world.beat("r");
    world.assert_pending(id, "");
    world.assert_loads(&[("r", 0)]);
}

#[test]
fn an_invalid_registration_is_rejected_with_its_field() {
    type Change = fn(&mut Registration);
    let cases: [(Change, &str); 8] = [
        (|r| r.devices[1] = r.devices[0].clone(), "devices[1].uuid"),
        (|r| r.devices[1] = r.devices[0].clone(), "devices[0]"),
        (|r| r.devices[1].uuid = Some(String::new()), "devices[1].uuid"),
        (|r| r.devices[0].reserve = 81 * GIB, "devices[0].reserve"),
        (
            |r| r.devices = vec![r.devices[0].clone(); 257],
            "257 devices are reported; the limit is 256",
        ),
        (|r| drop(r.labels.insert("zone".to_string(), "a".repeat(257))), "labels has 257 bytes"),
        (|r| r.devices[1].model = Some("A".repeat(257)), "devices[1].model has 257 bytes"),
        (|r| r.version = "1".repeat(257), "version has 257 bytes"),
    ];
    let mut world = World::new(Policy::spread());
    for (change, part) in cases {
        let mut registration = registration("r", 1, &[80, 80]);
        change(&mut registration);
        let error = world.register("r", registration).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_runner_that_shuts_down_gets_nothing_new_and_pending_work_goes_elsewhere() {
    let models = [("a", "memory: 70GiB"), ("b", "memory: 70GiB")];
    let mut world = World::with_runners(&models, &[("r1", &[80])]);
    world.serve("a");
    let second = world.reserve("b");
    world.machine("r1").shut_down();
    let last = world.machine("r1").report();
    let orders = world.heartbeat("r1", last).expect("the runner is registered");
    assert!(orders.orders.iter().all(|order| order.action != Action::Start), "{orders:?}");
    world.machines.remove("r1");
    world.runner("r2", &[80]);
    world.settle();
    world.assert_ready(&[second]);
    // Its next agent gets work again.
    world.runner("r1", &[80]);
    world.serve("a");
}

#[test]
fn a_change_of_a_devices_health_does_not_clear_failed_starts() {
    let runners: [(&str, &[u64]); 2] = [("broken", &[80, 80]), ("sound", &[40])];
    let mut world = World::with_runners(&[("m", "memory: 10GiB")], &runners);
    world.reserve("m");
    assert_eq!(world.orders("broken").orders.len(), 1);
    world.beat_failing("broken");
    let machine = world.machine("broken");
    machine.registration_mut().devices[1].healthy = false;
    let sick = machine.registration();
    world.register("broken", sick).expect("the registration is valid");
    world.wait_for_retry();
    assert!(world.orders("broken").orders.is_empty());
    assert_eq!(world.orders("sound").orders.len(), 1);
}

#[test]
fn a_reservation_whose_start_was_sent_to_a_runner_that_fell_silent_is_served_elsewhere() {
    let mut world = World::with_runners(&[("m", "memory: 70GiB")], &[("dead", &[80])]);
    let first = world.reserve("m");
    world.runner("other", &[80]);
    world.machines.remove("dead");
    let second = world.reserve("m");
    for _ in 0..20 {
        world.settle();
        world.pass(1_000);
    }
    world.assert_ready(&[first]);
    world.assert_loads(&[("dead", 70)]); // The start that was sent stays charged.
    world.assert_pending(second, ""); // It came later.
}

#[test]
fn no_reservation_joins_a_slot_that_its_runner_stops_or_that_ends_by_itself() {
    let mut world = World::with(&[("m", "memory: 20GiB\nconcurrency: 4")], &[80]);
    let first = world.serve("m");
    world.process("r", "slot-1").state = SlotState::Stopping;
    world.report("r");
    assert_eq!(world.reason(first), "its slot ended: its runner stopped it");
    let second = world.reserve("m");
    world.assert_loads(&[("r", 40)]); // A stopping slot is charged until it is gone.
    world.machine("r").end_process("slot-1", "stopped");
    world.settle();
    world.assert_ready(&[second]);
    assert_eq!(world.slot_of(second), "slot-2");
}

#[test]
fn a_runner_registers_again_after_its_pace_was_changed() {
    let mut world = World::with(&[], &[80]);
    world.commit();
    let (heartbeat, lease) = (Span(500), Span(1000));
    world.host = world.recovered_with(DeskConfig { heartbeat, lease, ..DeskConfig::default() });
    let beat = world.machine("r").report();
    assert_eq!(world.heartbeat("r", beat.clone()), Err(RunnerError::NotRegistered));
    let registration = world.machine("r").registration();
    world.register("r", registration).expect("the registration is valid");
    world.heartbeat("r", beat).expect("the runner knows its pace");
}
