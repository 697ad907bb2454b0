//! llama.cpp's `llama-server`: everything that decides its memory is a flag, and nothing is left for it to choose.
//!
//! It knows no limit: it takes what the flags make it take. What it would adjust by itself is switched off, so that a charge that is too
//! small is seen at the start and not as a context that somebody shortened. Looked at: v0.5.0.

use plimsoll_core::units::Bytes;

use super::refusal::Refusal;
use super::reserved::{self, Because, Grammar, Reserved};
use super::{Extra, Line, Record, Rendered, variables};

pub(super) fn render(record: &Record, extra: &Extra) -> Result<Rendered, Refusal> {
    let settings = &record.settings;
    reserved::check(extra, Grammar::Full, FLAGS, VARIABLES)?;
    check_split(record)?;
    let mut line =
        Line::new(&[record.program.as_deref().unwrap_or("llama-server"), "--model", &record.model]);
    line.flag("--host", &"{host}");
    line.flag("--port", &"{port}");
    line.flag("--ctx-size", &all_tokens(record)?);
    line.flag("--parallel", &settings.parallel);
    line.0.push(if settings.unified { "--kv-unified" } else { "--no-kv-unified" }.to_string());
    line.flag("--cache-type-k", &settings.kv.k);
    line.flag("--cache-type-v", &settings.kv.v);
    line.flag("--flash-attn", &if settings.flash_attention { "on" } else { "off" });
    line.flag("--batch-size", &settings.batch);
    line.flag("--ubatch-size", &settings.ubatch);
    line.flag("--fit", &"off");
    let (layers, split) = placement(record);
    line.flag("--n-gpu-layers", &layers);
    split.iter().for_each(|(flag, value)| line.flag(flag, value));
    Ok(Rendered {
        argv: line.finish(extra),
        env: variables(extra, []),
        ready: "/health",
        preload: None,
        memory_ratio: None,
        remarks: vec![
            "a config.ini of llama.cpp's on the runner can add what is not on the command line, such as a draft model",
        ],
    })
}

/// One entry less than the devices that llama.cpp has room for: its reader of splits wants it so.
const MOST_GPUS: u64 = 15;

pub(super) fn check_split(record: &Record) -> Result<(), Refusal> {
    let (runtime, gpus) = (record.settings.runtime, record.devices.len() as u64);
    if gpus > MOST_GPUS {
        return Err(Refusal::TooManyGpus { runtime, gpus, most: MOST_GPUS });
    }
    Ok(())
}

/// The context of all requests together, which the server divides among them. It counts in 32 bits.
pub(super) fn all_tokens(record: &Record) -> Result<u64, Refusal> {
    let (context, parallel) = (record.settings.context, record.settings.parallel);
    let most = u64::from(u32::MAX >> 1);
    let tokens = context.saturating_mul(parallel);
    if tokens > most {
        let most = most / parallel;
        return Err(Refusal::OutOfRange { field: "context", value: context, least: 1, most });
    }
    Ok(tokens)
}

/// How many layers go to the GPUs, and how they are divided: all, in the proportion of what is left of the charges.
pub(super) fn placement(record: &Record) -> (&'static str, Vec<(&'static str, String)>) {
    let split = match record.devices.len() {
        0 => return ("0", vec![("--device", "none".to_string())]),
        1 => vec![("--split-mode", "none".to_string()), ("--main-gpu", "0".to_string())],
        _ => vec![("--split-mode", "layer".to_string()), ("--tensor-split", proportions(record))],
    };
    ("all", split)
}

/// In mebibytes, and no proportion is 0: that would leave a booked GPU empty and its part to the others.
fn proportions(record: &Record) -> String {
    let rest = |charge: Bytes| charge.less(record.outside.bytes).ceil_mib().get() >> 20;
    let parts: Vec<String> =
        record.devices.iter().map(|device| rest(device.charge).max(1).to_string()).collect();
    parts.join(",")
}

const ALL_ON_GPU: Because = Because::Fixed("all layers and the cache are on the booked GPUs");
const SECOND_MODEL: Because = Because::Uncharged("it loads a second model");
const MODEL: Because = Because::SetBy("file");

