//! How a slot is started: flags, environment and devices, rendered from the very charge that was
//! booked for it.

use std::collections::BTreeMap;

use plimsoll_core::charge::Holding;
use plimsoll_core::device::{Identity, Node};
use plimsoll_core::units::Bytes;
use plimsoll_models::runtime::{Booked, render};

use crate::model::{Declaration, Model};
use crate::runtime::{Command, Runtime};
use crate::template::{self, CONFINING};
use crate::told;
use crate::wire::{Launch, LaunchDevice};

/// The record from which a slot's process is started. Where the runtime cannot be told what was
/// booked, it has no program.
pub fn launch(model: &Model, slot: &str, holding: &Holding, node: &Node) -> Launch {
    let declared = model.declared();
    let (ready_within, grace) = declared.runtime.patience();
    let mut launch = Launch {
        ready_within_ms: ready_within.0,
        grace_ms: grace.0,
        context: declared.context,
        concurrency: declared.concurrency,
        ..unknown(&declared.name, holding, node)
    };
    match &declared.runtime {
        Runtime::Command(command) => fill_in(&mut launch, command, slot),
        _ => tell(&mut launch, declared),
    }
    launch.env.extend(confinement(&declared.vendor, &launch.devices));
    launch
}

/// What is known of a slot that was not started from here: enough to keep it and to stop it, not to
/// start it.
pub fn unknown(model: &str, holding: &Holding, node: &Node) -> Launch {
    let devices = devices(holding, node);
    let tensor_parallel = u16::try_from(devices.len()).unwrap_or(u16::MAX);
    Launch {
        model: model.to_string(),
        devices,
        argv: Vec::new(),
        env: BTreeMap::new(),
        ready: None,
        ready_within_ms: 0,
        grace_ms: 10_000,
        context: None,
        concurrency: 1,
        tensor_parallel,
        told: None,
    }
}

/// The devices that a holding is charged on, in the order of their places.
pub fn devices(holding: &Holding, node: &Node) -> Vec<LaunchDevice> {
    let mut devices: Vec<LaunchDevice> = holding
        .charges
        .iter()
        .flat_map(|charge| charge.on.iter().map(move |ordinal| (*ordinal, charge)))
        .map(|(index, charge)| {
            let device = node.devices.get(usize::from(index));
            let uuid = device.and_then(|device| match &device.identity {
                Identity::Uuid(uuid) => Some(uuid.to_string()),
                Identity::Ordinal => None,
            });
            let total = device.and_then(|device| device.memory.total.bytes()).map(Bytes::get);
            LaunchDevice { index, uuid, bytes: charge.bytes().map_or(0, Bytes::get), total }
        })
        .collect();
    devices.sort_by_key(|device| device.index);
    devices
}

/// Tells a runtime that Plimsoll knows what is booked for it.
fn tell(launch: &mut Launch, declared: &Declaration) {
    let booked = |device: &LaunchDevice| Booked {
        charge: Bytes::new(device.bytes),
        total: device.total.map(Bytes::new),
    };
    let Some((record, extra)) =
        told::record(declared.wanted(), launch.devices.iter().map(booked).collect())
    else {
        return;
    };
    let rendered = render(&record, &extra);
    launch.told = Some(told::report(&record, &rendered));
    if let Ok(rendered) = rendered {
        (launch.argv, launch.env) = (rendered.argv, rendered.env);
        launch.ready = Some(rendered.ready.to_string());
    }
}

fn fill_in(launch: &mut Launch, command: &Command, slot: &str) {
    let value = |name: &str| field(launch, slot, name);
    // A declaration with a template that cannot be filled in was refused when it was read.
    let fill = |text: &String| template::fill(text, value).unwrap_or_else(|_| text.clone());
    let argv = command.argv.iter().map(fill).collect();
    let env = command.env.iter().map(|(key, text)| (key.clone(), fill(text))).collect();
    let ready = command.ready.as_ref().map(fill);
    (launch.argv, launch.env, launch.ready) = (argv, env, ready);
}

