//! The KV cache of each layer in bytes, as each runtime lays it out.
//!
//! A layer needs bytes per token times tokens, and its kind decides both:
//!
//! - Grouped attention stores `kv_heads` keys and values per token, in the types of the settings.
//!   With a sliding window, only the tokens of the window and of the batch in progress are kept.
//! - Latent attention (MLA) stores one compressed vector and the rotated part of the key. Values
//!   are computed from the vector, so there are none to store.
//! - A recurrent state does not depend on the number of tokens; there is one per request.
//!
//! Runtimes round the tokens up: llama.cpp to cells of 256 per cache, vLLM to blocks of 16 per
//! request. The result is exact: `docs/estimates-judged.md` compares it with llama.cpp's own.

use plimsoll_core::units::Bytes;

use super::error::{CacheHalf, EstimateError};
use crate::settings::{KvType, RuntimeKind, Settings};
use crate::shape::Cache;

/// llama.cpp rounds the tokens of a cache up to a multiple of this: `GGML_PAD(n_ctx, 256)` in
/// `llama-context.cpp`.
const CELL_MULTIPLE: u64 = 256;

/// The tokens in one block of vLLM's paged cache: the default of `--block-size`.
const BLOCK_TOKENS: u64 = 16;

const OVERFLOW: EstimateError = EstimateError::Overflow { what: "the KV cache" };

/// Returns the cache of each layer on a GPU that holds the whole layer; for vLLM, one GPU's share
/// of it.
pub(super) fn per_layer(
    layers: &[Cache],
    settings: &Settings,
) -> Result<Vec<Bytes>, EstimateError> {
    let widest = layers.iter().filter_map(value_elements).max().unwrap_or(0);
    layers.iter().map(|cache| layer_bytes(cache, settings, widest)).collect()
}

fn layer_bytes(cache: &Cache, settings: &Settings, widest: u64) -> Result<Bytes, EstimateError> {
    match *cache {
        Cache::None | Cache::Shared { .. } => Ok(Bytes::ZERO),
        Cache::Recurrent { bytes } => product(bytes, settings.parallel),
        Cache::Latent { kv_lora_rank, rope_length, indexer_length, window } => {
            let length = kv_lora_rank.checked_add(rope_length).ok_or(OVERFLOW)?;
            let vector = row_bytes(CacheHalf::Key, length, 1, settings)?;
            let indexer = indexer_bytes(indexer_length, settings)?;
            product(vector.checked_add(indexer).ok_or(OVERFLOW)?, tokens(window, settings)?)
        }
        Cache::Compressed { key_length, window, ratio, indexer_length, state } => {
            let key = compressed_key(key_length, settings)?;
            let recent = product(key, tokens(Some(window), settings)?)?;
            let indexer = match settings.runtime {
                RuntimeKind::Vllm => scaled_bytes(indexer_length)?,
                RuntimeKind::LlamaCpp | RuntimeKind::Ollama => {
                    indexer_bytes(indexer_length, settings)?
                }
            };
            let compressed = key.checked_add(indexer).ok_or(OVERFLOW)?;
            let compressed = product(compressed, compressed_tokens(ratio, settings)?)?;
            let rows = ratio * if indexer_length > 0 { 2 } else { 1 };
            let states = compression_states(state, rows, settings)?;
            recent.checked_add(compressed).and_then(|sum| sum.checked_add(states)).ok_or(OVERFLOW)
        }
        Cache::Grouped { kv_heads, key_length, value_length, window } => {
            let row = grouped_row([kv_heads, key_length, value_length], settings, widest)?;
            product(row, tokens(window, settings)?)
        }
        Cache::GroupedWithIndexer { kv_heads, key_length, value_length, indexer_length } => {
            let row = grouped_row([kv_heads, key_length, value_length], settings, widest)?;
            let indexer = indexer_row([indexer_length, value_length], settings)?;
            product(row.checked_add(indexer).ok_or(OVERFLOW)?, tokens(None, settings)?)
        }
        Cache::GroupedWithState { kv_heads, key_length, value_length, state } => {
            let row = grouped_row([kv_heads, key_length, value_length], settings, widest)?;
            let states = product(state.get(), settings.parallel)?;
            let sum = product(row, tokens(None, settings)?)?.checked_add(states);
            sum.ok_or(OVERFLOW)
        }
    }
}

