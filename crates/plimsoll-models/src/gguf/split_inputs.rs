//! The inputs and steps that llama.cpp keeps in memory of their own, by architecture.
//!
//! On one GPU, an allocator reuses the memory of most steps. On the GPUs of a split model, every
//! tensor that comes from the host or from another GPU is copied, once for each of four pipeline
//! copies, and the copies are never reused. For most models that is the hidden state, which the
//! estimate of compute buffers includes. The architectures below keep more.
//!
//! Source: the buffers that llama.cpp of November 2026 reports for 1, 2, 3, 4 and 8 devices.

use super::error::GgufError;
use super::value::Metadata;
use crate::shape::{IndexerSteps, SplitInputs};

/// The tensors that an architecture keeps besides the hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Image features for the first layers (`n_deepstack_layers`), as wide as the hidden state
    /// each. Every view of them spans all of them.
    DeepStack,
    /// A multiple of the product of these keys: once on a single GPU, and on the GPUs of a split
    /// model.
    Steps { width: Width, single: u64, split: Split },
}

/// The width of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// Embeddings for each layer: `embedding_length_per_layer_input`.
    PerLayer,
    /// The width of a state-space layer: `ssm.inner_size`.
    StateSpace,
    /// The hidden size.
    Hidden,
}

/// The number of times that the GPUs of a split model keep an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    every: u64,
    /// More on the first GPU.
    first: u64,
    /// More on GPUs between the first and the last.
    middle: u64,
    /// More on the last GPU.
    last: u64,
}

const fn steps(width: Width, single: u64, [every, first, middle, last]: [u64; 4]) -> Input {
    Input::Steps { width, single, split: Split { every, first, middle, last } }
}

const INPUTS: &[(&str, Input)] = &[
    ("qwen3vl", Input::DeepStack),
    ("qwen3vlmoe", Input::DeepStack),
    ("gemma3n", steps(Width::PerLayer, 2, [9, 5, 0, 4])),
    ("gemma4", steps(Width::PerLayer, 2, [2, 3, 0, 0])),
    ("mamba", steps(Width::StateSpace, 4, [16, 0, 0, 0])),
    ("mamba2", steps(Width::StateSpace, 6, [13, 0, 5, 1])),
    ("granitehybrid", steps(Width::StateSpace, 0, [3, 0, 0, 0])),
    ("nemotron_h", steps(Width::StateSpace, 3, [10, 0, 5, 1])),
    ("nemotron_h_moe", steps(Width::StateSpace, 2, [10, 0, 5, 1])),
    ("lfm2", steps(Width::Hidden, 0, [0, 0, 0, 3])),
    ("lfm2moe", steps(Width::Hidden, 0, [0, 0, 0, 3])),
    ("jamba", steps(Width::StateSpace, 0, [6, 0, 4, 0])),
    ("hy_v4", steps(Width::Hidden, 14, [3, 0, 90, 90])),
    ("minimax-01", steps(Width::Hidden, 11, [26, 0, 0, 0])),
    ("talkie", steps(Width::Hidden, 0, [1, 0, 1, 1])),
    ("deepseek4", steps(Width::Hidden, 0, [0, 0, 16, 16])),
    ("rwkv6", steps(Width::Hidden, 0, [6, 0, 6, 0])),
    ("rwkv7", steps(Width::Hidden, 3, [11, 0, 5, 0])),
    ("deepseek32", steps(Width::Hidden, 15, [0, 0, 0, 0])),
    ("kimi-k3", steps(Width::Hidden, 0, [0, 0, 39, 46])),
    ("glm5-next", steps(Width::Hidden, 4, [1, 0, 13, 25])),
    ("glm-dsa", steps(Width::Hidden, 15, [1, 0, 0, 0])),
];

/// The steps of indexers that select blocks or pools of tokens: on a single GPU, on the first and
/// on each further one of a split model, and for each layer there. On a further GPU, llama.cpp
/// copies the part of a mask that each layer of MiniMax M3 uses, once for each pipeline copy.
const INDEXERS: &[(&str, [u64; 4])] = &[("minimax-m3", [8, 7, 4, 4]), ("glm5-next", [5, 7, 9, 0])];

/// Returns the inputs of a model.
pub fn read(metadata: &Metadata, architecture: &str) -> Result<SplitInputs, GgufError> {
    let indexer = INDEXERS.iter().find(|(name, _)| *name == architecture);
    let indexer = indexer.map(|(_, steps)| IndexerSteps {
        on_single_gpu: steps[0],
        on_first_gpu: steps[1],
        on_further_gpus: steps[2],
        per_layer: steps[3],
    });
    let inputs = inputs(metadata, architecture)?;
    Ok(SplitInputs { indexer: indexer.unwrap_or_default(), ..inputs })
}

fn inputs(metadata: &Metadata, architecture: &str) -> Result<SplitInputs, GgufError> {
    let Some((_, input)) = INPUTS.iter().find(|(name, _)| *name == architecture) else {
        return Ok(SplitInputs::default());
    };
    let number = |key: &str| {
        let number = metadata.number(&format!("{architecture}.{key}"));
        number.map(|number| number.unwrap_or(0))
    };
    Ok(match *input {
        Input::DeepStack => {
            let (layers, width) = (number("n_deepstack_layers")?, number("embedding_length")?);
            deep_stack(layers, width)
        }
        Input::Steps { width, single, split } => {
            let width = match width {
                Width::PerLayer => number("block_count")?
                    .saturating_mul(number("embedding_length_per_layer_input")?),
                Width::StateSpace => number("ssm.inner_size")?,
                Width::Hidden => number("embedding_length")?,
            };
            let inputs = SplitInputs {
                on_single_gpu: width.saturating_mul(single),
                ..SplitInputs::default()
            };
            SplitInputs {
                on_every_gpu: width.saturating_mul(split.every),
                on_first_gpu: width.saturating_mul(split.first),
                on_middle_gpus: width.saturating_mul(split.middle),
                on_last_gpu: width.saturating_mul(split.last),
                ..inputs
            }
        }
    })
}

fn deep_stack(layers: u64, width: u64) -> SplitInputs {
    if layers == 0 {
        return SplitInputs::default();
    }
    let parts = layers.saturating_add(1);
    let views = parts.saturating_mul(parts).saturating_add(3).saturating_mul(width);
    SplitInputs {
        on_single_gpu: views,
        on_first_gpu: views.saturating_mul(4),
        ..SplitInputs::default()
    }
}
