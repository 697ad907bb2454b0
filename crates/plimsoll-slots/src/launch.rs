//! The launch of a slot: its command, environment and devices, rendered from its charge.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_core::charge::{Charge, Holding};
use plimsoll_core::device::{Identity, Node};
use plimsoll_core::request::{Amount, Asks, Need};
use plimsoll_core::units::Bytes;
use plimsoll_models::runtime::{DeviceCharge, render};
use plimsoll_models::shape::Shape;

use crate::launch_spec::{launch_spec, runtime_settings};
use crate::model::{Declaration, Model};
use crate::runtime::{CONFINING_VARIABLES, Command, Runtime};
use crate::size::Span;
use crate::template;
use crate::wire::{Launch, LaunchDevice, Preload, RuntimeSettings, Start, StartCommand};

/// The grace period of a slot whose declaration is unknown.
const DEFAULT_GRACE: Span = Span::seconds(10);

/// Returns the launch of a slot that this server created.
///
/// It is rendered from the holding at every call and stored nowhere, so that flags and charge
/// cannot diverge. `shape` is the content of the model's file on the node, if it is known.
pub fn launch(
    model: &Model,
    slot: &str,
    holding: &Holding,
    node: &Node,
    shape: Option<&Shape>,
) -> Launch {
    let declared = model.declared();
    let mut launch = Launch {
        grace_ms: declared.runtime.grace().0,
        context: declared.context,
        concurrency: declared.concurrency,
        ..unknown(&declared.name, holding, node)
    };
    (launch.start, launch.runtime) = match &declared.runtime {
        Runtime::Command(command) => {
            (Start::Command(fill_command(command, declared, slot, &launch.devices)), None)
        }
        Runtime::Vllm(options) | Runtime::LlamaCpp(options) | Runtime::Ollama(options) => {
            render_start(declared, options.ready_within, &launch.devices, shape)
        }
    };
    launch
}

/// Returns the launch of a slot that this server did not create. A runner can keep it and stop it,
/// but not start it.
pub fn unknown(model: &str, holding: &Holding, node: &Node) -> Launch {
    let devices = devices(holding, node);
    let tensor_parallel = u16::try_from(devices.len()).unwrap_or(u16::MAX);
    Launch {
        model: model.to_string(),
        devices,
        start: Start::Unknown,
        grace_ms: DEFAULT_GRACE.0,
        context: None,
        concurrency: 1,
        tensor_parallel,
        runtime: None,
    }
}

/// Returns the devices that a holding is charged on, in the order of the GPUs that were asked for.
///
/// A runtime numbers its GPUs in this order, and the first one may hold more than the last: the
/// core may have put the larger charge on the device with the larger index. So the device with the
/// largest charge takes the place of the GPU with the largest need, and so on. Equal charges stay
/// in the order of their indices.
pub fn devices(holding: &Holding, node: &Node) -> Vec<LaunchDevice> {
    let charged = holding
        .charges
        .iter()
        .flat_map(|charge| charge.on.iter().map(|index| launch_device(*index, charge, node)));
    let mut devices: Vec<LaunchDevice> = charged.collect();
    devices.sort_by_key(|device| (Reverse(device.bytes), device.index));
    let mut places: Vec<usize> = (0..devices.len()).collect();
    match needs_in_order(holding, devices.len()) {
        Some(needs) => places.sort_by_key(|place| (Reverse(needs[*place]), *place)),
        None => {
            devices.sort_by_key(|device| device.index);
            return devices;
        }
    }
    let mut placed: Vec<(usize, LaunchDevice)> = places.into_iter().zip(devices).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, device)| device).collect()
}

/// Returns the memory that was asked for on each of `gpus` GPUs, in order; `None` if the request
/// of the holding is not known or has no such shape.
fn needs_in_order(holding: &Holding, gpus: usize) -> Option<Vec<u64>> {
    let Asks::Shapes(shapes) = &holding.spec.as_ref()?.asks else { return None };
    let needs = shapes.iter().map(|shape| {
        let needs = shape.containers.iter().flat_map(|container| &container.needs);
        needs.flat_map(bytes_on_each).collect::<Option<Vec<u64>>>()
    });
    needs.flatten().find(|needs| needs.len() == gpus)
}

fn bytes_on_each(need: &Need) -> impl Iterator<Item = Option<u64>> {
    let bytes = match need.amount {
        Amount::Bytes(bytes) => Some(bytes.get()),
        Amount::Portion(_)
        | Amount::Whole
        | Amount::Plain(_)
        | Amount::Profile(_)
        | Amount::Unknown(_) => None,
    };
    std::iter::repeat_n(bytes, usize::from(need.count.get()))
}

fn launch_device(index: u16, charge: &Charge, node: &Node) -> LaunchDevice {
    let device = node.devices.get(usize::from(index));
    LaunchDevice {
        index,
        uuid: device.and_then(|device| match &device.identity {
            Identity::Uuid(uuid) => Some(uuid.to_string()),
            Identity::Ordinal => None,
        }),
        bytes: charge.bytes().map(Bytes::get),
        total: device.and_then(|device| device.memory.total.bytes()).map(Bytes::get),
    }
}

