//! Architectures with an invented shape of 8 layers, against what llama.cpp of November 2026
//! reports for 2 requests with 8192 tokens each on one GPU: the KV cache exactly, and compute
//! buffers, in MiB.

use plimsoll_core::units::Bytes;

use super::estimate;
use crate::gguf::sample::Sample;
use crate::settings::{RuntimeKind, Settings};

const COMMON: [(&str, u32); 5] = [
    ("block_count", 8),
    ("embedding_length", 2048),
    ("feed_forward_length", 6144),
    ("attention.head_count", 16),
    ("vocab_size", 32_000),
];

const EXPERTS: [(&str, u32); 3] =
    [("expert_count", 16), ("expert_used_count", 4), ("expert_feed_forward_length", 1024)];

const GROUPED: [(&str, u32); 3] = [
    ("attention.head_count_kv", 4),
    ("attention.key_length", 128),
    ("attention.value_length", 128),
];

const WINDOW: [(&str, u32); 1] = [("attention.sliding_window", 512)];

const LATENT: [(&str, u32); 6] = [
    ("attention.head_count_kv", 1),
    ("attention.key_length", 576),
    ("attention.value_length", 512),
    ("attention.key_length_mla", 192),
    ("attention.value_length_mla", 128),
    ("attention.kv_lora_rank", 512),
];

const INDEXER: [(&str, u32); 1] = [("attention.indexer.key_length", 128)];

fn sample(architecture: &str, numbers: &[&[(&str, u32)]]) -> Sample {
    Sample::with_numbers(architecture, &[&COMMON, numbers.concat().as_slice()].concat())
}

/// Encoders as llama.cpp books them for embeddings, in MiB of compute buffers: 512 and 2048 tokens
/// per pass with flash attention, and 2048 without.
#[test]
fn the_compute_buffers_of_encoders_are_bounded_and_they_have_one_table() {
    let encoder = |architecture: &str, [layers, width, network, heads, tokens]: [u32; 5]| {
        let numbers = [
            ("block_count", layers),
            ("embedding_length", width),
            ("feed_forward_length", network),
            ("attention.head_count", heads),
            ("vocab_size", tokens),
        ];
        let table = [u64::from(width), u64::from(tokens)];
        Sample::with_numbers(architecture, &numbers).tensor("token_embd.weight", &table)
    };
    for (name, shape, booked) in [
        ("bert", [24, 1024, 4096, 16, 250_002], [13, 57, 313]),
        ("nomic-bert", [12, 768, 3072, 12, 30_522], [25, 105, 245]),
        ("neo-bert", [28, 768, 3072, 12, 30_522], [25, 105, 257]),
        ("jina-bert-v2", [12, 768, 3072, 12, 61_056], [25, 105, 245]),
        ("eurobert", [12, 768, 3072, 12, 128_256], [25, 105, 245]),
        ("modern-bert", [22, 768, 1152, 12, 50_368], [14, 68, 273]),
        ("gemma-embedding", [24, 768, 1152, 3, 262_144], [14, 68, 111]),
    ] {
        let shape = encoder(name, shape).shape().expect("reads the model");
        let parts = [(512, true), (2048, true), (2048, false)].map(|(ubatch, flash_attention)| {
            let settings = Settings::new(RuntimeKind::LlamaCpp, 2048);
            let settings = Settings { ubatch, flash_attention, ..settings };
            estimate(&shape, &settings).expect("estimates").all
        });
        for (parts, booked) in parts.iter().zip(booked) {
            let compute = parts.compute.bytes.expect("is known");
            assert!(compute >= Bytes::mib(booked), "{name}: {compute}, {booked} MiB booked");
            assert!(compute <= Bytes::mib(3 * booked), "{name}: {compute}, {booked} MiB booked");
        }
        let has_copy = !parts[0].weights.bytes.is_some_and(Bytes::is_zero);
        assert_eq!(has_copy, name == "gemma-embedding", "the table stays on the host");
    }
}

#[test]
fn layers_for_multi_token_prediction_are_not_loaded() {
    let numbers = [COMMON.as_slice(), &GROUPED, &EXPERTS, &[("nextn_predict_layers", 1)]].concat();
    let weights = |architecture: &str| {
        let sample = Sample::with_numbers(architecture, &numbers);
        let sample = sample.tensor("blk.6.attn_q.weight", &[2048, 2048]);
        let shape = sample.tensor("blk.7.attn_q.weight", &[2048, 2048]).shape().expect("reads");
        let layers = shape.weights.get().expect("are known").layers[6..].to_vec();
        (layers, shape.remarks)
    };
    let (layers, remarks) = weights("glm4moe");
    assert_eq!(layers, [Bytes::mib(8), Bytes::ZERO]);
    assert!(remarks.iter().any(|remark| remark.contains("8 MiB of layers for multi-token")));
    assert_eq!(weights("qwen3moe").0, [Bytes::mib(8); 2]);
}

#[test]
fn the_cache_of_an_architecture_is_exact_and_its_compute_buffers_are_a_bound() {
    let pattern = "spark2_5.attention.sliding_window_pattern";
    let all_heads = [("attention.head_count_kv", 16), GROUPED[1], GROUPED[2]];
    for (name, sample, kv, compute) in [
        ("hunyuan_vl", sample("hunyuan_vl", &[&GROUPED]), 256, 61),
        ("hy_v3", sample("hy_v3", &[&GROUPED, &EXPERTS]), 256, 49),
        ("llama-embed", sample("llama-embed", &[&GROUPED]), 256, 53),
        ("paddleocr", sample("paddleocr", &[&GROUPED]), 256, 61),
        ("deepseek2-ocr", sample("deepseek2-ocr", &[&all_heads, &EXPERTS]), 1024, 61),
        ("laguna", sample("laguna", &[&GROUPED, &EXPERTS, &WINDOW]), 88, 62),
        ("muse-glimmer", sample("muse-glimmer", &[&GROUPED, &EXPERTS, &WINDOW]), 88, 62),
        (
            "spark2_5",
            sample("spark2_5", &[&GROUPED, &EXPERTS, &WINDOW])
                .list(pattern, &[1, 1, 1, 0, 1, 1, 1, 0]),
            88,
            62,
        ),
        ("mistral4", sample("mistral4", &[&LATENT, &EXPERTS]), 144, 65),
        ("deepseek32", sample("deepseek32", &[&LATENT, &EXPERTS, &INDEXER]), 176, 123),
        ("glm-dsa", sample("glm-dsa", &[&LATENT, &EXPERTS, &INDEXER]), 176, 123),
    ] {
        let settings = Settings { parallel: 2, ..Settings::new(RuntimeKind::LlamaCpp, 8192) };
        let shape = sample.shape().expect("reads the model");
        let parts = estimate(&shape, &settings).expect("estimates").all;
        assert_eq!(parts.kv.bytes, Some(Bytes::mib(kv)), "{name}");
        assert!(parts.compute.bytes >= Some(Bytes::mib(compute)), "{name}: {:?}", parts.compute);
    }
}
