//! How model servers go: asked first, then without asking, and not before the device shows their memory back.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Action, Order, SlotState};
use rustix::process::Signal;

use crate::world::{GIB, World, is_alive, order, report, signal};

#[test]
fn what_goes_when_asked_is_gone_at_once() {
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
fn what_ignores_the_request_is_killed_after_its_grace() {
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
fn processes_that_left_the_group_go_too() {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "--fork-away")]);
    world.wait_state("s", SlotState::Running);
    world.wait_pids("s", 2);
    world.server.order(vec![order("s", 1, Action::Stop, world.model(""))]);
    world.wait_state("s", SlotState::Gone);
    assert!(world.pids("s").is_empty());
}

#[test]
fn a_crash_while_it_runs_ends_what_it_leaves_behind() {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "--fork --say hello")]);
    world.wait_state("s", SlotState::Running);
    let pids = world.wait_pids("s", 2);
    signal(pids[0], Signal::KILL);
    let gone = world.wait_state("s", SlotState::Gone);
    let reason = gone.reason.expect("it says why");
    assert!(reason.contains("signal: 9") && reason.contains("while it was running"), "{reason}");
    assert!(reason.ends_with("it said last:\nhello"), "{reason}");
    assert!(!is_alive(pids[1]), "its child went with it");
}

/// Memory that a dead process keeps, shown in one way or another, keeps the slot in `stopping`.
fn memory_that_lags(probe: &str, reason: &str) {
    let world = World::measured(probe);
    fs::write(world.meter().join("hold"), "").expect("it can be written");
    let other = world.start_order("other", 1, &format!("--use 0={}", 10 * GIB));
    let launch = world.model(&format!("--use 0={}", 10 * GIB));
    world.server.order(vec![other.clone(), order("s", 2, Action::Start, launch.clone())]);
    world.wait_state("other", SlotState::Running);
    world.wait_state("s", SlotState::Running);
    world.wait("both measured", |beat| (beat.devices.first()?.used? == 20 * GIB).then_some(()));
    world.server.order(vec![other, order("s", 2, Action::Stop, launch)]);
    let shown = |beat: &_| {
        report(beat, "s").filter(|r| r.reason.as_ref().is_some_and(|r| r.contains(reason)))
    };
    let stopping = world.wait("the reason why it is not over", shown);
    assert_eq!((stopping.state, world.pids("s")), (SlotState::Stopping, vec![]));
    thread::sleep(Duration::from_millis(700));
    let beat = world.beats(2);
    assert_eq!(
        report(&beat, "s").expect("it is reported").state,
        SlotState::Stopping,
        "time is no evidence"
    );

    fs::remove_file(world.meter().join("hold")).expect("it is there");
    world.wait_state("s", SlotState::Gone);
    let beat = world.beats(1);
    assert_eq!(report(&beat, "other").expect("it is reported").state, SlotState::Running);
}

#[test]
fn memory_of_a_listed_dead_process_is_not_back() {
    memory_that_lags("", "device 0 still lists its process");
}

#[test]
fn memory_that_no_listed_process_accounts_for_is_not_back() {
    memory_that_lags("--hidden", "device 0 has 20 GiB in use, of which 10 GiB is explained");
}

#[test]
fn memory_that_only_the_sum_shows_is_not_back() {
    memory_that_lags("--sums-only", "device 0 has 20 GiB in use, of which 10 GiB is explained");
}

#[test]
fn a_slot_does_not_end_by_a_measurement_that_fails() {
    let world = World::measured("");
    let launch = world.model(&format!("--use 0={}", 10 * GIB));
    world.server.order(vec![order("s", 1, Action::Start, launch.clone())]);
    world.wait_state("s", SlotState::Running);
    fs::write(world.meter().join("fail"), "").expect("it can be written");
    world.wait("staleness", |beat| beat.devices.first()?.stale_for);
    world.server.order(vec![order("s", 1, Action::Stop, launch)]);
    world.wait_state("s", SlotState::Stopping);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(report(&world.beats(2), "s").expect("it is reported").state, SlotState::Stopping);
    assert!(world.pids("s").is_empty());
    fs::remove_file(world.meter().join("fail")).expect("it is there");
    world.wait_state("s", SlotState::Gone);
}

