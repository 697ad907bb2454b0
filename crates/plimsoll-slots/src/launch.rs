//! How a slot is started: flags, environment and devices, rendered from the very charge that was booked for it.

use std::collections::BTreeMap;

use plimsoll_core::charge::Holding;
use plimsoll_core::device::{Identity, Node};
use plimsoll_core::units::Bytes;

use crate::model::{Command, Model, Runtime};
use crate::template::{self, CONFINING};
use crate::wire::{Launch, LaunchDevice};

/// The record from which a slot's process is started.
pub fn launch(model: &Model, slot: &str, holding: &Holding, node: &Node) -> Launch {
    let declared = model.declared();
    let Runtime::Command(command) = &declared.runtime;
    let devices = devices(holding, node);
    let tensor_parallel = u16::try_from(devices.len()).unwrap_or(u16::MAX);
    let mut launch = Launch {
        model: declared.name.clone(),
        devices,
        argv: Vec::new(),
        env: BTreeMap::new(),
        ready: command.ready.clone(),
        ready_within_ms: command.ready_within.0,
        grace_ms: command.grace.0,
        context: declared.context,
        concurrency: declared.concurrency,
        tensor_parallel,
    };
    render(&mut launch, command, slot);
    launch.env.extend(confinement(&declared.vendor, &launch.devices));
    launch
}

/// What is known of a slot that was not started from here: enough to keep it and to stop it, not to start it.
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

fn render(launch: &mut Launch, command: &Command, slot: &str) {
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
    // The same limit holds on every device of an even split; where the list is uneven, the least of them is safe on all.
    let per_gpu = launch.devices.iter().map(|device| device.bytes).min().unwrap_or(0);
    let listed =
        |one: &dyn Fn(&LaunchDevice) -> String| launch.devices.iter().map(one).collect::<Vec<_>>().join(",");
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

/// The variables that let a process see its booked devices and no others. Work without a device sees none.
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
    use crate::translate;
    use crate::wire::{DeviceFacts, FactsSource, Registration};

    fn model(text: &str) -> Arc<Model> {
        let text = format!(
            "name: m\nruntime: {{command: {{argv: [serve, '--gpus={{gpus}}', '{{memory_per_gpu_mib}}', '{{port}}']}}}}\n{text}"
        );
        Arc::new(serde_saphyr::from_str(&text).expect("a model"))
    }

    fn placed(model: &Model) -> Launch {
        let facts = |n: u8| DeviceFacts {
            uuid: Some(format!("GPU-{n}")),
            kind: "NVIDIA".to_string(),
            model: None,
            total: Some(80 << 30),
            reserve: 0,
            cap: None,
            numa: None,
            healthy: true,
            source: FactsSource::Declared,
        };
        let registration = Registration {
            session: 1,
            version: String::new(),
            labels: BTreeMap::new(),
            devices: (0..3).map(facts).collect(),
        };
        let mut scheduler = Scheduler::new(Settings::default());
        let node = Box::new(translate::node("r", &registration));
        let _ = scheduler.step(Millis(0), Event::Node { node });
        let request = translate::slot_request(model, "slot-1", false, 0);
        let _ = scheduler.step(Millis(0), Event::Submit { request: request.clone(), deadline: None });
        let (_, holding) = scheduler.ledger().of_request(&request.id).expect("it is placed");
        let (_, view) = scheduler.ledger().nodes().next().expect("there is a node");
        launch(model, "slot-1", holding, &view.node)
    }

    #[test]
    fn flags_and_confinement_are_those_of_the_charge() {
        let launch =
            placed(&model("memory: 100GiB\ntensor_parallel: [2]\nwhere: {required: {indices: [0, 2]}}"));
        assert_eq!(launch.argv, ["serve", "--gpus=0,2", "51200", "{port}"]);
        assert_eq!(launch.env["CUDA_VISIBLE_DEVICES"], "GPU-0,GPU-2");
        assert_eq!(
            launch.devices.iter().map(|d| (d.index, d.bytes)).collect::<Vec<_>>(),
            [(0, 50 << 30), (2, 50 << 30)]
        );
        assert_eq!(launch.tensor_parallel, 2);
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
        let within = model("memory: 60GiB\nwhere: {required: {indices: [1]}, preferred: {indices: [2]}}");
        assert_eq!(placed(&within).devices[0].index, 1, "what is preferred does not widen what is required");
    }
}
