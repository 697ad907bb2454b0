//! The compute buffers of one GPU: the intermediate results of one forward pass.
//!
//! llama.cpp allocates its graph ahead of time, and tensors reuse the memory of others that are no
//! longer needed. The peak therefore is the widest step of a pass, plus everything that lives
//! beside it. Which steps overlap depends on the allocator and on the graph of each architecture.
//! To build that graph would mean a copy of llama.cpp; instead, each formula is an upper bound
//! with few terms, fitted to 1067 recorded answers of llama.cpp for 21 models. In total, no answer
//! is above the estimate, and the estimate is at most a tenth above it; a test checks each
//! one. `docs/estimates-judged.md` has the comparison.
//!
//! A bound that is too low would overcommit the device; a bound that is too high wastes memory.
//! Where the two conflict, the constants err on the high side.

use plimsoll_core::units::Bytes;

use super::error::EstimateError;
use super::indexers;
use super::kv;
use super::parts::Part;
use super::split::Split;
use crate::settings::{RuntimeKind, Scores, Settings};
use crate::shape::{Cache, Gate, ModelOutput, Shape};
use crate::source::{Source, Sourced};

/// Returns the compute buffers of GPU number `gpu`.
pub(super) fn on_gpu(
    shape: &Shape,
    settings: &Settings,
    split: &Split,
    gpu: usize,
) -> Result<Part, EstimateError> {
    let widths = match Widths::from_shape(shape, settings) {
        Ok(widths) => widths,
        Err(unknown) => return Ok(Part::unknown_like(unknown)),
    };
    let position = if split.has_output(gpu) { Position::Last } else { Position::BeforeLast };
    let inputs = split_inputs(shape, settings, gpu, position);
    let bytes = match settings.runtime {
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => {
            let masks = Masks::on_gpu(shape, settings, split, gpu)?;
            let borrowed = borrowed_caches(shape, settings, split, gpu)?;
            let indexers = indexers::on_gpu(shape, settings, split, gpu)?;
            let buffers = widths.llama_cpp(&masks, settings, (gpu, position), inputs);
            buffers.and_then(|bytes| bytes.checked_add(borrowed)?.checked_add(indexers))
        }
        RuntimeKind::Vllm => widths.vllm(settings),
    };
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = bytes.ok_or(EstimateError::Overflow { what: "the compute buffers" })?;
    Ok(Part::computed(Bytes::new(bytes), &widths.summary(settings)))
}

/// The position of a GPU in a split by layers. Only the last one computes the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    BeforeLast,
    Last,
}

/// The number of elements that one token has at each step of a pass.
struct Widths {
    embedding: u128,
    vocabulary: u128,
    /// The feed-forward network of a dense layer, or all experts that one token uses.
    feed_forward: u128,
    gate: Gate,
    /// The queries of all heads.
    queries: u128,
    /// The keys and values of all KV heads.
    keys_and_values: u128,
    heads: u128,
    experts_used: u128,
    /// A layer has a recurrent state of at least [`LARGE_STATE`] times the hidden size. Its
    /// intermediate steps are too large to reuse the memory of others.
    has_large_state: bool,
    /// The largest recurrent state of one request.
    state: u128,
    /// The tokens of one pass whose scores are kept.
    scored_tokens: u128,
}

/// Bytes of one intermediate element: llama.cpp computes in 32-bit floats.
const FLOAT_BYTES: u128 = 4;

/// Elements of small inputs for each token: positions, cache cells, requested outputs.
const INPUT_ELEMENTS: u128 = 64;

/// Small tensors of fixed size, such as the rotation matrices of a quantised cache.
const CONSTANT_BYTES: u128 = 1 << 20;

/// Some backends allocate in chunks of 1 GiB. A tensor of that size gets a chunk of its own, whose
/// memory no other tensor reuses.
const CHUNK_BYTES: u128 = 1 << 30;

/// The number of input copies for pipelining over several GPUs: `GGML_SCHED_MAX_COPIES`.
const PIPELINE_COPIES: u128 = 4;

