//! Sparse attention: layers with an indexer, or with compressed keys, as vLLM keeps them.
//!
//! Source: `get_kv_cache_spec` of these models in vLLM 0.33.

use plimsoll_core::units::Bytes;
use serde_json::Value;

use super::error::ConfigError;
use super::fields::Fields;
use crate::shape::Cache;
use crate::source::Sourced;

/// The tokens of one compressed key where an indexer selects among the keys, and where none does:
/// the two ratios that vLLM knows.
const SELECTED_RATIO: u64 = 4;
const PLAIN_RATIO: u64 = 128;

/// Returns the caches of DeepSeek V4: keys of a window, one compressed key for each `ratio` tokens,
/// and the state of their compression.
///
/// A row of the state has keys and scores in 32-bit floats, twice of each where an indexer selects
/// among the keys; the indexer has such a state, too.
pub(super) fn compressed(
    fields: &Fields,
    count: usize,
) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let window = fields.require("sliding_window")?;
    let key_length = fields.require("head_dim")?;
    let indexer = fields.require("index_head_dim")?;
    let (ratios, from) = ratios(fields, count)?;
    let layers = ratios.into_iter().map(|ratio| {
        let (indexer_length, row) = match ratio {
            SELECTED_RATIO => (indexer, key_length.saturating_add(indexer).saturating_mul(4)),
            PLAIN_RATIO => (0, key_length.saturating_mul(2)),
            _ => (0, 0),
        };
        let rows = ratio * if indexer_length > 0 { 2 } else { 1 };
        let state = Bytes::new(row.saturating_mul(4).saturating_mul(rows));
        Cache::Compressed { key_length, window, ratio, indexer_length, state }
    });
    Ok(Sourced::read(layers.collect(), from))
}

/// Returns the tokens of one compressed key in each layer; 0 without compression. Both fields may
/// have further entries for layers of multi-token prediction.
fn ratios(fields: &Fields, count: usize) -> Result<(Vec<u64>, &'static str), ConfigError> {
    let (field, list) = match fields.list("layer_types")? {
        Some(list) => ("layer_types", list),
        None => {
            let field = "compress_ratios";
            (field, fields.list(field)?.ok_or_else(|| ConfigError::missing(field))?)
        }
    };
    let invalid = || ConfigError::invalid(field, "a list of known kinds, one per layer");
    let ratio = |entry: &Value| match (entry.as_str(), entry.as_u64()) {
        (Some("compressed_sparse_attention"), _) | (_, Some(SELECTED_RATIO)) => {
            Some(SELECTED_RATIO)
        }
        (Some("heavily_compressed_attention"), _) | (_, Some(PLAIN_RATIO)) => Some(PLAIN_RATIO),
        (Some("sliding_attention"), _) | (_, Some(0)) => Some(0),
        _ => None,
    };
    let ratios: Vec<u64> = list.iter().take(count).map_while(ratio).collect();
    if ratios.len() < count {
        return Err(invalid());
    }
    Ok((ratios, field))
}

/// Adds the key of an indexer to the layers of MiniMax M3 that `sparse_attention_config` marks.
pub(super) fn with_indexers(
    fields: &Fields,
    attention: Sourced<Vec<Cache>>,
) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let indexer_length = sparse_field(fields, "sparse_index_dim", Value::as_u64)?;
    let marks = sparse_field(fields, "sparse_attention_freq", Value::as_array)?;
    if attention.get().is_some_and(|layers| marks.len() < layers.len()) {
        let field = "sparse_attention_config.sparse_attention_freq";
        return Err(ConfigError::invalid(field, "a list with one entry per layer"));
    }
    let layer = |(layer, mark): (Cache, &Value)| match layer {
        Cache::Grouped { kv_heads, key_length, value_length, .. } if mark.as_u64() != Some(0) => {
            Cache::GroupedWithIndexer { kv_heads, key_length, value_length, indexer_length }
        }
        other => other,
    };
    Ok(attention.map(|layers| layers.into_iter().zip(marks).map(layer).collect()))
}

fn sparse_field<'a, T>(
    fields: &'a Fields,
    name: &str,
    convert: fn(&'a Value) -> Option<T>,
) -> Result<T, ConfigError> {
    let value = fields.get("sparse_attention_config").and_then(|config| config.get(name));
    let missing = || ConfigError::missing(format!("sparse_attention_config.{name}"));
    value.and_then(convert).ok_or_else(missing)
}

/// Returns MLA caches with an indexer that keeps one key for each `index_kpool` tokens, which is a
/// part of a key for each token.
pub(super) fn latent_pooled(
    fields: &Fields,
    count: usize,
) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let kv_lora_rank = fields.require("kv_lora_rank")?;
    let rope_length = fields.require("qk_rope_head_dim")?;
    let key_length = fields.require("index_head_dim")?;
    let pool = fields.require("index_kpool")?.max(1);
    let indexer_length = key_length.div_ceil(pool);
    let layer = Cache::Latent { kv_lora_rank, rope_length, indexer_length, window: None };
    Ok(Sourced::read(vec![layer; count], "kv_lora_rank, index_head_dim, index_kpool"))
}
