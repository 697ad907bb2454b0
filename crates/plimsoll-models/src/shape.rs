//! The facts about a model that the estimate formulas use, independent of the file format.

use plimsoll_core::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::source::Sourced;

/// The facts about a model that the estimate formulas use. Lists have one entry per layer, in
/// order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The architecture as the file names it: `llama`, `Qwen3ForCausalLM`.
    pub architecture: String,
    pub format: Format,
    #[serde(default)]
    pub identity: Identity,
    pub layers: Sourced<Vec<Cache>>,
    /// Attention heads of each layer.
    pub heads: Sourced<Vec<u64>>,
    /// The hidden size.
    pub embedding: Sourced<u64>,
    /// The width of each layer's feed-forward network.
    pub feed_forward: Sourced<Vec<u64>>,
    /// The number of tokens in the vocabulary.
    pub vocabulary: Sourced<u64>,
    /// The longest context that the model was trained for.
    pub trained_context: Sourced<u64>,
    /// The number of experts in a layer; unknown for dense models.
    pub experts: Sourced<u64>,
    /// The largest number of experts that one token uses.
    pub experts_used: Sourced<u64>,
    /// The width of one expert's network in each layer.
    pub expert_feed_forward: Sourced<Vec<u64>>,
    pub weights: Sourced<Weights>,
    #[serde(default)]
    pub output: ModelOutput,
    #[serde(default)]
    pub flash_attention: FlashAttention,
    #[serde(default)]
    pub gate: Gate,
    /// The intermediate results that only some architectures keep.
    #[serde(default)]
    pub split_inputs: SplitInputs,
    /// The tensor data that is not in the files. A header is enough for an estimate, but not to
    /// serve the model.
    #[serde(default)]
    pub absent: Bytes,
    /// Notes for the reader of an estimate, such as missing tensor data.
    pub remarks: Vec<String>,
    #[serde(default)]
    pub passes: LayerPasses,
    #[serde(default)]
    pub contents: Contents,
    /// The files that llama-server loads beside the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additions: Vec<Addition>,
}

impl Shape {
    /// Returns a shape without any fact; its layers name what is missing.
    pub(crate) fn unknown(architecture: &str, format: Format, missing: &str) -> Shape {
        Shape {
            architecture: architecture.to_string(),
            format,
            identity: Identity::default(),
            layers: Sourced::unknown(missing),
            heads: Sourced::unknown(missing),
            embedding: Sourced::unknown(missing),
            feed_forward: Sourced::unknown(missing),
            vocabulary: Sourced::unknown(missing),
            trained_context: Sourced::unknown(missing),
            experts: Sourced::unknown(missing),
            experts_used: Sourced::unknown(missing),
            expert_feed_forward: Sourced::unknown(missing),
            weights: Sourced::unknown(missing),
            output: ModelOutput::Scores,
            flash_attention: FlashAttention::Supported,
            gate: Gate::Present,
            split_inputs: SplitInputs::default(),
            absent: Bytes::ZERO,
            remarks: Vec::new(),
            passes: LayerPasses::Once,
            contents: Contents::Model,
            additions: Vec::new(),
        }
    }

    /// Returns the tokens that are drafted for the model; 0 without a draft model.
    pub(crate) fn drafted_tokens(&self) -> u64 {
        let has_draft = self.additions.iter().any(|one| matches!(one, Addition::Draft(_)));
        if has_draft { DRAFTED_TOKENS } else { 0 }
    }

    /// Returns the number of layers, which the tensors show even if the caches are unknown.
    pub fn layer_count(&self) -> Option<usize> {
        let from_caches = self.layers.get().map(Vec::len);
        from_caches.or_else(|| self.weights.get().map(|weights| weights.layers.len()))
    }
}

/// The number of times that one pass of the model goes through its layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerPasses {
    #[default]
    Once,
    Several,
}

/// The part that a file has in a model server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    #[default]
    Model,
    Projector(Projector),
    Adapter(Adapter),
}

impl Contents {
    /// Returns what it is, for messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Contents::Model => "a model",
            Contents::Projector(_) => "a projector",
            Contents::Adapter(_) => "a LoRA adapter",
        }
    }
}

/// A model that turns images into embeddings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Projector {
    /// The buffers for the largest image.
    pub compute: Sourced<Bytes>,
    /// The matrix of attention scores, which there is without flash attention.
    pub scores: Bytes,
}

impl Default for Projector {
    fn default() -> Self {
        Projector { compute: Sourced::unknown("the projector"), scores: Bytes::ZERO }
    }
}

/// A LoRA adapter: two small matrices for each matrix that it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapter {
    /// The number of elements between the two matrices.
    pub rank: u64,
    /// The largest number of results of a matrix, except the output matrix.
    pub widest: u64,
}

/// The tokens that a draft model proposes at once: llama-server's default.
pub(crate) const DRAFTED_TOKENS: u64 = 3;

/// A file that llama-server loads beside a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Addition {
    /// `--mmproj`: turns images into embeddings.
    Projector(Shape),
    /// `--lora`: changes the results of matrices.
    Adapter(Shape),
    /// `--model-draft`: proposes tokens, which the model checks.
    Draft(Shape),
}

/// Facts that people know a model by. They do not affect estimates, and each may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub name: Option<String>,
    /// The type that the weights are stored in, as its publisher calls it: `Q4_K_M`, `fp8`.
    pub quantisation: Option<String>,
    /// The number of weights.
    pub parameters: Option<u64>,
}

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelOutput {
    /// Scores of the whole vocabulary.
    #[default]
    Scores,
    /// Embeddings, which are as wide as the hidden state.
    Embeddings,
}

/// The gate of a feed-forward network, which multiplies the result of a second matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    #[default]
    Present,
    Absent,
}

