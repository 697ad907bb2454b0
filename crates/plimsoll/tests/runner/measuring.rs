//! Measurements: attribution to slots, use beyond the charge, and stale values.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Action, Launch, OnDevice, RuntimeSettings, SlotState};

use crate::world::{GIB, World, order, report};

#[test]
fn use_beyond_the_charge_is_reported() {
    let world = World::measured("");
    let options = format!("--fork --use 0={} --grow 0={} --grow-after 500", 4 * GIB, 12 * GIB);
    world.server.order(vec![world.start_order("s", 1, &options)]);
    let used = |heartbeat: &_, bytes| {
        report(heartbeat, "s").filter(|r| r.used == [OnDevice { index: 0, bytes }])
    };
    // Its child uses the same amount.
    world.wait("8 GiB in use", |heartbeat| used(heartbeat, 8 * GIB));
    let grown = world.wait("16 GiB in use", |heartbeat| used(heartbeat, 16 * GIB));
    assert_eq!(grown.booked, [OnDevice { index: 0, bytes: 10 * GIB }]);
    let heartbeat = world.next_heartbeats(1);
    assert_eq!(
        (heartbeat.devices[0].used, heartbeat.devices[0].foreign.len()),
        (Some(16 * GIB), 0)
    );
    assert_eq!(heartbeat.devices[1].used, Some(0));
}

#[test]
fn processes_of_no_slot_are_foreign() {
    let world = World::measured("");
    let own = std::process::id();
    fs::write(world.meter().join("foreign"), format!("1 {own} {}", 3 * GIB))
        .expect("the file is written");
    let device = world.wait("foreign use", |heartbeat| {
        heartbeat.devices.get(1).filter(|d| !d.foreign.is_empty()).cloned()
    });
    let process = &device.foreign[0];
    assert_eq!(
        (process.pid, process.bytes, device.used),
        (Some(own), Some(3 * GIB), Some(3 * GIB))
    );
    assert!(process.name.as_ref().is_some_and(|name| name.starts_with("runner")), "{process:?}");
}

#[test]
fn declared_foreign_memory_counts_without_a_meter() {
    let mut world = World::new();
    let devices =
        r#"[{"uuid":"GPU-a","memory":"80GiB","foreign":"2GiB"},{"uuid":"GPU-b","memory":"80GiB"}]"#;
    fs::write(world.path("devices.json"), devices).expect("the file is written");
    world.start();
    world.server.order(vec![world.start_order("s", 1, "")]);
    let running = world.wait_state("s", SlotState::Running);
    assert_eq!(running.used, []);
    let heartbeat = world.next_heartbeats(1);
    let [device] = &heartbeat.devices[..] else { panic!("{:?}", heartbeat.devices) };
    assert_eq!((device.index, device.used, device.foreign[0].bytes), (0, None, Some(2 * GIB)));
}

#[test]
fn a_failed_probe_leaves_the_last_values_with_their_age() {
    let world = World::measured("");
    world.server.order(vec![world.start_order("s", 1, &format!("--use 0={}", 5 * GIB))]);
    world.wait("5 GiB in use", |heartbeat| {
        (heartbeat.devices.first()?.used? == 5 * GIB).then_some(())
    });
    fs::write(world.meter().join("fail"), "").expect("the file is written");
    let first = world.wait("staleness", |heartbeat| heartbeat.devices.first()?.stale_for);
    let later = world.wait("more staleness", |heartbeat| {
        heartbeat.devices.first()?.stale_for.filter(|age| *age > first + 300)
    });
    let heartbeat = world.next_heartbeats(1);
    assert_eq!(heartbeat.devices[0].used, Some(5 * GIB), "{later}");
    assert_eq!(
        report(&heartbeat, "s").expect("it exists").used,
        [OnDevice { index: 0, bytes: 5 * GIB }]
    );
    fs::remove_file(world.meter().join("fail")).expect("it exists");
    world.wait("fresh numbers", |heartbeat| {
        heartbeat.devices.first()?.stale_for.is_none().then_some(())
    });
    assert_eq!(world.log().matches("measurement failed").count(), 1, "{}", world.log());
}

#[test]
fn a_hanging_probe_delays_no_heartbeat() {
    let mut world = World::new();
    world.measure("");
    world.extra.extend(["--probe-timeout".to_owned(), "400".to_owned()]);
    world.start();
    world.wait("numbers", |heartbeat| heartbeat.devices.first()?.used);
    fs::write(world.meter().join("hang"), "").expect("the file is written");
    world.wait("staleness", |heartbeat| heartbeat.devices.first()?.stale_for);
    let began = Instant::now();
    world.next_heartbeats(10);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    thread::sleep(Duration::from_millis(100));
    assert!(world.log().contains("the probe did not exit within 400 ms"), "{}", world.log());
}

/// Returns the launch of a runtime that loads its model before it is ready.
fn llama_cpp(world: &World, options: &str) -> Launch {
    let runtime = RuntimeSettings {
        name: "llama.cpp".to_owned(),
        kv: "f16".to_owned(),
        batch: 512,
        memory_ratio: None,
        overhead: GIB / 2,
        overhead_source: "a test".to_owned(),
        remarks: Vec::new(),
    };
    Launch { runtime: Some(runtime), ..world.model(options) }
}

#[test]
fn a_runtime_that_fell_back_to_the_cpu_is_a_failed_start() {
    let world = World::measured("");
    let on_gpu = llama_cpp(&world, &format!("--use 0={}", 4 * GIB));
    world.server.order(vec![order("gpu", 1, Action::Start, on_gpu)]);
    world.wait_state("gpu", SlotState::Running);
    world.server.order(vec![
        order("gpu", 1, Action::Start, llama_cpp(&world, "")),
        order("cpu", 1, Action::Start, llama_cpp(&world, "")),
        // A command may load its model later.
        world.start_order("lazy", 1, ""),
    ]);
    let failed = world.wait_state("cpu", SlotState::Failed);
    let reason = failed.reason.unwrap_or_default();
    assert!(reason.contains("without memory on its GPUs, so it runs on the CPU"), "{reason}");
    world.wait_state("lazy", SlotState::Running);
    world.wait_state("gpu", SlotState::Running);
}
