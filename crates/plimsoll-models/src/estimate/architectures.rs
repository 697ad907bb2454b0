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