/// The effect of the setting for flash attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlashAttention {
    /// It follows the setting.
    #[default]
    Supported,
    /// It is off for this architecture, whatever the setting is.
    SwitchedOff,
}

/// Elements per token that llama.cpp keeps beside the steps of a common layer. For a model on
/// several GPUs, they are those of all pipeline copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitInputs {
    #[serde(default)]
    pub on_single_gpu: u64,
    pub on_first_gpu: u64,
    pub on_every_gpu: u64,
    /// On all GPUs but the first and the one with the output.
    #[serde(default)]
    pub on_middle_gpus: u64,
    #[serde(default)]
    pub on_last_gpu: u64,
    #[serde(default)]
    pub indexer: IndexerSteps,
}

/// Elements for each cached token and each token of a pass that llama.cpp keeps while an indexer
/// selects among the cached tokens, besides one score and its mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexerSteps {
    pub on_single_gpu: u64,
    pub on_first_gpu: u64,
    /// On each GPU of a split model but the first.
    pub on_further_gpus: u64,
    /// For each layer with an indexer on those GPUs.
    pub per_layer: u64,
}

/// The kind of file that a model was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A GGUF file, or all parts of a split one.
    Gguf,
    /// Safetensors files with their `config.json`.
    Safetensors,
    /// A `config.json` without tensors.
    Config,
}

/// The state that one layer keeps between tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cache {
    /// Keys and values of grouped-query attention.
    Grouped {
        kv_heads: u64,
        /// Elements in the key of one head.
        key_length: u64,
        /// Elements in the value of one head.
        value_length: u64,
        /// The sliding window in tokens; `None` for full attention.
        window: Option<u64>,
    },
    /// Keys and values of grouped-query attention, beside a recurrent state of fixed size.
    GroupedWithState { kv_heads: u64, key_length: u64, value_length: u64, state: Bytes },
    /// Keys and values of grouped-query attention, beside the key that selects tokens for sparse
    /// attention.
    GroupedWithIndexer { kv_heads: u64, key_length: u64, value_length: u64, indexer_length: u64 },
    /// Multi-head latent attention (MLA): one compressed vector per token.
    Latent {
        kv_lora_rank: u64,
        /// Elements of the key that carry the position.
        rope_length: u64,
        /// Elements of the key that selects tokens for sparse attention; 0 without an indexer.
        #[serde(default)]
        indexer_length: u64,
        /// The sliding window in tokens; `None` for full attention.
        #[serde(default)]
        window: Option<u64>,
    },
    /// Keys of a sliding window, beside one compressed key for each `ratio` tokens and the state
    /// of their compression.
    Compressed {
        key_length: u64,
        window: u64,
        /// The tokens of one compressed key; 0 without compression.
        ratio: u64,
        /// Elements of the compressed key that selects tokens; 0 without an indexer.
        indexer_length: u64,
        state: Bytes,
    },
    /// A recurrent state of fixed size per sequence.
    Recurrent { bytes: u64 },
    /// No state of its own: the layer attends to the cache of a lower layer.
    Shared {
        /// The layer that owns the cache, counted from 0.
        owner: u64,
    },
    /// No state.
    None,
}

impl Cache {
    /// Returns true if an indexer selects among the tokens.
    pub(crate) const fn has_indexer(&self) -> bool {
        match self {
            Cache::Latent { indexer_length, .. }
            | Cache::Compressed { indexer_length, .. }
            | Cache::GroupedWithIndexer { indexer_length, .. } => *indexer_length > 0,
            Cache::Grouped { .. }
            | Cache::GroupedWithState { .. }
            | Cache::Recurrent { .. }
            | Cache::Shared { .. }
            | Cache::None => false,
        }
    }
}

/// The bytes of a model's tensors, as sums of exact tensor sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    pub layers: Vec<Bytes>,
    /// The token embeddings.
    pub embedding: Bytes,
    /// The tensors between the embeddings and the first layer.
    #[serde(default)]
    pub input: Bytes,
    /// The tensors after the last layer: the norm, and the output matrix if the model has its own.
    pub output: Bytes,
    /// The size of the embedding matrix if it is also used as the output matrix.
    pub tied: Option<Bytes>,
    pub other: Bytes,
    /// The part of the sums above that is in one-dimensional tensors. Tensor parallelism copies
    /// these to every GPU instead of dividing them.
    pub vectors: Bytes,
}

/// The part of the model that a tensor belongs to.
pub(crate) enum TensorRole {
    Layer(usize),
    Embedding,
    Input,
    Output,
    Other,
}

/// The distinction that decides whether tensor parallelism divides a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorRank {
    Vector,
    Matrix,
}

impl Weights {
    /// Returns empty sums for a model with `count` layers.
    pub(crate) fn with_layers(count: usize) -> Self {
        Weights { layers: vec![Bytes::ZERO; count], ..Weights::default() }
    }

    /// Adds one tensor, and returns `None` on overflow.
    ///
    /// A layer number beyond the declared layers counts as `other`: the bytes are real even if the
    /// header is inconsistent, and dropping them would make the estimate too low.
    pub(crate) fn add(&mut self, role: &TensorRole, rank: TensorRank, bytes: Bytes) -> Option<()> {
        let sum = match role {
            TensorRole::Layer(layer) => self.layers.get_mut(*layer).unwrap_or(&mut self.other),
            TensorRole::Embedding => &mut self.embedding,
            TensorRole::Input => &mut self.input,
            TensorRole::Output => &mut self.output,
            TensorRole::Other => &mut self.other,
        };
        *sum = sum.checked_add(bytes)?;
        if rank == TensorRank::Vector {
            self.vectors = self.vectors.checked_add(bytes)?;
        }
        Some(())
    }
}
