//! The weights of a model without tensor files, computed from its `config.json`.
//!
//! This is possible only for types whose class determines every tensor. All others, and all
//! quantised models, have tensors that the configuration does not describe, so their weights are
//! unknown until the tensor headers are there.

use plimsoll_core::units::Bytes;

use super::error::ConfigError;
use super::fields::Fields;
use super::layers::{head_length, kv_heads};
use crate::shape::Weights;
use crate::source::Sourced;

/// Returns the weights of a model with `count` layers, or the field that prevents the computation.
pub fn read(fields: &Fields, count: usize) -> Result<Sourced<Weights>, ConfigError> {
    match compute(fields, count) {
        Err(ConfigError::MissingField { field }) => Ok(Sourced::unknown(field)),
        weights => weights,
    }
}

fn compute(fields: &Fields, count: usize) -> Result<Sourced<Weights>, ConfigError> {
    if fields.get("quantization_config").is_some() {
        return Err(ConfigError::missing("the headers of the quantised tensors"));
    }
    let element_bytes = element_bytes(fields).ok_or_else(|| ConfigError::missing("torch_dtype"))?;
    let sizes = Sizes::read(fields)?;
    let model_type = fields.text("model_type").unwrap_or_default();
    let layer = match model_type {
        "llama" | "mistral" | "qwen2" | "qwen3" => sizes.dense_layer(fields, model_type)?,
        "mixtral" | "qwen3_moe" => sizes.expert_layer(fields, model_type)?,
        other => {
            let field = format!("the headers of the tensors, for the model type {other}");
            return Err(ConfigError::missing(field));
        }
    };
    let output = match fields.boolean("tie_word_embeddings")? {
        Some(true) => OutputMatrix::Tied,
        Some(false) | None => OutputMatrix::Own,
    };
    let weights = sizes.weights(&layer, output, count, element_bytes);
    let weights = weights.ok_or_else(|| ConfigError::invalid("hidden_size", "a possible size"))?;
    Ok(Sourced::computed(weights, format!("the sizes in config.json for model type {model_type}")))
}

fn element_bytes(fields: &Fields) -> Option<u128> {
    match fields.text("torch_dtype").or_else(|| fields.text("dtype"))? {
        "bfloat16" | "float16" => Some(2),
        "float32" => Some(4),
        _ => None,
    }
}

/// The sizes that the tensors are made of. Each is at most 2^32 (see [`within_limit`]), so that
/// products of three of them, and sums of a few such products, fit in 128 bits.
struct Sizes {
    hidden: u128,
    /// The length of the queries of all heads together.
    queries: u128,
    /// The length of the keys of all KV heads together.
    keys: u128,
    head: u128,
    feed_forward: u128,
    vocabulary: u128,
}

/// The number of elements in one layer.
struct LayerElements {
    all: u128,
    /// The part of `all` that is in one-dimensional tensors.
    vectors: u128,
}

/// The origin of the output matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputMatrix {
    Own,
    /// The embedding matrix is used.
    Tied,
}

impl Sizes {
    fn read(fields: &Fields) -> Result<Sizes, ConfigError> {
        let head = head_length(fields)?;
        let head = head.get().ok_or_else(|| ConfigError::missing("head_dim"))?;
        let head = within_limit("head_dim", *head)?;
        Ok(Sizes {
            hidden: size(fields, "hidden_size")?,
            queries: head * size(fields, "num_attention_heads")?,
            keys: head * within_limit("num_key_value_heads", kv_heads(fields)?)?,
            head,
            feed_forward: size(fields, "intermediate_size")?,
            vocabulary: size(fields, "vocab_size")?,
        })
    }

    /// Counts the query, key, value and output projections, their biases, the norms of queries
    /// and keys (Qwen3), and the two norms of the layer.
    fn attention(&self, fields: &Fields, model_type: &str) -> Result<LayerElements, ConfigError> {
        let matrices = 2 * self.hidden * (self.queries + self.keys);
        let bias = match model_type {
            "qwen2" => self.queries + 2 * self.keys,
            _ if fields.boolean("attention_bias")? == Some(true) => {
                self.queries + 2 * self.keys + self.hidden
            }
            _ => 0,
        };
        let head_norms = if model_type.starts_with("qwen3") { 2 * self.head } else { 0 };
        let vectors = bias + head_norms + 2 * self.hidden;
        Ok(LayerElements { all: matrices + vectors, vectors })
    }

