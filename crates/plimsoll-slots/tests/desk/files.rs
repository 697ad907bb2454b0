//! Models whose memory is in their file, and the memory that their slots are measured to use.

use std::sync::Arc;

use plimsoll_core::policy::Policy;
use plimsoll_core::remedy::RemedyKind;
use plimsoll_core::units::Bytes;
use plimsoll_models::config;
use plimsoll_slots::desk::{Ending, FileGap, ReservationId, ReservationStatus, StatusReason};
use plimsoll_slots::memory::{SettingChange, Source};
use plimsoll_slots::model::{Declaration, Model};
use plimsoll_slots::proposals;
use plimsoll_slots::simulated_runner::MemoryUse;
use plimsoll_slots::wire::{FileContent, FileReport, Start};

use crate::world::{GIB, World, used};

const FILE: &str = "/models/qwen3-8b";

fn model(rest: &str) -> Model {
    let text = format!("name: m\nruntime: {{vllm: {{}}}}\nfile: {FILE}\ncontext: 4096\n{rest}");
    serde_saphyr::from_str(&text).expect("a model")
}

fn report() -> FileReport {
    let config = include_bytes!("../../../../examples/models/qwen3-8b/config.json");
    let shape = Arc::new(config::shape::read(&config[..]).expect("a config"));
    FileReport { path: FILE.to_string(), content: FileContent::Model { shape } }
}

/// A runner reports what it has, and that it found this.
fn found(world: &mut World, runner: &str, report: FileReport) {
    world.machine(runner).put_file(report);
    world.report(runner);
}

/// Two runners, and a reservation of a model whose memory is in a file.
fn reserved() -> (World, ReservationId) {
    let mut world = World::new(Policy::spread());
    world.call(|desk, core| desk.declare_model(core, model("")));
    world.runner("r1", &[80]);
    world.runner("r2", &[80]);
    let id = world.reserve("m");
    (world, id)
}

fn fits(world: &mut World, model: &Model) -> bool {
    world.call(|desk, core| desk.what_if(core, model)).chosen().is_some()
}

#[test]
fn a_reservation_is_pending_until_a_runner_has_read_the_file_and_is_placed_there() {
    let (mut world, id) = reserved();
    let not_read = FileGap::NotRead { file: FILE.to_string() };
    assert_eq!(world.view().status_reason(id), Some(StatusReason::File(not_read)));
    assert_eq!(world.orders("r2").files, [FILE]);
    found(&mut world, "r2", report());
    assert_eq!(world.orders("r2").files, [""; 0], "a runner is asked once");
    assert_eq!(world.orders("r1").files, [FILE]);
    let need = &world.view().needs(&model(""))[0];
    let (source, sizes) = need.charge.clone().expect("the file says it");
    assert_eq!(source, Source::Estimated);
    assert_eq!((world.load("r1", 0), world.load("r2", 0)), (0, sizes[0].0.get()));
    let slot = world.view().slots().next().expect("a slot");
    assert_eq!(slot.basis[&1], Source::Estimated);
    let launch = world.orders("r2").orders.remove(0).launch.expect("it is new to the runner");
    let charge = Some(sizes[0].0.get());
    assert_eq!((launch.devices[0].bytes, launch.context), (charge, Some(4096)));
    assert!(matches!(launch.start, Start::Command(_)), "{:?}", launch.start);
    world.restart();
    let charge = world.view().needs(&model("")).remove(0).charge;
    assert_eq!(charge, Ok((source, sizes)), "what was found is durable");
}

#[test]
fn where_no_runner_has_the_file_each_says_why() {
    let (mut world, id) = reserved();
    for (runner, why) in [("r1", "no such file"), ("r2", "permission denied")] {
        let content = FileContent::Unreadable { problem: why.to_string() };
        found(&mut world, runner, FileReport { path: FILE.to_string(), content });
    }
    let why = format!("no runner has {FILE} (r1: no such file; r2: permission denied)");
    assert_eq!((world.status(id), world.reason(id)), (ReservationStatus::Pending, why));
}

