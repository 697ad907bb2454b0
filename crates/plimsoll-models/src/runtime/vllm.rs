//! vLLM: a share of each GPU that it keeps to, and the rest of the record beside it.
//!
//! The share bounds everything that vLLM allocates: weights, activations, graphs and cache, for it measures the others and gives
//! the cache what is left. `--kv-cache-memory-bytes` would fix the cache alone; vLLM then measures nothing and ignores the share, so
//! that a model which is larger than was thought would exceed the charge instead of failing. Looked at: 0.32.0.

use plimsoll_core::units::Bytes;

use super::refusal::Refusal;
use super::reserved::{self, Because, Grammar, Reserved};
use super::{Booked, Extra, Line, Record, Rendered, variables};
use crate::settings::{KvType, RuntimeKind};

pub(super) fn render(record: &Record, extra: &Extra) -> Result<Rendered, Refusal> {
    let settings = &record.settings;
    reserved::check(extra, Grammar::Argparse, FLAGS, VARIABLES)?;
    check_split(record)?;
    if settings.batch < settings.parallel {
        let (value, least) = (settings.batch, settings.parallel);
        return Err(Refusal::OutOfRange {
            field: "batch",
            value,
            least,
            most: u64::from(u32::MAX >> 1),
        });
    }
    let ratio = written(share(record)?);
    let mut line =
        Line::new(&[record.program.as_deref().unwrap_or("vllm"), "serve", &record.model]);
    line.flag("--host", &"{host}");
    line.flag("--port", &"{port}");
    line.flag("--tensor-parallel-size", &record.devices.len());
    line.flag("--max-model-len", &settings.context);
    line.flag("--max-num-seqs", &settings.parallel);
    line.flag("--max-num-batched-tokens", &settings.batch);
    line.flag("--kv-cache-dtype", &cache_type(settings.kv.k));
    line.flag("--gpu-memory-utilization", &ratio);
    let ours = [
        // Without the estimate, graphs come on top of the share.
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "1".to_string()),
        // A remembered plan would set the cache without measuring.
        ("VLLM_ENABLE_STARTUP_PLAN", "0".to_string()),
    ];
    Ok(Rendered {
        argv: line.finish(extra),
        env: variables(extra, ours),
        ready: "/health",
        preload: None,
        memory_ratio: Some(ratio),
        remarks: Vec::new(),
    })
}

/// A model is split by its heads, so that each GPU has as many.
fn check_split(record: &Record) -> Result<(), Refusal> {
    let gpus = record.devices.len() as u64;
    if gpus == 0 {
        return Err(Refusal::NoGpu { runtime: RuntimeKind::Vllm });
    }
    let Some(heads) = record.heads else { return Ok(()) };
    if !heads.attention.is_multiple_of(gpus) {
        return Err(Refusal::Heads { gpus, heads: heads.attention });
    }
    // Heads with keys and values are divided, or copied where there are more GPUs than heads.
    match heads.kv.filter(|kv| *kv == 0 || !(kv.is_multiple_of(gpus) || gpus.is_multiple_of(*kv))) {
        Some(kv) => Err(Refusal::KvHeads { gpus, heads: kv }),
        None => Ok(()),
    }
}

/// Shares are written in ten-thousandths: at most 8 MiB of an 80 GiB GPU are lost to that.
const PARTS: u32 = 10_000;

/// The share that holds on every GPU, for vLLM takes one for all.
fn share(record: &Record) -> Result<u32, Refusal> {
    let mut least = PARTS;
    for (place, Booked { charge, total }) in record.devices.iter().enumerate() {
        let total = total.filter(|total| !total.is_zero()).ok_or(Refusal::UnknownGpu { place })?;
        let pool = charge.less(record.outside.bytes);
        let parts = share_of(pool, total);
        if parts == 0 {
            return Err(Refusal::SmallShare { pool, total });
        }
        least = least.min(parts);
    }
    Ok(least)
}

/// The most ten-thousandths of the GPU that are no more than the pool, in vLLM's own arithmetic: it multiplies a float and rounds up.
fn share_of(pool: Bytes, total: Bytes) -> u32 {
    let exact = u128::from(pool.get()) * u128::from(PARTS) / u128::from(total.get());
    let mut parts = u32::try_from(exact).unwrap_or(PARTS).min(PARTS);
    while parts > 0 && taken(parts, total) > pool.get() as f64 {
        parts -= 1;
    }
    parts
}

fn taken(parts: u32, total: Bytes) -> f64 {
    (total.get() as f64 * (f64::from(parts) / f64::from(PARTS))).ceil()
}

fn written(parts: u32) -> String {
    format!("{}.{:04}", parts / PARTS, parts % PARTS)
}

