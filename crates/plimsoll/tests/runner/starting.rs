//! Start of model servers: confinement, readiness, failures and rejected launches.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Action, OnDevice, SlotState};

use crate::world::{GIB, World, command, order, report};

#[test]
fn a_model_server_gets_exactly_the_environment_of_its_launch() {
    let world = World::started();
    let dump = world.path("environment");
    let mut launch = world.model(&format!("--dump-env {}", dump.display()));
    let env = &mut command(&mut launch).env;
    env.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), "GPU-a".to_owned());
    env.insert("WHERE".to_owned(), "{host}:{port}".to_owned());
    world.server.order(vec![order("s", 7, Action::Start, launch)]);
    let running = world.wait_state("s", SlotState::Running);

    let endpoint = running.endpoint.expect("an endpoint");
    let port = endpoint.strip_prefix("http://127.0.0.1:").expect("the server is on this machine");
    let text = fs::read_to_string(dump).expect("the model server wrote it");
    let got: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let state = world.path("state").canonicalize().expect("it exists");
    let address = format!("127.0.0.1:{port}");
    let mut expected = BTreeMap::from([
        ("CUDA_VISIBLE_DEVICES", "GPU-a"),
        ("NVIDIA_VISIBLE_DEVICES", "GPU-a"),
        ("WHERE", &address),
        ("PLIMSOLL_SLOT", "s"),
        ("PLIMSOLL_GENERATION", "7"),
        ("PLIMSOLL_RUNNER", &world.name),
        ("PLIMSOLL_MODEL", "llama"),
        ("PLIMSOLL_PORT", port),
        ("PLIMSOLL_STATE", state.to_str().expect("UTF-8")),
    ]);
    let inherited: Vec<(&str, String)> = ["PATH", "HOME", "LANG"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var(name).ok()?)))
        .collect();
    expected.extend(inherited.iter().map(|(name, value)| (*name, value.as_str())));
    assert_eq!(got, expected);
    assert_eq!(running.booked, [OnDevice { index: 0, bytes: 10 * GIB }]);
    TcpStream::connect(address).expect("the endpoint accepts connections");
}

#[test]
fn a_slow_start_delays_no_other_slot() {
    let world = World::started();
    world.server.order(vec![world.start_order("slow", 1, "--ready-after 60000")]);
    world.wait_state("slow", SlotState::Starting);
    let began = Instant::now();
    world.server.order(vec![
        world.start_order("slow", 1, "--ready-after 60000"),
        world.start_order("quick", 2, ""),
    ]);
    world.wait_state("quick", SlotState::Running);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let heartbeat = world.next_heartbeats(1);
    assert_eq!(report(&heartbeat, "slow").expect("it exists").state, SlotState::Starting);
}

#[test]
fn a_crash_before_readiness_is_a_failure_with_the_last_output() {
    let world = World::started();
    let options = "--ready-after 60000 --say loading-the-weights --crash-after 100 --code 3";
    world.server.order(vec![world.start_order("s", 1, options)]);
    let reason = world.wait_state("s", SlotState::Failed).reason.expect("a reason");
    assert!(
        reason.contains("the process exited before it became ready (exit status: 3)"),
        "{reason}"
    );
    assert!(reason.contains("loading-the-weights\nsomething went wrong"), "{reason}");
}

#[test]
fn a_missing_program_is_a_failure() {
    let world = World::started();
    let mut launch = world.model("");
    command(&mut launch).argv[0] = "/no/such/program".to_owned();
    world.server.order(vec![order("s", 1, Action::Start, launch)]);
    let reason = world.wait_state("s", SlotState::Failed).reason.expect("a reason");
    assert!(reason.starts_with("not started: cannot run /no/such/program: "), "{reason}");
}

#[test]
fn a_slot_that_is_not_ready_in_time_fails() {
    let world = World::started();
    let mut launch = world.model("--ready-after 60000");
    command(&mut launch).ready_within_ms = 400;
    world.server.order(vec![order("s", 1, Action::Start, launch)]);
    let reason = world.wait_state("s", SlotState::Failed).reason.expect("a reason");
    assert!(reason.contains("did not become ready within 400ms"), "{reason}");
    assert!(world.pids("s").is_empty());
}

#[test]
fn readiness_is_checked_by_path_or_port_or_not_at_all() {
    let world = World::started();
    let mut by_port = world.model("--ready-after 60000");
    command(&mut by_port).ready = None;
    let mut by_process = world.model("");
    command(&mut by_process).argv.retain(|arg| !matches!(arg.as_str(), "--port" | "{port}"));
    world.server.order(vec![
        order("port", 1, Action::Start, by_port),
        order("process", 2, Action::Start, by_process),
    ]);
    assert!(world.wait_state("port", SlotState::Running).endpoint.is_some());
    assert_eq!(world.wait_state("process", SlotState::Running).endpoint, None);
}

#[test]
fn a_launch_for_other_devices_or_without_confinement_fails() {
    let world = World::started();
    let mut other = world.model("");
    other.devices[0].uuid = Some("GPU-z".to_owned());
    let mut beyond = world.model("");
    beyond.devices[0].index = 5;
    let mut unconfined = world.model("");
    command(&mut unconfined).env.clear();
    let mut elsewhere = world.model("");
    let env = &mut command(&mut elsewhere).env;
    env.insert("CUDA_VISIBLE_DEVICES".to_owned(), "GPU-b".to_owned());
    let launches = [
        ("other", other),
        ("beyond", beyond),
        ("unconfined", unconfined),
        ("elsewhere", elsewhere),
    ];
    let orders = launches.map(|(slot, launch)| order(slot, 1, Action::Start, launch));
    world.server.order(orders.to_vec());
    for (slot, part) in [
        ("other", "placed on GPU-z, but GPU 0 is GPU-a"),
        ("beyond", "placed on GPU 5"),
        ("unconfined", "no environment variable confines it"),
        ("elsewhere", "CUDA_VISIBLE_DEVICES is \"GPU-b\", but the slot is placed on GPU-a"),
    ] {
        let reason = world.wait_state(slot, SlotState::Failed).reason.expect("a reason");
        assert!(reason.contains(part), "{slot}: {reason}");
        assert!(world.pids(slot).is_empty());
    }
}
