//! The weights of a model whose tensors are not there, counted from its `config.json` where its class leaves nothing open.

use plimsoll_core::units::Bytes;

use super::ConfigError;
use super::fields::Fields;
use super::layers::{head_length, kv_heads};
use crate::shape::Weights;
use crate::source::Fact;

/// The weights of a model with so many layers, or the field that keeps them from being counted.
pub fn read(fields: &Fields, count: usize) -> Result<Fact<Weights>, ConfigError> {
    match counted(fields, count) {
        Ok(weights) => Ok(weights),
        Err(ConfigError::Missing { field }) => Ok(Fact::unknown(field)),
        Err(error) => Err(error),
    }
}

fn counted(fields: &Fields, count: usize) -> Result<Fact<Weights>, ConfigError> {
    let missing = |field: &str| ConfigError::Missing { field: field.to_string() };
    if fields.get("quantization_config").is_some() {
        return Err(missing("the headers of the quantised tensors"));
    }
    let width = width(fields).ok_or_else(|| missing("torch_dtype"))?;
    let sizes = Sizes::read(fields)?;
    let model_type = fields.text("model_type").unwrap_or_default();
    let layer = match model_type {
        "llama" | "mistral" | "qwen2" | "qwen3" => sizes.dense(fields, model_type)?,
        "mixtral" | "qwen3_moe" => sizes.experts(fields, model_type)?,
        other => {
            return Err(missing(&format!(
                "the headers of the tensors, for the model type {other}"
            )));
        }
    };
    let tied = fields.flag("tie_word_embeddings")?.unwrap_or(false);
    let weights = sizes.weights(&layer, tied, count, width).ok_or_else(|| ConfigError::Kind {
        field: "hidden_size".to_string(),
        expected: "a possible size",
    })?;
    Ok(Fact::computed(weights, format!("the sizes in config.json for the model type {model_type}")))
}

fn width(fields: &Fields) -> Option<u64> {
    match fields.text("torch_dtype").or_else(|| fields.text("dtype"))? {
        "bfloat16" | "float16" => Some(2),
        "float32" => Some(4),
        _ => None,
    }
}

struct Sizes {
    hidden: u128,
    queries: u128,
    keys: u128,
    head: u128,
    network: u128,
    vocabulary: u128,
}

/// How many numbers a layer has, and how many of them in vectors.
struct Layer {
    numbers: u128,
    vectors: u128,
}

impl Sizes {
    fn read(fields: &Fields) -> Result<Sizes, ConfigError> {
        let head = head_length(fields)?;
        let missing = || ConfigError::Missing { field: "head_dim".to_string() };
        let head = within("head_dim", *head.get().ok_or_else(missing)?)?;
        let number = |field| bounded(fields, field);
        Ok(Sizes {
            hidden: number("hidden_size")?,
            queries: head * number("num_attention_heads")?,
            keys: head * within("num_key_value_heads", kv_heads(fields)?)?,
            head,
            network: number("intermediate_size")?,
            vocabulary: number("vocab_size")?,
        })
    }

    fn attention(&self, fields: &Fields, model_type: &str) -> Result<Layer, ConfigError> {
        let matrices = 2 * self.hidden * (self.queries + self.keys);
        let bias = match model_type {
            "qwen2" => self.queries + 2 * self.keys,
            _ if fields.flag("attention_bias")? == Some(true) => {
                self.queries + 2 * self.keys + self.hidden
            }
            _ => 0,
        };
        let norms = if model_type.starts_with("qwen3") { 2 * self.head } else { 0 };
        let vectors = bias + norms + 2 * self.hidden;
        Ok(Layer { numbers: matrices + vectors, vectors })
    }

    fn dense(&self, fields: &Fields, model_type: &str) -> Result<Layer, ConfigError> {
        let attention = self.attention(fields, model_type)?;
        let bias =
            if fields.flag("mlp_bias")? == Some(true) { 2 * self.network + self.hidden } else { 0 };
        let numbers = attention.numbers + 3 * self.hidden * self.network + bias;
        Ok(Layer { numbers, vectors: attention.vectors + bias })
    }

    fn experts(&self, fields: &Fields, model_type: &str) -> Result<Layer, ConfigError> {
        let attention = self.attention(fields, model_type)?;
        let (experts, network) = match model_type {
            "mixtral" => (bounded(fields, "num_local_experts")?, self.network),
            _ => (bounded(fields, "num_experts")?, bounded(fields, "moe_intermediate_size")?),
        };
        let dense_too = fields.list("mlp_only_layers")?.is_some_and(|list| !list.is_empty())
            || fields.number("decoder_sparse_step")?.unwrap_or(1) != 1;
        if dense_too {
            return Err(ConfigError::Missing {
                field: "the headers of the dense layers' tensors".to_string(),
            });
        }
        let numbers = attention.numbers + experts * (3 * self.hidden * network + self.hidden);
        Ok(Layer { numbers, vectors: attention.vectors })
    }

