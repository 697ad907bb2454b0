//! The inputs that llama.cpp copies to the GPUs of a split model, by architecture.
//!
//! Every tensor that a GPU reads from the host or from another GPU is copied, once for each of four
//! pipeline copies, and the copies are never reused. For most models that is the hidden state,
//! which the estimate of compute buffers includes. The architectures below read more.
//!
//! Source: the buffers that llama.cpp of November 2026 reports for 2, 3 and 4 devices.

use super::error::GgufError;
use super::value::Metadata;
use crate::shape::SplitInputs;

/// The input that an architecture reads besides the hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Image features for the first layers (`n_deepstack_layers`), as wide as the hidden state
    /// each. Every view of them spans all of them.
    DeepStack,
    /// Embeddings for each layer (`embedding_length_per_layer_input`), this many times.
    PerLayer { times: u64 },
    /// The steps of a state-space layer (`ssm.inner_size`), this many times.
    StateSpace { times: u64 },
    /// The same, on GPUs between the first and the last.
    StateSpaceBetween { times: u64 },
}

const INPUTS: &[(&str, Input)] = &[
    ("qwen3vl", Input::DeepStack),
    ("qwen3vlmoe", Input::DeepStack),
    ("gemma3n", Input::PerLayer { times: 14 }),
    ("gemma4", Input::PerLayer { times: 5 }),
    ("mamba", Input::StateSpace { times: 16 }),
    ("mamba2", Input::StateSpace { times: 17 }),
    ("granitehybrid", Input::StateSpace { times: 3 }),
    ("nemotron_h", Input::StateSpaceBetween { times: 6 }),
    ("nemotron_h_moe", Input::StateSpaceBetween { times: 6 }),
];

/// Returns the inputs of a split model.
pub fn read(metadata: &Metadata, architecture: &str) -> Result<SplitInputs, GgufError> {
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
            let parts = layers.saturating_add(1);
            let views = parts.saturating_mul(parts).saturating_add(3);
            let copies = if layers == 0 { 0 } else { 4 };
            let on_first_gpu = views.saturating_mul(copies).saturating_mul(width);
            SplitInputs { on_first_gpu, ..SplitInputs::default() }
        }
        Input::PerLayer { times } => {
            let layers = number("block_count")?.saturating_mul(times);
            on_every_gpu(layers.saturating_mul(number("embedding_length_per_layer_input")?))
        }
        Input::StateSpace { times } => {
            on_every_gpu(number("ssm.inner_size")?.saturating_mul(times))
        }
        Input::StateSpaceBetween { times } => {
            let on_middle_gpus = number("ssm.inner_size")?.saturating_mul(times);
            SplitInputs { on_middle_gpus, ..SplitInputs::default() }
        }
    })
}

fn on_every_gpu(elements: u64) -> SplitInputs {
    SplitInputs { on_every_gpu: elements, ..SplitInputs::default() }
}
