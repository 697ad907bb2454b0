//! The cache of each layer: the rule of the model type, with the numbers of its `config.json`.

use serde_json::Value;

use super::error::ConfigError;
use super::fields::Fields;
use super::hybrid;
use super::rules::{self, Attention, HeadLength, KvHeads, Layers, Rule};
use super::sparse;
use crate::shape::Cache;
use crate::source::Sourced;

/// Returns the cache of each of `count` layers; unknown if the type is not listed or a field is
/// missing.
pub fn read(fields: &Fields, count: usize) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let Some(model_type) = fields.text("model_type") else {
        return Ok(Sourced::unknown("model_type"));
    };
    let Some(rule) = rules::for_model_type(model_type) else {
        let missing = match rules::unserved(model_type) {
            Some(reason) => format!("a cache rule for the model type {model_type}: {reason}"),
            None => format!("a cache rule for the model type {model_type}"),
        };
        return Ok(Sourced::unknown(missing));
    };
    let layers = match rule.layers {
        Layers::NoCache => Ok(Sourced::table(vec![Cache::None; count], "an encoder has no cache")),
        Layers::Latent => latent(fields, count),
        Layers::Compressed => sparse::compressed(fields, count),
        Layers::Sparse => attention(fields, rule, count)
            .and_then(|attention| sparse::with_indexers(fields, attention)),
        Layers::Blocks => blocks(fields, count),
        Layers::Parallel(state) => attention(fields, rule, count)
            .and_then(|attention| hybrid::beside_states(fields, state, attention)),
        Layers::Marked => marked(fields, rule, count),
        Layers::Hybrid(state, kind) => {
            let attention = match kind {
                Attention::Grouped => attention(fields, rule, count),
                Attention::Latent => latent(fields, count),
                Attention::LatentPooled => sparse::latent_pooled(fields, count),
            };
            attention.and_then(|attention| hybrid::with_states(fields, state, attention))
        }
        Layers::Full
        | Layers::Sliding
        | Layers::SlidingFrom
        | Layers::SlidingExceptLastOf(_)
        | Layers::Chunked => attention(fields, rule, count),
    };
    match layers {
        Err(ConfigError::MissingField { field }) => Ok(Sourced::unknown(field)),
        layers => layers,
    }
}

/// Returns the number of layers that a list of their kinds implies.
pub fn listed_count(fields: &Fields) -> Option<u64> {
    hybrid::kinds(fields).map(|kinds| kinds.len() as u64)
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
        (None, Some(KvHeads::Falcon)) => falcon_kv_heads(fields),
        (None, Some(KvHeads::Required) | None) => fields.require("num_key_value_heads"),
    }
}

fn falcon_kv_heads(fields: &Fields) -> Result<u64, ConfigError> {
    if fields.boolean("new_decoder_architecture")? == Some(true) {
        return fields.require("num_kv_heads");
    }
    match fields.boolean("multi_query")? {
        Some(true) => Ok(1),
        Some(false) => fields.require("num_attention_heads"),
        None => Err(ConfigError::missing("multi_query")),
    }
}

fn latent(fields: &Fields, count: usize) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let kv_lora_rank = fields.require("kv_lora_rank")?;
    let rope_length = fields.require("qk_rope_head_dim")?;
    let indexer_length = fields.number("index_head_dim")?.unwrap_or(0);
    let layer = Cache::Latent { kv_lora_rank, rope_length, indexer_length, window: None };
    Ok(Sourced::read(vec![layer; count], "kv_lora_rank, qk_rope_head_dim"))
}

/// Returns the caches of a model that has other attention, or none, in each layer.
fn blocks(fields: &Fields, count: usize) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let field = "block_configs";
    let list = fields.list(field)?.ok_or_else(|| ConfigError::missing(field))?;
    let heads = fields.require("num_attention_heads")?;
    let length = head_length(fields)?;
    let length = *length.get().ok_or_else(|| ConfigError::missing("head_dim"))?;
    let invalid = || ConfigError::invalid(field, "a list with the attention of each layer");
    if list.len() < count {
        return Err(invalid());
    }
    let layers = list.iter().take(count).map(|block| {
        let attention = block.get("attention").ok_or_else(invalid)?;
        let is_set = |name: &str| attention.get(name).and_then(Value::as_bool) == Some(true);
        if is_set("no_op") || is_set("replace_with_linear") {
            return Ok(Cache::None);
        }
        let group = attention.get("n_heads_in_group").and_then(Value::as_u64);
        let kv_heads = group.and_then(|group| heads.checked_div(group)).ok_or_else(invalid)?;
        Ok(Cache::Grouped { kv_heads, key_length: length, value_length: length, window: None })
    });
    Ok(Sourced::read(layers.collect::<Result<_, ConfigError>>()?, field))
}

