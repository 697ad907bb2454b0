//! Ollama: one `ollama serve` for each slot, told by variables; it starts llama.cpp's server, which reads its own from the same place.
//!
//! Looked at: 0.34.4. `OLLAMA_GPU_OVERHEAD` is not used: there it shortens the default context and a line of the log, and limits
//! nothing.

use super::refusal::Refusal;
use super::reserved::{self, Because, Reserved};
use super::{Extra, Line, Preload, Record, Rendered, literal, llama_cpp, variables};

pub(super) fn render(record: &Record, extra: &Extra) -> Result<Rendered, Refusal> {
    check_extra(extra)?;
    llama_cpp::check_split(record)?;
    llama_cpp::all_tokens(record)?;
    let settings = &record.settings;
    if settings.batch != settings.ubatch {
        let (value, only) = (settings.ubatch, settings.batch);
        return Err(Refusal::OutOfRange { field: "ubatch", value, least: only, most: only });
    }
    let line = Line::new(&[record.program.as_deref().unwrap_or("ollama"), "serve"]);
    Ok(Rendered {
        argv: line.finish(&Extra::default()),
        env: variables(extra, ours(record)),
        ready: "/api/version",
        preload: Some(preload(record)),
        memory_ratio: None,
        remarks: vec![
            "a request that names another model, or another num_ctx, num_batch or num_gpu, makes Ollama load anew with that",
            "Ollama serves one request at a time for some architectures, whatever it was told",
        ],
    })
}

fn ours(record: &Record) -> Vec<(&'static str, String)> {
    let settings = &record.settings;
    let gpus = record.devices.len();
    let switch = |on: bool| if on { "1" } else { "0" }.to_string();
    let (layers, split) = llama_cpp::placement(record);
    let mut ours = vec![
        ("OLLAMA_HOST", "{host}:{port}".to_string()),
        ("OLLAMA_CONTEXT_LENGTH", settings.context.to_string()),
        ("OLLAMA_NUM_PARALLEL", settings.parallel.to_string()),
        ("OLLAMA_KV_CACHE_TYPE", settings.kv.k.to_string()),
        ("OLLAMA_FLASH_ATTENTION", switch(settings.flash_attention)),
        ("OLLAMA_MAX_LOADED_MODELS", "1".to_string()),
        ("OLLAMA_KEEP_ALIVE", "-1".to_string()),
        ("OLLAMA_SCHED_SPREAD", switch(gpus > 1)),
        // Vulkan sees every GPU, whatever the variables of CUDA and ROCm say.
        ("OLLAMA_VULKAN", "0".to_string()),
        ("LLAMA_ARG_FIT", "off".to_string()),
        ("LLAMA_ARG_KV_UNIFIED", if settings.unified { "on" } else { "off" }.to_string()),
        ("LLAMA_ARG_N_GPU_LAYERS", layers.to_string()),
    ];
    ours.extend(split.into_iter().filter_map(|(flag, value)| Some((variable(flag)?, value))));
    ours
}

/// What llama.cpp calls a flag in its environment. On one GPU, Ollama gives the flags itself.
fn variable(flag: &str) -> Option<&'static str> {
    match flag {
        "--device" => Some("LLAMA_ARG_DEVICE"),
        "--split-mode" => Some("LLAMA_ARG_SPLIT_MODE"),
        "--tensor-split" => Some("LLAMA_ARG_TENSOR_SPLIT"),
        _ => None,
    }
}

/// An empty prompt loads the model. The batch is named because Ollama otherwise takes a larger one for a longer context.
fn preload(record: &Record) -> Preload {
    let batch = record.settings.batch;
    let body = serde_json::json!({
        "model": record.model,
        "keep_alive": -1,
        "options": {"num_batch": batch},
    });
    Preload { path: "/api/generate", body: literal(&body.to_string()) }
}

fn check_extra(extra: &Extra) -> Result<(), Refusal> {
    if let Some(written) = extra.args.first() {
        let because =
            Because::Other("`ollama serve` takes no arguments; its settings are variables");
        return Err(Refusal::Argument { written: written.clone(), flag: written.clone(), because });
    }
    reserved::check(extra, reserved::Grammar::Full, &[], VARIABLES)?;
    reserved::check(extra, reserved::Grammar::Full, &[], llama_cpp::VARIABLES)
}

const VARIABLES: &[Reserved] = &[
    Reserved {
        names: &["OLLAMA_HOST"],
        because: Because::Fixed("the runner finds the server where it told it to listen"),
    },
    Reserved { names: &["OLLAMA_CONTEXT_LENGTH"], because: Because::SetBy("context") },
    Reserved { names: &["OLLAMA_NUM_PARALLEL"], because: Because::SetBy("concurrency") },
    Reserved { names: &["OLLAMA_KV_CACHE_TYPE"], because: Because::SetBy("kv") },
    Reserved {
        names: &["OLLAMA_FLASH_ATTENTION"],
        because: Because::SetBy("runtime.ollama.flash_attention"),
    },
    Reserved {
        names: &["OLLAMA_MAX_LOADED_MODELS"],
        because: Because::Fixed("a slot holds one model"),
    },
    Reserved {
        names: &["OLLAMA_KEEP_ALIVE"],
        because: Because::Fixed("the model stays until Plimsoll lets the slot go"),
    },
    Reserved { names: &["OLLAMA_SCHED_SPREAD"], because: Because::SetBy("gpus") },
    Reserved {
        names: &[
            "OLLAMA_VULKAN",
            "OLLAMA_IGPU_ENABLE",
            "OLLAMA_LLM_LIBRARY",
            "GGML_VK_VISIBLE_DEVICES",
            "GPU_DEVICE_ORDINAL",
        ],
        because: Because::Fixed("the process is confined to the booked GPUs"),
    },
];
