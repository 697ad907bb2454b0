//! What is read from GGUF headers, and what is refused.

use std::io::Cursor;

use plimsoll_core::units::Bytes;
use proptest::prelude::*;

use super::sample::{Sample, llama};
use super::{GgufError, header, tensor};
use crate::shape::Cache;
use crate::source::Source;

fn grouped(kv_heads: u64, length: u64, window: Option<u64>) -> Cache {
    Cache::Grouped { kv_heads, key_length: length, value_length: length, window }
}

fn layers(sample: &Sample) -> Vec<Cache> {
    let shape = sample.shape().expect("a model");
    shape.layers.get().expect("known layers").clone()
}

const ATTENTION: [(&str, u32); 5] = [
    ("embedding_length", 256),
    ("attention.head_count", 8),
    ("attention.head_count_kv", 2),
    ("attention.key_length", 64),
    ("attention.value_length", 64),
];

fn attentive(architecture: &str, count: u32) -> Sample {
    let sample = Sample::of(architecture, &ATTENTION);
    sample.number(&format!("{architecture}.block_count"), count)
}

#[test]
fn weights_are_sums_of_exact_tensor_sizes() {
    let shape = llama().shape().expect("a model");
    let weights = shape.weights.get().expect("weights");
    let (matrix, table) = (Bytes::new(256 * 512 * 2), Bytes::new(256 * 1000 * 2));
    assert_eq!(weights.layers, [matrix, matrix]);
    assert_eq!((weights.embedding, weights.output), (table, table.plus(Bytes::new(512))));
    assert_eq!((weights.tied, weights.vectors), (None, Bytes::new(512)));
    assert_eq!(shape.vocabulary.get(), Some(&1000));
    assert_eq!(layers(&llama()), [grouped(2, 64, None); 2]);
}

#[test]
fn a_model_without_an_output_matrix_uses_its_embeddings() {
    let sample = attentive("llama", 1).tensor("token_embd.weight", &[256, 100]);
    let shape = sample.shape().expect("a model");
    assert_eq!(
        shape.weights.get().and_then(|weights| weights.tied),
        Some(Bytes::new(256 * 100 * 2))
    );
}

#[test]
fn a_header_alone_is_enough_and_says_so() {
    let header = llama().header().expect("a header");
    assert_eq!(header.absent().get(), header.data_start + header.data_length - header.file_length);
    assert!(llama().shape().expect("a model").remarks[0].contains("not in the file"));
    let mut whole = llama().bytes();
    whole.resize(usize::try_from(header.data_start + header.data_length).expect("small"), 0);
    assert!(header::read(Cursor::new(whole)).expect("a header").absent().is_zero());
}

#[test]
fn an_absent_length_is_computed_as_the_runtime_does_and_says_so() {
    let sample = Sample::of(
        "llama",
        &[("block_count", 1), ("embedding_length", 256), ("attention.head_count", 8)],
    );
    let shape = sample.shape().expect("a model");
    assert_eq!(shape.layers.get(), Some(&vec![grouped(8, 32, None)]));
    assert!(
        matches!(shape.layers.source(), Source::Computed { from } if from.contains("key_length"))
    );
    let without = Sample::of("llama", &[("block_count", 1)]).shape().expect("a model");
    assert_eq!(
        without.layers.source(),
        &Source::Unknown { missing: "llama.attention.head_count".to_string() }
    );
}

#[test]
fn an_architecture_that_nobody_looked_up_is_unknown_and_never_guessed() {
    let shape = attentive("newarch", 2).shape().expect("a model");
    assert!(
        matches!(shape.layers.source(), Source::Unknown { missing } if missing.contains("newarch"))
    );
}

#[test]
fn heads_may_differ_from_layer_to_layer() {
    let sample = Sample::of("deci", &ATTENTION[..2]).number("deci.block_count", 3);
    let sample = sample.list("deci.attention.head_count_kv", &[8, 0, 2]);
    let sample =
        sample.number("deci.attention.key_length", 32).number("deci.attention.value_length", 32);
    assert_eq!(layers(&sample), [grouped(8, 32, None), Cache::None, grouped(2, 32, None)]);
}

