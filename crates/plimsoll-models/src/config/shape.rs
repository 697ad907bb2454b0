//! Converts a `config.json` into a [`Shape`].

use std::io::Read;

use serde_json::Value;

use plimsoll_core::units::Bytes;

use super::error::ConfigError;
use super::fields::Fields;
use super::{layers, weights};
use crate::shape::{
    Contents, FlashAttention, Format, Gate, Identity, LayerPasses, ModelOutput, Shape, SplitInputs,
};
use crate::source::Sourced;

/// The largest number of layers.
pub const MAX_LAYERS: u64 = 4096;

/// Reads a `config.json` without tensors.
pub fn read(from: impl Read) -> Result<Shape, ConfigError> {
    let fields = Fields::read(from)?;
    let count = layer_count(&fields)?;
    Ok(Shape {
        architecture: fields.architecture().unwrap_or("unknown").to_string(),
        format: Format::Config,
        identity: identity(&fields),
        layers: layers::read(&fields, count)?,
        heads: for_all_layers(&fields, "num_attention_heads", count)?,
        embedding: number(&fields, &["hidden_size"])?,
        feed_forward: for_all_layers(&fields, "intermediate_size", count)?,
        vocabulary: number(&fields, &["vocab_size"])?,
        trained_context: number(&fields, &["max_position_embeddings"])?,
        experts: number(&fields, &["num_local_experts", "num_experts", "n_routed_experts"])?,
        experts_used: number(
            &fields,
            &["num_experts_per_tok", "num_experts_per_token", "top_k_experts"],
        )?,
        expert_feed_forward: for_all_layers(&fields, "moe_intermediate_size", count)?,
        weights: weights::read(&fields, count)?,
        output: ModelOutput::Scores,
        flash_attention: FlashAttention::Supported,
        gate: Gate::Present,
        split_inputs: SplitInputs::default(),
        absent: Bytes::ZERO,
        remarks: Vec::new(),
        passes: LayerPasses::Once,
        contents: Contents::Model,
        additions: Vec::new(),
    })
}

/// Returns the quantisation, and the name if the file has one. The reader of a directory knows a
/// better name and the parameters.
fn identity(fields: &Fields) -> Identity {
    let text =
        |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let method = fields
        .get("quantization_config")
        .and_then(|config| config.get("quant_method"))
        .and_then(Value::as_str);
    Identity {
        name: text("_name_or_path").filter(|name| !is_path(name)).map(str::to_string),
        quantisation: method.or(text("dtype")).or(text("torch_dtype")).map(str::to_string),
        parameters: None,
    }
}

/// Returns true for the name of a local directory, which is that of the machine that wrote it.
fn is_path(name: &str) -> bool {
    name.starts_with(['/', '.', '~'])
}

