//! Models with files beside them, against what llama-server of November 2026 reports for 2 requests
//! with 4096 tokens each on 1, 2 and 3 GPUs, in hundredths of a MiB per GPU.

use plimsoll_core::units::Bytes;

use super::{Breakdown, EstimateError, estimate};
use crate::gguf::sample::Sample;
use crate::settings::{KvType, KvTypes, RuntimeKind, Settings};
use crate::shape::{Addition, Shape};

fn llama([layers, width, network, heads, kv_heads, tokens]: [u32; 6]) -> Sample {
    let numbers = [
        ("block_count", layers),
        ("context_length", 8192),
        ("embedding_length", width),
        ("feed_forward_length", network),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("vocab_size", tokens),
    ];
    let [wide, network, tokens] = [width, network, tokens].map(u64::from);
    let keys = u64::from(width / heads * kv_heads);
    let mut sample = Sample::with_numbers("llama", &numbers)
        .tensor("token_embd.weight", &[wide, tokens])
        .tensor("output.weight", &[wide, tokens]);
    for layer in 0..layers {
        for (part, shape) in [
            ("attn_q", [wide, wide]),
            ("attn_k", [wide, keys]),
            ("attn_v", [wide, keys]),
            ("attn_output", [wide, wide]),
            ("ffn_gate", [wide, network]),
            ("ffn_up", [wide, network]),
            ("ffn_down", [network, wide]),
        ] {
            sample = sample.tensor(&format!("blk.{layer}.{part}.weight"), &shape);
        }
    }
    sample
}

fn target() -> Shape {
    llama([9, 1024, 3072, 16, 4, 8192]).shape().expect("reads the model")
}

fn draft() -> Shape {
    llama([5, 512, 1536, 8, 2, 8192]).shape().expect("reads the draft model")
}

fn settings(gpus: usize, kv: KvType) -> Settings {
    let settings = Settings::new(RuntimeKind::LlamaCpp, 4096);
    Settings { gpus: gpus as u64, parallel: 2, kv: KvTypes::both(kv), ..settings }
}

fn gpus(shape: &Shape, settings: &Settings) -> Vec<Breakdown> {
    estimate(shape, settings).expect("estimates").gpus
}

#[test]
fn no_gpu_is_charged_less_than_llama_server_keeps_for_model_and_draft_model() {
    let mut shape = target();
    shape.additions.push(Addition::Draft(draft()));
    // Weights, KV cache and compute buffers: first the model's, then the draft model's.
    for booked in [
        &[[22_307 + 3677, 3825 + 2000, 3004 + 1701]][..],
        &[[11_504 + 1726, 2125 + 1200, 6418 + 4105], [10_804 + 1951, 1700 + 800, 4616 + 3104]],
        &[
            [9203 + 1726, 1700 + 1200, 6418 + 4105],
            [6902 + 1151, 1275 + 800, 4616 + 3104],
            [6202 + 800, 850, 4616 + 8],
        ],
    ] {
        let charged = gpus(&shape, &settings(booked.len(), KvType::Q8_0));
        for (gpu, (charged, booked)) in charged.iter().zip(booked).enumerate() {
            let parts = [&charged.weights, &charged.kv, &charged.compute];
            let parts = parts.map(|part| part.bytes.expect("is known"));
            let [weights, kv, compute] = booked.map(|n| Bytes::new(n * (1 << 20) / 100));
            // The sample has no norms, of which llama.cpp counts less than 0.1 MiB.
            let rounded = Bytes::new((1 << 20) / 10);
            assert!(parts[0].plus(rounded) >= weights, "GPU {gpu}: {parts:?} {booked:?}");
            assert!(parts[0] <= weights.plus(rounded), "GPU {gpu}: {parts:?} {booked:?}");
            assert_eq!(parts[1].get() >> 18, kv.get() >> 18, "GPU {gpu}: {parts:?} {booked:?}");
            assert!(parts[2] >= compute, "GPU {gpu}: {parts:?} {booked:?}");
            assert!(parts[2] <= compute.plus(Bytes::mib(64)), "GPU {gpu}: {parts:?} {booked:?}");
        }
    }
}

