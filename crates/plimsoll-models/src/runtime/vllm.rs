//! The command of vLLM: a fraction of each GPU that it does not exceed, and the serving parameters.
//!
//! `--gpu-memory-utilization` bounds everything that vLLM allocates. It measures weights,
//! activations and graphs at start and gives the KV cache what is left. `--kv-cache-memory-bytes`
//! would fix the cache in bytes, but vLLM then measures nothing and ignores the fraction: a model
//! that is larger than expected would exceed its charge instead of failing to start. Verified
//! against 0.32.0.

use plimsoll_core::units::Bytes;

use super::command::{CommandLine, LaunchCommand, MAX_FLAG_VALUE, environment};
use super::error::{RenderError, ReservedReason};
use super::reserved::{self, Reserved, Syntax};
use super::spec::{DeviceCharge, LaunchSpec, UserOptions};
use crate::settings::{KvType, RuntimeKind};

pub(super) fn render(spec: &LaunchSpec, user: &UserOptions) -> Result<LaunchCommand, RenderError> {
    let settings = &spec.settings;
    reserved::check(user, Syntax::Argparse, FLAGS, VARIABLES)?;
    check_heads(spec)?;
    if settings.batch < settings.parallel {
        let (value, min) = (settings.batch, settings.parallel);
        return Err(RenderError::OutOfRange { field: "batch", value, min, max: MAX_FLAG_VALUE });
    }
    let share = format_share(share_of_all_gpus(spec)?);
    let program = spec.program.as_deref().unwrap_or("vllm");
    let mut line = CommandLine::new(&[program, "serve", &spec.model]);
    line.flag("--host", "{host}");
    line.flag("--port", "{port}");
    line.flag("--tensor-parallel-size", spec.devices.len());
    line.flag("--max-model-len", settings.context);
    line.flag("--max-num-seqs", settings.parallel);
    line.flag("--max-num-batched-tokens", settings.batch);
    line.flag("--kv-cache-dtype", cache_dtype(settings.kv.k));
    line.flag("--gpu-memory-utilization", &share);
    let ours = [
        // Otherwise CUDA graphs come on top of the limit.
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "1".to_string()),
        // A stored plan would size the cache without measuring.
        ("VLLM_ENABLE_STARTUP_PLAN", "0".to_string()),
    ];
    Ok(LaunchCommand {
        argv: line.finish(user),
        env: environment(user, ours),
        ready: "/health",
        preload: None,
        memory_ratio: Some(share),
        remarks: Vec::new(),
    })
}

/// Checks that the model can be split: vLLM gives each GPU the same number of attention heads. KV
/// heads are divided, or copied if there are more GPUs than KV heads.
fn check_heads(spec: &LaunchSpec) -> Result<(), RenderError> {
    let gpus = spec.devices.len() as u64;
    if gpus == 0 {
        return Err(RenderError::NoGpu { runtime: RuntimeKind::Vllm });
    }
    let Some(heads) = spec.heads else { return Ok(()) };
    if !heads.attention.is_multiple_of(gpus) {
        return Err(RenderError::Heads { gpus, heads: heads.attention });
    }
    match heads.kv {
        Some(0) => Err(RenderError::KvHeads { gpus, heads: 0 }),
        Some(kv) if !kv.is_multiple_of(gpus) && !gpus.is_multiple_of(kv) => {
            Err(RenderError::KvHeads { gpus, heads: kv })
        }
        Some(_) | None => Ok(()),
    }
}

/// Shares have four digits. At most 8 MiB of an 80 GiB GPU are lost to that.
const SHARE_STEPS: u32 = 10_000;

/// Returns the share for all GPUs, in steps. vLLM takes one share for all, so the smallest counts.
fn share_of_all_gpus(spec: &LaunchSpec) -> Result<u32, RenderError> {
    let mut smallest = SHARE_STEPS;
    for (index, DeviceCharge { charge, total }) in spec.devices.iter().enumerate() {
        let total = total.filter(|total| !total.is_zero());
        let total = total.ok_or(RenderError::UnknownGpu { index })?;
        let pool = charge.less(spec.overhead.bytes);
        let share = largest_share(pool, total);
        if share == 0 {
            return Err(RenderError::ShareTooSmall { pool, total });
        }
        smallest = smallest.min(share);
    }
    Ok(smallest)
}

