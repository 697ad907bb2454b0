//! The command of Ollama: one `ollama serve` per slot, configured by environment variables.
//!
//! Ollama starts llama.cpp's server with its own environment, so `LLAMA_ARG_*` variables reach that
//! server and fix what Ollama leaves open. `OLLAMA_GPU_OVERHEAD` is not used: it only shortens the
//! default context and appears in a log line, and does not limit memory. Verified against 0.34.4.

use super::command::{CommandLine, LaunchCommand, Preload, environment, escape_braces};
use super::error::{RenderError, ReservedReason};
use super::llama_cpp::{self, GpuOffload};
use super::reserved::{self, Reserved, Syntax};
use super::spec::{LaunchSpec, UserOptions};

pub(super) fn render(spec: &LaunchSpec, user: &UserOptions) -> Result<LaunchCommand, RenderError> {
    check_user_options(user)?;
    llama_cpp::check_gpu_count(spec)?;
    // Ollama multiplies the context itself; the product has the same limit.
    llama_cpp::total_context(spec)?;
    let settings = &spec.settings;
    if settings.batch != settings.ubatch {
        let (value, batch) = (settings.ubatch, settings.batch);
        return Err(RenderError::OutOfRange { field: "ubatch", value, min: batch, max: batch });
    }
    let line = CommandLine::new(&[spec.program.as_deref().unwrap_or("ollama"), "serve"]);
    Ok(LaunchCommand {
        argv: line.finish(&UserOptions::default()),
        env: environment(user, variables(spec)),
        ready: "/api/version",
        preload: Some(preload(spec)),
        memory_ratio: None,
        remarks: vec![
            "a request with another model, num_ctx, num_batch or num_gpu makes Ollama reload",
            "Ollama serves some architectures one request at a time, whatever is configured",
        ],
    })
}

fn variables(spec: &LaunchSpec) -> Vec<(&'static str, String)> {
    let settings = &spec.settings;
    let flash_attention = if settings.flash_attention { "1" } else { "0" };
    let spread = if spec.devices.len() > 1 { "1" } else { "0" };
    let unified = if settings.unified { "on" } else { "off" };
    let offload = GpuOffload::new(spec);
    let mut variables = vec![
        ("OLLAMA_HOST", "{host}:{port}".to_string()),
        ("OLLAMA_CONTEXT_LENGTH", settings.context.to_string()),
        ("OLLAMA_NUM_PARALLEL", settings.parallel.to_string()),
        ("OLLAMA_KV_CACHE_TYPE", settings.kv.k.to_string()),
        ("OLLAMA_FLASH_ATTENTION", flash_attention.to_string()),
        ("OLLAMA_MAX_LOADED_MODELS", "1".to_string()),
        ("OLLAMA_KEEP_ALIVE", "-1".to_string()),
        ("OLLAMA_SCHED_SPREAD", spread.to_string()),
        // Vulkan sees every GPU, whatever the variables of CUDA and ROCm select.
        ("OLLAMA_VULKAN", "0".to_string()),
        ("LLAMA_ARG_FIT", "off".to_string()),
        ("LLAMA_ARG_CACHE_RAM", "0".to_string()),
        ("LLAMA_ARG_KV_UNIFIED", unified.to_string()),
        ("LLAMA_ARG_N_GPU_LAYERS", offload.layers.to_string()),
    ];
    let split = offload.split.into_iter();
    variables.extend(split.filter_map(|(flag, value)| Some((llama_variable(flag)?, value))));
    variables
}

/// Returns the environment variable of a llama.cpp flag. `--main-gpu` has none here, because Ollama
/// sets it on a single GPU.
fn llama_variable(flag: &str) -> Option<&'static str> {
    match flag {
        "--device" => Some("LLAMA_ARG_DEVICE"),
        "--split-mode" => Some("LLAMA_ARG_SPLIT_MODE"),
        "--tensor-split" => Some("LLAMA_ARG_TENSOR_SPLIT"),
        _ => None,
    }
}

/// Returns the request that loads the model: an empty prompt. It names the batch, because Ollama
/// otherwise chooses a larger one for a longer context.
fn preload(spec: &LaunchSpec) -> Preload {
    let batch = spec.settings.batch;
    let body = serde_json::json!({
        "model": spec.model,
        "keep_alive": -1,
        "options": {"num_batch": batch},
    });
    Preload { path: "/api/generate", body: escape_braces(&body.to_string()) }
}

fn check_user_options(user: &UserOptions) -> Result<(), RenderError> {
    if let Some(written) = user.args.first().cloned() {
        let flag = written.clone();
        let reason =
            ReservedReason::NotAllowed("`ollama serve` takes no arguments; use variables (`env`)");
        return Err(RenderError::ReservedArgument { written, flag, reason });
    }
    reserved::check(user, Syntax::FullNames, &[], VARIABLES)?;
    reserved::check(user, Syntax::FullNames, &[], llama_cpp::VARIABLES)
}

const VARIABLES: &[Reserved] = &[
    Reserved {
        names: &["OLLAMA_HOST"],
        reason: ReservedReason::Fixed("the runner can reach the server"),
    },
    Reserved { names: &["OLLAMA_CONTEXT_LENGTH"], reason: ReservedReason::SetBy("context") },
    Reserved { names: &["OLLAMA_NUM_PARALLEL"], reason: ReservedReason::SetBy("concurrency") },
    Reserved { names: &["OLLAMA_KV_CACHE_TYPE"], reason: ReservedReason::SetBy("kv") },
    Reserved {
        names: &["OLLAMA_FLASH_ATTENTION"],
        reason: ReservedReason::SetBy("runtime.ollama.flash_attention"),
    },
    Reserved {
        names: &["OLLAMA_MAX_LOADED_MODELS"],
        reason: ReservedReason::Fixed("a slot holds one model"),
    },
    Reserved {
        names: &["OLLAMA_KEEP_ALIVE"],
        reason: ReservedReason::Fixed("the model stays loaded until Plimsoll stops the slot"),
    },
    Reserved { names: &["OLLAMA_SCHED_SPREAD"], reason: ReservedReason::SetBy("gpus") },
    Reserved {
        names: &[
            "OLLAMA_VULKAN",
            "OLLAMA_IGPU_ENABLE",
            "OLLAMA_LLM_LIBRARY",
            "GGML_VK_VISIBLE_DEVICES",
            "GPU_DEVICE_ORDINAL",
        ],
        reason: ReservedReason::Fixed("the process uses the charged GPUs only"),
    },
];
