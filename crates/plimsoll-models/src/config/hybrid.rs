//! Hybrid models: the layers that keep a state of fixed size, and its size in vLLM.

use plimsoll_core::units::Bytes;
use serde_json::Value;

use super::error::ConfigError;
use super::fields::Fields;
use super::rules::State;
use crate::shape::Cache;
use crate::source::Sourced;

/// The kind of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Attention,
    State,
    /// A feed-forward network alone.
    Network,
}

/// The bytes of one element of a state. vLLM uses 16-bit floats for some models; 32 bits are the
/// upper bound.
const ELEMENT_BYTES: u64 = 4;

/// vLLM pads a state to a page of the attention cache, whose pages it makes larger than the state.
/// At most one such page of each request is not full, so twice the state is the upper bound.
const PADDING: u64 = 2;

/// Replaces the attention of all layers with a state, and of those without a cache.
pub fn with_states(
    fields: &Fields,
    state: State,
    attention: Sourced<Vec<Cache>>,
) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let count = attention.get().map_or(0, Vec::len);
    let kinds = match kinds(fields) {
        Some(kinds) => kinds,
        None => kinds_by_rule(fields, state, count)?,
    };
    if kinds.len() < count {
        return Err(ConfigError::invalid("layer_types", "a list with one entry per layer"));
    }
    let bytes = bytes(fields, state)?;
    Ok(attention.map(|layers| {
        let layer = |(attention, kind)| match kind {
            Kind::Attention => attention,
            Kind::State => Cache::Recurrent { bytes },
            Kind::Network => Cache::None,
        };
        layers.into_iter().zip(kinds).map(layer).collect()
    }))
}

/// Adds a state to the attention of all layers.
pub fn beside_states(
    fields: &Fields,
    state: State,
    attention: Sourced<Vec<Cache>>,
) -> Result<Sourced<Vec<Cache>>, ConfigError> {
    let state = Bytes::new(bytes(fields, state)?);
    let beside = |layer| match layer {
        Cache::Grouped { kv_heads, key_length, value_length, .. } => {
            Cache::GroupedWithState { kv_heads, key_length, value_length, state }
        }
        other => other,
    };
    Ok(attention.map(|layers| layers.into_iter().map(beside).collect()))
}

/// Returns the upper bound of one state.
fn bytes(fields: &Fields, state: State) -> Result<u64, ConfigError> {
    elements(fields, state)?
        .and_then(|elements| elements.checked_mul(ELEMENT_BYTES * PADDING))
        .ok_or_else(|| ConfigError::invalid("hidden_size", "a possible size"))
}

/// Returns the kinds of the layers as the file lists them; `None` if it has no list, or one with an
/// unknown word.
pub fn kinds(fields: &Fields) -> Option<Vec<Kind>> {
    if let Some(pattern) = fields.text("hybrid_override_pattern") {
        return pattern.chars().map(kind_of_letter).collect();
    }
    let names = ["layers_block_type", "layer_types"];
    let list = names.iter().find_map(|name| fields.get(name).and_then(Value::as_array))?;
    list.iter().map(|entry| entry.as_str().and_then(kind_of_word)).collect()
}

fn kind_of_letter(letter: char) -> Option<Kind> {
    match letter {
        'M' => Some(Kind::State),
        '*' => Some(Kind::Attention),
        '-' | 'E' => Some(Kind::Network),
        _ => None,
    }
}

fn kind_of_word(word: &str) -> Option<Kind> {
    match word {
        "full_attention" | "attention" | "indexed_attention" => Some(Kind::Attention),
        "linear_attention" | "mamba" | "conv" => Some(Kind::State),
        "mlp" | "moe" => Some(Kind::Network),
        _ => None,
    }
}

/// Returns the kinds of layers that the class derives from numbers.
fn kinds_by_rule(fields: &Fields, state: State, count: usize) -> Result<Vec<Kind>, ConfigError> {
    match state {
        State::DeltaNet => {
            let interval = fields.number("full_attention_interval")?.unwrap_or(4).max(1);
            Ok(attention_where(count, |layer| (layer + 1).is_multiple_of(interval)))
        }
        State::Mamba => {
            let period = fields.require("attn_layer_period")?.max(1);
            let offset = fields.require("attn_layer_offset")?;
            Ok(attention_where(count, |layer| layer % period == offset))
        }
        State::Convolution => {
            let listed = numbers(fields.get("full_attn_idxs"));
            let listed = listed.ok_or_else(|| ConfigError::missing("layer_types"))?;
            Ok(attention_where(count, |layer| listed.contains(&layer)))
        }
        State::KimiDelta => {
            let config = fields.get("linear_attn_config");
            // The list counts from 1.
            let listed = numbers(config.and_then(|config| config.get("full_attn_layers")));
            let listed = listed
                .ok_or_else(|| ConfigError::missing("linear_attn_config.full_attn_layers"))?;
            Ok(attention_where(count, |layer| listed.contains(&(layer + 1))))
        }
        State::Mamba2 => Err(ConfigError::missing("layer_types")),
    }
}