/// Returns the bytes of one token's keys and values: KV heads, key length and value length.
fn grouped_row(
    [kv_heads, key_length, value_length]: [u64; 3],
    settings: &Settings,
    widest: u64,
) -> Result<u64, EstimateError> {
    let heads = heads_per_gpu(kv_heads, settings);
    let keys = row_bytes(CacheHalf::Key, key_length, heads, settings)?;
    let values = row_bytes(CacheHalf::Value, value_length, heads, settings)?;
    let values = match stores_values_transposed(settings) {
        true => padded_value_bytes(settings, widest)?,
        false => values,
    };
    keys.checked_add(values).ok_or(OVERFLOW)
}

/// Returns the bytes of a token's key in a layer with compressed keys. vLLM's 8-bit format keeps
/// the 64 elements with the position in 16 bits, and 8 scales: 584 bytes for 512 elements.
fn compressed_key(length: u64, settings: &Settings) -> Result<u64, EstimateError> {
    let bytes = row_bytes(CacheHalf::Key, length, 1, settings)?;
    let is_packed = settings.runtime == RuntimeKind::Vllm && settings.kv.k == KvType::Fp8;
    bytes.checked_add(if is_packed { 72 } else { 0 }).ok_or(OVERFLOW)
}

/// Returns the states of the compression for all requests. llama.cpp keeps the rows of one key for
/// each request. vLLM pages them like the keys of a window, so it also keeps those of a batch.
fn compression_states(
    state: Bytes,
    rows: u64,
    settings: &Settings,
) -> Result<Bytes, EstimateError> {
    match settings.runtime {
        RuntimeKind::Vllm if rows > 0 => {
            product(state.get().div_ceil(rows), tokens(Some(rows), settings)?)
        }
        _ => product(state.get(), settings.parallel),
    }
}

/// Returns the compressed keys that a layer has room for, over all requests.
fn compressed_tokens(ratio: u64, settings: &Settings) -> Result<u64, EstimateError> {
    if ratio == 0 {
        return Ok(0);
    }
    let cells = round_up(cells(None, settings)?.div_ceil(ratio))?;
    cells.checked_mul(settings.parallel).ok_or(OVERFLOW)
}

/// Returns the bytes of one token in the indexer of sparse attention. vLLM keeps one byte per
/// element and a 32-bit scale for 128 elements; with fp8 it also keeps 80 bytes more for the
/// vector of the token (656 instead of 576 in DeepSeek V3.2).
fn indexer_bytes(length: u64, settings: &Settings) -> Result<u64, EstimateError> {
    if length == 0 {
        return Ok(0);
    }
    if settings.runtime != RuntimeKind::Vllm {
        return row_bytes(CacheHalf::Key, length, 1, settings);
    }
    let fp8_vector = if settings.kv.k == KvType::Fp8 { 80 } else { 0 };
    scaled_bytes(length)?.checked_add(fp8_vector).ok_or(OVERFLOW)
}

/// Returns the bytes of elements with one byte each, and a 32-bit scale for 128 of them.
fn scaled_bytes(length: u64) -> Result<u64, EstimateError> {
    let scales = length.div_ceil(128).checked_mul(4).ok_or(OVERFLOW)?;
    length.checked_add(scales).ok_or(OVERFLOW)
}

