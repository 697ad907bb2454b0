//! The attention layers of each model type, and the meaning of absent fields, by configuration
//! class.
//!
//! Most fields of a `config.json` are optional, and their defaults are code of the model's
//! configuration class. One default for all types would be wrong without any sign of it: `qwen3`
//! has heads of 128 elements where `hidden_size / num_attention_heads` gives other numbers for
//! some sizes. So each type is looked up, and the cache of one that is not listed is unknown.
//!
//! Source: the configuration classes of transformers 4.5x and 5.22, and the caches of vLLM 0.33.

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
    /// One if `multi_query` is true, unless `new_decoder_architecture` is; then `num_kv_heads`.
    Falcon,
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
    /// Multi-head latent attention in all layers, with an indexer if `index_head_dim` is set.
    Latent,
    /// A window in all layers, beside one compressed key for `compress_ratios` tokens.
    Compressed,
    /// Full attention, with an indexer in the layers that `sparse_attention_config` marks.
    Sparse,
    /// No cache: an encoder that processes its whole input at once.
    NoCache,
    /// Attention as `block_configs` describes it for each layer.
    Blocks,
    /// Attention in some layers, a state of fixed size in the others.
    Hybrid(State, Attention),
    /// Attention beside a state of fixed size in every layer.
    Parallel(State),
    /// A window of `sliding_window` in the layers that `hybrid_layer_pattern` marks with 1, with
    /// heads of their own (`swa_*`).
    Marked,
}

/// The state of a hybrid's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Gated delta rule: `linear_*`.
    DeltaNet,
    /// Kimi delta attention: `linear_attn_config`, or fields with the prefix `linear_`.
    KimiDelta,
    /// Mamba 1: `mamba_d_*`, `mamba_expand`.
    Mamba,
    /// Mamba 2: heads, groups and state size.
    Mamba2,
    /// A short convolution: `conv_L_cache`.
    Convolution,
}

/// The attention of a hybrid's other layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    Grouped,
    Latent,
    /// Latent, with an indexer that keeps one key for `index_kpool` tokens.
    LatentPooled,
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
    ("step3p5", HeadLength::Fixed(128), Layers::Full),
    ("llama4_text", HeadLength::Required, Layers::Chunked),
    ("deepseek_v2", HeadLength::Required, Layers::Latent),
    ("deepseek_v3", HeadLength::Required, Layers::Latent),
    ("glm4_moe", HeadLength::Required, Layers::Full),
    // Plain attention.
    ("apertus", HeadLength::Divided, Layers::Full),
    ("arcee", HeadLength::Divided, Layers::Full),
    ("bailing_moe", HeadLength::Divided, Layers::Full),
    ("bailing_moe_v2", HeadLength::Divided, Layers::Full),
    ("dots1", HeadLength::Divided, Layers::Full),
    ("ernie4_5", HeadLength::Fixed(128), Layers::Full),
    ("ernie4_5_moe", HeadLength::Divided, Layers::Full),
    ("falcon", HeadLength::Divided, Layers::Full),
    ("glm4", HeadLength::Fixed(128), Layers::Full),
    ("glm4v_text", HeadLength::Divided, Layers::Full),
    ("glm4v_moe_text", HeadLength::Divided, Layers::Full),
    ("gpt2", HeadLength::Divided, Layers::Full),
    ("granitemoe", HeadLength::Divided, Layers::Full),
    ("granitemoeshared", HeadLength::Divided, Layers::Full),
    ("hunyuan_v1_dense", HeadLength::Divided, Layers::Full),
    ("hunyuan_v1_moe", HeadLength::Divided, Layers::Full),
    ("internlm2", HeadLength::Divided, Layers::Full),
    ("internlm3", HeadLength::Divided, Layers::Full),
    ("minimax_m2", HeadLength::Fixed(128), Layers::Full),
    ("minimax_m3_text", HeadLength::Fixed(128), Layers::Sparse),
    ("nemotron", HeadLength::Divided, Layers::Full),
    ("nemotron-nas", HeadLength::Divided, Layers::Blocks),
    ("olmoe", HeadLength::Divided, Layers::Full),
    ("qwen3_vl_text", HeadLength::Fixed(128), Layers::Full),
    ("qwen3_vl_moe_text", HeadLength::Divided, Layers::Full),
    ("seed_oss", HeadLength::Fixed(128), Layers::Full),
    ("ernie4_5_vl_moe_text", HeadLength::Divided, Layers::Full),
    ("glm", HeadLength::Fixed(128), Layers::Full),
    ("gpt_neox", HeadLength::Divided, Layers::Full),
    ("hy_v3", HeadLength::Fixed(128), Layers::Full),
    ("laguna", HeadLength::Fixed(128), Layers::Full),
    ("qwen3_omni_moe_text", HeadLength::Divided, Layers::Full),
    // Sliding windows.
    ("afmoe", HeadLength::Fixed(128), Layers::SlidingExceptLastOf(4)),
    ("exaone4", HeadLength::Divided, Layers::SlidingExceptLastOf(4)),
    ("exaone_moe", HeadLength::Divided, Layers::SlidingExceptLastOf(4)),
    ("gemma3n_text", HeadLength::Fixed(256), Layers::SlidingExceptLastOf(5)),
    ("gemma4_text", HeadLength::Fixed(256), Layers::SlidingExceptLastOf(6)),
    ("mimo", HeadLength::Divided, Layers::SlidingFrom),
    ("ministral3", HeadLength::Fixed(128), Layers::Sliding),
    ("olmo3", HeadLength::Divided, Layers::SlidingExceptLastOf(4)),
    ("phi4mm", HeadLength::Divided, Layers::Sliding),
    ("phimoe", HeadLength::Divided, Layers::Sliding),
    ("qwen2_vl", HeadLength::Divided, Layers::SlidingFrom),
    ("qwen2_vl_text", HeadLength::Divided, Layers::SlidingFrom),
    ("qwen2_5_vl", HeadLength::Divided, Layers::SlidingFrom),
    ("qwen2_5_omni_text", HeadLength::Divided, Layers::SlidingFrom),
    ("smollm3", HeadLength::Divided, Layers::SlidingFrom),
    // Latent attention.
    ("deepseek_v32", HeadLength::Required, Layers::Latent),
    ("deepseek_v4", HeadLength::Required, Layers::Compressed),
    ("glm4_moe_lite", HeadLength::Required, Layers::Latent),
    ("glm_moe_dsa", HeadLength::Required, Layers::Latent),
    ("kimi_k2", HeadLength::Required, Layers::Latent),
    // Hybrids.
    ("granitemoehybrid", HeadLength::Divided, Layers::Hybrid(State::Mamba2, Attention::Grouped)),
    ("jamba", HeadLength::Divided, Layers::Hybrid(State::Mamba, Attention::Grouped)),
    (
        "glm5_next_text",
        HeadLength::Required,
        Layers::Hybrid(State::KimiDelta, Attention::LatentPooled),
    ),
    ("kimi_linear", HeadLength::Required, Layers::Hybrid(State::KimiDelta, Attention::Latent)),
    ("lfm2", HeadLength::Divided, Layers::Hybrid(State::Convolution, Attention::Grouped)),
    ("lfm2_moe", HeadLength::Divided, Layers::Hybrid(State::Convolution, Attention::Grouped)),
    ("nemotron_h", HeadLength::Fixed(128), Layers::Hybrid(State::Mamba2, Attention::Grouped)),
    ("olmo_hybrid", HeadLength::Divided, Layers::Hybrid(State::DeltaNet, Attention::Grouped)),
    ("qwen3_next", HeadLength::Fixed(256), Layers::Hybrid(State::DeltaNet, Attention::Grouped)),
    ("qwen3_5_text", HeadLength::Fixed(256), Layers::Hybrid(State::DeltaNet, Attention::Grouped)),
    (
        "qwen3_5_moe_text",
        HeadLength::Fixed(256),
        Layers::Hybrid(State::DeltaNet, Attention::Grouped),
    ),
    ("falcon_h1", HeadLength::Required, Layers::Parallel(State::Mamba2)),
    ("mimo_v2_flash", HeadLength::Required, Layers::Marked),
    // Encoders.
    ("bert", HeadLength::Divided, Layers::NoCache),
    ("modernbert", HeadLength::Divided, Layers::NoCache),
    ("roberta", HeadLength::Divided, Layers::NoCache),
    ("xlm-roberta", HeadLength::Divided, Layers::NoCache),
];

