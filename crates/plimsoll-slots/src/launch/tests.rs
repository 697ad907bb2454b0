//! Launches of placed models: flags, confinement and devices.

use std::sync::Arc;

use plimsoll_core::event::{Event, Settings};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};

use super::*;
use crate::memory::MemoryFacts;
use crate::translate::{self, Purpose};
use crate::wire::{DeviceFacts, Registration};

const COMMAND: &str =
    "runtime: {command: {argv: [serve, '--gpus={gpus}', '{memory_per_gpu_mib}', '{port}']}}";

/// Returns the launch of a model that is placed on a runner with three GPUs of 80 GiB.
fn launch_placed(text: &str) -> Launch {
    launch_with_file(text, [80, 80, 80], None)
}

/// Returns the launch of a model on a runner with three GPUs of this many GiB, whose file has this
/// content.
fn launch_with_file(text: &str, gib: [u64; 3], shape: Option<&Shape>) -> Launch {
    let text = format!("name: m\n{text}");
    let model: Arc<Model> = Arc::new(serde_saphyr::from_str(&text).expect("a model"));
    let facts = |(n, gib): (usize, u64)| DeviceFacts::new(format!("GPU-{n}"), gib << 30);
    let registration = Registration {
        session: 1,
        sequence: 0,
        version: String::new(),
        labels: BTreeMap::new(),
        devices: gib.into_iter().enumerate().map(facts).collect(),
    };
    let mut scheduler = Scheduler::new(Settings::default());
    let mut node = Box::new(translate::node("r", &registration));
    node.files = model.declared().required_files().into_iter().map(Name::from).collect();
    let _ = scheduler.step(Millis(0), Event::Node { node });
    let request = translate::slot_request(
        &model,
        MemoryFacts::default(),
        "slot-1",
        Purpose::Reservation,
        Span::default(),
    );
    let id = request.id.clone();
    let _ = scheduler.step(Millis(0), Event::Submit { request, deadline: None });
    let (_, holding) = scheduler.ledger().of_request(&id).expect("it is placed");
    let (_, view) = scheduler.ledger().nodes().next().expect("there is a node");
    launch(&model, "slot-1", holding, &view.node, shape)
}

fn launch_command(rest: &str) -> Launch {
    launch_placed(&format!("{COMMAND}\n{rest}"))
}

fn launch_server(rest: &str) -> Launch {
    launch_placed(&format!("context: 4096\nconcurrency: 2\n{rest}"))
}

fn command(launch: &Launch) -> &StartCommand {
    match &launch.start {
        Start::Command(command) => command,
        other => panic!("no command: {other:?}"),
    }
}

fn flag<'a>(launch: &'a Launch, flag: &str) -> Option<&'a str> {
    let argv = &command(launch).argv;
    let at = argv.iter().position(|word| word == flag)?;
    argv.get(at + 1).map(String::as_str)
}

#[test]
fn flags_and_confinement_follow_from_the_charge() {
    let launch = launch_command(
        "memory: 100GiB\ntensor_parallel: [2]\nwhere: {required: {indices: [0, 2]}}",
    );
    assert_eq!(command(&launch).argv, ["serve", "--gpus=0,2", "51200", "{port}"]);
    assert_eq!(command(&launch).env["CUDA_VISIBLE_DEVICES"], "GPU-0,GPU-2");
    let charges: Vec<_> = launch.devices.iter().map(|d| (d.index, d.bytes)).collect();
    assert_eq!(charges, [(0, Some(50 << 30)), (2, Some(50 << 30))]);
    assert_eq!(launch.tensor_parallel, 2);
}

#[test]
fn vllm_gets_the_fraction_that_is_charged() {
    let vllm = "runtime: {vllm: {model: a/b, overhead: 1GiB, args: [--hf-overrides, '{}']}}";
    let launch = launch_server(&format!("memory: 140GiB\ntensor_parallel: [2]\n{vllm}"));
    let settings = launch.runtime.as_ref().expect("its flags are rendered");
    assert_eq!(flag(&launch, "--gpu-memory-utilization"), Some("0.8625"));
    assert_eq!((settings.memory_ratio.as_deref(), settings.overhead), (Some("0.8625"), 1 << 30));
    assert_eq!(settings.overhead_source, "declared");
    assert_eq!(flag(&launch, "--tensor-parallel-size"), Some("2"));
    assert_eq!(flag(&launch, "--hf-overrides"), Some("{{}}"), "the runner unescapes it");
    assert_eq!(command(&launch).env["CUDA_VISIBLE_DEVICES"], "GPU-0,GPU-1");
    assert_eq!(command(&launch).ready.as_deref(), Some("/health"));
}

