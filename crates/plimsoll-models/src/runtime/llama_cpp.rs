//! The command of llama.cpp's `llama-server`: every setting that decides its memory is a flag.
//!
//! `llama-server` has no memory limit, so the flags must leave it no choice. What it would adjust
//! by itself (`--fit`) is off: a charge that is too small then shows up as memory use above the
//! charge, and not as a context that is silently shorter than declared. Verified against v0.5.0.

use super::command::{CommandLine, LaunchCommand, MAX_FLAG_VALUE, environment};
use super::error::{RenderError, ReservedReason};
use super::reserved::{self, Reserved, Syntax};
use super::spec::{AddedPaths, LaunchSpec, LayerSplit, MemoryBasis, UserOptions};
use crate::shape::DRAFTED_TOKENS;

pub(super) fn render(spec: &LaunchSpec, user: &UserOptions) -> Result<LaunchCommand, RenderError> {
    let settings = &spec.settings;
    reserved::check(user, Syntax::FullNames, FLAGS, VARIABLES)?;
    if spec.memory == MemoryBasis::Known {
        reserved::check(user, Syntax::FullNames, ADDITIONS, &[])?;
    }
    check_gpu_count(spec)?;
    let program = spec.program.as_deref().unwrap_or("llama-server");
    let mut line = CommandLine::new(&[program, "--model", &spec.model]);
    line.flag("--host", "{host}");
    line.flag("--port", "{port}");
    line.flag("--ctx-size", total_context(spec)?);
    line.flag("--parallel", settings.parallel);
    line.switch(if settings.unified { "--kv-unified" } else { "--no-kv-unified" });
    line.flag("--cache-type-k", settings.kv.k);
    line.flag("--cache-type-v", settings.kv.v);
    line.flag("--flash-attn", if settings.flash_attention { "on" } else { "off" });
    line.flag("--batch-size", settings.batch);
    line.flag("--ubatch-size", settings.ubatch);
    line.flag("--fit", "off");
    if !reserved::has_flag(user, Syntax::FullNames, CACHE_RAM) {
        line.flag("--cache-ram", 0);
    }
    let offload = GpuOffload::new(spec);
    line.flag("--n-gpu-layers", offload.layers);
    offload.split.iter().for_each(|(flag, value)| line.flag(flag, value));
    add_files(&mut line, spec, offload.layers);
    Ok(LaunchCommand {
        argv: line.finish(user),
        env: environment(user, []),
        ready: "/health",
        preload: None,
        memory_ratio: None,
        remarks: vec![
            "a config.ini of llama.cpp on the runner can add flags, such as those of a draft model",
        ],
    })
}

/// Adds the files that are loaded beside the model. A draft model is not used without its type.
fn add_files(line: &mut CommandLine, spec: &LaunchSpec, gpu_layers: &str) {
    let AddedPaths { projector, adapters, draft } = &spec.additions;
    if let Some(path) = projector {
        line.flag("--mmproj", path);
    }
    if !adapters.is_empty() {
        line.flag("--lora", adapters.join(","));
    }
    if let Some(path) = draft {
        line.flag("--spec-draft-model", path);
        line.flag("--spec-type", "draft-simple");
        line.flag("--spec-draft-n-max", DRAFTED_TOKENS);
        line.flag("--spec-draft-ngl", gpu_layers);
        line.flag("--spec-draft-type-k", "f16");
        line.flag("--spec-draft-type-v", "f16");
    }
}

/// The flag that limits the prompts that the server keeps in host memory. Its default is 8 GiB per
/// slot, which no charge includes. A user who sets it takes that memory into account.
const CACHE_RAM: &[&str] = &["-cram", "--cache-ram"];

/// llama.cpp has room for 16 devices (`llama_max_devices`), and its parser of `--tensor-split`
/// rejects a list of that length.
const MAX_GPUS: u64 = 15;

pub(super) fn check_gpu_count(spec: &LaunchSpec) -> Result<(), RenderError> {
    let gpus = spec.devices.len() as u64;
    if gpus > MAX_GPUS {
        let runtime = spec.settings.runtime;
        return Err(RenderError::TooManyGpus { runtime, gpus, max: MAX_GPUS });
    }
    Ok(())
}

/// Returns the context of all requests together, which the server divides among them.
pub(super) fn total_context(spec: &LaunchSpec) -> Result<u64, RenderError> {
    let (context, parallel) = (spec.settings.context, spec.settings.parallel);
    let total = context.saturating_mul(parallel);
    if total > MAX_FLAG_VALUE {
        let max = MAX_FLAG_VALUE / parallel;
        return Err(RenderError::OutOfRange { field: "context", value: context, min: 1, max });
    }
    Ok(total)
}

