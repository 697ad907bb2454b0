//! What the formulas need of a model, each number with its source, whatever file it was read from.

use plimsoll_core::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::source::Fact;

/// What the formulas need of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The architecture's name, as the file has it: `llama`, `Qwen3ForCausalLM`.
    pub architecture: String,
    /// The kind of file that it was read from.
    pub format: Format,
    /// What each layer keeps for the tokens that it has seen, in order.
    pub layers: Fact<Vec<Cache>>,
    /// How many attention heads each layer has, in order.
    pub heads: Fact<Vec<u64>>,
    /// The width of the model.
    pub embedding: Fact<u64>,
    /// The width of each layer's feed-forward network, in order.
    pub feed_forward: Fact<Vec<u64>>,
    /// How many tokens it knows.
    pub vocabulary: Fact<u64>,
    /// The longest context that it was trained for.
    pub trained_context: Fact<u64>,
    /// How many experts a layer has; none in a dense model.
    pub experts: Fact<u64>,
    /// How many of them one token uses, at most.
    pub experts_used: Fact<u64>,
    /// The width of one expert's network in each layer, in order.
    pub expert_feed_forward: Fact<Vec<u64>>,
    /// What its tensors take.
    pub weights: Fact<Weights>,
    /// What a reader should know that is no number: the tensor data is not all there, a part is not counted.
    pub remarks: Vec<String>,
}

/// The kind of file that a model was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A GGUF file, or all parts of a split one.
    Gguf,
    /// Safetensors files with their `config.json`.
    Safetensors,
    /// A `config.json` alone.
    Config,
}

/// What one layer keeps for the tokens that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cache {
    /// Keys and values of grouped heads, for every token or for those in a window.
    Grouped {
        /// How many heads have keys and values of their own.
        kv_heads: u64,
        /// Numbers in one head's key.
        key_length: u64,
        /// Numbers in one head's value.
        value_length: u64,
        /// How many tokens back it looks, where it does not look at all of them.
        window: Option<u64>,
    },
    /// One compressed vector a token, from which keys and values are made (MLA).
    Latent {
        /// Numbers in the compressed vector.
        kv_lora_rank: u64,
        /// Numbers of the key that carry the position.
        rope_length: u64,
    },
    /// A state of fixed size for each sequence.
    Recurrent {
        /// Its bytes for one sequence.
        bytes: u64,
    },
    /// Nothing.
    None,
}

/// What a model's tensors take, as sums of exact tensor sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// Each layer's tensors, in order.
    pub layers: Vec<Bytes>,
    /// The table of token embeddings.
    pub embedding: Bytes,
    /// What comes after the last layer: its norm and the output matrix where it has one of its own.
    pub output: Bytes,
    /// The size of the table of token embeddings where it is the output matrix too.
    pub tied: Option<Bytes>,
    /// Everything else.
    pub other: Bytes,
    /// How much of all that is in tensors with one dimension, which no split over GPUs divides.
    pub vectors: Bytes,
}

/// Where a tensor belongs.
pub(crate) enum Place {
    /// To a layer.
    Layer(usize),
    /// To the table of token embeddings.
    Embedding,
    /// Behind the last layer.
    Output,
    /// To none of these.
    Other,
}

impl Weights {
    /// Nothing yet, for a model with so many layers.
    pub(crate) fn of_layers(count: usize) -> Self {
        Weights { layers: vec![Bytes::ZERO; count], ..Weights::default() }
    }

    /// Counts a tensor; `None` when that is more than can be counted. A layer that the model does not have is something else.
    pub(crate) fn add(&mut self, place: &Place, bytes: Bytes, is_vector: bool) -> Option<()> {
        let sum = match place {
            Place::Layer(layer) => self.layers.get_mut(*layer).unwrap_or(&mut self.other),
            Place::Embedding => &mut self.embedding,
            Place::Output => &mut self.output,
            Place::Other => &mut self.other,
        };
        *sum = sum.checked_add(bytes)?;
        if is_vector {
            self.vectors = self.vectors.checked_add(bytes)?;
        }
        Some(())
    }
}
