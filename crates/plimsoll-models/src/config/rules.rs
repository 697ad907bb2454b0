//! The attention layers of each model type, and the meaning of absent fields, by configuration
//! class.
//!
//! Most fields of a `config.json` are optional, and their defaults are code of the model's
//! configuration class. One default for all types would be wrong without any sign of it: `qwen3`
//! has heads of 128 elements where `hidden_size / num_attention_heads` gives other numbers for
//! some sizes. So each type is looked up, and the cache of one that is not listed is unknown.
//!
//! Source: the configuration classes of transformers 4.5x.

/// The properties of a model type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub head_length: HeadLength,
    pub layers: Layers,
    pub kv_heads: KvHeads,
}

/// The meaning of an absent `head_dim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadLength {
    /// `hidden_size / num_attention_heads`, as the class computes it.
    Divided,
    /// The default of the class.
    Fixed(u64),
    /// The field is required.
    Required,
}

/// The meaning of an absent `num_key_value_heads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvHeads {
    /// As many as `num_attention_heads`.
    AsAttentionHeads,
    /// The field is required.
    Required,
}

/// The attention of each layer, unless `layer_types` lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    /// Full attention in all layers.
    Full,
    /// A window of `sliding_window` in all layers, if that is set.
    Sliding,
    /// A window from layer `max_window_layers` on, if `use_sliding_window` is true.
    SlidingFrom,
    /// A window in all layers except the last of each group of this size, which
    /// `sliding_window_pattern` may replace.
    SlidingExceptLastOf(u64),
    /// Chunks of `attention_chunk_size`, except in layers that `no_rope_layers` marks with 0.
    Chunked,
    /// Multi-head latent attention in all layers.
    Latent,
}

const RULES: &[(&str, HeadLength, Layers)] = &[
    ("llama", HeadLength::Divided, Layers::Full),
    ("mistral", HeadLength::Divided, Layers::Sliding),
    ("mixtral", HeadLength::Divided, Layers::Sliding),
    ("qwen2", HeadLength::Divided, Layers::SlidingFrom),
    ("qwen2_moe", HeadLength::Divided, Layers::SlidingFrom),
    ("qwen2_5_vl_text", HeadLength::Divided, Layers::SlidingFrom),
    ("qwen3", HeadLength::Fixed(128), Layers::SlidingFrom),
    ("qwen3_moe", HeadLength::Required, Layers::SlidingFrom),
    ("gemma", HeadLength::Fixed(256), Layers::Full),
    ("gemma2", HeadLength::Fixed(256), Layers::SlidingExceptLastOf(2)),
    ("gemma3_text", HeadLength::Fixed(256), Layers::SlidingExceptLastOf(6)),
    ("gpt_oss", HeadLength::Fixed(64), Layers::SlidingExceptLastOf(2)),
    ("cohere", HeadLength::Divided, Layers::Full),
    ("cohere2", HeadLength::Divided, Layers::SlidingExceptLastOf(4)),
    ("phi", HeadLength::Divided, Layers::Full),
    ("phi3", HeadLength::Divided, Layers::Sliding),
    ("starcoder2", HeadLength::Divided, Layers::Sliding),
    ("granite", HeadLength::Divided, Layers::Full),
    ("olmo", HeadLength::Divided, Layers::Full),
    ("olmo2", HeadLength::Divided, Layers::Full),
    ("stablelm", HeadLength::Divided, Layers::Full),
    ("llama4_text", HeadLength::Required, Layers::Chunked),
    ("deepseek_v2", HeadLength::Required, Layers::Latent),
    ("deepseek_v3", HeadLength::Required, Layers::Latent),
    ("glm4_moe", HeadLength::Required, Layers::Full),
];

/// Types whose class uses `num_attention_heads` for an absent `num_key_value_heads`.
const KV_HEADS_OPTIONAL: [&str; 5] = ["llama", "phi", "phi3", "granite", "olmo"];

/// Returns the rule of a model type; `None` if it is not listed.
pub fn for_model_type(model_type: &str) -> Option<Rule> {
    let (name, head_length, layers) = *RULES.iter().find(|(name, _, _)| *name == model_type)?;
    let kv_heads = match KV_HEADS_OPTIONAL.contains(&name) {
        true => KvHeads::AsAttentionHeads,
        false => KvHeads::Required,
    };
    Some(Rule { head_length, layers, kv_heads })
}