/// Renders the command of a model server from its charge. A charge that cannot be rendered, for
/// example because a device shrank since, gives no command: nothing is clamped.
fn render_start(
    declared: &Declaration,
    ready_within: Span,
    devices: &[LaunchDevice],
    shape: Option<&Shape>,
) -> (Start, Option<RuntimeSettings>) {
    if let Some(device) = devices.iter().find(|device| device.bytes.is_none()) {
        // A whole device can be charged without knowing its size, but nothing can be rendered.
        let problem = format!("the runner reports no memory for GPU {}", device.index);
        return (Start::Invalid { field: "memory".to_string(), problem }, None);
    }
    let charges: Option<Vec<DeviceCharge>> = devices.iter().map(device_charge).collect();
    let Some((spec, user)) = charges.and_then(|charges| launch_spec(declared, charges, shape))
    else {
        return (Start::Unknown, None);
    };
    let rendered = render(&spec, &user);
    let settings = runtime_settings(&spec, rendered.as_ref().ok());
    let start = match rendered {
        Ok(rendered) => {
            let mut env = rendered.env;
            env.extend(confinement(&declared.vendor, devices));
            Start::Command(StartCommand {
                argv: rendered.argv,
                env,
                ready: Some(rendered.ready.to_string()),
                ready_within_ms: ready_within.0,
                preload: rendered
                    .preload
                    .map(|preload| Preload { path: preload.path.to_string(), body: preload.body }),
            })
        }
        Err(error) => {
            Start::Invalid { field: error.field().to_string(), problem: error.to_string() }
        }
    };
    (start, Some(settings))
}

/// Returns the charge on a device; `None` if its amount is unknown.
fn device_charge(device: &LaunchDevice) -> Option<DeviceCharge> {
    let charge = Bytes::new(device.bytes?);
    Some(DeviceCharge { charge, total: device.total.map(Bytes::new) })
}

fn fill_command(
    command: &Command,
    declared: &Declaration,
    slot: &str,
    devices: &[LaunchDevice],
) -> StartCommand {
    let fill = |text: &String| {
        template::fill(text, |name| placeholder_value(name, declared, slot, devices))
            .expect("templates are checked when a model is declared")
    };
    let mut env: BTreeMap<String, String> =
        command.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
    env.extend(confinement(&declared.vendor, devices));
    StartCommand {
        argv: command.argv.iter().map(fill).collect(),
        env,
        ready: command.ready.as_ref().map(fill),
        ready_within_ms: command.ready_within.0,
        preload: None,
    }
}

fn placeholder_value(
    name: &str,
    declared: &Declaration,
    slot: &str,
    devices: &[LaunchDevice],
) -> String {
    const MIB: u64 = 1 << 20;
    let charges = || devices.iter().filter_map(|device| device.bytes);
    // One limit must hold on every device. Of an uneven split, the smallest charge is safe on all.
    let per_gpu = charges().min().unwrap_or(0);
    match name {
        "model" => declared.name.clone(),
        "slot" => slot.to_string(),
        "context" => declared.context.map_or(String::new(), |context| context.to_string()),
        "concurrency" => declared.concurrency.to_string(),
        "tensor_parallel" => devices.len().to_string(),
        "gpus" => joined(devices, |device| device.index.to_string()),
        "uuids" => joined(devices, device_name),
        "memory_bytes" => charges().sum::<u64>().to_string(),
        "memory_mib" => (charges().sum::<u64>() / MIB).to_string(),
        "memory_per_gpu_bytes" => per_gpu.to_string(),
        "memory_per_gpu_mib" => (per_gpu / MIB).to_string(),
        _ => String::new(),
    }
}

fn joined(devices: &[LaunchDevice], name: impl Fn(&LaunchDevice) -> String) -> String {
    devices.iter().map(name).collect::<Vec<_>>().join(",")
}

/// Returns the UUID of a device; its index if it has none.
fn device_name(device: &LaunchDevice) -> String {
    device.uuid.clone().unwrap_or_else(|| device.index.to_string())
}

/// Returns the variables that make only the charged devices visible to a process. A process
/// without a device sees none.
fn confinement(vendor: &str, devices: &[LaunchDevice]) -> BTreeMap<String, String> {
    let names = joined(devices, device_name);
    let variables: &[&str] = match vendor {
        _ if devices.is_empty() => &CONFINING_VARIABLES,
        "AMD" => &["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"],
        vendor if vendor.starts_with("Ascend") => &["ASCEND_RT_VISIBLE_DEVICES"],
        _ => &["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"],
    };
    let value = |variable: &str| match (variable, names.is_empty()) {
        // NVIDIA's container runtime reads an empty list as all devices, and "void" as none.
        ("NVIDIA_VISIBLE_DEVICES", true) => "void".to_string(),
        _ => names.clone(),
    };
    variables.iter().map(|variable| ((*variable).to_string(), value(variable))).collect()
}

#[cfg(test)]
mod tests;