fn attention(
    fields: &Fields,
    rule: Rule,
    count: usize,
) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let kv_heads = kv_heads(fields)?;
    let windows = windows(fields, rule.layers, count)?;
    let global = GlobalHeads::read(fields)?;
    let owners = owners_of_shared(fields, &windows)?;
    Ok(head_length(fields)?.map(|length| {
        let layer = |(window, owner): (Option<u64>, Option<u64>)| match owner {
            Some(owner) => Cache::Shared { owner },
            None => {
                let global = global.filter(|_| window.is_none());
                let kv_heads = global.and_then(|global| global.kv_heads).unwrap_or(kv_heads);
                let length = global.map_or(length, |global| global.length);
                Cache::Grouped { kv_heads, key_length: length, value_length: length, window }
            }
        };
        windows.into_iter().zip(owners).map(layer).collect()
    }))
}

/// Returns the caches of a model whose layers with a window have heads of their own. vLLM pads the
/// values of a head to the length of its key.
fn marked(fields: &Fields, rule: Rule, count: usize) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let field = "hybrid_layer_pattern";
    let marks = fields.list(field)?.ok_or_else(|| ConfigError::missing(field))?;
    if marks.len() < count {
        return Err(ConfigError::invalid(field, "a list with one entry per layer"));
    }
    let windows = ["sliding_window", "sliding_window_size"];
    let window = fields.first_number(&windows)?.map(|(window, _)| window);
    let window = window.ok_or_else(|| ConfigError::missing("sliding_window"))?;
    let kv_heads = fields.require("swa_num_key_value_heads")?;
    let length = fields.require("swa_head_dim")?;
    let windowed =
        Cache::Grouped { kv_heads, key_length: length, value_length: length, window: Some(window) };
    Ok(attention(fields, rule, count)?.map(|layers| {
        let layers = layers.into_iter().zip(marks);
        layers.map(|(full, mark)| if mark.as_u64() == Some(1) { windowed } else { full }).collect()
    }))
}

/// The heads of layers with full attention, where they differ from those with a window.
#[derive(Clone, Copy)]
struct GlobalHeads {
    length: u64,
    kv_heads: Option<u64>,
}

impl GlobalHeads {
    fn read(fields: &Fields) -> Result<Option<GlobalHeads>, ConfigError> {
        let default = fields.text("model_type").and_then(rules::global_head_length);
        let Some(default) = default else { return Ok(None) };
        let length = fields.number("global_head_dim")?.unwrap_or(default);
        // The class applies the number of heads only together with this field.
        let has_own_heads = fields.boolean("attention_k_eq_v")? == Some(true);
        let kv_heads = fields.number("num_global_key_value_heads")?.filter(|_| has_own_heads);
        Ok(Some(GlobalHeads { length, kv_heads }))
    }
}

/// Returns the layer whose cache each layer uses; `None` for its own. The last
/// `num_kv_shared_layers` use that of the last layer before them with the same attention.
fn owners_of_shared(
    fields: &Fields,
    windows: &[Option<u64>],
) -> Result<Vec<Option<u64>>, ConfigError> {
    let shared = fields.number("num_kv_shared_layers")?.unwrap_or(0);
    let shared = usize::try_from(shared).unwrap_or(windows.len()).min(windows.len());
    let own = &windows[..windows.len() - shared];
    let owner = |(layer, window): (usize, &Option<u64>)| {
        let owner = own.iter().rposition(|other| other.is_some() == window.is_some());
        owner.filter(|_| layer >= own.len()).map(|owner| owner as u64)
    };
    Ok(windows.iter().enumerate().map(owner).collect())
}

/// Returns the window of each layer.
///
/// `layer_types` overrides the pattern of the class, with two exceptions: a class with a window
/// in all layers ignores the list, and `use_sliding_window: false` switches all windows off.
fn windows(fields: &Fields, layers: Layers, count: usize) -> Result<Vec<Option<u64>>, ConfigError> {
    if layers == Layers::SlidingFrom && fields.boolean("use_sliding_window")? != Some(true) {
        return Ok(vec![None; count]);
    }
    if !matches!(layers, Layers::Sliding | Layers::Hybrid(..))
        && let Some(list) = listed_windows(fields, count)?
    {
        return Ok(list);
    }
    match layers {
        Layers::Full
        | Layers::Latent
        | Layers::Compressed
        | Layers::Sparse
        | Layers::NoCache
        | Layers::Blocks
        | Layers::Marked
        | Layers::Parallel(_)
        | Layers::Hybrid(..) => Ok(vec![None; count]),
        Layers::Sliding => Ok(vec![fields.number("sliding_window")?; count]),
        Layers::SlidingFrom => {
            let first = fields.require("max_window_layers")?;
            let window = fields.require("sliding_window")?;
            Ok((0..count as u64).map(|layer| (layer >= first).then_some(window)).collect())
        }
        Layers::SlidingExceptLastOf(size) => {
            let size = fields.number("sliding_window_pattern")?.unwrap_or(size).max(1);
            // A class with an alternating window has full attention without `sliding_window`.
            let Some(window) = fields.number("sliding_window")? else {
                return match fields.is_null("sliding_window") {
                    true => Ok(vec![None; count]),
                    false => Err(ConfigError::missing("sliding_window")),
                };
            };
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
