//! The cache of each layer: the rule of the model type, with the numbers of its `config.json`.

use super::error::ConfigError;
use super::fields::Fields;
use super::rules::{self, HeadLength, KvHeads, Layers, Rule};
use crate::shape::Cache;
use crate::source::Sourced;

/// Returns the cache of each of `count` layers; unknown if the type is not listed or a field is
/// missing.
pub fn read(fields: &Fields, count: usize) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let Some(model_type) = fields.text("model_type") else {
        return Ok(Sourced::unknown("model_type"));
    };
    let Some(rule) = rules::for_model_type(model_type) else {
        return Ok(Sourced::unknown(format!("a cache rule for the model type {model_type}")));
    };
    let layers = match rule.layers {
        Layers::Latent => latent(fields, count),
        _ => attention(fields, rule, count),
    };
    match layers {
        Err(ConfigError::MissingField { field }) => Ok(Sourced::unknown(field)),
        layers => layers,
    }
}

/// Returns the elements in one head.
pub fn head_length(fields: &Fields) -> Result<Sourced<u64>, ConfigError> {
    if let Some(length) = fields.number("head_dim")? {
        return Ok(Sourced::read(length, "head_dim"));
    }
    let rule = fields.text("model_type").and_then(rules::for_model_type);
    match rule.map(|rule| rule.head_length) {
        Some(HeadLength::Fixed(length)) => {
            Ok(Sourced::table(length, "the default head_dim of the model's class"))
        }
        Some(HeadLength::Divided) => divided_head_length(fields),
        Some(HeadLength::Required) | None => Ok(Sourced::unknown("head_dim")),
    }
}

fn divided_head_length(fields: &Fields) -> Result<Sourced<u64>, ConfigError> {
    let hidden = fields.number("hidden_size")?;
    let heads = fields.number("num_attention_heads")?;
    match hidden.zip(heads).and_then(|(hidden, heads)| hidden.checked_div(heads)) {
        Some(length) => {
            Ok(Sourced::computed(length, "head_dim = hidden_size / num_attention_heads"))
        }
        None => Ok(Sourced::unknown("hidden_size, num_attention_heads")),
    }
}

/// Returns the number of KV heads.
pub fn kv_heads(fields: &Fields) -> Result<u64, ConfigError> {
    let rule = fields.text("model_type").and_then(rules::for_model_type);
    match (fields.number("num_key_value_heads")?, rule.map(|rule| rule.kv_heads)) {
        (Some(heads), _) => Ok(heads),
        (None, Some(KvHeads::AsAttentionHeads)) => fields.require("num_attention_heads"),
        (None, Some(KvHeads::Required) | None) => fields.require("num_key_value_heads"),
    }
}

fn latent(fields: &Fields, count: usize) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let kv_lora_rank = fields.require("kv_lora_rank")?;
    let rope_length = fields.require("qk_rope_head_dim")?;
    let layer = Cache::Latent { kv_lora_rank, rope_length };
    Ok(Sourced::read(vec![layer; count], "kv_lora_rank, qk_rope_head_dim"))
}

fn attention(
    fields: &Fields,
    rule: Rule,
    count: usize,
) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let kv_heads = kv_heads(fields)?;
    let windows = windows(fields, rule.layers, count)?;
    Ok(head_length(fields)?.map(|length| {
        let (key_length, value_length) = (length, length);
        let layer = |window| Cache::Grouped { kv_heads, key_length, value_length, window };
        windows.into_iter().map(layer).collect()
    }))
}

/// Returns the window of each layer.
///
/// `layer_types` overrides the pattern of the class, with two exceptions: a class with a window
/// in all layers ignores the list, and `use_sliding_window: false` switches all windows off.
fn windows(fields: &Fields, layers: Layers, count: usize) -> Result<Vec<Option<u64>>, ConfigError> {
    if layers == Layers::SlidingFrom && fields.boolean("use_sliding_window")? != Some(true) {
        return Ok(vec![None; count]);
    }
    if layers != Layers::Sliding
        && let Some(list) = listed_windows(fields, count)?
    {
        return Ok(list);
    }
    match layers {
        Layers::Full | Layers::Latent => Ok(vec![None; count]),
        Layers::Sliding => Ok(vec![fields.number("sliding_window")?; count]),
        Layers::SlidingFrom => {
            let first = fields.require("max_window_layers")?;
            let window = fields.require("sliding_window")?;
            Ok((0..count as u64).map(|layer| (layer >= first).then_some(window)).collect())
        }
        Layers::SlidingExceptLastOf(size) => {
            let size = fields.number("sliding_window_pattern")?.unwrap_or(size).max(1);
            let window = fields.require("sliding_window")?;
            let numbers = 1..=count as u64;
            Ok(numbers.map(|number| (!number.is_multiple_of(size)).then_some(window)).collect())
        }
        Layers::Chunked => chunked_windows(fields, count),
    }
}

/// Returns the chunks of Llama 4. Without `no_rope_layers`, its class gives full attention to
/// every fourth layer.
fn chunked_windows(fields: &Fields, count: usize) -> Result<Vec<Option<u64>>, ConfigError> {
    let chunk = fields.require("attention_chunk_size")?;
    let marks = fields.list("no_rope_layers")?.map(Vec::as_slice).unwrap_or_default();
    let layers = (0..count).map(|layer| {
        let is_full = match marks.get(layer) {
            Some(mark) => mark.as_u64() == Some(0),
            None => (layer + 1).is_multiple_of(4),
        };
        (!is_full).then_some(chunk)
    });
    Ok(layers.collect())
}

fn listed_windows(fields: &Fields, count: usize) -> Result<Option<Vec<Option<u64>>>, ConfigError> {
    let field = "layer_types";
    let Some(list) = fields.list(field)? else { return Ok(None) };
    if list.len() < count {
        return Err(ConfigError::invalid(field, "a list with one entry per layer"));
    }
    let windows = list.iter().take(count).map(|entry| match entry.as_str() {
        Some("full_attention") => Ok(None),
        Some("sliding_attention") => fields.require("sliding_window").map(Some),
        Some("chunked_attention") => fields.require("attention_chunk_size").map(Some),
        _ => Err(ConfigError::invalid(field, "a list of full, sliding and chunked attention")),
    });
    windows.collect::<Result<Vec<_>, _>>().map(Some)
}