fn field(launch: &Launch, slot: &str, name: &str) -> String {
    const MIB: u64 = 1 << 20;
    let total: u64 = launch.devices.iter().map(|device| device.bytes).sum();
    // The same limit holds on every device of an even split; where the list is uneven, the least of
    // them is safe on all.
    let per_gpu = launch.devices.iter().map(|device| device.bytes).min().unwrap_or(0);
    let listed = |one: &dyn Fn(&LaunchDevice) -> String| {
        launch.devices.iter().map(one).collect::<Vec<_>>().join(",")
    };
    match name {
        "model" => launch.model.clone(),
        "slot" => slot.to_string(),
        "context" => launch.context.map_or(String::new(), |context| context.to_string()),
        "concurrency" => launch.concurrency.to_string(),
        "tensor_parallel" => launch.tensor_parallel.to_string(),
        "gpus" => listed(&|device| device.index.to_string()),
        "uuids" => listed(&called),
        "memory_bytes" => total.to_string(),
        "memory_mib" => (total / MIB).to_string(),
        "memory_per_gpu_bytes" => per_gpu.to_string(),
        "memory_per_gpu_mib" => (per_gpu / MIB).to_string(),
        _ => String::new(),
    }
}

fn called(device: &LaunchDevice) -> String {
    device.uuid.clone().unwrap_or_else(|| device.index.to_string())
}