/// Two bytes a number are the model's own type. By name, vLLM takes them only for models whose cache is smaller by default.
fn cache_type(kv: KvType) -> &'static str {
    match kv {
        KvType::Fp8 => "fp8",
        _ => "auto",
    }
}

const HOST: Because = Because::Uncharged("it is the host's, of which nothing is booked");
const ONE_PROCESS: Because = Because::Other(
    "the slot is one server on the booked GPUs; `gpus` and `max_slots` say how many",
);

const FLAGS: &[Reserved] = &[
    Reserved {
        names: &[
            "--gpu-memory-utilization",
            "--device-memory-utilization",
            "--kv-cache-memory-bytes",
            "--num-gpu-blocks-override",
        ],
        because: Because::SetBy("memory"),
    },
    Reserved { names: &["--max-model-len"], because: Because::SetBy("context") },
    Reserved {
        names: &["--max-num-seqs", "--max-num-active-seqs"],
        because: Because::SetBy("concurrency"),
    },
    Reserved {
        names: &["--max-num-batched-tokens"],
        because: Because::SetBy("runtime.vllm.batch"),
    },
    Reserved {
        names: &["--kv-cache-dtype", "--kv-cache-dtype-skip-layers"],
        because: Because::SetBy("kv"),
    },
    Reserved {
        names: &["--tensor-parallel-size", "-tp"],
        because: Because::SetBy("tensor_parallel"),
    },
    Reserved { names: &["--model"], because: Because::SetBy("runtime.vllm.model") },
    Reserved {
        names: &["--device-ids"],
        because: Because::Fixed("the process is confined to the booked GPUs"),
    },
    Reserved {
        names: &["--host", "--port", "--uds", "--grpc", "--grpc-port", "--headless"],
        because: Because::Fixed("the runner finds the server where it told it to listen"),
    },
    Reserved {
        names: &["--root-path", "--ssl-keyfile", "--ssl-certfile"],
        because: Because::Fixed("the runner can ask /health over plain HTTP"),
    },
    Reserved {
        names: &["--config"],
        because: Because::Other("a file can hold any flag; write `args`"),
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
        because: ONE_PROCESS,
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
        because: HOST,
    },
    Reserved {
        names: &["--kv-transfer-config", "--ec-transfer-config", "--weight-transfer-config"],
        because: Because::Uncharged("its buffers are outside the share"),
    },
    Reserved {
        names: &["--mm-processor-device", "--mm-ipc-gpu-memory-gb"],
        because: Because::Uncharged("it opens the GPU from a second process"),
    },
    Reserved {
        names: &["--skip-mm-profiling"],
        because: Because::Uncharged("images and sound come on top of what was measured"),
    },
    Reserved {
        names: &["--worker-cls", "--worker-extension-cls"],
        because: Because::Other("another worker need not keep to the share"),
    },
];

const VARIABLES: &[Reserved] = &[
    Reserved {
        names: &["VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"],
        because: Because::Fixed("graphs are part of the share"),
    },
    Reserved {
        names: &["VLLM_ENABLE_STARTUP_PLAN"],
        because: Because::Fixed("memory is measured at every start"),
    },
    Reserved {
        names: &["VLLM_MODEL_REDIRECT_PATH"],
        because: Because::Other("it replaces the model by another"),
    },
    Reserved { names: &["VLLM_CPU_KVCACHE_SPACE"], because: HOST },
    Reserved { names: &["VLLM_DP_*", "VLLM_RAY_*"], because: ONE_PROCESS },
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_is_never_more_than_the_charge_is_of_the_gpu() {
        let share = |pool, total| written(share_of(Bytes::gib(pool), Bytes::gib(total)));
        assert_eq!(share(39, 80), "0.4875");
        assert_eq!(share(70, 80), "0.8750");
        assert_eq!(share(80, 80), "1.0000");
        assert_eq!(share(1, 3), "0.3333");
    }

    #[test]
    fn what_rounding_up_would_take_too_much_is_a_part_less() {
        // In floats 0.07 of 100 is 7.000000000000001, and vLLM rounds that up to 8.
        assert_eq!(share_of(Bytes::new(7), Bytes::new(100)), 699);
    }

    proptest! {
        #[test]
        fn what_vllm_takes_for_its_share_is_in_the_pool(total in 1..1_u64 << 42, of in 0.0..1.0_f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let pool = (total as f64 * of) as u64;
            let parts = share_of(Bytes::new(pool), Bytes::new(total));
            prop_assert!(taken(parts, Bytes::new(total)) <= pool as f64);
            prop_assert!(u128::from(parts) * u128::from(total) <= u128::from(pool) * u128::from(PARTS));
            // Nor is more given away than one part and what rounding costs.
            let next = u128::from(parts + 2) * u128::from(total);
            prop_assert!(next > u128::from(pool) * u128::from(PARTS));
        }
    }
}