/// An order as it comes for a slot that was reported: without what its runner was told before.
fn untold(slot: &str, generation: u64, action: Action) -> Order {
    Order { slot: slot.to_owned(), generation, model: "m".to_owned(), action, launch: None }
}

#[test]
fn orders_that_come_twice_late_or_from_before_do_no_harm() {
    let world = World::started();
    let start = world.start_order("s", 5, "");
    let launch = start.launch.clone().expect("it is told how");
    world.server.order(vec![start.clone(), start.clone()]);
    world.wait_state("s", SlotState::Running);
    let pids = world.pids("s");
    assert_eq!(pids.len(), 1);
    let earlier_stop = order("s", 4, Action::Stop, launch.clone());
    for orders in
        [vec![start.clone()], vec![earlier_stop], vec![], vec![untold("s", 5, Action::Keep)]]
    {
        world.server.order(orders.clone());
        let beat = world.beats(3);
        let report = report(&beat, "s").expect("it is reported");
        assert_eq!((report.state, report.generation), (SlotState::Running, 5), "{orders:?}");
    }
    // A later generation takes over what runs.
    world.server.order(vec![order("s", 6, Action::Start, launch.clone())]);
    world.wait("generation 6", |beat| report(beat, "s").filter(|report| report.generation == 6));
    assert_eq!(world.pids("s"), pids);
    // Stopped twice; then, once it is over, the same start is not carried out again.
    let stop = untold("s", 6, Action::Stop);
    world.server.order(vec![stop.clone(), stop]);
    world.wait_state("s", SlotState::Gone);
    world.server.order(vec![order("s", 6, Action::Start, launch.clone())]);
    assert_eq!(report(&world.beats(3), "s").expect("it is reported").state, SlotState::Gone);
    assert!(world.pids("s").is_empty());
    world.server.order(vec![order("s", 7, Action::Start, launch)]);
    assert_eq!(world.wait_state("s", SlotState::Running).generation, 7);
}

#[test]
fn a_report_of_the_end_stands_until_nobody_asks_for_it() {
    let world = World::started();
    let missing = order("never", 3, Action::Keep, world.model(""));
    world.server.order(vec![missing]);
    let gone = world.wait_state("never", SlotState::Gone);
    assert_eq!(
        (gone.generation, gone.reason.as_deref()),
        (3, Some("this runner has no process of it"))
    );
    assert!(report(&world.beats(3), "never").is_some());
    world.server.order(vec![]);
    world.wait("silence", |beat| beat.slots.is_empty().then_some(()));
}

#[test]
fn what_goes_is_not_started_anew_beside_its_remains() {
    let world = World::measured("");
    fs::write(world.meter().join("hold"), "").expect("it can be written");
    let launch = world.model(&format!("--use 0={}", 10 * GIB));
    world.server.order(vec![order("s", 1, Action::Start, launch.clone())]);
    world.wait_state("s", SlotState::Running);
    world.server.order(vec![order("s", 1, Action::Stop, launch.clone())]);
    world.wait_state("s", SlotState::Stopping);
    world.server.order(vec![order("s", 2, Action::Start, launch)]);
    let report = report(&world.beats(4), "s").expect("it is reported");
    assert_eq!(
        (report.state, report.generation, world.pids("s")),
        (SlotState::Stopping, 1, vec![])
    );
    fs::remove_file(world.meter().join("hold")).expect("it is there");
    assert_eq!(world.wait_state("s", SlotState::Running).generation, 2);
}

#[test]
fn a_runner_that_ends_with_its_slots_says_so_and_starts_nothing_more() {
    let mut world = World::new();
    world.extra.push("--stop-slots-on-exit".to_owned());
    world.start();
    let mut launch = world.model("--ignore-term");
    launch.grace_ms = 3_000;
    let slow = order("slow", 1, Action::Start, launch);
    world.server.order(vec![slow.clone()]);
    world.wait_state("slow", SlotState::Running);
    world.terminate_agent();
    world.wait("that it is ending", |beat| beat.ending.then_some(()));
    world.server.order(vec![slow, world.start_order("late", 2, "")]);
    let refused = world.wait_state("late", SlotState::Failed);
    assert_eq!(refused.reason.as_deref(), Some("not started: this runner is ending"));
    assert!(world.agent_ends().success());
}