/// The flags that put the model on the charged GPUs.
pub(super) struct GpuOffload {
    /// The value of `--n-gpu-layers`.
    pub(super) layers: &'static str,
    /// The flags that divide the layers, with their values.
    pub(super) split: Vec<(&'static str, String)>,
}

impl GpuOffload {
    pub(super) fn new(spec: &LaunchSpec) -> GpuOffload {
        match spec.devices.len() {
            0 => GpuOffload { layers: "0", split: vec![("--device", "none".to_string())] },
            1 => GpuOffload {
                layers: "all",
                split: vec![("--split-mode", "none".to_string()), ("--main-gpu", "0".to_string())],
            },
            _ => GpuOffload {
                layers: "all",
                split: vec![
                    ("--split-mode", "layer".to_string()),
                    ("--tensor-split", tensor_split(spec)),
                ],
            },
        }
    }
}

/// Returns the value of `--tensor-split`: the layers that are charged on each GPU.
fn tensor_split(spec: &LaunchSpec) -> String {
    match &spec.layers {
        LayerSplit::Counted(counts) => counts.to_string(),
        LayerSplit::Equal => vec!["1"; spec.devices.len()].join(","),
        LayerSplit::ByCharge => charge_proportions(spec),
    }
}

/// Returns the charges without the overhead, in MiB. A proportion of 0 would leave a charged GPU
/// empty and move its layers to the others, so each is at least 1.
fn charge_proportions(spec: &LaunchSpec) -> String {
    let proportions = spec.devices.iter().map(|device| {
        let mib = device.charge.less(spec.overhead.bytes).ceil_mib().get() >> 20;
        mib.max(1).to_string()
    });
    proportions.collect::<Vec<_>>().join(",")
}

const ALL_ON_GPU: ReservedReason =
    ReservedReason::Fixed("all layers and the KV cache are on the charged GPUs");
const SECOND_MODEL: ReservedReason = ReservedReason::OnlyDeclared("it loads a second model");
const MODEL: ReservedReason = ReservedReason::SetBy("file");

pub(super) const FLAGS: &[Reserved] = &[
    Reserved {
        names: &["-c", "--ctx-size", "--kv-unified-per-slot"],
        reason: ReservedReason::SetBy("context"),
    },
    Reserved { names: &["-np", "--parallel"], reason: ReservedReason::SetBy("concurrency") },
    Reserved {
        names: &["-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"],
        reason: ReservedReason::Fixed("each request has its own KV cache"),
    },
    Reserved {
        names: &["-ctk", "--cache-type-k", "-ctv", "--cache-type-v"],
        reason: ReservedReason::SetBy("kv"),
    },
    Reserved {
        names: &["-fa", "--flash-attn"],
        reason: ReservedReason::SetBy("runtime.llama_cpp.flash_attention"),
    },
    Reserved {
        names: &["-b", "--batch-size"],
        reason: ReservedReason::SetBy("runtime.llama_cpp.batch"),
    },
    Reserved {
        names: &["-ub", "--ubatch-size"],
        reason: ReservedReason::SetBy("runtime.llama_cpp.ubatch"),
    },
    Reserved {
        names: &["-fit", "--fit", "-fitt", "--fit-target", "-fitc", "--fit-ctx"],
        reason: ReservedReason::Fixed("the context is the charged one"),
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
        reason: ALL_ON_GPU,
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
        reason: ReservedReason::SetBy("gpus"),
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
        reason: MODEL,
    },
    Reserved {
        names: &["--models-dir", "--models-preset", "--models-max", "--models-autoload"],
        reason: ReservedReason::NotAllowed("a slot serves one model; declare each model"),
    },
    Reserved {
        names: &["--host", "--port", "--reuse-port"],
        reason: ReservedReason::Fixed("the runner can reach the server"),
    },
    Reserved {
        names: &["--api-prefix", "--ssl-key-file", "--ssl-cert-file"],
        reason: ReservedReason::Fixed("the runner can query /health over plain HTTP"),
    },
    Reserved {
        names: &["--swa-full"],
        reason: ReservedReason::Uncharged("layers with a sliding window keep the whole context"),
    },
    Reserved {
        names: &["--override-kv"],
        reason: ReservedReason::NotAllowed("the charge is computed from the metadata of the file"),
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
        reason: ReservedReason::NotAllowed(
            "it sets model, context and batch; declare them instead",
        ),
    },
];

/// Flags of files beside the model. The estimate counts those that are declared; declared memory
/// can include the others.
const ADDITIONS: &[Reserved] = &[
    Reserved {
        names: &["-mm", "--mmproj"],
        reason: ReservedReason::SetBy("runtime.llama_cpp.mmproj"),
    },
    Reserved {
        names: &["-mmu", "--mmproj-url", "-mmdev", "--mmproj-device"],
        reason: ReservedReason::OnlyDeclared("it loads a projector"),
    },
    Reserved {
        names: &["--image-max-tokens", "--mtmd-batch-max-tokens"],
        reason: ReservedReason::OnlyDeclared("it enlarges the buffers of a projector"),
    },
    Reserved { names: &["--lora"], reason: ReservedReason::SetBy("runtime.llama_cpp.lora") },
    Reserved {
        names: &["--lora-scaled", "--control-vector", "--control-vector-scaled"],
        reason: ReservedReason::OnlyDeclared("it loads additional tensors"),
    },
    Reserved {
        names: &["-md", "--model-draft", "--spec-draft-model"],
        reason: ReservedReason::SetBy("runtime.llama_cpp.draft"),
    },
    Reserved {
        names: &["--spec-draft-n-max"],
        reason: ReservedReason::OnlyDeclared("it keeps the scores of each drafted token"),
    },
    Reserved {
        names: &[
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
        reason: SECOND_MODEL,
    },
];

#[cfg(test)]
mod real_server;

pub(super) const VARIABLES: &[Reserved] = &[
    Reserved {
        names: &["LLAMA_ARG_*"],
        reason: ReservedReason::NotAllowed("it sets a flag; use `args`"),
    },
    Reserved {
        names: &["MTMD_BACKEND_DEVICE"],
        reason: ReservedReason::Uncharged("it places a projector"),
    },
    Reserved {
        names: &["GGML_CUDA_ENABLE_UNIFIED_MEMORY"],
        reason: ReservedReason::Uncharged("it moves memory to the host"),
    },
    Reserved {
        names: &["XDG_CONFIG_HOME"],
        reason: ReservedReason::NotAllowed("a config.ini there can set any flag; use `args`"),
    },
];
