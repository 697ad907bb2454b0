//! Which layers of a type of model keep what, and what stands in for an absent `head_dim`, as its configuration class has it.
//!
//! Looked up in the configuration classes of transformers 4.5x. A type that is not listed is refused.

/// What is known of a type of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What an absent `head_dim` means.
    pub head: Head,
    /// Which layers look back how far.
    pub layers: Layers,
    /// Whether an absent `num_key_value_heads` means `num_attention_heads`.
    pub ungrouped: bool,
}

/// What an absent `head_dim` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// `hidden_size / num_attention_heads`: the class itself computes it so.
    Divided,
    /// The class's own number.
    Fixed(u64),
    /// Nothing: it must be there.
    Needed,
}

/// Which layers look back how far, where `layer_types` does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    /// All of them to the beginning.
    Full,
    /// All of them within `sliding_window`, where that is there.
    Sliding,
    /// Within `sliding_window` from layer `max_window_layers` on, where `use_sliding_window` is true.
    SlidingFrom,
    /// Within `sliding_window`, but for the last of every so many; `sliding_window_pattern` may say how many.
    SlidingBut(u64),
    /// Within `attention_chunk_size`, but for those that `no_rope_layers` marks with 0.
    Chunked,
    /// A compressed vector.
    Latent,
}

const RULES: &[(&str, Head, Layers)] = &[
    ("llama", Head::Divided, Layers::Full),
    ("mistral", Head::Divided, Layers::Sliding),
    ("mixtral", Head::Divided, Layers::Sliding),
    ("qwen2", Head::Divided, Layers::SlidingFrom),
    ("qwen2_moe", Head::Divided, Layers::SlidingFrom),
    ("qwen2_5_vl_text", Head::Divided, Layers::SlidingFrom),
    ("qwen3", Head::Fixed(128), Layers::SlidingFrom),
    ("qwen3_moe", Head::Needed, Layers::SlidingFrom),
    ("gemma", Head::Fixed(256), Layers::Full),
    ("gemma2", Head::Fixed(256), Layers::SlidingBut(2)),
    ("gemma3_text", Head::Fixed(256), Layers::SlidingBut(6)),
    ("gpt_oss", Head::Fixed(64), Layers::SlidingBut(2)),
    ("cohere", Head::Divided, Layers::Full),
    ("cohere2", Head::Divided, Layers::SlidingBut(4)),
    ("phi", Head::Divided, Layers::Full),
    ("phi3", Head::Divided, Layers::Sliding),
    ("starcoder2", Head::Divided, Layers::Sliding),
    ("granite", Head::Divided, Layers::Full),
    ("olmo", Head::Divided, Layers::Full),
    ("olmo2", Head::Divided, Layers::Full),
    ("stablelm", Head::Divided, Layers::Full),
    ("llama4_text", Head::Needed, Layers::Chunked),
    ("deepseek_v2", Head::Needed, Layers::Latent),
    ("deepseek_v3", Head::Needed, Layers::Latent),
    ("glm4_moe", Head::Needed, Layers::Full),
];

/// Types whose class takes an absent `num_key_value_heads` for `num_attention_heads`.
const UNGROUPED: [&str; 5] = ["llama", "phi", "phi3", "granite", "olmo"];

/// The rule of a type of model; `None` for one that nobody looked up.
pub fn of(model_type: &str) -> Option<Rule> {
    let (name, head, layers) = RULES.iter().find(|(name, _, _)| *name == model_type)?;
    Some(Rule { head: *head, layers: *layers, ungrouped: UNGROUPED.contains(name) })
}