/// The variables that let a process see its booked devices and no others. Work without a device
/// sees none.
fn confinement(vendor: &str, devices: &[LaunchDevice]) -> BTreeMap<String, String> {
    let names = devices.iter().map(called).collect::<Vec<_>>().join(",");
    let variables: &[&str] = match vendor {
        _ if devices.is_empty() => &CONFINING,
        "AMD" => &["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"],
        vendor if vendor.starts_with("Ascend") => &["ASCEND_RT_VISIBLE_DEVICES"],
        _ => &["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"],
    };
    // NVIDIA's container runtime takes an empty list for all devices, and "void" for none.
    let value = |variable: &str| match (variable, names.is_empty()) {
        ("NVIDIA_VISIBLE_DEVICES", true) => "void".to_string(),
        _ => names.clone(),
    };
    variables.iter().map(|variable| ((*variable).to_string(), value(variable))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::event::{Event, Settings};
    use plimsoll_core::scheduler::Scheduler;
    use plimsoll_core::units::Millis;

    use super::*;
    use crate::size::Span;
    use crate::translate::{self, Purpose};
    use crate::wire::{DeviceFacts, Registration};

    fn model(text: &str) -> Arc<Model> {
        let text = format!(
            "name: m\nruntime: {{command: {{argv: [serve, '--gpus={{gpus}}', '{{memory_per_gpu_mib}}', '{{port}}']}}}}\n{text}"
        );
        Arc::new(serde_saphyr::from_str(&text).expect("a model"))
    }

    fn placed(model: &Model) -> Launch {
        let facts = |n: u8| DeviceFacts::new(format!("GPU-{n}"), 80 << 30);
        let registration = Registration {
            session: 1,
            version: String::new(),
            labels: BTreeMap::new(),
            devices: (0..3).map(facts).collect(),
        };
        let mut scheduler = Scheduler::new(Settings::default());
        let node = Box::new(translate::node("r", &registration));
        let _ = scheduler.step(Millis(0), Event::Node { node });
        let request = translate::slot_request(
            model,
            crate::memory::Known::default(),
            "slot-1",
            Purpose::Reservation,
            Span::default(),
        );
        let _ =
            scheduler.step(Millis(0), Event::Submit { request: request.clone(), deadline: None });
        let (_, holding) = scheduler.ledger().of_request(&request.id).expect("it is placed");
        let (_, view) = scheduler.ledger().nodes().next().expect("there is a node");
        launch(model, "slot-1", holding, &view.node)
    }

    #[test]
    fn flags_and_confinement_are_those_of_the_charge() {
        let launch = placed(&model(
            "memory: 100GiB\ntensor_parallel: [2]\nwhere: {required: {indices: [0, 2]}}",
        ));
        assert_eq!(launch.argv, ["serve", "--gpus=0,2", "51200", "{port}"]);
        assert_eq!(launch.env["CUDA_VISIBLE_DEVICES"], "GPU-0,GPU-2");
        assert_eq!(
            launch.devices.iter().map(|d| (d.index, d.bytes)).collect::<Vec<_>>(),
            [(0, 50 << 30), (2, 50 << 30)]
        );
        assert_eq!(launch.tensor_parallel, 2);
    }

    fn served(text: &str) -> Launch {
        let text = format!("name: m\ncontext: 4096\nconcurrency: 2\n{text}");
        let model: Model = serde_saphyr::from_str(&text).expect("a model");
        placed(&model)
    }

    fn after<'a>(launch: &'a Launch, flag: &str) -> Option<&'a str> {
        let at = launch.argv.iter().position(|word| word == flag)?;
        launch.argv.get(at + 1).map(String::as_str)
    }

    #[test]
    fn vllm_is_told_the_share_that_was_charged() {
        let vllm = "runtime: {vllm: {model: a/b, outside: 1GiB, args: [--hf-overrides, '{}']}}";
        let launch = served(&format!("memory: 140GiB\ntensor_parallel: [2]\n{vllm}"));
        let told = launch.told.as_ref().expect("it is a runtime that is known");
        assert_eq!(after(&launch, "--gpu-memory-utilization"), Some("0.8625"));
        assert_eq!((told.memory_ratio.as_deref(), told.outside), (Some("0.8625"), 1 << 30));
        assert_eq!((told.outside_source.as_str(), told.refused.as_deref()), ("declared", None));
        assert_eq!(after(&launch, "--tensor-parallel-size"), Some("2"));
        assert_eq!(
            after(&launch, "--hf-overrides"),
            Some("{{}}"),
            "the runner takes one brace off"
        );
        assert_eq!(launch.env["CUDA_VISIBLE_DEVICES"], "GPU-0,GPU-1");
        assert_eq!(launch.ready.as_deref(), Some("/health"));
    }

    #[test]
    fn the_files_of_a_model_are_served_with_its_settings() {
        let launch =
            served("memory: 20GiB\nfile: /m.gguf\nkv: q8_0\nruntime: {llama_cpp: {ubatch: 256}}");
        assert_eq!(after(&launch, "--model"), Some("/m.gguf"));
        assert_eq!(after(&launch, "--ctx-size"), Some("8192"));
        assert_eq!(
            (after(&launch, "--cache-type-v"), after(&launch, "--ubatch-size")),
            (Some("q8_0"), Some("256"))
        );
        assert_eq!((launch.context, launch.concurrency), (Some(4096), 2));
        let launch = served("memory: 20GiB\nruntime: {ollama: {model: q, batch: 256}}");
        assert_eq!(
            (&launch.env["OLLAMA_CONTEXT_LENGTH"][..], &launch.env["OLLAMA_NUM_PARALLEL"][..]),
            ("4096", "2")
        );
        assert_eq!(
            launch.env["LLAMA_ARG_KV_UNIFIED"], "off",
            "each request has a cache of its own"
        );
        let preload = launch.told.expect("known").preload.expect("it loads when it is asked");
        assert!(preload.body.contains(r#""num_batch":256"#), "{}", preload.body);
    }

    #[test]
    fn what_cannot_be_told_has_no_program_and_says_why() {
        // A device that shrank after it was booked: nothing is cut to what it has now.
        let mut launch = served("memory: 39GiB\nruntime: {vllm: {model: a/b}}");
        launch.devices[0].total = Some(12 << 30);
        let text = "name: m\ncontext: 4096\nmemory: 39GiB\nruntime: {vllm: {model: a/b}}";
        let model: Model = serde_saphyr::from_str(text).expect("a model");
        (launch.argv, launch.ready) = (Vec::new(), None);
        tell(&mut launch, model.declared());
        assert!(launch.argv.is_empty() && launch.ready.is_none());
        let refused = launch.told.and_then(|told| told.refused);
        assert_eq!(
            refused.as_deref(),
            Some("memory: the charge of 39 GiB exceeds the GPU's 12 GiB")
        );
    }

    #[test]
    fn work_without_a_device_sees_none() {
        let launch = placed(&model("gpus: 0"));
        assert_eq!(launch.env["CUDA_VISIBLE_DEVICES"], "");
        assert_eq!(launch.env["NVIDIA_VISIBLE_DEVICES"], "void");
        assert!(launch.devices.is_empty());
    }

    #[test]
    fn preferred_devices_come_first_and_the_others_are_still_there() {
        let preferred = model("memory: 60GiB\nwhere: {preferred: {indices: [2]}}");
        assert_eq!(placed(&preferred).devices[0].index, 2);
        let absent = model("memory: 60GiB\nwhere: {preferred: {uuids: [GPU-9]}}");
        assert_eq!(placed(&absent).devices[0].index, 0);
        let within =
            model("memory: 60GiB\nwhere: {required: {indices: [1]}, preferred: {indices: [2]}}");
        assert_eq!(
            placed(&within).devices[0].index,
            1,
            "what is preferred does not widen what is required"
        );
    }
}
