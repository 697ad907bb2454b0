//! Tests of the GGUF reader: valid headers, per-architecture caches, and hostile input.

use std::io::Cursor;

use plimsoll_core::units::Bytes;
use proptest::prelude::*;

use super::error::GgufError;
use super::sample::{Sample, llama};
use super::{architectures, header, shape, tensor};
use crate::estimate::estimate;
use crate::settings::{RuntimeKind, Settings};
use crate::shape::Cache;
use crate::source::Source;

fn grouped(kv_heads: u64, length: u64, window: Option<u64>) -> Cache {
    Cache::Grouped { kv_heads, key_length: length, value_length: length, window }
}

fn caches(sample: &Sample) -> Vec<Cache> {
    let shape = sample.shape().expect("reads the model");
    shape.layers.get().expect("caches are known").clone()
}

const ATTENTION: [(&str, u32); 5] = [
    ("embedding_length", 256),
    ("attention.head_count", 8),
    ("attention.head_count_kv", 2),
    ("attention.key_length", 64),
    ("attention.value_length", 64),
];

fn with_attention(architecture: &str, count: u32) -> Sample {
    let sample = Sample::with_numbers(architecture, &ATTENTION);
    sample.number(&format!("{architecture}.block_count"), count)
}

#[test]
fn weights_are_sums_of_exact_tensor_sizes() {
    let shape = llama().shape().expect("reads the model");
    let weights = shape.weights.get().expect("weights are known");
    let (matrix, table) = (Bytes::new(256 * 512 * 2), Bytes::new(256 * 1000 * 2));
    assert_eq!(weights.layers, [matrix, matrix]);
    assert_eq!((weights.embedding, weights.output), (table, table.plus(Bytes::new(512))));
    assert_eq!((weights.tied, weights.vectors), (None, Bytes::new(512)));
    assert_eq!(shape.vocabulary.get(), Some(&1000));
    assert_eq!(caches(&llama()), [grouped(2, 64, None); 2]);
}

#[test]
fn a_model_without_an_output_matrix_ties_its_embeddings() {
    let sample = with_attention("llama", 1).tensor("token_embd.weight", &[256, 100]);
    let shape = sample.shape().expect("reads the model");
    assert_eq!(
        shape.weights.get().and_then(|weights| weights.tied),
        Some(Bytes::new(256 * 100 * 2))
    );
}

#[test]
fn a_header_without_tensor_data_is_enough_and_is_remarked() {
    let header = llama().header().expect("reads the header");
    assert_eq!(header.absent().get(), header.data_start + header.data_length - header.file_length);
    assert!(llama().shape().expect("reads the model").remarks[0].contains("not in the file"));
    let mut whole = llama().bytes();
    whole.resize(usize::try_from(header.data_start + header.data_length).expect("small"), 0);
    assert!(header::read(Cursor::new(whole)).expect("reads the header").absent().is_zero());
}

#[test]
fn an_absent_head_length_is_computed_with_the_runtimes_default() {
    let sample = Sample::with_numbers(
        "llama",
        &[("block_count", 1), ("embedding_length", 256), ("attention.head_count", 8)],
    );
    let shape = sample.shape().expect("reads the model");
    assert_eq!(shape.layers.get(), Some(&vec![grouped(8, 32, None)]));
    assert!(
        matches!(shape.layers.source(), Source::Computed { from } if from.contains("key_length"))
    );
    let without =
        Sample::with_numbers("llama", &[("block_count", 1)]).shape().expect("reads the model");
    assert_eq!(
        without.layers.source(),
        &Source::Unknown { missing: "llama.attention.head_count".to_string() }
    );
}

#[test]
fn the_cache_of_an_unlisted_architecture_is_unknown() {
    let shape = with_attention("newarch", 2).shape().expect("reads the model");
    assert!(
        matches!(shape.layers.source(), Source::Unknown { missing } if missing.contains("newarch"))
    );
}

#[test]
fn kv_heads_may_differ_between_layers() {
    let sample = Sample::with_numbers("deci", &ATTENTION[..2]).number("deci.block_count", 3);
    let sample = sample.list("deci.attention.head_count_kv", &[8, 0, 2]);
    let sample =
        sample.number("deci.attention.key_length", 32).number("deci.attention.value_length", 32);
    assert_eq!(caches(&sample), [8, 0, 2].map(|heads| grouped(heads, 32, None)));
}