#[test]
fn the_most_that_slots_were_measured_to_use_is_charged_next_until_the_settings_change() {
    let (mut world, id) = reserved();
    found(&mut world, "r1", report());
    world.settle();
    assert!(world.is_ready(id));
    for (now, most) in [(20, 20), (18, 20), (22, 22)] {
        world.process("r1", "slot-1").used = used(&[(0, now)]);
        world.report("r1");
        let need = world.view().needs(&model("")).remove(0);
        let (source, sizes) = need.charge.clone().expect("it was measured");
        assert_eq!((source, sizes[0].0), (Source::Measured, Bytes::new(most * GIB)));
        assert_eq!(need.disagreement().is_none(), need.remarks().is_empty());
    }
    let other = world.view().needs(&model("concurrency: 4")).remove(0);
    assert_eq!(other.charge.expect("the file says it").0, Source::Estimated);
    let change = SettingChange::Concurrency { measured: 1, declared: 4 };
    assert_eq!(other.outdated, Some(change));
}

#[test]
fn a_slot_that_serves_no_reservation_is_not_measured() {
    let (mut world, id) = reserved();
    found(&mut world, "r1", report());
    world.settle();
    let before = world.view().needs(&model("")).remove(0);
    assert!(world.release(id));
    world.process("r1", "slot-1").used = used(&[(0, 22)]);
    world.report("r1");
    let after = world.view().needs(&model("")).remove(0);
    assert_eq!((after.charge, after.measured), (before.charge, before.measured));
}

#[test]
fn a_measurement_on_other_devices_than_those_of_the_slot_is_not_used() {
    let (mut world, id) = reserved();
    found(&mut world, "r1", report());
    world.settle();
    let before = world.view().needs(&model("")).remove(0).measured;
    for devices in [&[(0, 22), (1, 1)][..], &[(1, 22)], &[]] {
        world.process("r1", "slot-1").used = used(devices);
        world.report("r1");
        let now = world.view().needs(&model("")).remove(0).measured;
        assert_eq!(now, before, "{devices:?}");
    }
    assert!(world.is_ready(id));
}

#[test]
fn a_low_reading_is_shown_and_the_next_slot_is_charged_the_estimate() {
    let mut world = World::new(Policy::spread());
    let several = model("max_slots: 4");
    world.call(|desk, core| desk.declare_model(core, several.clone()));
    world.runner("r", &[80]);
    world.machine("r").conduct.memory = MemoryUse::Unmeasured;
    let first = world.reserve("m");
    found(&mut world, "r", report());
    world.settle();
    world.assert_ready(&[first]);
    let estimate = world.load("r", 0);
    for used in [used(&[(0, 0)]), used(&[(0, 1)])] {
        let process = world.process("r", "slot-1");
        (process.used, process.is_measured) = (used, true);
        world.report("r");
    }
    let need = world.view().needs(&several).remove(0);
    assert!(need.suspicious.is_some() && need.remarks().len() == 1, "{need:?}");
    let second = world.serve("m");
    assert_eq!(world.load("r", 0), 2 * estimate, "the second slot is charged like the first");
    assert_ne!(world.slot_of(first), world.slot_of(second));
}

fn damaged(problem: &str) -> FileReport {
    let content = FileContent::Damaged { problem: problem.to_string() };
    FileReport { path: FILE.to_string(), content }
}

#[test]
fn a_damaged_file_ends_reservations_with_its_reason_once_every_runner_has_looked() {
    for rest in ["", "memory: 20GiB"] {
        let mut world = World::new(Policy::spread());
        world.call(|desk, core| desk.declare_model(core, model(rest)));
        world.runner("r1", &[80]);
        world.runner("r2", &[80]);
        let id = world.reserve("m");
        assert_eq!(world.orders("r1").files, [FILE], "declared memory or not: {rest}");
        found(&mut world, "r1", damaged("the file is incomplete"));
        world.assert_pending(id, "no runner can load");
        let missing = FileContent::Unreadable { problem: "no such file".to_string() };
        found(&mut world, "r2", FileReport { path: FILE.to_string(), content: missing });
        let status = world.status(id);
        assert!(
            matches!(status, ReservationStatus::Ended(Ending::UnusableFile { .. })),
            "{status:?}"
        );
        let reason = world.reason(id);
        assert!(reason.contains("r1: the file is incomplete; r2: no such file"), "{reason}");
        assert_eq!(world.starts(), 0, "nothing was started or evicted for it");
    }
}