    /// Adds the gate, up and down projections of a dense feed-forward network.
    fn dense_layer(&self, fields: &Fields, model_type: &str) -> Result<LayerElements, ConfigError> {
        let attention = self.attention(fields, model_type)?;
        let bias = match fields.boolean("mlp_bias")? {
            Some(true) => 2 * self.feed_forward + self.hidden,
            Some(false) | None => 0,
        };
        let all = attention.all + 3 * self.hidden * self.feed_forward + bias;
        Ok(LayerElements { all, vectors: attention.vectors + bias })
    }

    /// Adds the projections of all experts and the router.
    fn expert_layer(
        &self,
        fields: &Fields,
        model_type: &str,
    ) -> Result<LayerElements, ConfigError> {
        let attention = self.attention(fields, model_type)?;
        let (experts, feed_forward) = match model_type {
            "mixtral" => (size(fields, "num_local_experts")?, self.feed_forward),
            _ => (size(fields, "num_experts")?, size(fields, "moe_intermediate_size")?),
        };
        let has_dense_layers = fields.list("mlp_only_layers")?.is_some_and(|list| !list.is_empty())
            || fields.number("decoder_sparse_step")?.unwrap_or(1) != 1;
        if has_dense_layers {
            return Err(ConfigError::missing("the headers of the dense layers' tensors"));
        }
        let expert = 3 * self.hidden * feed_forward;
        let router_row = self.hidden;
        let all = attention.all + experts * (expert + router_row);
        Ok(LayerElements { all, vectors: attention.vectors })
    }

    /// Returns the weights in bytes, or `None` on overflow.
    fn weights(
        &self,
        layer: &LayerElements,
        output: OutputMatrix,
        count: usize,
        element_bytes: u128,
    ) -> Option<Weights> {
        let embedding = to_bytes(self.vocabulary * self.hidden, element_bytes)?;
        let output_matrix = match output {
            OutputMatrix::Own => embedding,
            OutputMatrix::Tied => Bytes::ZERO,
        };
        let norm = to_bytes(self.hidden, element_bytes)?;
        let vectors = layer.vectors.checked_mul(count as u128)?.checked_add(self.hidden)?;
        Some(Weights {
            layers: vec![to_bytes(layer.all, element_bytes)?; count],
            embedding,
            output: output_matrix.checked_add(norm)?,
            tied: (output == OutputMatrix::Tied).then_some(embedding),
            input: Bytes::ZERO,
            other: Bytes::ZERO,
            vectors: to_bytes(vectors, element_bytes)?,
        })
    }
}

fn to_bytes(elements: u128, element_bytes: u128) -> Option<Bytes> {
    let bytes = elements.checked_mul(element_bytes)?;
    u64::try_from(bytes).ok().map(Bytes::new)
}

fn size(fields: &Fields, field: &str) -> Result<u128, ConfigError> {
    within_limit(field, fields.require(field)?)
}

fn within_limit(field: &str, value: u64) -> Result<u128, ConfigError> {
    let limit = 1 << 32;
    if value > limit {
        return Err(ConfigError::LimitExceeded { field: field.to_string(), value, limit });
    }
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameter counts are from the model cards on Hugging Face.
    #[test]
    fn published_models_have_their_published_parameter_counts() {
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
            let fields = Fields::read(text.as_bytes()).expect("reads the config");
            let weights = read(&fields, layers).expect("computes the weights");
            let weights = weights.get().expect("weights are known");
            let sum = weights.layers.iter().map(|bytes| bytes.get()).sum::<u64>();
            assert_eq!(
                sum + weights.embedding.get() + weights.output.get(),
                2 * parameters,
                "{config}"
            );
        }
    }

    #[test]
    fn weights_that_the_class_does_not_determine_are_unknown() {
        for (config, missing) in [
            (r#"{"model_type":"llama","hidden_size":8}"#, "torch_dtype"),
            (
                r#"{"torch_dtype":"bfloat16","quantization_config":{}}"#,
                "the headers of the quantised tensors",
            ),
            (r#"{"torch_dtype":"bfloat16","model_type":"qwen3_moe","hidden_size":8}"#, "head_dim"),
        ] {
            let fields = Fields::read(config.as_bytes()).expect("reads the config");
            assert_eq!(
                read(&fields, 2).expect("computes the weights"),
                Sourced::unknown(missing),
                "{config}"
            );
        }
    }
}