#[test]
fn the_files_of_a_model_are_served_with_its_settings() {
    let launch = launch_server(
        "memory: 20GiB\nfile: /m.gguf\nkv: q8_0\nruntime: {llama_cpp: {ubatch: 256}}",
    );
    for (name, value) in [
        ("--model", "/m.gguf"),
        ("--ctx-size", "8192"),
        ("--cache-type-v", "q8_0"),
        ("--ubatch-size", "256"),
    ] {
        assert_eq!(flag(&launch, name), Some(value), "{name}");
    }
    assert_eq!((launch.context, launch.concurrency), (Some(4096), 2));
    let launch = launch_server("memory: 20GiB\nruntime: {ollama: {model: q, batch: 256}}");
    for (name, value) in [
        ("OLLAMA_CONTEXT_LENGTH", "4096"),
        ("OLLAMA_NUM_PARALLEL", "2"),
        ("LLAMA_ARG_KV_UNIFIED", "off"),
    ] {
        assert_eq!(command(&launch).env[name], value, "{name}");
    }
    let preload = command(&launch).preload.as_ref().expect("Ollama loads on request");
    assert!(preload.body.contains(r#""num_batch":256"#), "{}", preload.body);
}

#[test]
fn the_first_gpu_of_a_model_is_the_one_with_its_charge() {
    let text = "context: 4096\nmemory: [30GiB, 20GiB]\ntensor_parallel: [2]\nruntime: {llama_cpp: {model: /m}}";
    let launch = launch_with_file(text, [24, 80, 8], None);
    let charges: Vec<_> = launch.devices.iter().map(|d| (d.index, d.bytes)).collect();
    assert_eq!(charges, [(1, Some(30 << 30)), (0, Some(20 << 30))]);
    assert_eq!(command(&launch).env["CUDA_VISIBLE_DEVICES"], "GPU-1,GPU-0");
    assert_eq!(flag(&launch, "--tensor-split"), Some("30208,19968"));
}

#[test]
fn layers_are_split_by_the_counts_of_the_file() {
    let config = include_bytes!("../../../../examples/models/qwen3-8b/config.json");
    let shape = plimsoll_models::config::shape::read(&config[..]).expect("a config");
    let text =
        "context: 4096\nmemory: 40GiB\ntensor_parallel: [2]\nruntime: {llama_cpp: {model: /m}}";
    let known = launch_with_file(text, [80, 80, 80], Some(&shape));
    assert_eq!(flag(&known, "--tensor-split"), Some("19,18"), "36 layers and the output");
    let unknown = launch_with_file(text, [80, 80, 80], None);
    assert_eq!(flag(&unknown, "--tensor-split"), Some("1,1"));
}

#[test]
fn a_device_that_shrank_below_the_charge_gives_no_command() {
    let text = "name: m\ncontext: 4096\nmemory: 39GiB\nruntime: {vllm: {model: a/b}}";
    let model: Model = serde_saphyr::from_str(text).expect("a model");
    let device =
        LaunchDevice { index: 0, uuid: None, bytes: Some(39 << 30), total: Some(12 << 30) };
    let (start, settings) = render_start(model.declared(), Span::seconds(1), &[device], None);
    let field = "memory".to_string();
    let problem = "the charge of 39 GiB exceeds the GPU's 12 GiB".to_string();
    assert_eq!(start, Start::Invalid { field, problem });
    assert_eq!(settings.expect("its settings are known").memory_ratio, None);
}

#[test]
fn a_process_without_a_device_sees_none() {
    let launch = launch_command("gpus: 0");
    assert_eq!(command(&launch).env["CUDA_VISIBLE_DEVICES"], "");
    assert_eq!(command(&launch).env["NVIDIA_VISIBLE_DEVICES"], "void");
    assert!(launch.devices.is_empty());
}

#[test]
fn preferred_devices_come_first_and_never_widen_the_required_ones() {
    for (placement, index) in [
        ("{preferred: {indices: [2]}}", 2),
        ("{preferred: {uuids: [GPU-9]}}", 0),
        ("{required: {indices: [1]}, preferred: {indices: [2]}}", 1),
    ] {
        let launch = launch_command(&format!("memory: 60GiB\nwhere: {placement}"));
        assert_eq!(launch.devices[0].index, index, "{placement}");
    }
}