#[test]
fn a_new_reservation_makes_runners_inspect_a_damaged_file_again() {
    let mut world = World::new(Policy::spread());
    world.call(|desk, core| desk.declare_model(core, model("memory: 20GiB")));
    world.runner("r", &[80]);
    found(&mut world, "r", damaged("the file is incomplete"));
    let still = world.reserve("m");
    assert_eq!(world.orders("r").files, [FILE]);
    world.assert_pending(still, "no runner can load");
    found(&mut world, "r", damaged("the file is incomplete"));
    assert!(matches!(world.status(still), ReservationStatus::Ended(_)));
    let repaired = world.reserve("m");
    found(&mut world, "r", report());
    world.settle();
    world.assert_ready(&[repaired]);
}

#[test]
fn three_gpus_are_proposed_where_two_are_too_few() {
    let mut world = World::new(Policy::spread());
    let wide =
        Declaration { context: Some(32_768), concurrency: 10, ..model("").declared().clone() };
    let wide = Model::try_from(wide).expect("a valid declaration");
    world.call(|desk, core| desk.declare_model(core, wide.clone()));
    world.runner("r", &[24, 24, 24, 24]);
    let config = include_str!("../../../../examples/models/qwen3-8b/config.json");
    let config = config.replace("\"num_attention_heads\": 32", "\"num_attention_heads\": 24");
    let shape = Arc::new(config::shape::read(config.as_bytes()).expect("a config"));
    assert_eq!(shape.heads.get().and_then(|heads| heads.first()), Some(&24));
    let content = FileContent::Model { shape };
    found(&mut world, "r", FileReport { path: FILE.to_string(), content });
    let view = world.view();
    let policy = &view.scheduler().settings().policy;
    let found =
        proposals::proposals(view.scheduler().ledger(), policy, &wide, view.memory_facts(&wide));
    assert_eq!((found[0].kind, found[0].amount), (RemedyKind::MoreDevices, Some(3)), "{found:?}");
}

#[test]
fn e3_a_proposal_for_a_model_with_a_file_fits_when_it_is_declared_so() {
    let mut world = World::new(Policy::spread());
    let large = model("").declared().clone();
    let large = Declaration { context: Some(32_768), concurrency: 8, ..large };
    let large = Model::try_from(large).expect("a valid declaration");
    world.call(|desk, core| desk.declare_model(core, large.clone()));
    world.runner("r", &[24, 24, 24, 24]);
    found(&mut world, "r", report());
    assert!(!fits(&mut world, &large), "it is too large for one GPU");
    let view = world.view();
    let policy = &view.scheduler().settings().policy;
    let found =
        proposals::proposals(view.scheduler().ledger(), policy, &large, view.memory_facts(&large));
    let kinds: Vec<RemedyKind> = found.iter().map(|remedy| remedy.kind).collect();
    assert_eq!(
        kinds,
        [RemedyKind::MoreDevices, RemedyKind::LowerContext, RemedyKind::SmallerCache]
            [..kinds.len()]
    );
    assert!(kinds.len() >= 2, "{found:?}");
    for remedy in found {
        let mut declared = large.declared().clone();
        let amount = remedy.amount.unwrap_or_default();
        match remedy.kind {
            RemedyKind::MoreDevices => {
                declared.tensor_parallel = vec![u16::try_from(amount).expect("few")];
            }
            RemedyKind::LowerContext => declared.context = Some(amount),
            RemedyKind::SmallerCache => {
                declared.kv = serde_saphyr::from_str(&remedy.target[0]).expect("a type");
            }
            other => panic!("{other:?} is not about a model"),
        }
        let changed = Model::try_from(declared).expect("a valid declaration");
        assert!(fits(&mut world, &changed), "{}", remedy.text);
    }
}