#[test]
fn sliding_windows_follow_the_architecture() {
    let window = |architecture: &str, count| {
        let sample = with_attention(architecture, count);
        let sample = sample.number(&format!("{architecture}.attention.sliding_window"), 128);
        let is_windowed = |cache: &Cache| match cache {
            Cache::Grouped { window, .. } => window.is_some(),
            _ => false,
        };
        caches(&sample).iter().map(is_windowed).map(u8::from).collect::<Vec<_>>()
    };
    assert_eq!(window("gemma2", 4), [1, 0, 1, 0]);
    assert_eq!(window("gpt-oss", 4), [1, 0, 1, 0]);
    assert_eq!(window("gemma3", 7), [1, 1, 1, 1, 1, 0, 1]);
    assert_eq!(window("cohere2", 5), [1, 1, 1, 0, 1]);
    assert_eq!(window("llama4", 5), [1, 1, 1, 0, 1]);
    assert_eq!(window("smallthinker", 5), [0, 1, 1, 1, 0]);
    assert_eq!(window("phi3", 2), [0, 0]);
    assert_eq!(caches(&with_attention("gemma3", 2)), [grouped(2, 64, None); 2]);
    let missing = with_attention("gpt-oss", 2).shape().expect("reads the model");
    assert!(
        matches!(missing.layers.source(), Source::Unknown { missing } if missing.ends_with("sliding_window"))
    );
}

#[test]
fn a_latent_cache_needs_the_mla_lengths() {
    let old = with_attention("deepseek2", 1);
    assert_eq!(caches(&old), [grouped(2, 64, None)]);
    let numbers = [
        ("block_count", 2),
        ("attention.head_count", 128),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 576),
        ("attention.value_length", 512),
        ("attention.kv_lora_rank", 512),
        ("attention.key_length_mla", 192),
        ("attention.value_length_mla", 128),
    ];
    let new = Sample::with_numbers("deepseek2", &numbers);
    assert_eq!(
        caches(&new),
        [Cache::Latent { kv_lora_rank: 512, rope_length: 64, indexer_length: 0, window: None }; 2]
    );
}

#[test]
fn recurrent_states_have_llama_cpps_size() {
    let ssm = [
        ("ssm.conv_kernel", 4),
        ("ssm.inner_size", 32),
        ("ssm.state_size", 8),
        ("ssm.group_count", 2),
    ];
    let state = |numbers: u64| Cache::Recurrent { bytes: 4 * numbers };
    let mamba = Sample::with_numbers("mamba2", &ssm).number("mamba2.block_count", 1);
    assert_eq!(caches(&mamba), [state(3 * (32 + 2 * 2 * 8) + 8 * 32)]);

    let hybrid = Sample::with_numbers("nemotron_h", &ssm).number("nemotron_h.block_count", 3);
    let hybrid = hybrid.list("nemotron_h.attention.head_count_kv", &[0, 0, 2]);
    let hybrid = hybrid.list("nemotron_h.feed_forward_length", &[0, 512, 0]);
    let hybrid = hybrid.number("nemotron_h.attention.key_length", 64);
    let hybrid = hybrid.number("nemotron_h.attention.value_length", 64);
    assert_eq!(caches(&hybrid), [state(3 * 64 + 256), Cache::None, grouped(2, 64, None)]);

    let next = Sample::with_numbers("qwen3next", &ssm).number("qwen3next.block_count", 4);
    let next =
        ATTENTION.iter().fold(next, |next, (key, n)| next.number(&format!("qwen3next.{key}"), *n));
    let next = caches(&next);
    assert_eq!(next[..3], [state(3 * 64 + 256); 3]);
    assert_eq!(next[3], grouped(2, 64, None));
}

#[test]
fn multi_token_prediction_layers_have_no_cache() {
    let sample = with_attention("glm4moe", 3).number("glm4moe.nextn_predict_layers", 1);
    assert_eq!(caches(&sample)[2], Cache::None);
}