/// The ratio of state to hidden size above which a state counts as large. Mamba has 32, RWKV and
/// Mamba 2 have more; the short convolutions of LFM2 have 2 and do share memory.
const LARGE_STATE: u128 = 16;

impl Widths {
    /// Collects the widths; the error is the source of the first unknown number.
    fn from_shape<'a>(shape: &'a Shape, settings: &Settings) -> Result<Widths, &'a Source> {
        let embedding = known(&shape.embedding)?;
        let vocabulary = match shape.output {
            ModelOutput::Scores => known(&shape.vocabulary)?,
            ModelOutput::Embeddings => 0,
        };
        let layers = shape.layers.get().ok_or(shape.layers.source())?;
        let heads = match shape.heads.get() {
            Some(heads) => u128::from(heads.iter().copied().max().unwrap_or(0)),
            None if layers.iter().any(has_attention) => return Err(shape.heads.source()),
            None => 0,
        };
        let is_without_cache = layers.iter().all(|layer| *layer == Cache::None);
        let head_length = layers.iter().map(head_length).max().unwrap_or(0);
        let state = layers.iter().map(state_elements).max().unwrap_or(0);
        let has_large_state = state > embedding.saturating_mul(LARGE_STATE);
        Ok(Widths {
            embedding,
            vocabulary,
            feed_forward: feed_forward(shape),
            gate: shape.gate,
            queries: match is_without_cache {
                true => embedding,
                false => heads.saturating_mul(head_length),
            },
            keys_and_values: match is_without_cache {
                true => embedding.saturating_mul(2),
                false => layers.iter().map(keys_and_values).max().unwrap_or(0),
            },
            heads,
            experts_used: shape.experts_used.get().copied().unwrap_or(0).into(),
            has_large_state,
            state,
            scored_tokens: scored_tokens(shape, settings),
        })
    }

    /// Returns llama.cpp's buffers, or `None` on overflow: the peak of a pass, the attention masks,
    /// the buffers between GPUs, and small inputs and constants.
    fn llama_cpp(
        &self,
        masks: &Masks,
        settings: &Settings,
        (gpu, position): (usize, Position),
        inputs: u128,
    ) -> Option<u128> {
        let float_row = kv::tokens_per_pass(settings).checked_mul(FLOAT_BYTES)?;
        let layer = self.layer(masks, settings)?.checked_mul(float_row)?;
        let peak = match position {
            Position::BeforeLast => layer,
            Position::Last => {
                let output = self.vocabulary.checked_add(self.residual()?)?;
                let row = self.scored_tokens.checked_mul(FLOAT_BYTES)?;
                self.peak(layer, output.checked_mul(row)?, settings)?
            }
        };
        let copies = if settings.gpus > 1 { PIPELINE_COPIES } else { 1 };
        let scores = masks.scored.checked_mul(float_row)?;
        let masks = masks.bytes(settings)?.checked_mul(copies)?.checked_add(scores)?;
        let between_gpus = self.between_gpus(settings, gpu, inputs)?.checked_mul(float_row)?;
        let states = self.states_between_gpus(settings)?;
        let small = INPUT_ELEMENTS.checked_mul(float_row)?.checked_add(CONSTANT_BYTES)?;
        peak.checked_add(masks)?.checked_add(between_gpus)?.checked_add(states)?.checked_add(small)
    }

    /// Returns the elements per token that are passed between GPUs. Each pipeline copy holds the
    /// hidden state twice, as received and in use; the first GPU holds the embeddings, too. Some
    /// architectures have further inputs.
    fn between_gpus(&self, settings: &Settings, gpu: usize, inputs: u128) -> Option<u128> {
        if settings.gpus == 1 {
            return Some(inputs);
        }
        let uses = if gpu == 0 { 3 } else { 2 };
        let hidden_states = self.embedding.checked_mul(uses * PIPELINE_COPIES)?;
        hidden_states.checked_add(inputs)
    }

    /// Returns the states of all requests that a GPU of a split model keeps besides its cache: one
    /// copy to read and one to write.
    fn states_between_gpus(&self, settings: &Settings) -> Option<u128> {
        if settings.gpus == 1 || !self.has_large_state {
            return Some(0);
        }
        self.state.checked_mul(2 * FLOAT_BYTES)?.checked_mul(settings.parallel.into())
    }

    /// Returns the peak of a GPU that computes layers and the output.
    ///
    /// The two steps follow each other, so they normally share memory and the larger one counts.
    /// They add up, in whole or in part, where the first leaves no gap that the second fits in.
    fn peak(&self, layer: u128, output: u128, settings: &Settings) -> Option<u128> {
        let (larger, smaller) = (layer.max(output), layer.min(output));
        if settings.flash_attention {
            let shares_memory = output < CHUNK_BYTES && !self.has_large_state;
            return if shares_memory { Some(larger) } else { layer.checked_add(output) };
        }
        if settings.gpus > 1 {
            return larger.checked_add(smaller / 2);
        }
        if self.has_large_state {
            // The score matrix leaves a gap for the output; the state leaves only fragments.
            return Some(output.checked_add(smaller)?.max(layer));
        }
        Some(larger)
    }

    /// Returns the elements per token of the widest step of a layer.
    ///
    /// Attention holds queries three times (projected, rotated, result) and keys and values once;
    /// the feed-forward network holds its steps. Without flash attention, the
    /// matrix of scores (one row of all cached tokens per head) fragments the buffer, so that
    /// attention and network do not share memory.
    fn layer(&self, masks: &Masks, settings: &Settings) -> Option<u128> {
        // Some architectures keep the result of attention beside the network.
        let residual = self.residual()?.checked_add(self.embedding)?;
        let attention = self.queries.checked_mul(3)?.checked_add(self.keys_and_values)?;
        let attention = attention.checked_add(residual)?;
        let feed_forward = self.network()?.checked_add(residual)?;
        if settings.flash_attention {
            return Some(attention.max(feed_forward));
        }
        let scores = masks.longest.checked_mul(self.heads)?;
        scores.checked_add(attention)?.checked_add(feed_forward)
    }

    /// Returns the elements per token of the feed-forward network: gate, up and their product, or
    /// up and its activation.
    fn network(&self) -> Option<u128> {
        self.feed_forward.checked_mul(match self.gate {
            Gate::Present => 3,
            Gate::Absent => 2,
        })
    }

    /// Returns the elements per token that live beside every step: the residual stream, its norm,
    /// the addends, and the result of each expert.
    fn residual(&self) -> Option<u128> {
        self.embedding.checked_mul(self.experts_used.checked_add(4)?)
    }

    /// Returns vLLM's activations, or `None` on overflow: the widest step of a whole batch in
    /// 16-bit floats, and three copies of the next token's scores per request in 32-bit floats.
    ///
    /// This is a plausible bound, not a fitted one. vLLM measures its activations at start and
    /// gives the KV cache what is left, so an error here changes the cache and not the total.
    fn vllm(&self, settings: &Settings) -> Option<u128> {
        let gpus = u128::from(settings.gpus);
        let feed_forward = self.feed_forward.checked_mul(3)?.div_ceil(gpus);
        let queries = self.queries.checked_mul(3)?.div_ceil(gpus);
        let residual = self.embedding.checked_mul(4)?;
        let widest = feed_forward.max(queries).checked_add(residual)?;
        let pass = widest.checked_mul(settings.batch.into())?.checked_mul(2)?;
        let scores = self.vocabulary.checked_mul(settings.parallel.into())?;
        pass.checked_add(scores.checked_mul(3 * FLOAT_BYTES)?)
    }

    fn summary(&self, settings: &Settings) -> String {
        let tokens = match settings.runtime {
            RuntimeKind::Vllm => settings.batch,
            RuntimeKind::LlamaCpp | RuntimeKind::Ollama => kv::ubatch(settings),
        };
        format!(
            "{tokens} tokens per pass, hidden size {}, vocabulary {}, flash attention {}",
            self.embedding,
            self.vocabulary,
            if settings.flash_attention { "on" } else { "off" }
        )
    }
}

