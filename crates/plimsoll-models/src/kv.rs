//! What a layer keeps for the tokens of running requests, in bytes, as each runtime lays it out.

use plimsoll_core::units::Bytes;

use crate::estimate::EstimateError;
use crate::settings::{KvType, RuntimeKind, Settings};
use crate::shape::Cache;

/// llama.cpp rounds the tokens of a cache up to a multiple of this.
pub const CELLS: u64 = 256;

/// vLLM hands out its cache in blocks of so many tokens.
pub const BLOCK: u64 = 16;

/// What each layer keeps on one GPU that holds all of the layer, or its share of the heads under vLLM.
pub fn per_layer(layers: &[Cache], settings: &Settings) -> Result<Vec<Bytes>, EstimateError> {
    let widest = layers.iter().filter_map(values_of).max().unwrap_or(0);
    layers.iter().map(|cache| layer(cache, settings, widest)).collect()
}

fn layer(cache: &Cache, settings: &Settings, widest: u64) -> Result<Bytes, EstimateError> {
    match *cache {
        Cache::None => Ok(Bytes::ZERO),
        Cache::Recurrent { bytes } => times(bytes, settings.parallel),
        Cache::Latent { kv_lora_rank, rope_length } => {
            let key = kv_lora_rank.checked_add(rope_length).ok_or(OVERFLOW)?;
            times(row(settings.kv.k, "key", key, 1, settings)?, tokens(None, settings)?)
        }
        Cache::Grouped { kv_heads, key_length, value_length, window } => {
            let heads = local_heads(kv_heads, settings);
            let keys = row(settings.kv.k, "key", key_length, heads, settings)?;
            let values = row(settings.kv.v, "value", value_length, heads, settings)?;
            let values =
                if is_transposed(settings) { padded_values(settings, widest)? } else { values };
            times(keys.checked_add(values).ok_or(OVERFLOW)?, tokens(window, settings)?)
        }
    }
}

const OVERFLOW: EstimateError = EstimateError::Overflow { what: "the KV cache" };

fn times(one: u64, other: u64) -> Result<Bytes, EstimateError> {
    one.checked_mul(other).map(Bytes::new).ok_or(OVERFLOW)
}

/// How many tokens a layer has room for, over all requests.
fn tokens(window: Option<u64>, settings: &Settings) -> Result<u64, EstimateError> {
    if settings.runtime == RuntimeKind::Vllm {
        return paged(window, settings);
    }
    let caches = if settings.unified { 1 } else { settings.parallel };
    cells(window, settings)?.checked_mul(caches).ok_or(OVERFLOW)
}

/// How many tokens one of llama.cpp's caches has room for: that of one request, or the one that all share.
pub(crate) fn cells(window: Option<u64>, settings: &Settings) -> Result<u64, EstimateError> {
    let sequences = if settings.unified { settings.parallel } else { 1 };
    let cells = pad(settings.context.checked_mul(sequences).ok_or(OVERFLOW)?)?;
    let Some(window) = window else { return Ok(cells) };
    let seen = window.checked_mul(sequences).and_then(|seen| seen.checked_add(ubatch(settings)));
    pad(cells.min(seen.unwrap_or(u64::MAX)))
}

/// Tokens that are computed at once: never more than are taken in at once, nor than there is context.
pub fn ubatch(settings: &Settings) -> u64 {
    settings.ubatch.min(settings.batch).min(settings.context.saturating_mul(settings.parallel))
}

fn pad(tokens: u64) -> Result<u64, EstimateError> {
    tokens.checked_next_multiple_of(CELLS).ok_or(OVERFLOW)
}

/// vLLM gives a request whole blocks; in a layer with a window as many as the window and one batch can touch.
fn paged(window: Option<u64>, settings: &Settings) -> Result<u64, EstimateError> {
    let full = settings.context.div_ceil(BLOCK);
    let blocks = match window {
        None => full,
        Some(window) => {
            let seen =
                window.saturating_sub(1).saturating_add(settings.batch).min(settings.context);
            seen.div_ceil(BLOCK).saturating_add(1).min(full)
        }
    };
    blocks
        .checked_mul(BLOCK)
        .and_then(|tokens| tokens.checked_mul(settings.parallel))
        .ok_or(OVERFLOW)
}

/// vLLM shares heads out over the GPUs; each GPU has at least one. The others share out whole layers.
fn local_heads(kv_heads: u64, settings: &Settings) -> u64 {
    match settings.runtime {
        RuntimeKind::Vllm => kv_heads.div_ceil(settings.gpus.max(1)),
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => kv_heads,
    }
}

/// The bytes of one token's keys or values.
fn row(
    kv: KvType,
    half: &'static str,
    length: u64,
    heads: u64,
    settings: &Settings,
) -> Result<u64, EstimateError> {
    if !kv.is_known_to(settings.runtime) {
        return Err(EstimateError::KvType { runtime: settings.runtime, kv });
    }
    if half == "value" && kv.is_quantised() && !settings.flash_attention {
        return Err(EstimateError::NeedsFlashAttention { kv });
    }
    let (block, bytes) = kv.block();
    if !length.is_multiple_of(block) {
        return Err(EstimateError::KvBlocks { kv, block, half, length });
    }
    (length / block).checked_mul(bytes).and_then(|head| head.checked_mul(heads)).ok_or(OVERFLOW)
}

/// Without flash attention llama.cpp stores values transposed, and gives every layer as many as the widest has.
fn is_transposed(settings: &Settings) -> bool {
    settings.runtime != RuntimeKind::Vllm && !settings.flash_attention
}