#[test]
fn gemma_layers_that_attend_to_a_lower_layer_name_it() {
    let gemma3n = with_attention("gemma3n", 30).number("gemma3n.attention.sliding_window", 128);
    let gemma3n = caches(&gemma3n);
    assert!(gemma3n[..20].iter().all(|cache| matches!(cache, Cache::Grouped { .. })));
    let owners = gemma3n[20..].iter().map(|cache| match cache {
        Cache::Shared { owner } => Some(*owner),
        _ => None,
    });
    let (windowed, full) = (Some(18), Some(19));
    let five = [windowed, windowed, windowed, windowed, full];
    assert_eq!(owners.collect::<Vec<_>>(), [five, five].concat());
    let gemma4 = with_attention("gemma4", 3)
        .number("gemma4.attention.sliding_window", 128)
        .list("gemma4.attention.sliding_window_pattern", &[1, 0, 1])
        .number("gemma4.attention.shared_kv_layers", 1);
    let full = grouped(2, 64, None);
    let shared = Cache::Shared { owner: 0 };
    assert_eq!(caches(&gemma4), [grouped(2, 64, Some(128)), full, shared]);
}

#[test]
fn tensor_types_have_the_size_of_their_blocks() {
    for (kind, numbers, bytes) in
        [(2, 32, 18), (12, 256, 144), (14, 256, 210), (23, 256, 136), (39, 32, 17), (40, 64, 36)]
    {
        let sample = llama().tensor_at("x", &[numbers, 3], kind, 1 << 30);
        let header = sample.header().expect("reads the header");
        assert_eq!(
            header.tensors.last().map(|x| x.bytes),
            Some(Bytes::new(3 * bytes)),
            "type {kind}"
        );
    }
    let known = (0..64).filter(|kind| tensor::block(*kind).is_some()).count();
    assert_eq!(known, 35);
}

fn rejection(sample: &Sample) -> String {
    sample.shape().expect_err("is rejected").to_string()
}

