//! `plimsoll estimate`: what a model takes on its GPUs, and what would fit a device.

use anyhow::{Context, Result, bail};
use plimsoll_core::units::Bytes;
use plimsoll_models::estimate::{Estimate, estimate};
use plimsoll_models::fit::{kv_type_that_fits, largest_parallel, longest_context};
use plimsoll_models::reader::read_model;
use plimsoll_models::settings::{KvTypes, RuntimeKind, Settings};
use plimsoll_models::shape::{self, Shape};

use crate::cli::{EstimateArgs, Format};
use crate::json;
use crate::output::{self, Outcome};
use crate::text::{self, Page};

pub(super) fn run(args: &EstimateArgs) -> Result<Outcome> {
    let shape = read_model(&args.model)
        .with_context(|| format!("could not read {}", args.model.display()))?;
    let settings = settings(args, &shape)?;
    let estimate = estimate(&shape, &settings)?;
    let room = args.device.map(|device| room(&shape, &settings, &estimate, device)).transpose()?;
    let asked = Asked { shape, estimate, room };
    match args.output {
        Format::Json => output::json(&json::estimate(&asked))?,
        Format::Table => {
            let mut page = Page::default();
            text::estimate::estimate(&mut page, &asked);
            output::text(page.text())?;
        }
    }
    if let Some(missing) = asked.estimate.missing() {
        bail!("there is no sum, because this is not known: {missing}");
    }
    Ok(Outcome::wanting(asked.room.is_some_and(|room| !room.fits)))
}

/// What was read, estimated and found out about a device.
pub(crate) struct Asked {
    /// The model.
    pub(crate) shape: Shape,
    /// What it takes.
    pub(crate) estimate: Estimate,
    /// What would fit the device, if there is one.
    pub(crate) room: Option<Room>,
}

/// What would fit a device.
pub(crate) struct Room {
    /// The memory of one GPU.
    pub(crate) device: Bytes,
    /// Whether every GPU of that size holds its share.
    pub(crate) fits: bool,
    /// The longest context that fits, everything else as asked.
    pub(crate) context: Option<u64>,
    /// The most requests at once that fit, everything else as asked.
    pub(crate) parallel: Option<u64>,
    /// The most exact type of cache that fits, everything else as asked.
    pub(crate) kv: Option<KvTypes>,
}

fn room(shape: &Shape, settings: &Settings, estimate: &Estimate, device: Bytes) -> Result<Room> {
    Ok(Room {
        device,
        fits: estimate.fits(device).unwrap_or(false),
        context: longest_context(shape, settings, device)?,
        parallel: largest_parallel(shape, settings, device)?,
        kv: kv_type_that_fits(shape, settings, device)?,
    })
}

fn settings(args: &EstimateArgs, shape: &Shape) -> Result<Settings> {
    let runtime = args.runtime.unwrap_or(match shape.format {
        shape::Format::Gguf => RuntimeKind::LlamaCpp,
        shape::Format::Safetensors | shape::Format::Config => RuntimeKind::Vllm,
    });
    let trained = shape.trained_context.get().copied();
    let Some(context) = args.context.or(trained) else {
        bail!("the file does not say for which context the model was trained; give --context");
    };
    let usual = Settings::new(runtime, context);
    Ok(Settings {
        kv: args.kv,
        parallel: args.parallel,
        gpus: args.gpus,
        batch: args.batch.unwrap_or(usual.batch),
        ubatch: args.ubatch.unwrap_or(usual.ubatch),
        flash_attention: !args.no_flash_attention,
        ..usual
    })
}