/// The attention masks: one for all layers with full attention, one for all layers with a window.
struct Masks {
    /// The cached tokens that the masks cover, together.
    cells: u128,
    /// The cached tokens of the longer mask.
    longest: u128,
    /// The cached tokens that an indexer scores; 0 without one. It has a mask of its own.
    scored: u128,
}

impl Masks {
    /// Returns the masks of the layers on a GPU.
    fn on_gpu(
        shape: &Shape,
        settings: &Settings,
        split: &Split,
        gpu: usize,
    ) -> Result<Masks, EstimateError> {
        let layers = shape.layers.get().map(Vec::as_slice).unwrap_or_default();
        if layers.iter().all(|layer| *layer == Cache::None) {
            return Ok(Masks::for_whole_input(settings));
        }
        let (mut full, mut windowed, mut scored) = (0, 0, 0);
        let is_on_gpu = |layer: usize| split.gpu_of(layer).is_none_or(|holder| holder == gpu);
        for (_, layer) in layers.iter().enumerate().filter(|(layer, _)| is_on_gpu(*layer)) {
            // A layer without a cache of its own attends like the owner of the cache.
            let owner = shared_owner(layer).and_then(|owner| layers.get(owner));
            let layer = owner.unwrap_or(layer);
            match *layer {
                Cache::Latent { window: None, .. }
                | Cache::Grouped { window: None, .. }
                | Cache::GroupedWithState { .. }
                | Cache::GroupedWithIndexer { .. } => full = kv::cells(None, settings)?,
                Cache::Latent { window, .. } | Cache::Grouped { window, .. } => {
                    windowed = windowed.max(kv::cells(window, settings)?);
                }
                Cache::Compressed { window, .. } => {
                    full = kv::cells(None, settings)?;
                    windowed = windowed.max(kv::cells(Some(window), settings)?);
                }
                Cache::Recurrent { .. } | Cache::Shared { .. } | Cache::None => {}
            }
            scored = if layer.has_indexer() { kv::cells(None, settings)? } else { scored };
        }
        Ok(Masks {
            cells: u128::from(full) + u128::from(windowed) + u128::from(scored),
            longest: full.max(windowed).into(),
            scored: scored.into(),
        })
    }

