//! How model servers begin: confined to what is booked, none delayed by another, and refused where the devices are not here.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Action, OnDevice, SlotState};

use crate::world::{GIB, World, order, report};

#[test]
fn the_environment_of_a_model_server_is_its_allocation_and_nothing_else() {
    let world = World::started();
    let dump = world.path("environment");
    let mut launch = world.model(&format!("--dump-env {}", dump.display()));
    launch.env.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), "GPU-a".to_owned());
    launch.env.insert("WHERE".to_owned(), "{host}:{port}".to_owned());
    world.server.order(vec![order("s", 7, Action::Start, launch)]);
    let running = world.wait_state("s", SlotState::Running);

    let endpoint = running.endpoint.expect("it has a port");
    let port =
        endpoint.strip_prefix("http://127.0.0.1:").expect("it is advertised where the server is");
    let text = fs::read_to_string(dump).expect("the model server wrote it");
    let got: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let state = world.path("state").canonicalize().expect("it is there");
    let place = format!("127.0.0.1:{port}");
    let mut expected = BTreeMap::from([
        ("CUDA_VISIBLE_DEVICES", "GPU-a"),
        ("NVIDIA_VISIBLE_DEVICES", "GPU-a"),
        ("WHERE", &place),
        ("PLIMSOLL_SLOT", "s"),
        ("PLIMSOLL_GENERATION", "7"),
        ("PLIMSOLL_RUNNER", &world.name),
        ("PLIMSOLL_MODEL", "llama"),
        ("PLIMSOLL_PORT", port),
        ("PLIMSOLL_STATE", state.to_str().expect("text")),
    ]);
    let inherited: Vec<(&str, String)> = ["PATH", "HOME", "LANG"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var(name).ok()?)))
        .collect();
    expected.extend(inherited.iter().map(|(name, value)| (*name, value.as_str())));
    assert_eq!(got, expected);
    assert_eq!(running.booked, [OnDevice { index: 0, bytes: 10 * GIB }]);
    TcpStream::connect(place).expect("it answers where it is said to");
}

#[test]
fn a_slow_start_delays_nobody() {
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
    let beat = world.beats(1);
    assert_eq!(report(&beat, "slow").expect("it is there").state, SlotState::Starting);
}

#[test]
fn a_crash_before_it_is_ready_is_a_failure_with_the_last_words() {
    let world = World::started();
    let options = "--ready-after 60000 --say loading-the-weights --crash-after 100 --code 3";
    world.server.order(vec![world.start_order("s", 1, options)]);
    let reason = world.wait_state("s", SlotState::Failed).reason.expect("it says why");
    assert!(reason.contains("ended with exit status: 3, before it was ready"), "{reason}");
    assert!(reason.contains("loading-the-weights\nsomething went wrong"), "{reason}");
}

#[test]
fn a_program_that_is_not_there_is_a_failure() {
    let world = World::started();
    let mut launch = world.model("");
    launch.argv[0] = "/no/such/program".to_owned();
    world.server.order(vec![order("s", 1, Action::Start, launch)]);
    let reason = world.wait_state("s", SlotState::Failed).reason.expect("it says why");
    assert!(reason.contains("not started"), "{reason}");
}

#[test]
fn what_is_not_ready_in_time_is_ended_and_failed() {
    let world = World::started();
    let mut launch = world.model("--ready-after 60000");
    launch.ready_within_ms = 400;
    world.server.order(vec![order("s", 1, Action::Start, launch)]);
    let reason = world.wait_state("s", SlotState::Failed).reason.expect("it says why");
    assert!(reason.contains("it was not ready within 400 ms"), "{reason}");
    assert!(world.pids("s").is_empty());
}

#[test]
fn without_a_ready_path_the_port_tells_and_without_a_port_the_process() {
    let world = World::started();
    let mut by_port = world.model("--ready-after 60000");
    by_port.ready = None;
    let mut by_process = world.model("");
    by_process.argv.retain(|arg| !matches!(arg.as_str(), "--port" | "{port}"));
    world.server.order(vec![
        order("port", 1, Action::Start, by_port),
        order("process", 2, Action::Start, by_process),
    ]);
    assert!(world.wait_state("port", SlotState::Running).endpoint.is_some());
    assert_eq!(world.wait_state("process", SlotState::Running).endpoint, None);
}

#[test]
fn a_launch_for_devices_that_are_not_here_or_that_is_not_confined_is_refused() {
    let world = World::started();
    let mut other = world.model("");
    other.devices[0].uuid = Some("GPU-z".to_owned());
    let mut beyond = world.model("");
    beyond.devices[0].index = 5;
    let mut unconfined = world.model("");
    unconfined.env.clear();
    let mut elsewhere = world.model("");
    elsewhere.env.insert("CUDA_VISIBLE_DEVICES".to_owned(), "GPU-b".to_owned());
    let launches = [
        ("other", other),
        ("beyond", beyond),
        ("unconfined", unconfined),
        ("elsewhere", elsewhere),
    ];
    let orders = launches.map(|(slot, launch)| order(slot, 1, Action::Start, launch));
    world.server.order(orders.to_vec());
    for (slot, part) in [
        ("other", "booked on GPU-z, and device 0 is GPU-a"),
        ("beyond", "booked on device 5"),
        ("unconfined", "no variable confines it"),
        ("elsewhere", "CUDA_VISIBLE_DEVICES is \"GPU-b\", and it is booked on GPU-a"),
    ] {
        let reason = world.wait_state(slot, SlotState::Failed).reason.expect("it says why");
        assert!(reason.contains(part), "{slot}: {reason}");
        assert!(world.pids(slot).is_empty());
    }
}