/// Returns the bytes of one token in the indexer beside grouped attention. vLLM keeps a key.
/// llama.cpp gives it a cache with one head of its own, and so values, which nothing reads.
fn indexer_row(
    [indexer_length, value_length]: [u64; 2],
    settings: &Settings,
) -> Result<u64, EstimateError> {
    match settings.runtime {
        RuntimeKind::Vllm => row_bytes(CacheHalf::Key, indexer_length, 1, settings),
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => {
            let key = row_bytes(CacheHalf::Key, indexer_length, 1, settings)?;
            let values = row_bytes(CacheHalf::Value, value_length, 1, settings)?;
            key.checked_add(values).ok_or(OVERFLOW)
        }
    }
}

fn product(bytes: u64, count: u64) -> Result<Bytes, EstimateError> {
    bytes.checked_mul(count).map(Bytes::new).ok_or(OVERFLOW)
}

/// Returns the tokens that a layer has room for, over all requests.
fn tokens(window: Option<u64>, settings: &Settings) -> Result<u64, EstimateError> {
    if settings.runtime == RuntimeKind::Vllm {
        return paged_tokens(window, settings);
    }
    let caches = if settings.unified { 1 } else { settings.parallel };
    cells(window, settings)?.checked_mul(caches).ok_or(OVERFLOW)
}

/// Returns the tokens that one of llama.cpp's caches has room for: the cache of one request, or
/// the unified one.
///
/// A layer with a window needs the window of each sequence, and room for one `ubatch` that is
/// written before old tokens are dropped.
pub(super) fn cells(window: Option<u64>, settings: &Settings) -> Result<u64, EstimateError> {
    let sequences = if settings.unified { settings.parallel } else { 1 };
    let full = round_up(settings.context.checked_mul(sequences).ok_or(OVERFLOW)?)?;
    let Some(window) = window else { return Ok(full) };
    let windowed = window.saturating_mul(sequences).saturating_add(ubatch(settings));
    round_up(full.min(windowed))
}

/// Returns the tokens in one pass of llama.cpp: no more than one batch, and no more than there is
/// context.
pub(super) fn ubatch(settings: &Settings) -> u64 {
    settings.ubatch.min(settings.batch).min(settings.context.saturating_mul(settings.parallel))
}

/// Returns the tokens in one pass. llama.cpp rounds up to the same number for each request, which
/// adds at most one token per further request.
pub(super) fn tokens_per_pass(settings: &Settings) -> u128 {
    u128::from(ubatch(settings)) + u128::from(settings.parallel.saturating_sub(1))
}

fn round_up(tokens: u64) -> Result<u64, EstimateError> {
    tokens.checked_next_multiple_of(CELL_MULTIPLE).ok_or(OVERFLOW)
}

/// Returns the tokens of vLLM's blocks. A layer with a window needs the blocks that the window and
/// one batch can touch, and one more because the window may start inside a block.
fn paged_tokens(window: Option<u64>, settings: &Settings) -> Result<u64, EstimateError> {
    let full = settings.context.div_ceil(BLOCK_TOKENS);
    let blocks = match window {
        None => full,
        Some(window) => {
            let visible = window.saturating_sub(1).saturating_add(settings.batch);
            let visible = visible.min(settings.context);
            visible.div_ceil(BLOCK_TOKENS).saturating_add(1).min(full)
        }
    };
    let tokens = blocks.checked_mul(BLOCK_TOKENS).ok_or(OVERFLOW)?;
    tokens.checked_mul(settings.parallel).ok_or(OVERFLOW)
}

/// Returns the KV heads on one GPU. vLLM divides them, and copies heads if there are more GPUs
/// than heads, so each GPU has at least one. The others assign whole layers.
fn heads_per_gpu(kv_heads: u64, settings: &Settings) -> u64 {
    match settings.runtime {
        RuntimeKind::Vllm => kv_heads.div_ceil(settings.gpus.max(1)),
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => kv_heads,
    }
}