pub(super) const FLAGS: &[Reserved] = &[
    Reserved {
        names: &["-c", "--ctx-size", "--kv-unified-per-slot"],
        because: Because::SetBy("context"),
    },
    Reserved { names: &["-np", "--parallel"], because: Because::SetBy("concurrency") },
    Reserved {
        names: &["-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"],
        because: Because::Fixed("each request has its own part of the context"),
    },
    Reserved {
        names: &["-ctk", "--cache-type-k", "-ctv", "--cache-type-v"],
        because: Because::SetBy("kv"),
    },
    Reserved {
        names: &["-fa", "--flash-attn"],
        because: Because::SetBy("runtime.llama_cpp.flash_attention"),
    },
    Reserved { names: &["-b", "--batch-size"], because: Because::SetBy("runtime.llama_cpp.batch") },
    Reserved {
        names: &["-ub", "--ubatch-size"],
        because: Because::SetBy("runtime.llama_cpp.ubatch"),
    },
    Reserved {
        names: &["-fit", "--fit", "-fitt", "--fit-target", "-fitc", "--fit-ctx"],
        because: Because::Fixed("the context is the one that was charged"),
    },
    Reserved {
        names: &[
            "-ngl",
            "--gpu-layers",
            "--n-gpu-layers",
            "-nkvo",
            "--no-kv-offload",
            "-kvo",
            "--kv-offload",
            "-ot",
            "--override-tensor",
            "-cmoe",
            "--cpu-moe",
            "-ncmoe",
            "--n-cpu-moe",
            "-ncffn",
            "--n-cpu-ffn",
        ],
        because: ALL_ON_GPU,
    },
    Reserved {
        names: &[
            "-sm",
            "--split-mode",
            "-ts",
            "--tensor-split",
            "-mg",
            "--main-gpu",
            "-dev",
            "--device",
            "--rpc",
        ],
        because: Because::SetBy("gpus"),
    },
    Reserved {
        names: &[
            "-m",
            "--model",
            "-mu",
            "--model-url",
            "-dr",
            "--docker-repo",
            "-hf",
            "-hfr",
            "--hf-repo",
            "-hff",
            "--hf-file",
        ],
        because: MODEL,
    },
    Reserved {
        names: &["--models-dir", "--models-preset", "--models-max", "--models-autoload"],
        because: Because::Other("a slot serves one model; declare the others"),
    },
    Reserved {
        names: &["--host", "--port", "--reuse-port"],
        because: Because::Fixed("the runner finds the server where it told it to listen"),
    },
    Reserved {
        names: &["--api-prefix", "--ssl-key-file", "--ssl-cert-file"],
        because: Because::Fixed("the runner can ask /health over plain HTTP"),
    },
    Reserved {
        names: &["--swa-full"],
        because: Because::Uncharged("layers with a window keep the whole context"),
    },
    Reserved {
        names: &["--override-kv"],
        because: Because::Other("the charge was made of what the file says"),
    },
    Reserved {
        names: &["-mm", "--mmproj", "-mmu", "--mmproj-url", "-mmdev", "--mmproj-device"],
        because: Because::Uncharged("it loads a projector"),
    },
    Reserved {
        names: &["--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled"],
        because: Because::Uncharged("it loads tensors beside the model's"),
    },
    Reserved {
        names: &[
            "-md",
            "--model-draft",
            "--spec-draft-model",
            "-hfd",
            "-hfrd",
            "--hf-repo-draft",
            "--spec-draft-hf",
            "-ngld",
            "--gpu-layers-draft",
            "--n-gpu-layers-draft",
            "--spec-draft-ngl",
            "-devd",
            "--device-draft",
            "--spec-draft-device",
            "-ctkd",
            "--cache-type-k-draft",
            "--spec-draft-type-k",
            "-ctvd",
            "--cache-type-v-draft",
            "--spec-draft-type-v",
            "--spec-type",
            "--spec-default",
            "--mtp",
            "--dflash",
            "--eagle3",
        ],
        because: SECOND_MODEL,
    },
    Reserved {
        names: &[
            "--embd-gemma-default",
            "--fim-qwen-1.5b-default",
            "--fim-qwen-3b-default",
            "--fim-qwen-7b-default",
            "--fim-qwen-7b-spec",
            "--fim-qwen-14b-spec",
            "--fim-qwen-30b-default",
            "--gpt-oss-20b-default",
            "--gpt-oss-120b-default",
            "--vision-gemma-4b-default",
            "--vision-gemma-12b-default",
        ],
        because: Because::Other("it sets model, context and batch at once; declare them"),
    },
];

pub(super) const VARIABLES: &[Reserved] = &[
    Reserved {
        names: &["LLAMA_ARG_*"],
        because: Because::Other("it stands for a flag; write `args`"),
    },
    Reserved {
        names: &["MTMD_BACKEND_DEVICE"],
        because: Because::Uncharged("it places a projector"),
    },
    Reserved {
        names: &["GGML_CUDA_ENABLE_UNIFIED_MEMORY"],
        because: Because::Uncharged("what does not fit goes to the host"),
    },
    Reserved {
        names: &["XDG_CONFIG_HOME"],
        because: Because::Other("a config.ini there can hold any flag; write `args`"),
    },
];