fn padded_values(settings: &Settings, widest: u64) -> Result<u64, EstimateError> {
    let (block, bytes) = settings.kv.v.block();
    (widest / block).checked_mul(bytes).ok_or(OVERFLOW)
}

fn values_of(cache: &Cache) -> Option<u64> {
    match cache {
        Cache::Grouped { kv_heads, value_length, .. } => kv_heads.checked_mul(*value_length),
        Cache::Latent { .. } | Cache::Recurrent { .. } | Cache::None => None,
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

    fn sum(layers: &[Cache], settings: &Settings) -> Bytes {
        let each = per_layer(layers, settings).expect("a possible cache");
        each.into_iter().fold(Bytes::ZERO, Bytes::plus)
    }

    /// Log lines of llama.cpp: ollama#6160, ik_llama.cpp#370, LLamaSharp#1099.
    #[test]
    fn published_caches_are_matched_to_the_byte() {
        for (layers, kv_heads, length, context, kv, mib) in [
            (56, 8, 128, 49_152, KvType::Q8_0, 5712),
            (94, 4, 128, 16_384, KvType::Q8_0, 1598),
            (36, 2, 128, 4096, KvType::F16, 144),
        ] {
            let cache = sum(&grouped(layers, kv_heads, length), &settings(context, kv));
            assert_eq!(cache, Bytes::mib(mib), "{layers} layers");
        }
    }

    #[test]
    fn a_context_is_rounded_up_for_each_request() {
        let layers = grouped(1, 1, 128);
        let alone = settings(1000, KvType::F16);
        assert_eq!(sum(&layers, &alone), Bytes::new(1024 * 512));
        let three = Settings { parallel: 3, ..alone.clone() };
        assert_eq!(sum(&layers, &three), Bytes::new(3 * 1024 * 512));
        let shared = Settings { unified: true, ..three };
        assert_eq!(sum(&layers, &shared), Bytes::new(3072 * 512));
    }

    #[test]
    fn a_window_keeps_itself_and_one_batch() {
        let window = Some(1024);
        let layers = [Cache::Grouped { kv_heads: 1, key_length: 128, value_length: 128, window }];
        let long = settings(32_768, KvType::F16);
        assert_eq!(sum(&layers, &long), Bytes::new((1024 + 512) * 512));
        assert_eq!(sum(&layers, &settings(512, KvType::F16)), Bytes::new(512 * 512));
        let four = Settings { parallel: 4, unified: true, ..long.clone() };
        assert_eq!(sum(&layers, &four), Bytes::new((4 * 1024 + 512) * 512));
        let apart = Settings { unified: false, ..four };
        assert_eq!(sum(&layers, &apart), Bytes::new(4 * (1024 + 512) * 512));
    }

    #[test]
    fn a_compressed_cache_has_no_values() {
        let layers = [Cache::Latent { kv_lora_rank: 512, rope_length: 64 }; 61];
        assert_eq!(sum(&layers, &settings(4096, KvType::F16)), Bytes::new(61 * 4096 * 576 * 2));
    }

    #[test]
    fn a_state_grows_with_requests_and_not_with_context() {
        let layers = [Cache::Recurrent { bytes: 1000 }];
        for context in [256, 65_536] {
            let four = Settings { parallel: 4, ..settings(context, KvType::F16) };
            assert_eq!(sum(&layers, &four), Bytes::new(4000));
        }
    }

    #[test]
    fn what_a_runtime_cannot_store_is_refused() {
        let odd = grouped(1, 8, 80);
        let refused = |settings: &Settings| per_layer(&odd, settings).expect_err("refused");
        let (kv, block, half) = (KvType::Q8_0, 32, "key");
        let expected = EstimateError::KvBlocks { kv, block, half, length: 80 };
        assert_eq!(refused(&settings(4096, kv)), expected);
        let runtime = RuntimeKind::LlamaCpp;
        assert_eq!(
            refused(&settings(4096, KvType::Fp8)),
            EstimateError::KvType { runtime, kv: KvType::Fp8 }
        );
        let slow = Settings { flash_attention: false, ..settings(4096, kv) };
        let even = per_layer(&grouped(1, 8, 128), &slow);
        assert_eq!(even, Err(EstimateError::NeedsFlashAttention { kv }));
    }

    #[test]
    fn without_flash_attention_every_layer_has_the_widest_values() {
        let mut layers = grouped(2, 8, 128);
        layers[1] = grouped(1, 2, 128)[0];
        let fast = settings(256, KvType::F16);
        let slow = Settings { flash_attention: false, ..fast.clone() };
        assert_eq!(sum(&layers, &fast), Bytes::new(256 * 2 * 128 * (8 + 8 + 2 + 2)));
        assert_eq!(sum(&layers, &slow), Bytes::new(256 * 2 * 128 * (8 + 8 + 2 + 8)));
    }

    #[test]
    fn vllm_gives_whole_blocks_and_shares_heads_out() {
        let vllm = Settings { gpus: 4, parallel: 2, ..Settings::new(RuntimeKind::Vllm, 1000) };
        assert_eq!(sum(&grouped(1, 8, 128), &vllm), Bytes::new(2 * 1008 * 2 * 2 * 128 * 2));
        assert_eq!(sum(&grouped(1, 2, 128), &vllm), Bytes::new(2 * 1008 * 2 * 128 * 2));
    }
}
