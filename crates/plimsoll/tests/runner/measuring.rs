//! What is measured: whose the memory is, also when it is more than booked, and how old the numbers are.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{OnDevice, SlotState};

use crate::world::{GIB, World, report};

#[test]
fn what_grows_past_its_charge_is_reported_as_it_is() {
    let world = World::measured("");
    let options = format!("--fork --use 0={} --grow 0={} --grow-after 500", 4 * GIB, 12 * GIB);
    world.server.order(vec![world.start_order("s", 1, &options)]);
    let used =
        |beat: &_, bytes| report(beat, "s").filter(|r| r.used == [OnDevice { index: 0, bytes }]);
    // The child that it started uses as much as itself.
    world.wait("8 GiB in use", |beat| used(beat, 8 * GIB));
    let grown = world.wait("16 GiB in use", |beat| used(beat, 16 * GIB));
    assert_eq!(grown.booked, [OnDevice { index: 0, bytes: 10 * GIB }]);
    let beat = world.beats(1);
    assert_eq!((beat.devices[0].used, beat.devices[0].foreign.len()), (Some(16 * GIB), 0));
    assert_eq!(beat.devices[1].used, Some(0));
}

#[test]
fn processes_of_nobody_are_foreign() {
    let world = World::measured("");
    let own = std::process::id();
    fs::write(world.meter().join("foreign"), format!("1 {own} {}", 3 * GIB))
        .expect("it can be written");
    let device = world
        .wait("foreign use", |beat| beat.devices.get(1).filter(|d| !d.foreign.is_empty()).cloned());
    let process = &device.foreign[0];
    assert_eq!((process.pid, process.bytes, device.used), (own, Some(3 * GIB), Some(3 * GIB)));
    assert!(process.name.as_ref().is_some_and(|name| name.starts_with("runner")), "{process:?}");
}

#[test]
fn without_a_meter_nothing_is_measured_and_declared_use_still_counts() {
    let mut world = World::new();
    let devices =
        r#"[{"uuid":"GPU-a","memory":"80GiB","foreign":"2GiB"},{"uuid":"GPU-b","memory":"80GiB"}]"#;
    fs::write(world.path("devices.json"), devices).expect("it can be written");
    world.start();
    world.server.order(vec![world.start_order("s", 1, "")]);
    let running = world.wait_state("s", SlotState::Running);
    assert_eq!(running.used, []);
    let beat = world.beats(1);
    let [device] = &beat.devices[..] else { panic!("{:?}", beat.devices) };
    assert_eq!((device.index, device.used, device.foreign[0].bytes), (0, None, Some(2 * GIB)));
}

#[test]
fn a_probe_that_fails_leaves_the_last_numbers_and_says_how_old_they_are() {
    let world = World::measured("");
    world.server.order(vec![world.start_order("s", 1, &format!("--use 0={}", 5 * GIB))]);
    world.wait("5 GiB in use", |beat| (beat.devices.first()?.used? == 5 * GIB).then_some(()));
    fs::write(world.meter().join("fail"), "").expect("it can be written");
    let first = world.wait("staleness", |beat| beat.devices.first()?.stale_for);
    let later = world.wait("more staleness", |beat| {
        beat.devices.first()?.stale_for.filter(|age| *age > first + 300)
    });
    let beat = world.beats(1);
    assert_eq!(beat.devices[0].used, Some(5 * GIB), "{later}");
    assert_eq!(
        report(&beat, "s").expect("it is there").used,
        [OnDevice { index: 0, bytes: 5 * GIB }]
    );
    fs::remove_file(world.meter().join("fail")).expect("it is there");
    world.wait("fresh numbers", |beat| beat.devices.first()?.stale_for.is_none().then_some(()));
    assert_eq!(world.log().matches("measuring fails").count(), 1, "{}", world.log());
}

#[test]
fn a_probe_that_hangs_holds_up_no_report() {
    let mut world = World::new();
    world.measure("");
    world.extra.extend(["--probe-timeout".to_owned(), "400".to_owned()]);
    world.start();
    world.wait("numbers", |beat| beat.devices.first()?.used);
    fs::write(world.meter().join("hang"), "").expect("it can be written");
    world.wait("staleness", |beat| beat.devices.first()?.stale_for);
    let began = Instant::now();
    world.beats(10);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    thread::sleep(Duration::from_millis(100));
    assert!(world.log().contains("the probe did not end within 400 ms"), "{}", world.log());
}