    fn weights(&self, layer: &Layer, tied: bool, count: usize, width: u64) -> Option<Weights> {
        let bytes = |numbers: u128| {
            let bytes = numbers.checked_mul(width.into())?;
            u64::try_from(bytes).ok().map(Bytes::new)
        };
        let embedding = bytes(self.vocabulary * self.hidden)?;
        let output = if tied { Bytes::ZERO } else { embedding };
        let vectors = layer.vectors.checked_mul(count as u128)?.checked_add(self.hidden)?;
        Some(Weights {
            layers: vec![bytes(layer.numbers)?; count],
            embedding,
            output: output.checked_add(bytes(self.hidden)?)?,
            tied: tied.then_some(embedding),
            other: Bytes::ZERO,
            vectors: bytes(vectors)?,
        })
    }
}

/// A number that is small enough for products of three of them.
fn bounded(fields: &Fields, field: &str) -> Result<u128, ConfigError> {
    within(field, fields.need(field)?)
}

fn within(field: &str, value: u64) -> Result<u128, ConfigError> {
    let most = 1 << 32;
    if value > most {
        return Err(ConfigError::TooMuch { field: field.to_string(), value, most });
    }
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameter counts as the model cards on Hugging Face have them.
    #[test]
    fn published_models_have_the_published_number_of_parameters() {
        let llama = r#""model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
            "num_key_value_heads":8,"vocab_size":128256,"tie_word_embeddings":false"#;
        let qwen2 = r#""model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,"num_attention_heads":28,
            "num_key_value_heads":4,"vocab_size":152064,"tie_word_embeddings":false"#;
        let qwen3 = r#""model_type":"qwen3","hidden_size":4096,"intermediate_size":12288,"num_attention_heads":32,
            "num_key_value_heads":8,"head_dim":128,"vocab_size":151936,"attention_bias":false"#;
        let mistral = r#""model_type":"mistral","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
            "num_key_value_heads":8,"vocab_size":32000"#;
        let mixtral = r#""model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
            "num_key_value_heads":8,"num_local_experts":8,"vocab_size":32000"#;
        let qwen3_moe = r#""model_type":"qwen3_moe","hidden_size":2048,"intermediate_size":6144,"num_attention_heads":32,
            "num_key_value_heads":4,"head_dim":128,"num_experts":128,"moe_intermediate_size":768,
            "mlp_only_layers":[],"decoder_sparse_step":1,"vocab_size":151936"#;
        let small = r#""model_type":"qwen2","hidden_size":896,"intermediate_size":4864,"num_attention_heads":14,
            "num_key_value_heads":2,"vocab_size":151936,"tie_word_embeddings":true"#;
        for (config, layers, parameters) in [
            (llama, 32, 8_030_261_248),
            (qwen2, 28, 7_615_616_512),
            (qwen3, 36, 8_190_735_360),
            (mistral, 32, 7_241_732_096),
            (mixtral, 32, 46_702_792_704),
            (qwen3_moe, 48, 30_532_122_624),
            (small, 24, 494_032_768_u64),
        ] {
            let text = format!("{{\"torch_dtype\":\"bfloat16\",{config}}}");
            let fields = Fields::read(text.as_bytes()).expect("a config");
            let weights = read(&fields, layers).expect("counted");
            let weights = weights.get().expect("known");
            let sum = weights.layers.iter().map(|bytes| bytes.get()).sum::<u64>();
            assert_eq!(
                sum + weights.embedding.get() + weights.output.get(),
                2 * parameters,
                "{config}"
            );
        }
    }

    #[test]
    fn what_the_class_leaves_open_is_unknown_with_the_fields_name() {
        for (config, missing) in [
            (r#"{"model_type":"llama","hidden_size":8}"#, "torch_dtype"),
            (
                r#"{"torch_dtype":"bfloat16","quantization_config":{}}"#,
                "the headers of the quantised tensors",
            ),
            (r#"{"torch_dtype":"bfloat16","model_type":"qwen3_moe","hidden_size":8}"#, "head_dim"),
        ] {
            let fields = Fields::read(config.as_bytes()).expect("a config");
            assert_eq!(read(&fields, 2).expect("read"), Fact::unknown(missing), "{config}");
        }
    }
}