/// Returns the bytes of one token's keys or values.
fn row_bytes(
    half: CacheHalf,
    length: u64,
    heads: u64,
    settings: &Settings,
) -> Result<u64, EstimateError> {
    let kv = match half {
        CacheHalf::Key => settings.kv.k,
        CacheHalf::Value => settings.kv.v,
    };
    check_type(kv, half, settings)?;
    let (block, bytes) = kv.block();
    if !length.is_multiple_of(block) {
        return Err(EstimateError::KvBlocks { kv, block, half, length });
    }
    let head = (length / block).checked_mul(bytes).ok_or(OVERFLOW)?;
    head.checked_mul(heads).ok_or(OVERFLOW)
}

fn check_type(kv: KvType, half: CacheHalf, settings: &Settings) -> Result<(), EstimateError> {
    if !kv.is_known_to(settings.runtime) {
        return Err(EstimateError::KvType { runtime: settings.runtime, kv });
    }
    if half == CacheHalf::Value && kv.is_quantised() && !settings.flash_attention {
        return Err(EstimateError::NeedsFlashAttention { kv });
    }
    Ok(())
}

/// Without flash attention, llama.cpp stores values transposed. It then sizes the values of every
/// layer for the widest layer (`n_embd_v_gqa_max`).
fn stores_values_transposed(settings: &Settings) -> bool {
    settings.runtime != RuntimeKind::Vllm && !settings.flash_attention
}

fn padded_value_bytes(settings: &Settings, widest: u64) -> Result<u64, EstimateError> {
    let (block, bytes) = settings.kv.v.block();
    (widest / block).checked_mul(bytes).ok_or(OVERFLOW)
}

