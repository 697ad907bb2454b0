//! How a model server is told what was booked: one record in, a command line out, or the reason why there is none.
//!
//! ```text
//!  record ─┬─▶ vllm       a share of each GPU, which it does not exceed
//!          ├─▶ llama_cpp  everything that decides its memory, as flags; it has no limit of its own
//!          └─▶ ollama     the same, as variables; it has no limit either, and its callers can ask for more
//! ```
//!
//! Nothing is clamped. What cannot be told to a runtime as it was booked is refused.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::settings::{KvTypes, RuntimeKind, Settings};
use crate::shape::{Cache, Shape};

pub mod refusal;

pub mod reserved;

pub mod outside;

mod llama_cpp;
mod ollama;
mod vllm;

use outside::Outside;
use refusal::Refusal;

/// What a slot was booked for, and how it is to be served: the charge, the flags and the report are made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// The program, where it is not found under its usual name.
    pub program: Option<String>,
    /// The model's file or directory, or its name in the runtime's own store.
    pub model: String,
    /// How it is to be served. `gpus` is the number of `devices`.
    pub settings: Settings,
    /// What is booked, GPU by GPU.
    pub devices: Vec<Booked>,
    /// What the runtime takes on each GPU beside what it counts itself.
    pub outside: Outside,
    /// The model's heads, where they are known.
    pub heads: Option<Heads>,
}

/// What is booked on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Booked {
    /// The charge.
    pub charge: Bytes,
    /// What the GPU has, as the runtime sees it.
    pub total: Option<Bytes>,
}

/// How many heads a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Heads {
    /// Attention heads.
    pub attention: u64,
    /// Heads with keys and values of their own, where that is known.
    pub kv: Option<u64>,
}

impl Heads {
    /// Those of a model whose file was read.
    pub fn of(shape: &Shape) -> Option<Heads> {
        Heads::common(shape.heads.get()?, shape.layers.get().map_or(&[], Vec::as_slice))
    }

    /// What divides the heads of every layer divides their greatest common divisor.
    fn common(heads: &[u64], layers: &[Cache]) -> Option<Heads> {
        let attention = heads.iter().copied().filter(|heads| *heads > 0).reduce(divisor)?;
        let mut kv = layers.iter().filter_map(|cache| match cache {
            Cache::Grouped { kv_heads, .. } => Some(*kv_heads),
            Cache::Latent { .. } | Cache::Recurrent { .. } | Cache::None => None,
        });
        let first = kv.next();
        Some(Heads { attention, kv: first.filter(|first| kv.all(|other| other == *first)) })
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// What the user adds, beside what the record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Arguments, after ours.
    pub args: Vec<String>,
    /// Variables.
    pub env: BTreeMap<String, String>,
}

/// How the model server is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rendered {
    /// The program and its arguments. `{host}` and `{port}` are left to the runner, and any other brace is doubled.
    pub argv: Vec<String>,
    /// Variables, with the same two left to the runner.
    pub env: BTreeMap<String, String>,
    /// A path that answers 200 once the server is there.
    pub ready: &'static str,
    /// What to ask then, so that the model is loaded before its first request.
    pub preload: Option<Preload>,
    /// The share of each GPU that the runtime is told, where it takes one: `0.4875`.
    pub memory_ratio: Option<String>,
    /// What the runtime does not promise.
    pub remarks: Vec<&'static str>,
}

/// A request that makes a server load its model. It is answered with 200 once that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preload {
    /// Where to; it is sent by `POST`.
    pub path: &'static str,
    /// Its body, which is JSON.
    pub body: String,
}

/// How the record's model is started, or why it cannot be.
pub fn render(record: &Record, extra: &Extra) -> Result<Rendered, Refusal> {
    check(record)?;
    match record.settings.runtime {
        RuntimeKind::Vllm => vllm::render(record, extra),
        RuntimeKind::LlamaCpp => llama_cpp::render(record, extra),
        RuntimeKind::Ollama => ollama::render(record, extra),
    }
}

/// What holds for every runtime.
fn check(record: &Record) -> Result<(), Refusal> {
    let settings = &record.settings;
    check_word("model", &record.model)?;
    record.program.as_deref().map_or(Ok(()), |program| check_word("program", program))?;
    let most = u64::from(u32::MAX >> 1);
    for (field, value) in [
        ("context", settings.context),
        ("concurrency", settings.parallel),
        ("batch", settings.batch),
        ("ubatch", settings.ubatch),
    ] {
        if value == 0 || value > most {
            return Err(Refusal::OutOfRange { field, value, least: 1, most });
        }
    }
    check_kv(settings)?;
    record.devices.iter().try_for_each(|device| check_device(record, device))
}

/// A word of the command line. One that begins with a dash would be read as a flag.
fn check_word(field: &'static str, word: &str) -> Result<(), Refusal> {
    if word.is_empty() || word.starts_with('-') || word.chars().any(char::is_control) {
        return Err(Refusal::NotAWord { field, word: word.to_string() });
    }
    Ok(())
}

fn check_kv(settings: &Settings) -> Result<(), Refusal> {
    let (runtime, KvTypes { k, v }) = (settings.runtime, settings.kv);
    if let Some(kv) = [k, v].into_iter().find(|kv| !kv.is_known_to(runtime)) {
        return Err(Refusal::KvType { runtime, kv });
    }
    if k != v && runtime != RuntimeKind::LlamaCpp {
        return Err(Refusal::TwoKvTypes { runtime, kv: settings.kv });
    }
    if v.is_quantised() && !settings.flash_attention {
        return Err(Refusal::NeedsFlashAttention { kv: v });
    }
    Ok(())
}

fn check_device(record: &Record, device: &Booked) -> Result<(), Refusal> {
    let charge = device.charge;
    if let Some(total) = device.total.filter(|total| charge > *total) {
        return Err(Refusal::LargerThanGpu { charge, total });
    }
    if charge <= record.outside.bytes {
        return Err(Refusal::NothingLeft { charge, outside: record.outside.clone() });
    }
    Ok(())
}

/// Text with its braces doubled, so that what fills in `{host}` and `{port}` leaves it alone.
fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// A command line as it grows: the program and the model first, then pairs of flag and value.
struct Line(Vec<String>);

impl Line {
    fn new(words: &[&str]) -> Self {
        Line(words.iter().map(|word| literal(word)).collect())
    }

    fn flag(&mut self, name: &str, value: &dyn fmt::Display) {
        self.0.extend([name.to_string(), value.to_string()]);
    }

    fn finish(mut self, extra: &Extra) -> Vec<String> {
        self.0.extend(extra.args.iter().map(|arg| literal(arg)));
        self.0
    }
}

/// The user's variables under ours.
fn variables<'a>(
    extra: &Extra,
    ours: impl IntoIterator<Item = (&'a str, String)>,
) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> =
        extra.env.iter().map(|(name, value)| (name.clone(), literal(value))).collect();
    env.extend(ours.into_iter().map(|(name, value)| (name.to_string(), value)));
    env
}

#[cfg(test)]
mod tests;