    /// Returns the masks of a model without caches, which attends to the tokens of one pass. Some
    /// have layers with a window, too.
    fn for_whole_input(settings: &Settings) -> Masks {
        let tokens = kv::tokens_per_pass(settings);
        Masks { cells: 2 * tokens, longest: tokens, scored: 0 }
    }

    /// Returns the size of the masks. Flash attention takes them in 16-bit floats.
    fn bytes(&self, settings: &Settings) -> Option<u128> {
        let element = if settings.flash_attention { 2 } else { FLOAT_BYTES };
        self.cells.checked_mul(kv::tokens_per_pass(settings))?.checked_mul(element)
    }
}

/// Returns the copies of caches that layers of this GPU share with a layer of another GPU.
///
/// llama.cpp gives each such layer its own copy of the whole cache, in the compute buffers of the
/// layer's GPU, once for each pipeline copy.
fn borrowed_caches(
    shape: &Shape,
    settings: &Settings,
    split: &Split,
    gpu: usize,
) -> Result<u128, EstimateError> {
    let layers = shape.layers.get().map(Vec::as_slice).unwrap_or_default();
    let is_on_gpu = |layer: usize| split.gpu_of(layer) == Some(gpu);
    let owners: Vec<usize> = layers
        .iter()
        .enumerate()
        .filter(|(layer, _)| is_on_gpu(*layer))
        .filter_map(|(_, cache)| shared_owner(cache))
        .filter(|owner| !is_on_gpu(*owner))
        .collect();
    if owners.is_empty() {
        return Ok(0);
    }
    let caches = kv::per_layer(layers, settings)?;
    let bytes = owners.into_iter().filter_map(|owner| caches.get(owner));
    let sum: u128 = bytes.map(|bytes| u128::from(bytes.get())).sum();
    Ok(sum.saturating_mul(PIPELINE_COPIES))
}