fn value_elements(cache: &Cache) -> Option<u64> {
    match cache {
        Cache::Grouped { kv_heads, value_length, .. }
        | Cache::GroupedWithState { kv_heads, value_length, .. }
        | Cache::GroupedWithIndexer { kv_heads, value_length, .. } => {
            kv_heads.checked_mul(*value_length)
        }
        Cache::Latent { .. }
        | Cache::Compressed { .. }
        | Cache::Recurrent { .. }
        | Cache::Shared { .. }
        | Cache::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::KvTypes;

    fn grouped(layers: usize, kv_heads: u64, length: u64) -> Vec<Cache> {
        let window = None;
        vec![Cache::Grouped { kv_heads, key_length: length, value_length: length, window }; layers]
    }

    fn settings(context: u64, kv: KvType) -> Settings {
        Settings { kv: KvTypes::both(kv), ..Settings::new(RuntimeKind::LlamaCpp, context) }
    }

    fn total(layers: &[Cache], settings: &Settings) -> Bytes {
        let each = per_layer(layers, settings).expect("the cache is valid");
        each.into_iter().fold(Bytes::ZERO, Bytes::plus)
    }

    /// The sizes are from logs of llama.cpp: ollama#6160, ik_llama.cpp#370, LLamaSharp#1099.
    #[test]
    fn published_cache_sizes_are_matched_exactly() {
        for (layers, kv_heads, length, context, kv, mib) in [
            (56, 8, 128, 49_152, KvType::Q8_0, 5712),
            (94, 4, 128, 16_384, KvType::Q8_0, 1598),
            (36, 2, 128, 4096, KvType::F16, 144),
        ] {
            let cache = total(&grouped(layers, kv_heads, length), &settings(context, kv));
            assert_eq!(cache, Bytes::mib(mib), "{layers} layers");
        }
    }

    #[test]
    fn the_context_is_rounded_up_per_cache() {
        let layers = grouped(1, 1, 128);
        let alone = settings(1000, KvType::F16);
        assert_eq!(total(&layers, &alone), Bytes::new(1024 * 512));
        let three = Settings { parallel: 3, ..alone.clone() };
        assert_eq!(total(&layers, &three), Bytes::new(3 * 1024 * 512));
        let shared = Settings { unified: true, ..three };
        assert_eq!(total(&layers, &shared), Bytes::new(3072 * 512));
    }

    #[test]
    fn a_windowed_layer_holds_the_window_and_one_ubatch() {
        let window = Some(1024);
        let layers = [Cache::Grouped { kv_heads: 1, key_length: 128, value_length: 128, window }];
        let long = settings(32_768, KvType::F16);
        assert_eq!(total(&layers, &long), Bytes::new((1024 + 512) * 512));
        assert_eq!(total(&layers, &settings(512, KvType::F16)), Bytes::new(512 * 512));
        let four = Settings { parallel: 4, unified: true, ..long.clone() };
        assert_eq!(total(&layers, &four), Bytes::new((4 * 1024 + 512) * 512));
        let apart = Settings { unified: false, ..four };
        assert_eq!(total(&layers, &apart), Bytes::new(4 * (1024 + 512) * 512));
    }

    #[test]
    fn a_latent_cache_stores_no_values() {
        let layers =
            [Cache::Latent { kv_lora_rank: 512, rope_length: 64, indexer_length: 0, window: None };
                61];
        assert_eq!(total(&layers, &settings(4096, KvType::F16)), Bytes::new(61 * 4096 * 576 * 2));
    }

    #[test]
    fn a_recurrent_state_grows_with_requests_only() {
        let layers = [Cache::Recurrent { bytes: 1000 }];
        for context in [256, 65_536] {
            let four = Settings { parallel: 4, ..settings(context, KvType::F16) };
            assert_eq!(total(&layers, &four), Bytes::new(4000));
        }
    }

    #[test]
    fn unsupported_cache_types_are_rejected() {
        let odd = grouped(1, 8, 80);
        let error = |settings: &Settings| per_layer(&odd, settings).expect_err("is rejected");
        let (kv, block, half) = (KvType::Q8_0, 32, CacheHalf::Key);
        let expected = EstimateError::KvBlocks { kv, block, half, length: 80 };
        assert_eq!(error(&settings(4096, kv)), expected);
        let runtime = RuntimeKind::LlamaCpp;
        assert_eq!(
            error(&settings(4096, KvType::Fp8)),
            EstimateError::KvType { runtime, kv: KvType::Fp8 }
        );
        let slow = Settings { flash_attention: false, ..settings(4096, kv) };
        let even = per_layer(&grouped(1, 8, 128), &slow);
        assert_eq!(even, Err(EstimateError::NeedsFlashAttention { kv }));
    }

    #[test]
    fn without_flash_attention_all_layers_store_values_of_the_widest() {
        let mut layers = grouped(2, 8, 128);
        layers[1] = grouped(1, 2, 128)[0];
        let fast = settings(256, KvType::F16);
        let slow = Settings { flash_attention: false, ..fast.clone() };
        assert_eq!(total(&layers, &fast), Bytes::new(256 * 2 * 128 * (8 + 8 + 2 + 2)));
        assert_eq!(total(&layers, &slow), Bytes::new(256 * 2 * 128 * (8 + 8 + 2 + 8)));
        layers[1] = grouped(1, 0, 128)[0];
        assert_eq!(total(&layers, &fast), Bytes::new(256 * 2 * 128 * (8 + 8)));
        assert_eq!(total(&layers, &slow), Bytes::new(256 * 2 * 128 * (8 + 8 + 8)));
    }

    #[test]
    fn vllm_allocates_whole_blocks_and_divides_heads() {
        let vllm = Settings { gpus: 4, parallel: 2, ..Settings::new(RuntimeKind::Vllm, 1000) };
        assert_eq!(total(&grouped(1, 8, 128), &vllm), Bytes::new(2 * 1008 * 2 * 2 * 128 * 2));
        assert_eq!(total(&grouped(1, 2, 128), &vllm), Bytes::new(2 * 1008 * 2 * 128 * 2));
    }
}