/// Returns the first field that is present; an unknown number names the first of them.
fn number(fields: &Fields, names: &[&'static str]) -> Result<Sourced<u64>, ConfigError> {
    let found = fields.first_number(names)?;
    let missing = names.first().copied().unwrap_or_default();
    Ok(found.map_or_else(|| Sourced::unknown(missing), |(value, name)| Sourced::read(value, name)))
}

fn for_all_layers(
    fields: &Fields,
    name: &'static str,
    count: usize,
) -> Result<Sourced<Vec<u64>>, ConfigError> {
    let list = fields.per_layer(name, count)?;
    Ok(list.map_or_else(|| Sourced::unknown(name), |list| Sourced::read(list, name)))
}

fn layer_count(fields: &Fields) -> Result<usize, ConfigError> {
    let field = "num_hidden_layers";
    let value = match fields.number(field)? {
        Some(value) => value,
        None => layers::listed_count(fields).ok_or_else(|| ConfigError::missing(field))?,
    };
    match usize::try_from(value) {
        Ok(count) if (1..=MAX_LAYERS).contains(&value) => Ok(count),
        _ => Err(ConfigError::invalid(field, "from 1 to 4096")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::rules;
    use crate::estimate::estimate;
    use crate::settings::{RuntimeKind, Settings};
    use crate::shape::Cache;
    use crate::source::Source;

    fn read_fields(config: &str) -> Shape {
        read(format!("{{\"num_hidden_layers\":4,{config}}}").as_bytes()).expect("reads the config")
    }

    fn windows(config: &str) -> Vec<Option<u64>> {
        let heads = r#""num_attention_heads":8,"num_key_value_heads":2,"hidden_size":512"#;
        let shape = read_fields(&format!("{heads},{config}"));
        let window = |cache: &Cache| match cache {
            Cache::Grouped { window, .. } => *window,
            _ => None,
        };
        shape.layers.get().expect("caches are known").iter().map(window).collect()
    }

    #[test]
    fn an_absent_head_dim_follows_the_class() {
        let heads = r#""num_attention_heads":8,"num_key_value_heads":2,"hidden_size":512"#;
        let length = |config: &str| {
            let shape = read_fields(&format!("{heads},{config}"));
            let first = shape.layers.get().and_then(|layers| layers.first().copied());
            match first {
                Some(Cache::Grouped { key_length, .. }) => Ok(key_length),
                _ => Err(shape.layers.source().clone()),
            }
        };
        let unknown = |missing: &str| Err(Source::Unknown { missing: missing.to_string() });
        assert_eq!(length(r#""model_type":"llama","head_dim":96"#), Ok(96));
        assert_eq!(length(r#""model_type":"llama""#), Ok(64));
        assert_eq!(length(r#""model_type":"qwen3""#), Ok(128));
        assert_eq!(length(r#""model_type":"gemma2","sliding_window":4"#), Ok(256));
        assert_eq!(length(r#""model_type":"qwen3_moe""#), unknown("head_dim"));
        assert_eq!(length(r#""model_type":"new""#), unknown("a cache rule for the model type new"));
    }

    #[test]
    fn sliding_windows_follow_the_class_or_the_list() {
        let wide = Some(64);
        assert_eq!(windows(r#""model_type":"mistral","sliding_window":64"#), [wide; 4]);
        assert_eq!(windows(r#""model_type":"mistral","sliding_window":null"#), [None; 4]);
        assert_eq!(
            windows(r#""model_type":"qwen2","sliding_window":64,"use_sliding_window":false"#),
            [None; 4]
        );
        let from = r#""model_type":"qwen2","sliding_window":64,"use_sliding_window":true,"max_window_layers":3"#;
        assert_eq!(windows(from), [None, None, None, wide]);
        assert_eq!(
            windows(r#""model_type":"gemma2","sliding_window":64"#),
            [wide, None, wide, None]
        );
        let listed = r#""model_type":"gpt_oss","sliding_window":64,"layer_types":
            ["full_attention","sliding_attention","full_attention","full_attention"]"#;
        assert_eq!(windows(listed), [None, wide, None, None]);
        let chunked = r#""model_type":"llama4_text","head_dim":128,"attention_chunk_size":64,"no_rope_layers":[1,0,1,1]"#;
        assert_eq!(windows(chunked), [wide, None, wide, wide]);
    }

    #[test]
    fn latent_caches_and_nested_text_configs_are_read() {
        let shape =
            read_fields(r#""model_type":"deepseek_v3","kv_lora_rank":512,"qk_rope_head_dim":64"#);
        assert_eq!(
            shape.layers.get().map(|layers| layers[0]),
            Some(Cache::Latent {
                kv_lora_rank: 512,
                rope_length: 64,
                indexer_length: 0,
                window: None
            })
        );
        let nested = r#"{"architectures":["Gemma3ForConditionalGeneration"],"text_config":{"model_type":"gemma3_text",
            "num_hidden_layers":6,"num_key_value_heads":4,"sliding_window":1024,"hidden_size":2560}}"#;
        let shape = read(nested.as_bytes()).expect("reads the config");
        assert_eq!(shape.architecture, "Gemma3ForConditionalGeneration");
        assert_eq!(shape.layers.get().map(Vec::len), Some(6));
    }

    #[test]
    fn a_hostile_config_is_rejected_with_its_field() {
        for (text, message) in [
            ("[]", "not a JSON object"),
            ("{", "not valid JSON"),
            (r#"{"num_hidden_layers":-1}"#, "num_hidden_layers"),
            (r#"{"num_hidden_layers":18446744073709551615}"#, "from 1 to 4096"),
            ("{}", "num_hidden_layers is missing"),
            (r#"{"num_hidden_layers":2,"hidden_size":"wide"}"#, "hidden_size"),
        ] {
            let error = read(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        let huge = r#"{"num_hidden_layers":4096,"model_type":"llama","torch_dtype":"float32","hidden_size":4294967296,
            "intermediate_size":4294967296,"num_attention_heads":4294967296,"num_key_value_heads":4294967296,
            "head_dim":4294967296,"vocab_size":4294967296}"#;
        assert!(read(huge.as_bytes()).is_err());
    }

    proptest! {
        /// Numbers that no model has: each field that decides a size is absent, small or enormous.
        #[test]
        fn a_hostile_config_of_any_type_is_estimated_or_rejected_without_panic(
            kind in prop::sample::select(rules::model_types()),
            numbers in prop::collection::vec(prop::option::of((any::<u64>(), 0_u32..64)), NUMBERS.len()),
            layers in 1_u64..=4096,
            (gpus, context, parallel) in (1_u64..=8, 1_u64..1 << 40, 1_u64..1 << 16),
        ) {
            let given = NUMBERS.iter().zip(numbers).filter_map(|(name, number)| Some((name, number?)));
            let given = given.map(|(name, (number, shift))| format!("\"{name}\":{}", number >> shift));
            let fields: Vec<String> = given.collect();
            let text = format!(
                r#"{{"torch_dtype":"float32","model_type":"{kind}","num_hidden_layers":{layers},
                "hybrid_layer_pattern":[0,1],"no_rope_layers":[0,1],{}"x":0}}"#,
                fields.iter().map(|field| format!("{field},")).collect::<String>()
            );
            let Ok(shape) = read(text.as_bytes()) else { return Ok(()) };
            let settings = Settings { gpus, parallel, ..Settings::new(RuntimeKind::Vllm, context) };
            if let Ok(estimate) = estimate(&shape, &settings) {
                let parts = estimate.all.named().into_iter().filter_map(|(_, part)| part.bytes);
                let largest = parts.max();
                prop_assert!(estimate.all.total.is_none_or(|total| Some(total) >= largest));
            }
        }
    }

    /// Fields with a number that decides the size of the weights, of a cache or of a state.
    const NUMBERS: [&str; 32] = [
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "sliding_window",
        "num_local_experts",
        "num_experts",
        "moe_intermediate_size",
        "head_dim",
        "attention_chunk_size",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "index_head_dim",
        "max_window_layers",
        "num_kv_shared_layers",
        "swa_head_dim",
        "swa_num_key_value_heads",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
        "full_attention_interval",
        "mamba_n_heads",
        "mamba_d_head",
        "mamba_d_state",
        "mamba_n_groups",
        "mamba_d_conv",
        "mamba_expand",
        "attn_layer_period",
        "attn_layer_offset",
    ];
}