/// Returns the elements per token that this GPU keeps besides the hidden state and the steps of a
/// layer.
fn split_inputs(shape: &Shape, settings: &Settings, gpu: usize, position: Position) -> u128 {
    let inputs = shape.split_inputs;
    if settings.gpus == 1 {
        return inputs.on_single_gpu.into();
    }
    let first = if gpu == 0 { inputs.on_first_gpu } else { 0 };
    let further = match position {
        Position::Last => inputs.on_last_gpu,
        Position::BeforeLast if gpu > 0 => inputs.on_middle_gpus,
        Position::BeforeLast => 0,
    };
    u128::from(first) + u128::from(inputs.on_every_gpu) + u128::from(further)
}

fn shared_owner(cache: &Cache) -> Option<usize> {
    match cache {
        Cache::Shared { owner } => usize::try_from(*owner).ok(),
        _ => None,
    }
}

/// Returns the tokens of one pass whose scores are kept: the last one of each request, and those
/// that a draft model proposes for it.
pub(super) fn scored_tokens(shape: &Shape, settings: &Settings) -> u128 {
    let each = u128::from(shape.drafted_tokens()) + 1;
    match settings.scores {
        Scores::EachRequest => (u128::from(settings.parallel) * each).min(settings.batch.into()),
        Scores::WholePass => kv::tokens_per_pass(settings),
    }
}

fn known(number: &Sourced<u64>) -> Result<u128, &Source> {
    number.get().map(|value| u128::from(*value)).ok_or(number.source())
}

fn feed_forward(shape: &Shape) -> u128 {
    let dense = widest(&shape.feed_forward).unwrap_or(0);
    let expert = widest(&shape.expert_feed_forward).filter(|width| *width > 0).unwrap_or(dense);
    let used = shape.experts_used.get().copied().unwrap_or(0);
    (u128::from(expert) * u128::from(used)).max(dense.into())
}

fn widest(layers: &Sourced<Vec<u64>>) -> Option<u64> {
    layers.get()?.iter().copied().max()
}

fn has_attention(cache: &Cache) -> bool {
    !matches!(cache, Cache::Recurrent { .. } | Cache::Shared { .. } | Cache::None)
}

fn head_length(cache: &Cache) -> u128 {
    match *cache {
        Cache::Grouped { key_length, value_length, .. }
        | Cache::GroupedWithState { key_length, value_length, .. }
        | Cache::GroupedWithIndexer { key_length, value_length, .. } => {
            key_length.max(value_length).into()
        }
        Cache::Latent { kv_lora_rank, rope_length, .. } => {
            u128::from(kv_lora_rank) + u128::from(rope_length)
        }
        Cache::Compressed { key_length, .. } => key_length.into(),
        Cache::Recurrent { .. } | Cache::Shared { .. } | Cache::None => 0,
    }
}

fn state_elements(cache: &Cache) -> u128 {
    match *cache {
        Cache::Recurrent { bytes } => u128::from(bytes) / FLOAT_BYTES,
        Cache::GroupedWithState { state, .. } => u128::from(state.get()) / FLOAT_BYTES,
        _ => 0,
    }
}

fn keys_and_values(cache: &Cache) -> u128 {
    match *cache {
        Cache::Grouped { kv_heads, key_length, value_length, .. }
        | Cache::GroupedWithState { kv_heads, key_length, value_length, .. }
        | Cache::GroupedWithIndexer { kv_heads, key_length, value_length, .. } => {
            let lengths = u128::from(key_length) + u128::from(value_length);
            lengths.saturating_mul(kv_heads.into())
        }
        _ => 0,
    }
}
