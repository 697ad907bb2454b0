//! The launch spec of a declared model: the one record that its charge is checked against, that its
//! flags are rendered from and that its runner reports.

use plimsoll_models::estimate::LayerCounts;
use plimsoll_models::runtime::overhead::Overhead;
use plimsoll_models::runtime::{
    AddedPaths, DeviceCharge, Heads, LaunchCommand, LaunchSpec, LayerSplit, MemoryBasis,
    UserOptions,
};
use plimsoll_models::settings::{RuntimeKind, Settings};
use plimsoll_models::shape::Shape;

use crate::declaration::Declaration;
use crate::size::Memory;
use crate::wire::RuntimeSettings;

/// Returns the launch spec of a model on the devices that are charged, and the options that the
/// user adds; `None` for a runtime whose flags Plimsoll does not render. `shape` is the content of
/// the model's file, if it is known.
pub fn launch_spec(
    declared: &Declaration,
    devices: Vec<DeviceCharge>,
    shape: Option<&Shape>,
) -> Option<(LaunchSpec, UserOptions)> {
    let (kind, options) = declared.runtime.server()?;
    let spec = LaunchSpec {
        program: options.program.clone(),
        model: options.model.as_ref().or(declared.file.as_ref()).cloned().unwrap_or_default(),
        settings: settings(declared, devices.len() as u64)?,
        layers: layer_split(declared, devices.len() as u64, shape),
        devices,
        memory: match declared.memory {
            // A whole GPU and a measurement also cover what the user's arguments load.
            Some(_) => MemoryBasis::Declared,
            None => MemoryBasis::Known,
        },
        overhead: match options.overhead {
            Some(size) => Overhead::declared(size.0),
            None => Overhead::default_of(kind),
        },
        additions: AddedPaths {
            projector: options.mmproj.clone(),
            adapters: options.lora.clone(),
            draft: options.draft.clone(),
        },
        heads: options.heads.map(|attention| Heads { attention, kv: None }),
    };
    Some((spec, UserOptions { args: options.args.clone(), env: options.env.clone() }))
}

/// Returns the division of the layers. Estimates, measurements and an evenly divided total all
/// charge equal runs; only a declared list can charge other ones.
fn layer_split(declared: &Declaration, gpus: u64, shape: Option<&Shape>) -> LayerSplit {
    match (&declared.memory, shape) {
        (Some(Memory::PerGpu(sizes)), _) if sizes.iter().any(|size| *size != sizes[0]) => {
            LayerSplit::ByCharge
        }
        (_, Some(shape)) => LayerSplit::Counted(LayerCounts::for_shape(shape, gpus)),
        (_, None) => LayerSplit::Equal,
    }
}

/// Returns the serving parameters of a model on a number of GPUs; `None` for a runtime whose flags
/// Plimsoll does not render.
pub fn settings(declared: &Declaration, gpus: u64) -> Option<Settings> {
    let (kind, options) = declared.runtime.server()?;
    let defaults = Settings::new(kind, declared.context.unwrap_or(0));
    let batch = options.batch.unwrap_or(defaults.batch);
    Some(Settings {
        parallel: u64::from(declared.concurrency),
        gpus,
        kv: declared.kv.unwrap_or_default().0,
        batch,
        ubatch: match kind {
            RuntimeKind::Ollama => batch,
            RuntimeKind::LlamaCpp | RuntimeKind::Vllm => options.ubatch.unwrap_or(defaults.ubatch),
        },
        flash_attention: options.flash_attention.unwrap_or(defaults.flash_attention),
        ..defaults
    })
}

/// Returns the settings that are reported with a launch; `command` is the rendered one, if the spec
/// is valid.
pub fn runtime_settings(spec: &LaunchSpec, command: Option<&LaunchCommand>) -> RuntimeSettings {
    let settings = &spec.settings;
    let remarks = command.map_or(&[][..], |command| &command.remarks);
    RuntimeSettings {
        name: settings.runtime.to_string(),
        kv: settings.kv.to_string(),
        batch: settings.batch,
        memory_ratio: command.and_then(|command| command.memory_ratio.clone()),
        overhead: spec.overhead.bytes.get(),
        overhead_source: spec.overhead.source.clone(),
        remarks: remarks.iter().map(ToString::to_string).collect(),
    }
}