#[test]
fn a_hostile_header_is_rejected_with_position_and_field() {
    let list = |kind: u32, length: u64| {
        [kind.to_le_bytes().to_vec(), length.to_le_bytes().to_vec()].concat()
    };
    let long = (1_u64 << 63).to_le_bytes();
    for (sample, message) in [
        (llama().raw("a", 8, &long), "the file ends at byte"),
        (llama().raw("a", 9, &list(8, 1 << 63)), "the length of a at byte"),
        (llama().raw("a", 9, &list(4, 1 << 20)), "the file ends at byte"),
        (llama().raw("a", 9, &list(9, 1)), "a at byte"),
        (llama().raw("a", 77, &[]), "unsupported type 77"),
        (llama().raw("a", 8, &[1, 0, 0, 0, 0, 0, 0, 0, 255]), "a at byte"),
        (llama().number("llama.block_count", 2), "duplicate key llama.block_count"),
        (llama().tensor("output.weight", &[1]), "duplicate tensor output.weight"),
        (llama().tensor_at("x", &[32], 1, 0), "overlaps tensor"),
        (llama().tensor_at("x", &[32], 1, 7), "is not a multiple of 32"),
        (llama().tensor_at("x", &[32], 31, 1 << 30), "unknown type 31"),
        (llama().tensor_at("x", &[33], 8, 1 << 30), "not a whole number of blocks"),
        (llama().tensor_at("x", &[0], 1, 1 << 30), "a dimension of size 0"),
        (llama().tensor_at("x", &[1 << 40, 1 << 40], 1, 1 << 30), "too large"),
        (llama().tensor_at("x", &[1 << 62], 1, 1 << 30), "too large"),
        (llama().tensor_at("x", &[32], 1, 1 << 63), "beyond the largest possible file"),
        (llama().tensor_at("x", &[1, 1, 1, 1, 1], 1, 1 << 30), "the limit is 4"),
        (llama().text("llama.expert_count", "many"), "must be an integer"),
        (llama().number("general.alignment", 3), "a power of two"),
        (Sample::with_numbers("llama", &[("block_count", 1_000_000)]), "must be from 1 to 4096"),
        (Sample::with_numbers("llama", &[("block_count", 0)]), "must be from 1 to 4096"),
        (Sample::default(), "general.architecture is missing"),
    ] {
        let error = rejection(&sample);
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn other_formats_and_versions_are_named() {
    for (version, message) in [
        (1_u32, "version 1"),
        (4, "version 4"),
        (0, "version 0"),
        (3_u32.swap_bytes(), "big-endian"),
    ] {
        let mut bytes = llama().bytes();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        let error = header::read(Cursor::new(bytes)).expect_err("is rejected").to_string();
        assert!(error.contains(message), "{error}");
    }
    let error =
        header::read(Cursor::new(b"PK\x03\x04 and more")).expect_err("is rejected").to_string();
    assert!(error.contains("not a GGUF file"), "{error}");
}

#[test]
fn excessive_counts_are_rejected_before_any_allocation() {
    for at in [8, 16] {
        let mut bytes = llama().bytes();
        bytes[at..at + 8].copy_from_slice(&(1_u64 << 63).to_le_bytes());
        let error = header::read(Cursor::new(bytes)).expect_err("is rejected");
        assert!(matches!(error, GgufError::LimitExceeded { .. }), "{error}");
    }
}

#[test]
fn a_header_cut_at_any_byte_is_rejected_as_truncated() {
    let whole = llama().bytes();
    for end in 0..whole.len() {
        let error = header::read(Cursor::new(&whole[..end])).expect_err("is rejected");
        assert!(matches!(error, GgufError::Truncated { .. }), "{end}: {error}");
    }
}

proptest! {
    #[test]
    fn a_corrupted_header_is_read_or_rejected_without_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = llama().bytes();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Ok(header) = header::read(Cursor::new(bytes)) {
            let _ = shape::from_headers(&[header]);
        }
    }

    #[test]
    fn random_bytes_are_read_or_rejected_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let bytes = [b"GGUF\x03\0\0\0".to_vec(), bytes].concat();
        let _ = header::read(Cursor::new(bytes));
    }

    /// Numbers that no model has: each key that decides a size is absent, small or enormous.
    #[test]
    fn a_hostile_header_of_any_architecture_is_estimated_or_rejected_without_panic(
        architecture in prop::sample::select(architectures::names()),
        numbers in prop::collection::vec(prop::option::of((any::<u32>(), 0_u32..32)), NUMBERS.len()),
        layers in 1_u32..100,
        marks in prop::collection::vec(any::<u8>(), 100),
        (gpus, context, parallel) in (1_u64..=8, 1_u64..1 << 40, 1_u64..1 << 16),
    ) {
        let given = NUMBERS.iter().zip(numbers);
        let given = given.filter_map(|(key, number)| Some((*key, number?)));
        let given = given.map(|(key, (number, shift))| (key, number >> shift));
        let numbers: Vec<(&str, u32)> = [("block_count", layers)].into_iter().chain(given).collect();
        let marks: Vec<u32> = marks.iter().map(|mark| u32::from(*mark)).collect();
        let sample = LISTS.iter().fold(Sample::with_numbers(architecture, &numbers), |sample, key| {
            sample.list(&format!("{architecture}.{key}"), &marks)
        });
        let Ok(shape) = sample.shape() else { return Ok(()) };
        for runtime in [RuntimeKind::LlamaCpp, RuntimeKind::Ollama] {
            for flash_attention in [true, false] {
                let settings = Settings { gpus, parallel, flash_attention, ..Settings::new(runtime, context) };
                if let Ok(estimate) = estimate(&shape, &settings) {
                    let parts = estimate.all.named().into_iter().filter_map(|(_, part)| part.bytes);
                    let largest = parts.max();
                    prop_assert!(estimate.all.total.is_none_or(|total| Some(total) >= largest));
                }
            }
        }
    }
}

/// Keys with a number that decides the size of a cache or of a buffer.
const NUMBERS: [&str; 33] = [
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.kv_lora_rank",
    "attention.kv_lora_rank_swa",
    "attention.sliding_window",
    "attention.shared_kv_layers",
    "attention.indexer.key_length",
    "attention.indexer.top_k",
    "attention.recurrent_layers",
    "full_attention_interval",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.group_count",
    "wkv.head_size",
    "token_shift_count",
    "shortconv.l_cache",
    "kda.head_dim",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "nextn_predict_layers",
    "n_deepstack_layers",
    "embedding_length_per_layer_input",
];

/// Keys with a list of one number per layer.
const LISTS: [&str; 3] =
    ["attention.sliding_window_pattern", "attention.compress_ratios", "attention.indexer.types"];