#[test]
fn windows_follow_the_architecture() {
    let window = |architecture: &str, count| {
        let sample = attentive(architecture, count);
        let sample = sample.number(&format!("{architecture}.attention.sliding_window"), 128);
        let width = |cache: &Cache| match cache {
            Cache::Grouped { window, .. } => window.is_some(),
            _ => false,
        };
        layers(&sample).iter().map(width).map(u8::from).collect::<Vec<_>>()
    };
    assert_eq!(window("gemma2", 4), [1, 0, 1, 0]);
    assert_eq!(window("gpt-oss", 4), [1, 0, 1, 0]);
    assert_eq!(window("gemma3", 7), [1, 1, 1, 1, 1, 0, 1]);
    assert_eq!(window("cohere2", 5), [1, 1, 1, 0, 1]);
    assert_eq!(window("llama4", 5), [1, 1, 1, 0, 1]);
    assert_eq!(window("smallthinker", 5), [0, 1, 1, 1, 0]);
    assert_eq!(window("phi3", 2), [0, 0]);
    assert_eq!(layers(&attentive("gemma3", 2)), [grouped(2, 64, None); 2]);
    let missing = attentive("gpt-oss", 2).shape().expect("a model");
    assert!(
        matches!(missing.layers.source(), Source::Unknown { missing } if missing.ends_with("sliding_window"))
    );
}

#[test]
fn a_compressed_cache_is_taken_where_the_file_has_its_lengths() {
    let old = attentive("deepseek2", 1);
    assert_eq!(layers(&old), [grouped(2, 64, None)]);
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
    let new = Sample::of("deepseek2", &numbers);
    assert_eq!(layers(&new), [Cache::Latent { kv_lora_rank: 512, rope_length: 64 }; 2]);
}

#[test]
fn states_have_the_size_that_the_runtime_gives_them() {
    let ssm = [
        ("ssm.conv_kernel", 4),
        ("ssm.inner_size", 32),
        ("ssm.state_size", 8),
        ("ssm.group_count", 2),
    ];
    let state = |numbers: u64| Cache::Recurrent { bytes: 4 * numbers };
    let mamba = Sample::of("mamba2", &ssm).number("mamba2.block_count", 1);
    assert_eq!(layers(&mamba), [state(3 * (32 + 2 * 2 * 8) + 8 * 32)]);

    let hybrid = Sample::of("nemotron_h", &ssm).number("nemotron_h.block_count", 3);
    let hybrid = hybrid.list("nemotron_h.attention.head_count_kv", &[0, 0, 2]);
    let hybrid = hybrid.list("nemotron_h.feed_forward_length", &[0, 512, 0]);
    let hybrid = hybrid.number("nemotron_h.attention.key_length", 64);
    let hybrid = hybrid.number("nemotron_h.attention.value_length", 64);
    assert_eq!(layers(&hybrid), [state(3 * 64 + 256), Cache::None, grouped(2, 64, None)]);

    let next = Sample::of("qwen3next", &ssm).number("qwen3next.block_count", 4);
    let next =
        ATTENTION.iter().fold(next, |next, (key, n)| next.number(&format!("qwen3next.{key}"), *n));
    let kept = layers(&next);
    assert_eq!(kept[..3], [state(3 * 64 + 256); 3]);
    assert_eq!(kept[3], grouped(2, 64, None));
}

#[test]
fn layers_that_predict_further_tokens_keep_nothing() {
    let sample = attentive("glm4moe", 3).number("glm4moe.nextn_predict_layers", 1);
    assert_eq!(layers(&sample)[2], Cache::None);
}

#[test]
fn every_type_has_the_size_of_its_blocks() {
    for (kind, numbers, bytes) in
        [(2, 32, 18), (12, 256, 144), (14, 256, 210), (23, 256, 136), (39, 32, 17), (40, 64, 36)]
    {
        let sample = llama().tensor_at("x", &[numbers, 3], kind, 1 << 30);
        let header = sample.header().expect("a header");
        assert_eq!(
            header.tensors.last().map(|x| x.bytes),
            Some(Bytes::new(3 * bytes)),
            "type {kind}"
        );
    }
    let known = (0..64).filter(|kind| tensor::block(*kind).is_some()).count();
    assert_eq!(known, 35);
}

