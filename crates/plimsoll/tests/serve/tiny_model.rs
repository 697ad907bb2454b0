//! A GGUF model of half a million bytes that llama.cpp loads: two layers, and bytes as tokens.

use std::fs;
use std::path::Path;

const WIDTH: u64 = 128;
const LAYERS: u32 = 2;
const FEED_FORWARD: u64 = 256;
/// The tokens: unknown, begin, end, and one for each byte.
const TOKENS: usize = 3 + 256;

/// The trained context of the model.
pub(crate) const TRAINED_CONTEXT: u32 = 2048;

/// Writes the model.
pub(crate) fn write(path: &Path) {
    write_gguf(path, metadata(), &tensors());
}

/// Writes a LoRA adapter for the queries and the networks of the model.
pub(crate) fn write_adapter(path: &Path) {
    const RANK: u64 = 4;
    let metadata = vec![
        string("general.architecture", "llama"),
        string("general.name", "tiny adapter"),
        string("general.type", "adapter"),
        string("adapter.type", "lora"),
        entry("adapter.lora.alpha", 6, &8_f32.to_le_bytes()),
    ];
    let mut tensors = Vec::new();
    for layer in 0..LAYERS {
        for (part, inputs, outputs) in [("attn_q", WIDTH, WIDTH), ("ffn_up", WIDTH, FEED_FORWARD)] {
            tensors.push((format!("blk.{layer}.{part}.weight.lora_a"), vec![inputs, RANK]));
            tensors.push((format!("blk.{layer}.{part}.weight.lora_b"), vec![RANK, outputs]));
        }
    }
    write_gguf(path, metadata, &tensors);
}

fn write_gguf(path: &Path, metadata: Vec<Vec<u8>>, tensors: &[(String, Vec<u64>)]) {
    let mut bytes = [&b"GGUF"[..], &3_u32.to_le_bytes()].concat();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((metadata.len() as u64).to_le_bytes());
    metadata.into_iter().for_each(|entry| bytes.extend(entry));
    let mut offset = 0_u64;
    for (name, shape) in tensors {
        bytes.extend(text(name));
        bytes.extend(u32::try_from(shape.len()).expect("few").to_le_bytes());
        shape.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        offset += (shape.iter().product::<u64>() * 4).next_multiple_of(32);
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    for (name, shape) in tensors {
        bytes.extend(weights(name, shape.iter().product()));
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    fs::write(path, bytes).expect("the model is written");
}

fn tensors() -> Vec<(String, Vec<u64>)> {
    let tokens = TOKENS as u64;
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), vec![WIDTH, tokens]),
        ("output_norm.weight".to_owned(), vec![WIDTH]),
        ("output.weight".to_owned(), vec![WIDTH, tokens]),
    ];
    for layer in 0..LAYERS {
        for (part, shape) in [
            ("attn_norm", vec![WIDTH]),
            ("attn_q", vec![WIDTH, WIDTH]),
            ("attn_k", vec![WIDTH, WIDTH]),
            ("attn_v", vec![WIDTH, WIDTH]),
            ("attn_output", vec![WIDTH, WIDTH]),
            ("ffn_norm", vec![WIDTH]),
            ("ffn_gate", vec![WIDTH, FEED_FORWARD]),
            ("ffn_up", vec![WIDTH, FEED_FORWARD]),
            ("ffn_down", vec![FEED_FORWARD, WIDTH]),
        ] {
            tensors.push((format!("blk.{layer}.{part}.weight"), shape));
        }
    }
    tensors
}

/// Returns small weights that differ, so that the model prefers some tokens to others.
fn weights(name: &str, count: u64) -> Vec<u8> {
    let mut state = name.bytes().fold(1_u32, |state, byte| state * 31 % 65_521 + u32::from(byte));
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let part = u16::try_from(state >> 16).expect("16 bits");
        match name.contains("norm") {
            true => 1.0,
            false => f32::from(part) / 65_536.0 * 0.2 - 0.1,
        }
    };
    (0..count).flat_map(|_| next().to_le_bytes()).collect()
}

fn metadata() -> Vec<Vec<u8>> {
    let bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
    let special = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let tokens: Vec<String> = special.into_iter().chain(bytes).collect();
    // 2 is an unknown token, 3 a control token, 6 a byte.
    let kinds = [2_i32, 3, 3].into_iter().chain([6; 256]);
    let width = u32::try_from(WIDTH).expect("small");
    vec![
        string("general.architecture", "llama"),
        string("general.name", "tiny"),
        number("llama.context_length", TRAINED_CONTEXT),
        number("llama.embedding_length", width),
        number("llama.block_count", LAYERS),
        number("llama.feed_forward_length", u32::try_from(FEED_FORWARD).expect("small")),
        number("llama.attention.head_count", 4),
        number("llama.attention.head_count_kv", 4),
        number("llama.rope.dimension_count", width / 4),
        number("llama.vocab_size", u32::try_from(TOKENS).expect("few")),
        entry("llama.attention.layer_norm_rms_epsilon", 6, &1e-5_f32.to_le_bytes()),
        string("tokenizer.ggml.model", "llama"),
        list("tokenizer.ggml.tokens", 8, tokens.iter().map(|token| text(token))),
        list("tokenizer.ggml.scores", 6, (0..TOKENS).map(|_| 0_f32.to_le_bytes().to_vec())),
        list("tokenizer.ggml.token_type", 5, kinds.map(|kind| kind.to_le_bytes().to_vec())),
        number("tokenizer.ggml.unknown_token_id", 0),
        number("tokenizer.ggml.bos_token_id", 1),
        number("tokenizer.ggml.eos_token_id", 2),
    ]
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key)[..], &kind.to_le_bytes(), value].concat()
}

fn string(key: &str, value: &str) -> Vec<u8> {
    entry(key, 8, &text(value))
}

fn number(key: &str, value: u32) -> Vec<u8> {
    entry(key, 4, &value.to_le_bytes())
}

fn list(key: &str, kind: u32, items: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let items: Vec<Vec<u8>> = items.collect();
    let head = [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes()].concat();
    entry(key, 9, &[head, items.concat()].concat())
}
