//! Models that keep more than the hidden state between GPUs, against what llama.cpp of November
//! 2026 reports for 8 requests with 32,768 tokens each, in MiB per GPU.

use plimsoll_core::units::Bytes;

use super::estimate;
use crate::gguf::sample::Sample;
use crate::settings::{RuntimeKind, Settings};

/// Returns `count` marks of layers with a window: all but the last of each group.
fn windows(count: usize, group: usize) -> Vec<u32> {
    (1..=count).map(|number| u32::from(!number.is_multiple_of(group))).collect()
}

fn gemma(architecture: &str, numbers: &[(&str, u32)], group: usize) -> Sample {
    let count = numbers.iter().find(|(key, _)| *key == "block_count").map_or(0, |(_, n)| *n);
    let pattern = format!("{architecture}.attention.sliding_window_pattern");
    Sample::with_numbers(architecture, numbers)
        .number(&format!("{architecture}.vocab_size"), 262_144)
        .number(&format!("{architecture}.embedding_length_per_layer_input"), 256)
        .number(&format!("{architecture}.attention.sliding_window"), 512)
        .list(&pattern, &windows(count as usize, group))
}

fn attention(heads: u32, kv_heads: u32, length: u32) -> [(&'static str, u32); 4] {
    [
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", length),
        ("attention.value_length", length),
    ]
}

fn gemma4(
    layers: u32,
    width: u32,
    network: u32,
    kv_heads: u32,
    shared: u32,
    group: usize,
) -> Sample {
    let own = [
        ("block_count", layers),
        ("embedding_length", width),
        ("feed_forward_length", network),
        ("attention.shared_kv_layers", shared),
        ("attention.key_length_swa", 256),
        ("attention.value_length_swa", 256),
    ];
    gemma("gemma4", &[own.as_slice(), &attention(8, kv_heads, 512)].concat(), group)
}

fn gemma3n_e4b() -> Sample {
    let own = [("block_count", 35), ("embedding_length", 2048), ("feed_forward_length", 16_384)];
    gemma("gemma3n", &[own.as_slice(), &attention(8, 2, 256)].concat(), 5)
}

fn qwen3_vl_30b() -> Sample {
    let own = [
        ("block_count", 48),
        ("embedding_length", 2048),
        ("feed_forward_length", 6144),
        ("expert_count", 128),
        ("expert_used_count", 8),
        ("expert_feed_forward_length", 768),
        ("n_deepstack_layers", 3),
        ("vocab_size", 151_936),
    ];
    Sample::with_numbers("qwen3vlmoe", &[own.as_slice(), &attention(32, 4, 128)].concat())
}

fn mamba(architecture: &str, state: u32, groups: u32, vocabulary: u32) -> Sample {
    let numbers = [
        ("block_count", 64),
        ("embedding_length", 4096),
        ("feed_forward_length", 0),
        ("attention.head_count", 0),
        ("ssm.conv_kernel", 4),
        ("ssm.inner_size", 8192),
        ("ssm.state_size", state),
        ("ssm.group_count", groups),
        ("vocab_size", vocabulary),
    ];
    Sample::with_numbers(architecture, &numbers)
}

fn nemotron_nano_9b_v2() -> Sample {
    let attention = [14, 21, 30, 39];
    let network = [
        1, 3, 5, 8, 10, 12, 15, 17, 19, 22, 24, 26, 28, 31, 33, 35, 37, 40, 42, 45, 47, 49, 51, 53,
        55,
    ];
    let per_layer = |width: u32, layers: &[u32]| {
        (0..56).map(|layer| if layers.contains(&layer) { width } else { 0 }).collect::<Vec<u32>>()
    };
    let numbers = [
        ("block_count", 56),
        ("embedding_length", 4480),
        ("attention.head_count", 40),
        ("attention.key_length", 128),
        ("attention.value_length", 128),
        ("ssm.conv_kernel", 4),
        ("ssm.inner_size", 10_240),
        ("ssm.state_size", 128),
        ("ssm.group_count", 8),
        ("vocab_size", 131_072),
    ];
    Sample::with_numbers("nemotron_h", &numbers)
        .list("nemotron_h.feed_forward_length", &per_layer(15_680, &network))
        .list("nemotron_h.attention.head_count_kv", &per_layer(8, &attention))
}

fn compute(sample: &Sample, gpus: usize) -> Vec<Bytes> {
    let settings =
        Settings { gpus: gpus as u64, parallel: 8, ..Settings::new(RuntimeKind::LlamaCpp, 32_768) };
    let shape = sample.shape().expect("reads the model");
    let estimate = estimate(&shape, &settings).expect("estimates");
    estimate.gpus.iter().map(|gpu| gpu.compute.bytes.expect("is known")).collect()
}

#[test]
fn no_gpu_is_charged_less_than_llama_cpp_keeps_between_gpus() {
    for (sample, booked) in [
        (gemma4(35, 1536, 12_288, 1, 20, 5), vec![325, 8885]),
        (gemma4(42, 2560, 10_240, 2, 18, 6), vec![333, 275, 13_205]),
        (gemma3n_e4b(), vec![505, 397, 7137]),
        (qwen3_vl_30b(), vec![564, 245]),
        (mamba("mamba", 16, 0, 65_024), vec![270, 358, 294]),
        (mamba("mamba2", 128, 8, 32_768), vec![347, 451, 387]),
        (nemotron_nano_9b_v2(), vec![529, 674, 582]),
    ] {
        let charged = compute(&sample, booked.len());
        for (gpu, (charged, booked)) in charged.iter().zip(&booked).enumerate() {
            assert!(*charged >= Bytes::mib(*booked), "GPU {gpu}: {charged}, {booked} MiB booked");
        }
    }
}

#[test]
fn a_cache_that_is_shared_across_gpus_is_charged_once_per_layer_and_pipeline_copy() {
    let sample = gemma4(35, 1536, 12_288, 1, 20, 5);
    let (one, two) = (compute(&sample, 1)[0], compute(&sample, 2)[1]);
    // Four layers with full attention and 13 with a window are on the second GPU, and their
    // caches on the first.
    let (full, windowed) = (8 * 32_768 * 2 * 512 * 2, 8 * 1024 * 2 * 256 * 2);
    let copies = Bytes::new(4 * (4 * full + 13 * windowed));
    assert!(two > copies.plus(one), "{two} {copies} {one}");
    assert!(two < copies.plus(one).plus(Bytes::mib(512)), "{two} {copies} {one}");
}
