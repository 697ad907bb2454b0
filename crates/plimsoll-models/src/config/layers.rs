//! What each layer of a model keeps: its type's rule, with the numbers of its `config.json`.

use super::ConfigError;
use super::fields::Fields;
use super::rules::{self, Head, Layers, Rule};
use crate::shape::Cache;
use crate::source::Fact;

/// What each of `count` layers keeps.
pub fn read(fields: &Fields, count: usize) -> Result<Fact<Vec<Cache>>, ConfigError> {
    let Some(model_type) = fields.text("model_type") else {
        return Ok(Fact::unknown("model_type"));
    };
    let Some(rule) = rules::of(model_type) else {
        return Ok(Fact::unknown(format!("a rule for the layers of the model type {model_type}")));
    };
    let layers = match rule.layers {
        Layers::Latent => latent(fields, count),
        _ => attention(fields, rule, count),
    };
    match layers {
        Ok(layers) => Ok(layers),
        Err(ConfigError::Missing { field }) => Ok(Fact::unknown(field)),
        Err(error) => Err(error),
    }
}

/// The numbers in a head, with their source.
pub fn head_length(fields: &Fields) -> Result<Fact<u64>, ConfigError> {
    if let Some(length) = fields.number("head_dim")? {
        return Ok(Fact::read(length, "head_dim"));
    }
    let rule = fields.text("model_type").and_then(rules::of);
    Ok(match rule.map(|rule| rule.head) {
        Some(Head::Fixed(length)) => {
            Fact::table(length, "the default head_dim of the model's class")
        }
        Some(Head::Divided) => {
            let (hidden, heads) =
                (fields.number("hidden_size")?, fields.number("num_attention_heads")?);
            match hidden.zip(heads).and_then(|(hidden, heads)| hidden.checked_div(heads)) {
                Some(length) => {
                    let how =
                        "head_dim = hidden_size / num_attention_heads, as the model's class does";
                    Fact::computed(length, how)
                }
                None => Fact::unknown("hidden_size, num_attention_heads"),
            }
        }
        Some(Head::Needed) | None => Fact::unknown("head_dim"),
    })
}

/// The heads with keys and values of their own.
pub fn kv_heads(fields: &Fields) -> Result<u64, ConfigError> {
    let rule = fields.text("model_type").and_then(rules::of);
    match fields.number("num_key_value_heads")? {
        Some(heads) => Ok(heads),
        None if rule.is_some_and(|rule| rule.ungrouped) => fields.need("num_attention_heads"),
        None => fields.need("num_key_value_heads"),
    }
}

fn latent(fields: &Fields, count: usize) -> Result<Fact<Vec<Cache>>, ConfigError> {
    let kv_lora_rank = fields.need("kv_lora_rank")?;
    let rope_length = fields.need("qk_rope_head_dim")?;
    let layer = Cache::Latent { kv_lora_rank, rope_length };
    Ok(Fact::read(vec![layer; count], "kv_lora_rank, qk_rope_head_dim"))
}

fn attention(fields: &Fields, rule: Rule, count: usize) -> Result<Fact<Vec<Cache>>, ConfigError> {
    let kv_heads = kv_heads(fields)?;
    let windows = windows(fields, rule.layers, count)?;
    let length = head_length(fields)?;
    Ok(length.map(|length| {
        let (key_length, value_length) = (length, length);
        let layer = |window| Cache::Grouped { kv_heads, key_length, value_length, window };
        windows.into_iter().map(layer).collect()
    }))
}

fn windows(fields: &Fields, layers: Layers, count: usize) -> Result<Vec<Option<u64>>, ConfigError> {
    let sliding = || fields.need("sliding_window").map(Some);
    // A class that can slide and is told not to has full layers, whatever else it lists.
    if layers == Layers::SlidingFrom && fields.flag("use_sliding_window")? != Some(true) {
        return Ok(vec![None; count]);
    }
    if layers != Layers::Sliding
        && let Some(list) = listed(fields, count)?
    {
        return Ok(list);
    }
    Ok(match layers {
        Layers::Full | Layers::Latent => vec![None; count],
        Layers::Sliding => vec![fields.number("sliding_window")?; count],
        Layers::SlidingFrom => {
            let (first, window) = (fields.need("max_window_layers")?, sliding()?);
            (0..count as u64).map(|layer| window.filter(|_| layer >= first)).collect()
        }
        Layers::SlidingBut(period) => {
            let period = fields.number("sliding_window_pattern")?.unwrap_or(period).max(1);
            let window = sliding()?;
            (1..=count as u64)
                .map(|number| window.filter(|_| !number.is_multiple_of(period)))
                .collect()
        }
        Layers::Chunked => {
            let chunk = fields.need("attention_chunk_size")?;
            let marks = fields.list("no_rope_layers")?.map(Vec::as_slice).unwrap_or_default();
            let full = |layer: usize| match marks.get(layer) {
                Some(mark) => mark.as_u64() == Some(0),
                None => (layer + 1).is_multiple_of(4),
            };
            (0..count).map(|layer| (!full(layer)).then_some(chunk)).collect()
        }
    })
}

fn listed(fields: &Fields, count: usize) -> Result<Option<Vec<Option<u64>>>, ConfigError> {
    let Some(list) = fields.list("layer_types")? else { return Ok(None) };
    let kind = |expected| ConfigError::Kind { field: "layer_types".to_string(), expected };
    if list.len() < count {
        return Err(kind("a list with an entry for each layer"));
    }
    let window = |entry: &serde_json::Value| match entry.as_str() {
        Some("full_attention") => Ok(None),
        Some("sliding_attention") => fields.need("sliding_window").map(Some),
        Some("chunked_attention") => fields.need("attention_chunk_size").map(Some),
        _ => Err(kind("a list of full, sliding and chunked attention")),
    };
    list.iter().take(count).map(window).collect::<Result<Vec<_>, _>>().map(Some)
}
