//! End of model servers: SIGTERM, SIGKILL, and evidence that their memory is released.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Action, Order, SlotState};
use rustix::process::Signal;

use crate::world::{GIB, World, is_alive, order, report, signal};

#[test]
fn a_slot_that_obeys_sigterm_ends_at_once() {
    let world = World::started();
    let mut launch = world.model("");
    launch.grace_ms = 60_000;
    world.server.order(vec![order("s", 1, Action::Start, launch.clone())]);
    world.wait_state("s", SlotState::Running);
    world.server.order(vec![order("s", 1, Action::Stop, launch)]);
    let gone = world.wait_state("s", SlotState::Gone);
    assert_eq!((gone.reason, gone.endpoint, world.pids("s")), (None, None, vec![]));
}

#[test]
fn a_slot_that_ignores_sigterm_is_killed_after_its_grace_period() {
    let world = World::started();
    let mut launch = world.model("--ignore-term");
    launch.grace_ms = 700;
    world.server.order(vec![order("s", 1, Action::Start, launch.clone())]);
    world.wait_state("s", SlotState::Running);
    let began = Instant::now();
    world.server.order(vec![order("s", 1, Action::Stop, launch)]);
    world.wait_state("s", SlotState::Stopping);
    assert_eq!(world.pids("s").len(), 1);
    world.wait_state("s", SlotState::Gone);
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    assert!(world.pids("s").is_empty());
}

#[test]
fn processes_that_left_the_group_are_terminated_too() {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "--fork-away")]);
    world.wait_state("s", SlotState::Running);
    world.wait_pids("s", 2);
    world.server.order(vec![order("s", 1, Action::Stop, world.model(""))]);
    world.wait_state("s", SlotState::Gone);
    assert!(world.pids("s").is_empty());
}

#[test]
fn the_children_of_a_crashed_model_server_are_terminated() {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "--fork --say hello")]);
    world.wait_state("s", SlotState::Running);
    let pids = world.wait_pids("s", 2);
    signal(pids[0], Signal::KILL);
    let gone = world.wait_state("s", SlotState::Gone);
    let reason = gone.reason.expect("a reason");
    assert!(reason.contains("signal: 9") && reason.contains("while it was running"), "{reason}");
    assert!(reason.ends_with("last output:\nhello"), "{reason}");
    assert!(!is_alive(pids[1]), "the child is terminated");
}

/// Checks that memory of a dead process keeps the slot `stopping` for this reason.
fn check_lagging_memory(probe: &str, reason: &str) {
    let world = World::measured(probe);
    fs::write(world.meter().join("hold"), "").expect("the file is written");
    let other = world.start_order("other", 1, &format!("--use 0={}", 10 * GIB));
    let launch = world.model(&format!("--use 0={}", 10 * GIB));
    world.server.order(vec![other.clone(), order("s", 2, Action::Start, launch.clone())]);
    world.wait_state("other", SlotState::Running);
    world.wait_state("s", SlotState::Running);
    world.wait("both measured", |heartbeat| {
        (heartbeat.devices.first()?.used? == 20 * GIB).then_some(())
    });
    world.server.order(vec![other, order("s", 2, Action::Stop, launch)]);
    let shown = |heartbeat: &_| {
        report(heartbeat, "s").filter(|r| r.reason.as_ref().is_some_and(|r| r.contains(reason)))
    };
    let stopping = world.wait("the reason", shown);
    assert_eq!((stopping.state, world.pids("s")), (SlotState::Stopping, vec![]));
    thread::sleep(Duration::from_millis(700));
    let heartbeat = world.next_heartbeats(2);
    assert_eq!(
        report(&heartbeat, "s").expect("the slot is reported").state,
        SlotState::Stopping,
        "time is not evidence"
    );

    fs::remove_file(world.meter().join("hold")).expect("the file exists");
    world.wait_state("s", SlotState::Gone);
    let heartbeat = world.next_heartbeats(1);
    assert_eq!(
        report(&heartbeat, "other").expect("the slot is reported").state,
        SlotState::Running
    );
}

#[test]
fn memory_of_a_listed_dead_process_is_not_released() {
    check_lagging_memory("", "GPU 0 still lists process");
}

#[test]
fn memory_without_an_owner_is_not_released() {
    check_lagging_memory(
        "--hidden",
        "GPU 0 still has 20.0 GiB in use; other work explains 10.0 GiB",
    );
}

#[test]
fn memory_that_only_the_sum_shows_is_not_released() {
    check_lagging_memory(
        "--sums-only",
        "GPU 0 still has 20.0 GiB in use; other work explains 10.0 GiB",
    );
}