/// Returns the largest share of a GPU that vLLM turns into at most `pool` bytes.
///
/// The exact quotient is not enough: vLLM multiplies in floating point and rounds up, which can
/// yield one byte more than the pool. So the quotient is the start, and the share decreases until
/// vLLM's own arithmetic stays within the pool. One step is larger than any rounding error, so the
/// loop ends after a step or two, and in any case at 0.
fn largest_share(pool: Bytes, total: Bytes) -> u32 {
    let exact = u128::from(pool.get()) * u128::from(SHARE_STEPS) / u128::from(total.get());
    let mut share = u32::try_from(exact).unwrap_or(SHARE_STEPS).min(SHARE_STEPS);
    while share > 0 && bytes_used(share, total) > pool.get() as f64 {
        share -= 1;
    }
    share
}

/// Computes vLLM's limit in bytes, with vLLM's own floating-point operations.
fn bytes_used(share: u32, total: Bytes) -> f64 {
    (total.get() as f64 * (f64::from(share) / f64::from(SHARE_STEPS))).ceil()
}

fn format_share(share: u32) -> String {
    format!("{}.{:04}", share / SHARE_STEPS, share % SHARE_STEPS)
}

/// Returns the `--kv-cache-dtype`. The 16-bit types are `auto`, the model's own type: vLLM accepts
/// them by name only for models whose default cache is smaller.
fn cache_dtype(kv: KvType) -> &'static str {
    match kv {
        KvType::Fp8 => "fp8",
        _ => "auto",
    }
}

const HOST: ReservedReason = ReservedReason::Uncharged("host memory is not charged");
const ONE_PROCESS: ReservedReason = ReservedReason::NotAllowed(
    "a slot is one server on its charged GPUs; use `gpus` and `max_slots`",
);

const FLAGS: &[Reserved] = &[
    Reserved {
        names: &[
            "--gpu-memory-utilization",
            "--device-memory-utilization",
            "--kv-cache-memory-bytes",
            "--num-gpu-blocks-override",
        ],
        reason: ReservedReason::SetBy("memory"),
    },
    Reserved { names: &["--max-model-len"], reason: ReservedReason::SetBy("context") },
    Reserved {
        names: &["--max-num-seqs", "--max-num-active-seqs"],
        reason: ReservedReason::SetBy("concurrency"),
    },
    Reserved {
        names: &["--max-num-batched-tokens"],
        reason: ReservedReason::SetBy("runtime.vllm.batch"),
    },
    Reserved {
        names: &["--kv-cache-dtype", "--kv-cache-dtype-skip-layers"],
        reason: ReservedReason::SetBy("kv"),
    },
    Reserved {
        names: &["--tensor-parallel-size", "-tp"],
        reason: ReservedReason::SetBy("tensor_parallel"),
    },
    Reserved { names: &["--model"], reason: ReservedReason::SetBy("runtime.vllm.model") },
    Reserved {
        names: &["--device-ids"],
        reason: ReservedReason::Fixed("the process uses the charged GPUs only"),
    },
    Reserved {
        names: &["--host", "--port", "--uds", "--grpc", "--grpc-port", "--headless"],
        reason: ReservedReason::Fixed("the runner can reach the server"),
    },
    Reserved {
        names: &["--root-path", "--ssl-keyfile", "--ssl-certfile"],
        reason: ReservedReason::Fixed("the runner can query /health over plain HTTP"),
    },
    Reserved {
        names: &["--config"],
        reason: ReservedReason::NotAllowed("a file can set any flag; use `args`"),
    },
    Reserved {
        names: &[
            "--pipeline-parallel-size",
            "-pp",
            "--data-parallel-size",
            "-dp",
            "--data-parallel-rank",
            "-dpn",
            "--data-parallel-start-rank",
            "-dpr",
            "--data-parallel-size-local",
            "-dpl",
            "--data-parallel-address",
            "-dpa",
            "--data-parallel-rpc-port",
            "-dpp",
            "--data-parallel-backend",
            "-dpb",
            "--data-parallel-hybrid-lb",
            "-dph",
            "--data-parallel-external-lb",
            "-dpe",
            "--data-parallel-multi-port-external-lb",
            "-dpm",
            "--decode-context-parallel-size",
            "-dcp",
            "--prefill-context-parallel-size",
            "-pcp",
            "--nnodes",
            "-n",
            "--node-rank",
            "-r",
            "--master-addr",
            "--master-port",
            "--distributed-executor-backend",
            "--enable-elastic-ep",
            "--elastic-ep-max-dp-size",
        ],
        reason: ONE_PROCESS,
    },
    Reserved {
        names: &[
            "--swap-space",
            "--kv-offloading-size",
            "--kv-offloading-backend",
            "--cpu-offload-gb",
            "--cpu-offload-params",
            "--offload-backend",
            "--offload-group-size",
            "--offload-num-in-group",
            "--offload-prefetch-step",
            "--offload-params",
        ],
        reason: HOST,
    },
    Reserved {
        names: &["--kv-transfer-config", "--ec-transfer-config", "--weight-transfer-config"],
        reason: ReservedReason::Uncharged("its buffers are outside vLLM's limit"),
    },
    Reserved {
        names: &["--mm-processor-device", "--mm-ipc-gpu-memory-gb"],
        reason: ReservedReason::Uncharged("it opens the GPU from a second process"),
    },
    Reserved {
        names: &["--skip-mm-profiling"],
        reason: ReservedReason::Uncharged("images and audio come on top of the measured memory"),
    },
    Reserved {
        names: &["--worker-cls", "--worker-extension-cls"],
        reason: ReservedReason::NotAllowed("another worker may ignore vLLM's limit"),
    },
];

