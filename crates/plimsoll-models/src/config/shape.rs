//! From a `config.json`, with or without tensors beside it, to what the formulas need.

use std::io::Read;

use super::fields::Fields;
use super::{ConfigError, layers, weights};
use crate::shape::{Format, Shape};
use crate::source::Fact;

/// The most layers.
pub const LAYERS_MOST: u64 = 4096;

/// Reads a `config.json` alone.
pub fn read(from: impl Read) -> Result<Shape, ConfigError> {
    let fields = Fields::read(from)?;
    let count = layer_count(&fields)?;
    let each = |name: &'static str| {
        number(&fields, &[name]).map(|fact| fact.map(|value| vec![value; count]))
    };
    Ok(Shape {
        architecture: fields.architecture().unwrap_or("unknown").to_string(),
        format: Format::Config,
        layers: layers::read(&fields, count)?,
        heads: each("num_attention_heads")?,
        embedding: number(&fields, &["hidden_size"])?,
        feed_forward: each("intermediate_size")?,
        vocabulary: number(&fields, &["vocab_size"])?,
        trained_context: number(&fields, &["max_position_embeddings"])?,
        experts: number(&fields, &["num_local_experts", "num_experts", "n_routed_experts"])?,
        experts_used: number(&fields, &["num_experts_per_tok", "num_experts_per_token"])?,
        expert_feed_forward: each("moe_intermediate_size")?,
        weights: weights::read(&fields, count)?,
        remarks: Vec::new(),
    })
}

fn number(fields: &Fields, names: &[&'static str]) -> Result<Fact<u64>, ConfigError> {
    let found = fields.first_number(names)?;
    let missing = names.first().copied().unwrap_or_default();
    Ok(found.map_or_else(|| Fact::unknown(missing), |(value, name)| Fact::read(value, name)))
}

fn layer_count(fields: &Fields) -> Result<usize, ConfigError> {
    let field = "num_hidden_layers";
    let value = fields.need(field)?;
    match usize::try_from(value) {
        Ok(count) if (1..=LAYERS_MOST).contains(&value) => Ok(count),
        _ => Err(ConfigError::Kind { field: field.to_string(), expected: "from 1 to 4096" }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shape::Cache;
    use crate::source::Source;

    fn of(config: &str) -> Shape {
        read(format!("{{\"num_hidden_layers\":4,{config}}}").as_bytes()).expect("a config")
    }

    fn windows(config: &str) -> Vec<Option<u64>> {
        let heads = r#""num_attention_heads":8,"num_key_value_heads":2,"hidden_size":512"#;
        let shape = of(&format!("{heads},{config}"));
        let window = |cache: &Cache| match cache {
            Cache::Grouped { window, .. } => *window,
            _ => None,
        };
        shape.layers.get().expect("known layers").iter().map(window).collect()
    }

    #[test]
    fn head_dim_is_read_or_what_the_class_makes_of_its_absence() {
        let heads = r#""num_attention_heads":8,"num_key_value_heads":2,"hidden_size":512"#;
        let length = |config: &str| {
            let shape = of(&format!("{heads},{config}"));
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
        assert_eq!(
            length(r#""model_type":"new""#),
            unknown("a rule for the layers of the model type new")
        );
    }

    #[test]
    fn windows_follow_the_class_or_the_list() {
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
    fn a_compressed_cache_is_read_and_a_nested_text_part_is_found() {
        let shape = of(r#""model_type":"deepseek_v3","kv_lora_rank":512,"qk_rope_head_dim":64"#);
        assert_eq!(
            shape.layers.get().map(|layers| layers[0]),
            Some(Cache::Latent { kv_lora_rank: 512, rope_length: 64 })
        );
        let nested = r#"{"architectures":["Gemma3ForConditionalGeneration"],"text_config":{"model_type":"gemma3_text",
            "num_hidden_layers":6,"num_key_value_heads":4,"sliding_window":1024,"hidden_size":2560}}"#;
        let shape = read(nested.as_bytes()).expect("a config");
        assert_eq!(shape.architecture, "Gemma3ForConditionalGeneration");
        assert_eq!(shape.layers.get().map(Vec::len), Some(6));
    }

    #[test]
    fn a_hostile_config_is_refused_with_the_field() {
        for (text, part) in [
            ("[]", "an object"),
            ("{", "malformed"),
            (r#"{"num_hidden_layers":-1}"#, "num_hidden_layers"),
            (r#"{"num_hidden_layers":18446744073709551615}"#, "from 1 to 4096"),
            ("{}", "num_hidden_layers of config.json is missing"),
            (r#"{"num_hidden_layers":2,"hidden_size":"wide"}"#, "hidden_size"),
        ] {
            let error = read(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let huge = r#"{"num_hidden_layers":4096,"model_type":"llama","torch_dtype":"float32","hidden_size":4294967296,
            "intermediate_size":4294967296,"num_attention_heads":4294967296,"num_key_value_heads":4294967296,
            "head_dim":4294967296,"vocab_size":4294967296}"#;
        assert!(read(huge.as_bytes()).is_err());
    }

    proptest! {
        /// What is read back is either a model or a refusal, whatever stands in it.
        #[test]
        fn a_config_of_any_numbers_is_read_or_refused(numbers in prop::collection::vec(any::<u64>(), 9), kind in 0_usize..8) {
            let kinds = ["llama", "mixtral", "qwen2", "qwen3_moe", "gemma2", "gpt_oss", "deepseek_v3", "llama4_text"];
            let names = ["hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
                "sliding_window", "num_local_experts", "head_dim", "attention_chunk_size"];
            let fields: Vec<_> = names.iter().zip(numbers).map(|(name, number)| format!("\"{name}\":{number}")).collect();
            let text = format!(r#"{{"torch_dtype":"float32","model_type":"{}","num_hidden_layers":4096,{}}}"#,
                kinds[kind], fields.join(","));
            let _ = read(text.as_bytes());
        }
    }
}
