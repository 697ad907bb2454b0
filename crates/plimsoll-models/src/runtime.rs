//! Launch commands of model servers, rendered from the record that the charge is made of.
//!
//! ```text
//!  LaunchSpec ─┬─▶ vllm       a memory limit: a fraction of each GPU, which vLLM does not exceed
//!              ├─▶ llama_cpp  no memory limit: flags fix everything that decides its memory
//!              └─▶ ollama     no memory limit: variables fix the same, but a request can change it
//! ```
//!
//! Charge and flags come from one [`LaunchSpec`], so a server cannot be started with other numbers
//! than those that were charged. Nothing is clamped: a value that a runtime would change or ignore
//! is an error, because the server would then use an amount that is not charged.

use crate::settings::{KvTypes, RuntimeKind, Settings};

pub mod overhead;

pub mod spec;

pub mod error;

mod reserved;

mod command;

mod llama_cpp;

mod ollama;

mod vllm;

#[cfg(test)]
mod tests;

pub use command::{LaunchCommand, Preload};
pub use spec::{AddedPaths, DeviceCharge, Heads, LaunchSpec, LayerSplit, MemoryBasis, UserOptions};

use command::MAX_FLAG_VALUE;
use error::RenderError;

/// Renders the command that starts a model server, or returns the reason why it cannot be started
/// as charged.
pub fn render(spec: &LaunchSpec, user: &UserOptions) -> Result<LaunchCommand, RenderError> {
    check(spec)?;
    match spec.settings.runtime {
        RuntimeKind::Vllm => vllm::render(spec, user),
        RuntimeKind::LlamaCpp => llama_cpp::render(spec, user),
        RuntimeKind::Ollama => ollama::render(spec, user),
    }
}

/// Checks the rules that all runtimes share.
fn check(spec: &LaunchSpec) -> Result<(), RenderError> {
    let settings = &spec.settings;
    check_word("model", &spec.model)?;
    if let Some(program) = &spec.program {
        check_word("program", program)?;
    }
    for (field, value) in [
        ("context", settings.context),
        ("concurrency", settings.parallel),
        ("batch", settings.batch),
        ("ubatch", settings.ubatch),
    ] {
        if value == 0 || value > MAX_FLAG_VALUE {
            return Err(RenderError::OutOfRange { field, value, min: 1, max: MAX_FLAG_VALUE });
        }
    }
    check_kv(settings)?;
    spec.devices.iter().try_for_each(|device| check_device(spec, device))
}

/// Checks a word of the command line. A word that starts with a dash would be read as a flag.
fn check_word(field: &'static str, word: &str) -> Result<(), RenderError> {
    if word.is_empty() || word.starts_with('-') || word.chars().any(char::is_control) {
        return Err(RenderError::InvalidWord { field, word: word.to_string() });
    }
    Ok(())
}

fn check_kv(settings: &Settings) -> Result<(), RenderError> {
    let (runtime, KvTypes { k, v }) = (settings.runtime, settings.kv);
    if let Some(kv) = [k, v].into_iter().find(|kv| !kv.is_known_to(runtime)) {
        return Err(RenderError::KvType { runtime, kv });
    }
    if k != v && runtime != RuntimeKind::LlamaCpp {
        return Err(RenderError::TwoKvTypes { runtime, kv: settings.kv });
    }
    if v.is_quantised() && !settings.flash_attention {
        return Err(RenderError::NeedsFlashAttention { kv: v });
    }
    Ok(())
}

fn check_device(spec: &LaunchSpec, device: &DeviceCharge) -> Result<(), RenderError> {
    let charge = device.charge;
    if let Some(total) = device.total.filter(|total| charge > *total) {
        return Err(RenderError::LargerThanGpu { charge, total });
    }
    if charge <= spec.overhead.bytes {
        return Err(RenderError::NothingLeft { charge, overhead: spec.overhead.clone() });
    }
    Ok(())
}
