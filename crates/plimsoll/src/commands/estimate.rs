//! `plimsoll estimate`: the GPU memory of a model, and what fits a device.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use plimsoll_api::offline::{DeviceFitRow, EstimateOutput};
use plimsoll_core::units::Bytes;
use plimsoll_models::estimate::{Estimate, estimate};
use plimsoll_models::fit::{fewest_gpus, kv_type_that_fits, largest_parallel, longest_context};
use plimsoll_models::reader::read_model;
use plimsoll_models::settings::{RuntimeKind, Settings};
use plimsoll_models::shape::{self, Addition, Shape};

use crate::cli::{EstimateArgs, Format};
use crate::output::{self, Outcome};
use crate::text;

/// The number of slots that llama-server chooses by itself (`--parallel -1`).
const DEFAULT_SLOTS: &str = "for llama-server with --parallel 1, which Plimsoll sets; without the \
                             flag, it serves 4 requests that share the context";

pub(super) fn run(args: &EstimateArgs) -> Result<Outcome> {
    let path = args.model.display();
    if !args.model.exists() {
        bail!("there is no file {path}; plimsoll reads local files only");
    }
    let mut shape = read_model(&args.model).with_context(|| format!("could not read {path}"))?;
    shape.additions = additions(args)?;
    let settings = settings(args, &shape)?;
    let mut estimate = estimate(&shape, &settings)?;
    if args.parallel.is_none() && settings.runtime == RuntimeKind::LlamaCpp {
        estimate.remarks.push(DEFAULT_SLOTS.to_string());
    }
    let device =
        args.device.map(|device| device_fit(&shape, &settings, &estimate, device)).transpose()?;
    let output = EstimateOutput::new(&shape, estimate, device);
    match args.output {
        Format::Json => output::json(&output)?,
        Format::Yaml => output::yaml(&output)?,
        Format::Table => {
            let mut page = output::page();
            text::estimate::estimate(&mut page, &output);
            output::text(page.text())?;
        }
    }
    if let Some(missing) = output.estimate.missing() {
        bail!(
            "the total is unknown, because this is unknown: {missing}; \
             to run the model, declare its `memory`"
        );
    }
    Ok(Outcome::with_open(output.device.filter(|device| !device.fits)))
}

/// Reads the files that are loaded beside the model.
fn additions(args: &EstimateArgs) -> Result<Vec<Addition>> {
    let read = |path: &PathBuf| {
        read_model(path).with_context(|| format!("could not read {}", path.display()))
    };
    let projector = args.mmproj.iter().map(|path| Ok(Addition::Projector(read(path)?)));
    let adapters = args.lora.iter().map(|path| Ok(Addition::Adapter(read(path)?)));
    let draft = args.draft.iter().map(|path| Ok(Addition::Draft(read(path)?)));
    projector.chain(adapters).chain(draft).collect()
}

fn device_fit(
    shape: &Shape,
    settings: &Settings,
    estimate: &Estimate,
    device: Bytes,
) -> Result<DeviceFitRow> {
    Ok(DeviceFitRow {
        bytes: device,
        fits: estimate.fits(device).unwrap_or(false),
        longest_context: longest_context(shape, settings, device)?,
        largest_parallel: largest_parallel(shape, settings, device)?,
        kv: kv_type_that_fits(shape, settings, device)?,
        fewest_gpus: fewest_gpus(shape, settings, device)?,
    })
}

fn settings(args: &EstimateArgs, shape: &Shape) -> Result<Settings> {
    let runtime = args.runtime.unwrap_or(match shape.format {
        shape::Format::Gguf => RuntimeKind::LlamaCpp,
        shape::Format::Safetensors | shape::Format::Config => RuntimeKind::Vllm,
    });
    let trained = shape.trained_context.get().copied();
    let Some(context) = args.context.or(trained) else {
        bail!("the file does not contain the trained context length; give --context");
    };
    let usual = Settings::new(runtime, context);
    Ok(Settings {
        kv: args.kv,
        parallel: args.parallel.unwrap_or(usual.parallel),
        gpus: args.gpus,
        batch: args.batch.unwrap_or(usual.batch),
        ubatch: args.ubatch.unwrap_or(usual.ubatch),
        flash_attention: !args.no_flash_attention,
        ..usual
    })
}
