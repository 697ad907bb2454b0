//! An agent that ends, however it ends, leaves its model servers to the next one.

use std::fs;
use std::path::PathBuf;

use plimsoll_slots::wire::{Action, LaunchDevice, SlotState};
use rustix::process::Signal;
use serde_json::Value;

use crate::world::{GIB, World, is_alive, order, report, signal};

/// A machine on which one slot runs.
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

fn kept(world: &World) -> Value {
    serde_json::from_slice(&fs::read(record(world)).expect("it is kept")).expect("it is JSON")
}

fn edit(world: &World, edit: impl FnOnce(&mut Value)) {
    let mut value = kept(world);
    edit(&mut value);
    fs::write(record(world), value.to_string()).expect("it can be written");
}

/// The next agent takes over what runs, and does not start it again.
fn is_adopted(world: &mut World, pid: u32) {
    let endpoint = world.server.heard(|said| report(said.beats.last()?, "s")?.endpoint);
    world.start();
    let adopted = world.wait_state("s", SlotState::Running);
    assert_eq!((adopted.endpoint, adopted.generation), (endpoint, 1));
    world.beats(3);
    assert_eq!(world.pids("s"), [pid], "{}", world.log());
    world.server.order(vec![order("s", 1, Action::Stop, world.model(""))]);
    world.wait_state("s", SlotState::Gone);
    assert!(!is_alive(pid));
}

#[test]
fn a_killed_agents_model_servers_are_adopted_and_not_started_twice() {
    let (mut world, pid) = running();
    world.kill_agent();
    assert!(is_alive(pid));
    is_adopted(&mut world, pid);
}

#[test]
fn an_agent_that_was_killed_before_it_wrote_the_process_down_loses_nothing() {
    let (mut world, pid) = running();
    world.kill_agent();
    edit(&world, |record| record["leader"] = Value::Null);
    is_adopted(&mut world, pid);
}

#[test]
fn a_process_without_any_record_is_found_by_its_variables() {
    let (mut world, pid) = running();
    world.kill_agent();
    let before = kept(&world);
    fs::remove_file(record(&world)).expect("it is kept");
    world.start();
    world.wait_state("s", SlotState::Running);
    world.beats(2);
    assert_eq!(kept(&world)["launch"], before["launch"], "the server says how it was started");
    world.kill_agent();
    is_adopted(&mut world, pid);
}

#[test]
fn what_starts_slowly_goes_on_starting_under_the_next_agent() {
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
fn what_ended_while_no_agent_was_there_is_reported_and_its_number_is_nobody_elses() {
    let (mut world, pid) = running();
    world.kill_agent();
    signal(pid, Signal::KILL);
    // Somebody else has the number now: this test.
    edit(&world, |record| record["leader"]["pid"] = std::process::id().into());
    world.start();
    let gone = world.wait_state("s", SlotState::Gone);
    assert!(
        gone.reason.as_ref().is_some_and(|reason| reason.contains("nobody saw how")),
        "{gone:?}"
    );
    assert_eq!((gone.generation, world.pids("s")), (1, vec![]));
}

#[test]
fn an_end_that_the_server_has_not_heard_of_is_told_by_the_next_agent() {
    let mut world = World::started();
    world.server.order(vec![world.start_order("s", 1, "--ready-after 60000 --crash-after 100")]);
    world.wait_state("s", SlotState::Failed);
    world.kill_agent();
    world.start();
    let failed = world.wait_state("s", SlotState::Failed);
    let reason = failed.reason.expect("it says why");
    assert!(reason.contains("exit status: 1, before it was ready"), "{reason}");
    assert!(world.pids("s").is_empty());
}

#[test]
fn an_agent_that_is_asked_to_end_leaves_its_model_servers_and_says_so() {
    let (mut world, pid) = running();
    assert_eq!(world.end_agent().code(), Some(0));
    assert!(world.log().contains("model servers keep running"), "{}", world.log());
    assert!(is_alive(pid));
    is_adopted(&mut world, pid);
}

#[test]
fn an_agent_can_be_told_to_take_its_model_servers_along() {
    let mut world = World::new();
    world.measure("");
    world.extra.push("--stop-slots-on-exit".to_owned());
    world.start();
    world.server.order(vec![world.start_order("s", 1, &format!("--use 0={}", 10 * GIB))]);
    world.wait_state("s", SlotState::Running);
    assert_eq!(world.end_agent().code(), Some(0));
    assert!(world.pids("s").is_empty());
    let last = world.server.heard(|said| report(said.beats.last()?, "s")).expect("it is reported");
    assert_eq!(last.state, SlotState::Gone);
}

#[test]
fn an_agent_with_another_state_does_not_say_that_what_it_never_knew_is_gone() {
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
    assert!(report(&world.beats(3), "s").is_none());
    signal(pid, Signal::KILL);
    world.wait_state("s", SlotState::Gone);
}

#[test]
fn an_agent_without_the_device_of_a_slot_does_not_say_that_the_slot_is_gone() {
    let world = World::started();
    let mut launch = world.model("");
    launch.devices =
        vec![LaunchDevice { index: 0, uuid: Some("GPU-x".to_owned()), bytes: GIB, total: None }];
    world.server.order(vec![order("s", 1, Action::Keep, launch)]);
    world.wait_log("started on device GPU-x, which this machine does not have");
    assert!(report(&world.beats(3), "s").is_none());
}