const VARIABLES: &[Reserved] = &[
    Reserved {
        names: &["VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"],
        reason: ReservedReason::Fixed("CUDA graphs count against vLLM's limit"),
    },
    Reserved {
        names: &["VLLM_ENABLE_STARTUP_PLAN"],
        reason: ReservedReason::Fixed("memory is measured at every start"),
    },
    Reserved {
        names: &["VLLM_MODEL_REDIRECT_PATH"],
        reason: ReservedReason::NotAllowed("it replaces the model"),
    },
    Reserved { names: &["VLLM_CPU_KVCACHE_SPACE"], reason: HOST },
    Reserved { names: &["VLLM_DP_*", "VLLM_RAY_*"], reason: ONE_PROCESS },
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_is_rounded_down_to_four_digits() {
        let share = |pool, total| format_share(largest_share(Bytes::gib(pool), Bytes::gib(total)));
        assert_eq!(share(39, 80), "0.4875");
        assert_eq!(share(70, 80), "0.8750");
        assert_eq!(share(80, 80), "1.0000");
        assert_eq!(share(1, 3), "0.3333");
    }

    #[test]
    fn a_share_that_vllm_would_round_up_is_one_step_lower() {
        // In floats, 0.07 of 100 is 7.000000000000001, which vLLM rounds up to 8.
        assert_eq!(largest_share(Bytes::new(7), Bytes::new(100)), 699);
    }

    proptest! {
        #[test]
        fn vllm_never_uses_more_than_the_pool(total in 1..1_u64 << 42, of in 0.0..1.0_f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let pool = (total as f64 * of) as u64;
            let parts = largest_share(Bytes::new(pool), Bytes::new(total));
            prop_assert!(bytes_used(parts, Bytes::new(total)) <= pool as f64);
            prop_assert!(u128::from(parts) * u128::from(total) <= u128::from(pool) * u128::from(SHARE_STEPS));
            // At most one step is lost, besides the rounding.
            let next = u128::from(parts + 2) * u128::from(total);
            prop_assert!(next > u128::from(pool) * u128::from(SHARE_STEPS));
        }
    }
}