/// Model types without a rule, and the reason.
const UNSERVED: [(&str, &str); 2] = [("mllama", MLLAMA), ("mllama_text_model", MLLAMA)];

const MLLAMA: &str = "Llama 3.2 Vision attends to images in layers of their own, and vLLM 0.33 has \
                      no class for it";

/// Returns the reason why a model type has no rule, if it is known.
pub fn unserved(model_type: &str) -> Option<&'static str> {
    UNSERVED.iter().find(|(name, _)| *name == model_type).map(|(_, reason)| *reason)
}

/// Returns all model types that are listed.
#[cfg(test)]
pub(crate) fn model_types() -> Vec<&'static str> {
    RULES.iter().map(|(name, _, _)| *name).collect()
}

/// Types whose layers with full attention have heads of another length than those with a window:
/// `global_head_dim`, or this default.
const GLOBAL_HEAD_LENGTHS: [(&str, u64); 1] = [("gemma4_text", 512)];

/// Returns the default of `global_head_dim`; `None` for a type that does not have the field.
pub fn global_head_length(model_type: &str) -> Option<u64> {
    let row = GLOBAL_HEAD_LENGTHS.iter().find(|(name, _)| *name == model_type);
    row.map(|(_, length)| *length)
}

/// Types whose class uses `num_attention_heads` for an absent `num_key_value_heads`.
const KV_HEADS_OPTIONAL: [&str; 19] = [
    "llama",
    "phi",
    "phi3",
    "granite",
    "olmo",
    "olmo3",
    "olmoe",
    "apertus",
    "arcee",
    "granitemoe",
    "granitemoeshared",
    "granitemoehybrid",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "nemotron",
    "gpt2",
    "gpt_neox",
    "olmo_hybrid",
    "afmoe",
];

/// Returns the rule of a model type; `None` if it is not listed.
pub fn for_model_type(model_type: &str) -> Option<Rule> {
    let (name, head_length, layers) = *RULES.iter().find(|(name, _, _)| *name == model_type)?;
    let kv_heads = match name {
        "falcon" => KvHeads::Falcon,
        _ if KV_HEADS_OPTIONAL.contains(&name) => KvHeads::AsAttentionHeads,
        _ => KvHeads::Required,
    };
    Some(Rule { head_length, layers, kv_heads })
}
