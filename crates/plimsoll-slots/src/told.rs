//! What a runtime is told for a slot: the one record from which the charge is checked, the flags are made and the report is given.

use plimsoll_core::units::Bytes;
pub use plimsoll_models::runtime::Booked;
use plimsoll_models::runtime::outside::Outside;
use plimsoll_models::runtime::refusal::Refusal;
use plimsoll_models::runtime::{Extra, Heads, Record, Rendered, render};
use plimsoll_models::settings::Settings;

use crate::runtime::{Kv, Runtime};
use crate::template;
use crate::wire;

/// What a declaration says of how its model is served.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What serves it.
    pub runtime: &'a Runtime,
    /// Its file on the runners.
    pub file: Option<&'a String>,
    /// Its context length in tokens.
    pub context: Option<u64>,
    /// How its cache is stored.
    pub kv: Option<Kv>,
    /// How many requests one slot serves at once.
    pub concurrency: u32,
}

/// The record of a model on the devices that are booked for it, and what its declaration adds; `None` for a command.
pub fn record(wanted: Wanted<'_>, devices: Vec<Booked>) -> Option<(Record, Extra)> {
    let kind = wanted.runtime.kind()?;
    let mut settings = Settings {
        parallel: u64::from(wanted.concurrency),
        gpus: devices.len() as u64,
        kv: wanted.kv.unwrap_or_default().0,
        ..Settings::new(kind, wanted.context.unwrap_or(0))
    };
    let mut extra = Extra { args: Vec::new(), env: wanted.runtime.env().clone() };
    let (program, model, outside, heads) = match wanted.runtime {
        Runtime::Command(_) => return None,
        Runtime::Vllm(vllm) => {
            settings.batch = vllm.batch.unwrap_or(settings.batch);
            extra.args.clone_from(&vllm.args);
            let heads = vllm.heads.map(|attention| Heads { attention, kv: None });
            (&vllm.program, vllm.model.as_ref(), vllm.outside, heads)
        }
        Runtime::LlamaCpp(llama) => {
            settings.batch = llama.batch.unwrap_or(settings.batch);
            settings.ubatch = llama.ubatch.unwrap_or(settings.ubatch);
            settings.flash_attention = llama.flash_attention;
            extra.args.clone_from(&llama.args);
            (&llama.program, llama.model.as_ref(), llama.outside, None)
        }
        Runtime::Ollama(ollama) => {
            settings.batch = ollama.batch.unwrap_or(settings.batch);
            settings.ubatch = settings.batch;
            // Ollama names the number of requests, and its server then gives each a cache of its own.
            settings.unified = false;
            settings.flash_attention = ollama.flash_attention;
            (&ollama.program, Some(&ollama.model), ollama.outside, None)
        }
    };
    let model = model.or(wanted.file).cloned().unwrap_or_default();
    let outside = outside.map_or_else(|| Outside::of(kind), |size| Outside::declared(size.0));
    Some((Record { program: program.clone(), model, settings, devices, outside, heads }, extra))
}

/// Refuses what no runtime could be told, wherever it is placed: the field, and what is wrong with it.
pub fn check(wanted: Wanted<'_>, charges: &[Vec<Bytes>]) -> Result<(), (String, String)> {
    let runtime = wanted.runtime;
    if runtime.kind().is_none() {
        return Ok(());
    }
    if let Some(key) = runtime.env().keys().find(|key| template::CONFINING.contains(&key.as_str()))
    {
        let problem = format!("it sets {key}, which is set from the booked devices; leave it out");
        return Err((format!("runtime.{}.env", runtime.key()), problem));
    }
    if wanted.context.is_none() {
        let problem = "it is missing, and the runtime would choose a length that nobody charged";
        return Err(("context".to_string(), problem.to_string()));
    }
    for charges in charges {
        // A GPU that has just what is booked on it: the smallest on which the model can be placed.
        let devices =
            charges.iter().map(|charge| Booked { charge: *charge, total: Some(*charge) }).collect();
        let Some((record, extra)) = record(wanted, devices) else { continue };
        render(&record, &extra)
            .map_err(|refusal| (field(runtime, &refusal), refusal.to_string()))?;
    }
    Ok(())
}

/// Where a refusal's field stands in a declaration.
fn field(runtime: &Runtime, refusal: &Refusal) -> String {
    match refusal.field() {
        field @ ("gpus" | "memory" | "kv" | "context" | "concurrency") => field.to_string(),
        field => format!("runtime.{}.{field}", runtime.key()),
    }
}

/// What is reported of a record and of what came of it.
pub fn report(record: &Record, rendered: &Result<Rendered, Refusal>) -> wire::Told {
    let settings = &record.settings;
    let rendered = rendered.as_ref();
    wire::Told {
        runtime: settings.runtime.to_string(),
        kv: settings.kv.to_string(),
        batch: settings.batch,
        memory_ratio: rendered.ok().and_then(|rendered| rendered.memory_ratio.clone()),
        outside: record.outside.bytes.get(),
        outside_source: record.outside.source.to_string(),
        preload: rendered.ok().and_then(|rendered| {
            let preload = rendered.preload.as_ref()?;
            Some(wire::Preload { path: preload.path.to_string(), body: preload.body.clone() })
        }),
        remarks: rendered.map_or_else(
            |_| Vec::new(),
            |rendered| rendered.remarks.iter().map(ToString::to_string).collect(),
        ),
        refused: rendered.err().map(|refusal| format!("{}: {refusal}", refusal.field())),
    }
}

#[cfg(test)]
mod tests;
