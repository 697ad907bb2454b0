//! Models that load more than one file: with a projector, adapters or a draft model.

use std::sync::Arc;

use plimsoll_core::policy::Policy;
use plimsoll_core::units::Bytes;
use plimsoll_models::config;
use plimsoll_models::shape::{Contents, Format, Projector, Shape, Weights};
use plimsoll_models::source::Sourced;
use plimsoll_slots::desk::ReservationStatus;
use plimsoll_slots::memory::Source;
use plimsoll_slots::model::Model;
use plimsoll_slots::wire::{FileContent, FileReport, Start};

use crate::world::World;

const FILE: &str = "/models/m.gguf";
const PROJECTOR: &str = "/models/mmproj.gguf";
const DRAFT: &str = "/models/draft.gguf";

fn model(options: &str) -> Model {
    let text =
        format!("name: m\nfile: {FILE}\ncontext: 4096\nruntime: {{llama_cpp: {{{options}}}}}");
    serde_saphyr::from_str(&text).expect("a model")
}

fn gguf() -> Shape {
    let config = include_bytes!("../../../../examples/models/qwen3-8b/config.json");
    let shape = config::shape::read(&config[..]).expect("a config");
    Shape { format: Format::Gguf, ..shape }
}

fn projector() -> Shape {
    let weights = Weights { other: Bytes::mib(800), ..Weights::default() };
    let contents = Projector {
        compute: Sourced::read(Bytes::mib(200), "the largest image"),
        scores: Bytes::mib(1000),
    };
    Shape {
        weights: Sourced::read(weights, "tensors"),
        contents: Contents::Projector(contents),
        ..gguf()
    }
}

fn report(world: &mut World, runner: &str, path: &str, content: FileContent) {
    world.machine(runner).put_file(FileReport { path: path.to_string(), content });
    world.report(runner);
}

fn found(world: &mut World, runner: &str, path: &str, shape: Shape) {
    report(world, runner, path, FileContent::Model { shape: Arc::new(shape) });
}

fn charge(world: &World, model: &Model) -> u64 {
    let need = world.view().needs(model).remove(0);
    let (source, sizes) = need.charge.expect("is known");
    assert_eq!(source, Source::Estimated);
    sizes[0].0.get()
}

#[test]
fn a_model_is_charged_with_all_its_files_and_placed_where_they_all_are() {
    let mut world = World::new(Policy::spread());
    let alone = model("");
    let seeing = model(&format!("mmproj: {PROJECTOR}"));
    world.call(|desk, core| desk.declare_model(core, seeing.clone()));
    world.runner("r1", &[80]);
    world.runner("r2", &[80]);
    let id = world.reserve("m");
    assert_eq!(world.orders("r1").files, [FILE, PROJECTOR]);
    found(&mut world, "r1", FILE, gguf());
    assert_eq!(world.status(id), ReservationStatus::Pending, "the projector is missing");
    let missing = FileContent::Unreadable { problem: "no such file".to_string() };
    report(&mut world, "r1", PROJECTOR, missing.clone());
    assert_eq!(world.reason(id), format!("no runner has {PROJECTOR} (r1: no such file)"));
    report(&mut world, "r2", FILE, missing);
    found(&mut world, "r2", PROJECTOR, projector());
    let both =
        format!("no runner has {FILE} with {PROJECTOR} (r1: no such file; r2: no such file)");
    assert_eq!(world.reason(id), both);
    let again = world.reserve("m");
    assert!(world.release(again));
    found(&mut world, "r2", FILE, gguf());
    found(&mut world, "r2", PROJECTOR, projector());
    let need = charge(&world, &seeing);
    assert_eq!((world.load("r1", 0), world.load("r2", 0)), (0, need));
    let launch = world.orders("r2").orders.remove(0).launch.expect("it is new to the runner");
    let Start::Command(command) = launch.start else { panic!("{:?}", launch.start) };
    assert!(command.argv.windows(2).any(|pair| pair == ["--mmproj", PROJECTOR]), "{command:?}");
    world.restart();
    assert_eq!(charge(&world, &seeing), need, "what was found is durable");
    world.call(|desk, core| desk.declare_model(core, alone.clone()));
    let difference = need - charge(&world, &alone);
    assert_eq!(difference, Bytes::mib(1000 + 20).get(), "with 2 percent reserve");
}

#[test]
fn a_draft_model_is_charged_as_a_model_of_its_own() {
    let mut world = World::new(Policy::spread());
    let fast = model(&format!("draft: {DRAFT}"));
    world.call(|desk, core| desk.declare_model(core, fast.clone()));
    world.runner("r", &[80]);
    world.reserve("m");
    found(&mut world, "r", FILE, gguf());
    found(&mut world, "r", DRAFT, gguf());
    let both = charge(&world, &fast);
    world.call(|desk, core| desk.declare_model(core, model("")));
    let one = charge(&world, &model(""));
    let fixed = 512 << 20;
    assert!(both > 2 * one - fixed - (8 << 20), "{both} {one}: two models and one context");
    assert!(both < 2 * one - fixed + (64 << 20), "{both} {one}");
}

#[test]
fn a_file_beside_the_model_that_is_damaged_or_of_another_kind_is_named() {
    let mut world = World::new(Policy::spread());
    let seeing = model(&format!("mmproj: {PROJECTOR}"));
    world.call(|desk, core| desk.declare_model(core, seeing.clone()));
    world.runner("r", &[80]);
    let id = world.reserve("m");
    found(&mut world, "r", FILE, gguf());
    let problem = "the file ends at byte 40".to_string();
    report(&mut world, "r", PROJECTOR, FileContent::Damaged { problem });
    assert!(matches!(world.status(id), ReservationStatus::Ended(_)));
    let reason = world.reason(id);
    assert!(reason.contains(PROJECTOR) && reason.contains("ends at byte 40"), "{reason}");

    let id = world.reserve("m");
    found(&mut world, "r", PROJECTOR, gguf());
    let reason = world.reason(id);
    assert!(reason.contains("mmproj must be a projector, but the file is a model"), "{reason}");
}