#[test]
fn a_failed_measurement_is_not_evidence() {
    let world = World::measured("");
    let launch = world.model(&format!("--use 0={}", 10 * GIB));
    world.server.order(vec![order("s", 1, Action::Start, launch.clone())]);
    world.wait_state("s", SlotState::Running);
    fs::write(world.meter().join("fail"), "").expect("the file is written");
    world.wait("staleness", |heartbeat| heartbeat.devices.first()?.stale_for);
    world.server.order(vec![order("s", 1, Action::Stop, launch)]);
    world.wait_state("s", SlotState::Stopping);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(
        report(&world.next_heartbeats(2), "s").expect("the slot is reported").state,
        SlotState::Stopping
    );
    assert!(world.pids("s").is_empty());
    fs::remove_file(world.meter().join("fail")).expect("the file exists");
    world.wait_state("s", SlotState::Gone);
}

/// Returns an order for a slot that was reported: without its launch.
fn without_launch(slot: &str, generation: u64, action: Action) -> Order {
    Order { slot: slot.to_owned(), generation, model: "m".to_owned(), action, launch: None }
}

#[test]
fn duplicated_late_and_overtaken_orders_do_no_harm() {
    let world = World::started();
    let start = world.start_order("s", 5, "");
    let launch = start.launch.clone().expect("a launch");
    world.server.order(vec![start.clone(), start.clone()]);
    world.wait_state("s", SlotState::Running);
    let pids = world.pids("s");
    assert_eq!(pids.len(), 1);
    let earlier_stop = order("s", 4, Action::Stop, launch.clone());
    for orders in [
        vec![start.clone()],
        vec![earlier_stop],
        vec![],
        vec![without_launch("s", 5, Action::Keep)],
    ] {
        world.server.order(orders.clone());
        let heartbeat = world.next_heartbeats(3);
        let report = report(&heartbeat, "s").expect("the slot is reported");
        assert_eq!((report.state, report.generation), (SlotState::Running, 5), "{orders:?}");
    }
    // A later generation takes over the running process.
    world.server.order(vec![order("s", 6, Action::Start, launch.clone())]);
    world.wait("generation 6", |heartbeat| {
        report(heartbeat, "s").filter(|report| report.generation == 6)
    });
    assert_eq!(world.pids("s"), pids);
    // Stopped twice. After its end, the same generation does not start again.
    let stop = without_launch("s", 6, Action::Stop);
    world.server.order(vec![stop.clone(), stop]);
    world.wait_state("s", SlotState::Gone);
    world.server.order(vec![order("s", 6, Action::Start, launch.clone())]);
    assert_eq!(
        report(&world.next_heartbeats(3), "s").expect("the slot is reported").state,
        SlotState::Gone
    );
    assert!(world.pids("s").is_empty());
    world.server.order(vec![order("s", 7, Action::Start, launch)]);
    assert_eq!(world.wait_state("s", SlotState::Running).generation, 7);
}

#[test]
fn an_end_is_reported_until_no_order_mentions_the_slot() {
    let world = World::started();
    let missing = order("never", 3, Action::Keep, world.model(""));
    world.server.order(vec![missing]);
    let gone = world.wait_state("never", SlotState::Gone);
    assert_eq!(
        (gone.generation, gone.reason.as_deref()),
        (3, Some("this runner has no process of the slot"))
    );
    assert!(report(&world.next_heartbeats(3), "never").is_some());
    world.server.order(vec![]);
    world.wait("no slots", |heartbeat| heartbeat.slots.is_empty().then_some(()));
}

#[test]
fn a_slot_does_not_start_again_before_its_memory_is_released() {
    let world = World::measured("");
    fs::write(world.meter().join("hold"), "").expect("the file is written");
    let launch = world.model(&format!("--use 0={}", 10 * GIB));
    world.server.order(vec![order("s", 1, Action::Start, launch.clone())]);
    world.wait_state("s", SlotState::Running);
    world.server.order(vec![order("s", 1, Action::Stop, launch.clone())]);
    world.wait_state("s", SlotState::Stopping);
    world.server.order(vec![order("s", 2, Action::Start, launch)]);
    let report = report(&world.next_heartbeats(4), "s").expect("the slot is reported");
    assert_eq!(
        (report.state, report.generation, world.pids("s")),
        (SlotState::Stopping, 1, vec![])
    );
    fs::remove_file(world.meter().join("hold")).expect("the file exists");
    assert_eq!(world.wait_state("s", SlotState::Running).generation, 2);
}

#[test]
fn a_runner_that_is_shutting_down_says_so_and_starts_nothing() {
    let mut world = World::new();
    world.extra.push("--stop-slots-on-exit".to_owned());
    world.start();
    let mut launch = world.model("--ignore-term");
    launch.grace_ms = 3_000;
    let slow = order("slow", 1, Action::Start, launch);
    world.server.order(vec![slow.clone()]);
    world.wait_state("slow", SlotState::Running);
    world.terminate_agent();
    world.wait("ending", |heartbeat| heartbeat.ending.then_some(()));
    world.server.order(vec![slow, world.start_order("late", 2, "")]);
    let failed = world.wait_state("late", SlotState::Failed);
    assert_eq!(failed.reason.as_deref(), Some("not started: this runner is shutting down"));
    assert!(world.wait_for_exit().success());
}
