//! Models of unknown memory that get whole GPUs until a slot was measured.

use plimsoll_core::units::Bytes;
use plimsoll_slots::memory::{Service, Source};
use plimsoll_slots::simulated_runner::MemoryUse;

use crate::world::{GIB, World, model, used};

const MEASURE: &str = "memory: measure\nmax_slots: 3";

/// A runner with GPUs of 80 GiB, whose first slot of `m` uses 10 GiB.
fn started(gpus: &[u64]) -> World {
    let mut world = World::with(&[("m", MEASURE), ("small", "memory: 1GiB")], gpus);
    world.machine("r").conduct.memory = MemoryUse::Unmeasured;
    world
}

fn measure(world: &mut World, slot: &str, devices: &[(u16, u64)]) {
    let process = world.process("r", slot);
    process.used = used(devices);
    process.is_measured = true;
    world.report("r");
}

#[test]
fn a_model_to_be_measured_waits_for_an_empty_gpu_and_takes_all_of_it() {
    let mut world = started(&[80]);
    let small = world.serve("small");
    let first = world.reserve("m");
    world.assert_pending(first, "whole GPU");
    let slot = world.slot_of(small);
    world.release(small);
    world.stop_slot(&slot);
    world.settle();
    world.assert_ready(&[first]);
    world.assert_loads(&[("r", 80)]);
    let beside = world.reserve("small");
    world.assert_pending(beside, "");
}

#[test]
fn once_served_and_measured_the_next_slots_are_charged_a_tenth_more_than_was_used() {
    let mut world = started(&[80, 80]);
    let first = world.serve("m");
    let declared = model("m", MEASURE);
    measure(&mut world, "slot-1", &[(0, 10)]);
    assert!(
        world.view().needs(&declared)[0].takes_whole_gpus(),
        "a client may not have used it yet"
    );
    world.release(first);
    measure(&mut world, "slot-1", &[(0, 9)]);
    let need = world.view().needs(&declared).remove(0);
    let measured = need.measured.clone().expect("it was measured");
    assert_eq!((measured.service, &measured.bytes[..]), (Service::Served, &[Bytes::gib(10)][..]));
    let (source, sizes) = need.charge.expect("it is known");
    assert_eq!((source, sizes[0].0), (Source::Measured, Bytes::gib(11)), "the peak is charged");
    world.restart();
    world.pass(1);
    world.settle();
    world.stop_slot("slot-1");
    world.settle();
    let (second, third) = (world.reserve("m"), world.reserve("m"));
    world.settle();
    world.assert_ready(&[second, third]);
    let loads = [world.load("r", 0), world.load("r", 1)];
    assert_eq!(loads.iter().sum::<u64>(), 22 * GIB, "{loads:?}");
    let basis = world.view().slots().next().expect("a slot").basis[&1];
    assert_eq!(basis, Source::Measured);
}

#[test]
fn a_reading_of_zero_leaves_a_model_on_whole_gpus_and_does_not_make_it_impossible() {
    let mut world = started(&[80, 80]);
    let first = world.serve("m");
    world.release(first);
    measure(&mut world, "slot-1", &[(0, 0)]);
    let need = world.view().needs(&model("m", MEASURE)).remove(0);
    assert!(need.takes_whole_gpus() && need.suspicious.is_some(), "{need:?}");
    let remark = need.remarks()[0].to_string();
    assert!(remark.contains("check that the runtime uses the GPU"), "{remark}");
    world.serve("m");
    world.serve("m");
    world.assert_loads(&[("r", 80)]);
}

#[test]
fn a_client_whose_lease_expires_has_not_used_the_slot() {
    let mut world = started(&[80]);
    let first = world.serve("m");
    measure(&mut world, "slot-1", &[(0, 10)]);
    for _ in 0..400 {
        world.report("r");
        world.pass(5_000);
    }
    assert!(!world.is_ready(first), "{}", world.reason(first));
    measure(&mut world, "slot-1", &[(0, 10)]);
    assert!(world.view().needs(&model("m", MEASURE))[0].takes_whole_gpus());
}
