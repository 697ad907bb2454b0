//! Models whose memory only their file says, and what their slots are seen to use.

use plimsoll_core::policy::Policy;
use plimsoll_core::remedy::Kind;
use plimsoll_core::units::Bytes;
use plimsoll_models::config;
use plimsoll_slots::desk::PlaceStatus;
use plimsoll_slots::memory::Source;
use plimsoll_slots::model::{Declaration, Model};
use plimsoll_slots::proposals;
use plimsoll_slots::wire::{FileReport, OnDevice};

use crate::world::{GIB, World};

const FILE: &str = "/models/qwen3-8b";

fn model(rest: &str) -> Model {
    let text = format!("name: m\nruntime: {{vllm: {{}}}}\nfile: {FILE}\ncontext: 4096\n{rest}");
    serde_saphyr::from_str(&text).expect("a model")
}

fn report() -> FileReport {
    let config = include_bytes!("../../../../examples/models/qwen3-8b/config.json");
    let shape = config::shape::read(&config[..]).expect("it can be read");
    FileReport {
        path: FILE.to_string(),
        is_there: true,
        shape: Some(Box::new(shape)),
        problem: None,
    }
}

/// A runner says what it has, and what it found.
fn say(world: &mut World, runner: &str, files: Vec<FileReport>) {
    let mut beat = world.machines.get_mut(runner).expect("there").heartbeat();
    beat.files = files;
    world.desk.beat(world.now(), runner, beat).expect("it is registered");
}

fn asked() -> (World, u64) {
    let mut world = World::new(Policy::spread());
    world.desk.put_model(world.now(), model(""));
    world.runner("r1", &[80]);
    world.runner("r2", &[80]);
    let place = world.ask("m");
    (world, place)
}

#[test]
fn one_who_asks_waits_until_a_runner_has_looked_at_the_file_and_is_placed_there() {
    let (mut world, place) = asked();
    assert_eq!(world.desk.why_waiting(place), format!("no runner has said yet what is in {FILE}"));
    assert_eq!(world.desk.orders("r2").files, [FILE]);
    say(&mut world, "r2", vec![report()]);
    assert_eq!(world.desk.orders("r2").files, [""; 0], "it is asked once");
    assert_eq!(world.desk.orders("r1").files, [FILE]);
    let need = &world.desk.needs(&model(""))[0];
    let (source, sizes) = need.charge.clone().expect("the file says it");
    assert_eq!(source, Source::Estimated);
    assert_eq!((world.load("r1", 0), world.load("r2", 0)), (0, sizes[0].0.get()));
    let slot = world.desk.slots().next().expect("a slot");
    assert_eq!(slot.basis[&1], Source::Estimated);
    let launch = world.desk.orders("r2").orders.remove(0).launch.expect("it was not told before");
    let told = launch.told.as_ref().expect("the runtime is told");
    assert_eq!(
        (launch.devices[0].bytes, launch.context, told.refused.as_ref()),
        (sizes[0].0.get(), Some(4096), None)
    );
    world.restart();
    assert_eq!(
        world.desk.needs(&model(""))[0].charge,
        Ok((source, sizes)),
        "what was found is durable"
    );
}

#[test]
fn where_no_runner_has_the_file_each_says_why() {
    let (mut world, place) = asked();
    let none = |why: &str| FileReport {
        path: FILE.to_string(),
        is_there: false,
        shape: None,
        problem: Some(why.to_string()),
    };
    say(&mut world, "r1", vec![none("no such file")]);
    say(&mut world, "r2", vec![none("permission denied")]);
    let why = format!("no runner has {FILE} (r1: no such file; r2: permission denied)");
    assert_eq!((world.status(place), world.desk.why_waiting(place)), (PlaceStatus::Waiting, why));
}

#[test]
fn the_most_that_slots_were_seen_to_use_is_charged_next_until_the_settings_change() {
    let (mut world, place) = asked();
    say(&mut world, "r1", vec![report()]);
    world.settle();
    assert!(world.status(place).is_ready());
    for (used, most) in [(20, 20), (18, 20), (22, 22)] {
        let process =
            world.machines.get_mut("r1").expect("there").processes.values_mut().next().expect("it");
        process.used = vec![OnDevice { index: 0, bytes: used * GIB }];
        world.say("r1");
        let need = world.desk.needs(&model("")).remove(0);
        let (source, sizes) = need.charge.clone().expect("it was measured");
        assert_eq!((source, sizes[0].0), (Source::Measured, Bytes::new(most * GIB)));
        assert!(need.disagreement().is_none() == need.remarks.is_empty());
    }
    let other = world.desk.needs(&model("concurrency: 4")).remove(0);
    assert_eq!(other.charge.expect("the file says it").0, Source::Estimated);
    assert!(other.unfit.is_some_and(|why| why.contains("concurrency 1")));
}

#[test]
fn e3_what_is_proposed_for_a_model_with_a_file_fits_when_it_is_declared_so() {
    let mut world = World::new(Policy::spread());
    let large = model("").declared().clone();
    let large = Model::try_from(Declaration { context: Some(32_768), concurrency: 8, ..large })
        .expect("it");
    world.desk.put_model(world.now(), large.clone());
    world.runner("r", &[24, 24, 24, 24]);
    say(&mut world, "r", vec![report()]);
    assert!(world.desk.what_if(&large).place().is_none(), "it is too large for one GPU");
    let scheduler = world.desk.scheduler();
    let policy = &scheduler.settings().policy;
    let found = proposals::proposals(scheduler.ledger(), policy, &large, world.desk.known(&large));
    let kinds: Vec<Kind> = found.iter().map(|remedy| remedy.kind).collect();
    assert_eq!(kinds, [Kind::MoreDevices, Kind::LowerContext, Kind::SmallerCache][..kinds.len()]);
    assert!(kinds.len() >= 2, "{found:?}");
    for remedy in found {
        let mut declared = large.declared().clone();
        let amount = remedy.amount.unwrap_or_default();
        match remedy.kind {
            Kind::MoreDevices => {
                declared.tensor_parallel = vec![u16::try_from(amount).expect("few")]
            }
            Kind::LowerContext => declared.context = Some(amount),
            Kind::SmallerCache => {
                declared.kv = serde_saphyr::from_str(&remedy.target[0]).expect("a type")
            }
            other => panic!("{other:?} is not about a model"),
        }
        let changed = Model::try_from(declared).expect("it makes sense");
        assert!(world.desk.what_if(&changed).place().is_some(), "{}", remedy.text);
    }
}