/// Returns the kinds of `count` layers: attention where the condition holds, else a state.
fn attention_where(count: usize, condition: impl Fn(u64) -> bool) -> Vec<Kind> {
    let kind = |layer| if condition(layer) { Kind::Attention } else { Kind::State };
    (0..count as u64).map(kind).collect()
}

fn numbers(list: Option<&Value>) -> Option<Vec<u64>> {
    list?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Returns the elements of one state, or `None` on overflow: the inputs of a convolution, and the
/// state itself.
fn elements(fields: &Fields, state: State) -> Result<Option<u64>, ConfigError> {
    let require = |names: &[&'static str]| {
        let found = fields.first_number(names)?.map(|(number, _)| number);
        found.ok_or_else(|| ConfigError::missing(*names.first().unwrap_or(&"")))
    };
    match state {
        State::DeltaNet => {
            let keys =
                product([require(&["linear_num_key_heads"])?, 2], fields, "linear_key_head_dim")?;
            let values = product(
                [require(&["linear_num_value_heads"])?, 1],
                fields,
                "linear_value_head_dim",
            )?;
            let width = keys.zip(values).and_then(|(keys, values)| keys.checked_add(values));
            let state = values
                .and_then(|values| values.checked_mul(fields.number("linear_key_head_dim").ok()??));
            Ok(convolved(width, require(&["linear_conv_kernel_dim"])?, state))
        }
        State::KimiDelta => {
            let config = fields.get("linear_attn_config");
            let number = |name: &str, flat: &'static str| {
                let number = config.and_then(|config| config.get(name)).and_then(Value::as_u64);
                let number =
                    number.map_or_else(|| fields.number(flat), |number| Ok(Some(number)))?;
                number.ok_or_else(|| ConfigError::missing(format!("linear_attn_config.{name}")))
            };
            let heads = number("num_heads", "linear_num_heads")?;
            let length = number("head_dim", "linear_head_dim")?;
            let kernel = number("short_conv_kernel_size", "linear_conv_kernel_dim")?;
            let width = heads.checked_mul(length);
            let state = width.and_then(|width| width.checked_mul(length));
            let inputs = width.and_then(|width| width.checked_mul(3));
            Ok(convolved(inputs, kernel, state))
        }
        State::Mamba => {
            let inner = require(&["hidden_size"])?.checked_mul(require(&["mamba_expand"])?);
            let size = require(&["mamba_d_state"])?;
            let state = inner.and_then(|inner| inner.checked_mul(size));
            Ok(convolved(inner, require(&["mamba_d_conv"])?, state))
        }
        State::Mamba2 => {
            let size = require(&["ssm_state_size", "mamba_d_state"])?;
            let inner = mamba2_width(fields)?;
            let groups = require(&["n_groups", "mamba_n_groups"])?.checked_mul(2);
            let groups = groups.and_then(|groups| groups.checked_mul(size));
            let width = inner.zip(groups).and_then(|(inner, groups)| inner.checked_add(groups));
            let state = inner.and_then(|inner| inner.checked_mul(size));
            Ok(convolved(width, require(&["conv_kernel", "mamba_d_conv"])?, state))
        }
        State::Convolution => {
            Ok(convolved(Some(require(&["hidden_size"])?), require(&["conv_L_cache"])?, Some(0)))
        }
    }
}

/// Returns the width of a Mamba 2 layer: heads times their length, which may be `auto`.
fn mamba2_width(fields: &Fields) -> Result<Option<u64>, ConfigError> {
    let heads = fields.first_number(&["mamba_num_heads", "mamba_n_heads"])?;
    let (heads, _) = heads.ok_or_else(|| ConfigError::missing("mamba_num_heads"))?;
    if fields.text("mamba_d_head") == Some("auto") {
        return Ok(fields.require("hidden_size")?.checked_mul(fields.require("mamba_expand")?));
    }
    let length = fields.first_number(&["mamba_head_dim", "mamba_d_head"])?;
    let (length, _) = length.ok_or_else(|| ConfigError::missing("mamba_head_dim"))?;
    Ok(heads.checked_mul(length))
}

fn product(factors: [u64; 2], fields: &Fields, field: &str) -> Result<Option<u64>, ConfigError> {
    let length = fields.require(field)?;
    Ok(factors.into_iter().try_fold(length, u64::checked_mul))
}

/// Returns the state and the inputs that a convolution over `kernel` tokens keeps.
fn convolved(width: Option<u64>, kernel: u64, state: Option<u64>) -> Option<u64> {
    width?.checked_mul(kernel.saturating_sub(1))?.checked_add(state?)
}