/// Returns an adapter of this rank for all matrices of the layers, and for embeddings and output.
fn adapter(rank: u64) -> Shape {
    let mut sample = Sample::default().text("general.architecture", "llama");
    sample = sample.text("general.type", "adapter").text("general.name", "tone");
    let mut pair = |name: &str, inputs: u64, outputs: u64| {
        let next = std::mem::take(&mut sample).tensor(&format!("{name}.lora_a"), &[inputs, rank]);
        sample = next.tensor(&format!("{name}.lora_b"), &[rank, outputs]);
    };
    for layer in 0..9 {
        pair(&format!("blk.{layer}.attn_q.weight"), 1024, 1024);
        pair(&format!("blk.{layer}.ffn_up.weight"), 1024, 3072);
    }
    pair("output.weight", 1024, 8192);
    pair("token_embd.weight", rank, 1024);
    sample.shape().expect("reads the adapter")
}

#[test]
fn the_tensors_of_an_adapter_are_on_the_gpus_of_those_that_they_change() {
    let mut shape = target();
    let before = gpus(&shape, &settings(2, KvType::F16));
    shape.additions.push(Addition::Adapter(adapter(64)));
    let after = gpus(&shape, &settings(2, KvType::F16));
    // 5 layers are on the first GPU; 4 layers and the output are on the second.
    let layer = 2 * 64 * (1024 + 1024 + 1024 + 3072);
    for (gpu, tensors) in [5 * layer, 4 * layer + 2 * 64 * (1024 + 8192)].into_iter().enumerate() {
        let weights = |parts: &Breakdown| parts.weights.bytes.expect("is known");
        let added = weights(&after[gpu]).less(weights(&before[gpu]));
        assert_eq!(added, Bytes::new(tensors).ceil_mib(), "GPU {gpu}");
        assert_eq!(after[gpu].kv, before[gpu].kv);
        assert!(after[gpu].compute.bytes > before[gpu].compute.bytes);
    }
    let remarks = estimate(&shape, &settings(2, KvType::F16)).expect("estimates").remarks;
    assert!(remarks.contains(&"the LoRA adapter tone is included".to_string()), "{remarks:?}");
}

/// Adapters of rank 64, with embeddings and output, needed up to 14.3 MiB more on the first of two
/// GPUs, and 2 MiB more on a single one.
#[test]
fn the_results_of_an_adapter_have_room() {
    for (gpus_count, needed) in [(1, 2), (2, 15)] {
        let mut shape = target();
        let before = gpus(&shape, &settings(gpus_count, KvType::F16))[0].compute.bytes;
        shape.additions.push(Addition::Adapter(adapter(64)));
        let after = gpus(&shape, &settings(gpus_count, KvType::F16))[0].compute.bytes;
        let (before, after) = (before.expect("is known"), after.expect("is known"));
        assert!(after.less(before) >= Bytes::mib(needed), "{before} {after}");
    }
}

#[test]
fn a_file_of_another_kind_or_for_another_runtime_is_an_error() {
    let with = |addition: Addition| Shape { additions: vec![addition], ..target() };
    for (shape, expected) in [
        (with(Addition::Projector(draft())), "mmproj must be a projector, but the file is a model"),
        (with(Addition::Adapter(draft())), "lora must be a LoRA adapter, but the file is a model"),
        (
            with(Addition::Draft(adapter(8))),
            "draft must be a model, but the file is a LoRA adapter",
        ),
    ] {
        let error = estimate(&shape, &settings(1, KvType::F16)).expect_err("is rejected");
        assert_eq!(error.to_string(), expected);
    }
    let shape = with(Addition::Draft(draft()));
    let ollama = Settings::new(RuntimeKind::Ollama, 4096);
    let runtime = RuntimeKind::Ollama;
    assert_eq!(estimate(&shape, &ollama), Err(EstimateError::Additions { runtime }));
    let alone = estimate(&adapter(8), &settings(1, KvType::F16)).expect_err("is no model");
    let expected = "the file is a LoRA adapter, which is loaded beside a model (lora)";
    assert_eq!(alone.to_string(), expected);
}

#[test]
fn a_projector_of_an_unknown_kind_leaves_the_total_unknown() {
    let sample = Sample::default().text("general.architecture", "clip");
    let sample = sample.text("clip.projector_type", "new").tensor("v.patch_embd.weight", &[64, 64]);
    let projector = sample.shape().expect("reads the projector");
    let shape = Shape { additions: vec![Addition::Projector(projector)], ..target() };
    let estimate = estimate(&shape, &settings(1, KvType::F16)).expect("estimates");
    assert_eq!(estimate.all.total, None);
    assert!(estimate.missing().is_some_and(|missing| missing.contains("the projector new")));
}
