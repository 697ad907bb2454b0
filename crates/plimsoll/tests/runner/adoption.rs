//! An agent that exits, however it exits, leaves its model servers to the next one.

use std::fs;
use std::path::PathBuf;

use plimsoll_slots::wire::{Action, LaunchDevice, SlotState};
use rustix::process::Signal;
use serde_json::Value;

use crate::world::{GIB, World, is_alive, order, report, signal};

/// Returns a machine with one running slot, and its PID.
fn running() -> (World, u32) {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
    let pids = world.pids("s");
    assert_eq!(pids.len(), 1);
    (world, pids[0])
}

fn record(world: &World) -> PathBuf {
    world.path("state").join("slot-s.json")
}

fn saved(world: &World) -> Value {
    serde_json::from_slice(&fs::read(record(world)).expect("the record exists")).expect("JSON")
}

fn edit(world: &World, edit: impl FnOnce(&mut Value)) {
    let mut value = saved(world);
    edit(&mut value);
    fs::write(record(world), value.to_string()).expect("the file is written");
}

/// Starts the next agent, and checks that it takes over the process instead of starting another.
fn assert_adopted(world: &mut World, pid: u32) {
    let endpoint =
        world.server.received(|received| report(received.heartbeats.last()?, "s")?.endpoint);
    world.start();
    let adopted = world.wait_state("s", SlotState::Running);
    assert_eq!((adopted.endpoint, adopted.generation), (endpoint, 1));
    world.next_heartbeats(3);
    assert_eq!(world.pids("s"), [pid], "{}", world.log());
    world.server.order(vec![order("s", 1, Action::Stop, world.model(""))]);
    world.wait_state("s", SlotState::Gone);
    assert!(!is_alive(pid));
}

#[test]
fn the_next_agent_adopts_the_model_servers_of_a_killed_agent() {
    let (mut world, pid) = running();
    world.kill_agent();
    assert!(is_alive(pid));
    assert_adopted(&mut world, pid);
}

#[test]
fn a_process_is_adopted_if_the_agent_was_killed_before_recording_it() {
    let (mut world, pid) = running();
    world.kill_agent();
    edit(&world, |record| record["leader"] = Value::Null);
    assert_adopted(&mut world, pid);
}

#[test]
fn a_process_without_a_record_is_found_by_its_environment() {
    let (mut world, pid) = running();
    world.kill_agent();
    let before = saved(&world);
    fs::remove_file(record(&world)).expect("the record exists");
    world.start();
    world.wait_state("s", SlotState::Running);
    world.next_heartbeats(2);
    assert_eq!(saved(&world)["launch"], before["launch"], "the server sends the launch again");
    world.kill_agent();
    assert_adopted(&mut world, pid);
}

#[test]
fn a_starting_slot_continues_to_start_under_the_next_agent() {
    let mut world = World::started();
    world.server.order(vec![world.start_order("s", 1, "--ready-after 1500")]);
    world.wait_state("s", SlotState::Starting);
    let pids = world.wait_pids("s", 1);
    world.kill_agent();
    world.start();
    world.wait_state("s", SlotState::Running);
    assert_eq!(world.pids("s"), pids);
}

#[test]
fn an_exit_while_no_agent_was_running_is_reported_even_if_the_pid_is_reused() {
    let (mut world, pid) = running();
    world.kill_agent();
    signal(pid, Signal::KILL);
    // Another process has the PID now: this test.
    edit(&world, |record| record["leader"]["pid"] = std::process::id().into());
    world.start();
    let gone = world.wait_state("s", SlotState::Gone);
    assert!(
        gone.reason.as_ref().is_some_and(|reason| reason.contains("exit status unknown")),
        "{gone:?}"
    );
    assert_eq!((gone.generation, world.pids("s")), (1, vec![]));
}

#[test]
fn the_next_agent_reports_an_end_that_the_server_has_not_acknowledged() {
    let mut world = World::started();
    world.server.order(vec![world.start_order("s", 1, "--ready-after 60000 --crash-after 100")]);
    world.wait_state("s", SlotState::Failed);
    world.kill_agent();
    world.start();
    let failed = world.wait_state("s", SlotState::Failed);
    let reason = failed.reason.expect("a reason");
    assert!(reason.contains("before it became ready (exit status: 1)"), "{reason}");
    assert!(world.pids("s").is_empty());
}

#[test]
fn an_agent_that_gets_sigterm_leaves_its_model_servers_running() {
    let (mut world, pid) = running();
    assert_eq!(world.stop_agent().code(), Some(0));
    assert!(world.log().contains("model servers keep running"), "{}", world.log());
    assert!(is_alive(pid));
    assert_adopted(&mut world, pid);
}

#[test]
fn an_agent_can_stop_its_model_servers_before_it_exits() {
    let mut world = World::new();
    world.measure("");
    world.extra.push("--stop-slots-on-exit".to_owned());
    world.start();
    world.server.order(vec![world.start_order("s", 1, &format!("--use 0={}", 10 * GIB))]);
    world.wait_state("s", SlotState::Running);
    assert_eq!(world.stop_agent().code(), Some(0));
    assert!(world.pids("s").is_empty());
    let last = world
        .server
        .received(|received| report(received.heartbeats.last()?, "s"))
        .expect("the slot is reported");
    assert_eq!(last.state, SlotState::Gone);
}

#[test]
fn an_agent_with_another_state_directory_does_not_report_a_running_slot_as_gone() {
    let mut world = World::started();
    let launch = world.model("");
    world.server.order(vec![order("s", 1, Action::Start, launch.clone())]);
    world.wait_state("s", SlotState::Running);
    let pid = world.pids("s")[0];
    world.kill_agent();
    world.server.order(vec![order("s", 1, Action::Keep, launch.clone())]);
    world.state = "another-state";
    world.start();
    world.wait_log("was started by an agent with another state directory");
    assert!(report(&world.next_heartbeats(3), "s").is_none());
    signal(pid, Signal::KILL);
    world.wait_state("s", SlotState::Gone);
}

#[test]
fn an_agent_without_the_device_of_a_slot_does_not_report_it_as_gone() {
    let world = World::started();
    let mut launch = world.model("");
    let (uuid, bytes) = (Some("GPU-x".to_owned()), Some(GIB));
    launch.devices = vec![LaunchDevice { index: 0, uuid, bytes, total: None }];
    world.server.order(vec![order("s", 1, Action::Keep, launch)]);
    world.wait_log("started on GPU GPU-x, which this machine does not have");
    assert!(report(&world.next_heartbeats(3), "s").is_none());
}