fn refused(sample: &Sample) -> String {
    sample.shape().expect_err("refused").to_string()
}

#[test]
fn a_hostile_header_is_refused_with_the_place_and_the_field() {
    let list = |kind: u32, length: u64| {
        [kind.to_le_bytes().to_vec(), length.to_le_bytes().to_vec()].concat()
    };
    let long = (1_u64 << 63).to_le_bytes();
    for (sample, part) in [
        (llama().raw("a", 8, &long), "the file ends at byte"),
        (llama().raw("a", 9, &list(8, 1 << 63)), "the length of a at byte"),
        (llama().raw("a", 9, &list(4, 1 << 20)), "the file ends at byte"),
        (llama().raw("a", 9, &list(9, 1)), "a at byte"),
        (llama().raw("a", 77, &[]), "has type 77"),
        (llama().raw("a", 8, &[1, 0, 0, 0, 0, 0, 0, 0, 255]), "a at byte"),
        (llama().number("llama.block_count", 2), "key llama.block_count stands there twice"),
        (llama().tensor("output.weight", &[1]), "tensor output.weight stands there twice"),
        (llama().tensor_at("x", &[32], 1, 0), "is inside tensor"),
        (llama().tensor_at("x", &[32], 1, 7), "is no multiple of 32"),
        (llama().tensor_at("x", &[32], 31, 1 << 30), "type 31"),
        (llama().tensor_at("x", &[33], 8, 1 << 30), "do not divide"),
        (llama().tensor_at("x", &[0], 1, 1 << 30), "no numbers"),
        (llama().tensor_at("x", &[1 << 40, 1 << 40], 1, 1 << 30), "too large"),
        (llama().tensor_at("x", &[1 << 62], 1, 1 << 30), "too large"),
        (llama().tensor_at("x", &[32], 1, 1 << 63), "too far"),
        (llama().tensor_at("x", &[1, 1, 1, 1, 1], 1, 1 << 30), "more than 4"),
        (llama().text("llama.expert_count", "many"), "not a whole number"),
        (llama().number("general.alignment", 3), "a power of two"),
        (Sample::of("llama", &[("block_count", 1_000_000)]), "is not from 1 to 4096"),
        (Sample::of("llama", &[("block_count", 0)]), "is not from 1 to 4096"),
        (Sample::default(), "general.architecture is missing"),
    ] {
        let error = refused(&sample);
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn other_files_and_other_versions_are_told_apart() {
    for (version, part) in [
        (1_u32, "version 1"),
        (4, "version 4"),
        (0, "version 0"),
        (3_u32.swap_bytes(), "big endian"),
    ] {
        let mut bytes = llama().bytes();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        let error = header::read(Cursor::new(bytes)).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = header::read(Cursor::new(b"PK\x03\x04 and more")).expect_err("refused").to_string();
    assert!(error.contains("no GGUF file"), "{error}");
}

#[test]
fn counts_that_no_model_has_are_refused_before_anything_is_kept() {
    for at in [8, 16] {
        let mut bytes = llama().bytes();
        bytes[at..at + 8].copy_from_slice(&(1_u64 << 63).to_le_bytes());
        let error = header::read(Cursor::new(bytes)).expect_err("refused");
        assert!(matches!(error, GgufError::TooMuch { .. }), "{error}");
    }
}

#[test]
fn a_file_that_ends_in_its_header_is_refused_wherever_it_ends() {
    let whole = llama().bytes();
    for end in 0..whole.len() {
        let error = header::read(Cursor::new(&whole[..end])).expect_err("refused");
        assert!(matches!(error, GgufError::Truncated { .. }), "{end}: {error}");
    }
}

proptest! {
    /// What is read back is either a model or a refusal, whatever was changed.
    #[test]
    fn a_changed_header_is_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = llama().bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(header) = header::read(Cursor::new(bytes)) {
            let _ = super::shape::of(&[header]);
        }
    }

    /// The same with anything behind the first bytes.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let bytes = [b"GGUF\x03\0\0\0".to_vec(), bytes].concat();
        let _ = header::read(Cursor::new(bytes));
    }
}
