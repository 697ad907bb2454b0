//! Buffers for the numbers in between: the largest moment of one pass over a batch, on one GPU.
//!
//! For llama.cpp the moments are bounds on what its allocator was seen to book for seventeen models: never less, and a few
//! tens of MiB more at most. `docs/estimate.md` has the comparison.

use plimsoll_core::units::Bytes;

use super::EstimateError;
use super::parts::Part;
use crate::kv;
use crate::settings::{RuntimeKind, Settings};
use crate::shape::{Cache, Shape};
use crate::source::Fact;

/// The compute buffers on GPU number `gpu`.
pub(super) fn on(shape: &Shape, settings: &Settings, gpu: usize) -> Result<Part, EstimateError> {
    let widths = match Widths::of(shape) {
        Ok(widths) => widths,
        Err(missing) => return Ok(missing),
    };
    let last = gpu as u64 + 1 == settings.gpus;
    let bytes = match settings.runtime {
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => {
            let masks = Masks::of(shape, settings)?;
            widths.llama(&masks, settings, last)
        }
        RuntimeKind::Vllm => widths.vllm(settings),
    };
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = bytes.ok_or(EstimateError::Overflow { what: "the compute buffers" })?;
    Ok(Part::computed(Bytes::new(bytes), &widths.source(settings)))
}

/// How many numbers one token has at each station of a pass.
struct Widths {
    embedding: u128,
    vocabulary: u128,
    /// Of a dense layer's network, or of all experts that a token uses.
    network: u128,
    /// All heads' queries.
    queries: u128,
    /// All heads' keys and values.
    pairs: u128,
    heads: u128,
    experts_used: u128,
    /// Whether a layer keeps a state that is many times as wide as the model.
    state_space: bool,
}

/// Small inputs for each token: positions, places in the cache, which tokens are asked for.
const INPUTS: u128 = 64;

/// Small tensors of fixed size, such as the rotations of a quantised cache.
const CONSTANTS: u128 = 128 << 10;

/// Some backends allocate in chunks of this size; what is larger has a chunk of its own and shares it with nothing.
const CHUNK: u128 = 1 << 30;

/// llama.cpp's scheduler keeps so many copies of inputs where several GPUs work one after another.
const COPIES: u128 = 4;

impl Widths {
    fn of(shape: &Shape) -> Result<Widths, Part> {
        let embedding = need(&shape.embedding)?;
        let vocabulary = need(&shape.vocabulary)?;
        let layers = shape.layers.get().ok_or_else(|| Part::unknown_as(shape.layers.source()))?;
        let heads = match shape.heads.get() {
            Some(heads) => u128::from(heads.iter().copied().max().unwrap_or(0)),
            None if layers.iter().any(attends) => {
                return Err(Part::unknown_as(shape.heads.source()));
            }
            None => 0,
        };
        let head = layers.iter().map(head).max().unwrap_or(0);
        let pairs = layers.iter().map(pairs).max().unwrap_or(0);
        let queries = heads.saturating_mul(head);
        let experts_used = u128::from(shape.experts_used.get().copied().unwrap_or(0));
        let network = network(shape);
        let state_space = layers.iter().any(|cache| state(cache) > embedding.saturating_mul(16));
        Ok(Widths {
            embedding,
            vocabulary,
            network,
            queries,
            pairs,
            heads,
            experts_used,
            state_space,
        })
    }

    /// The larger of the output and the widest station of a layer, four bytes a number.
    fn llama(&self, masks: &Masks, settings: &Settings, last: bool) -> Option<u128> {
        let tokens = at_once(settings).checked_mul(4)?;
        let copies = if settings.gpus > 1 { COPIES } else { 1 };
        let mask = masks.bytes(settings)?.checked_mul(copies)?;
        let layer = self.layer(masks, settings)?.checked_mul(tokens)?;
        let output = self.vocabulary.checked_add(self.beside()?)?.checked_mul(tokens)?;
        let widest = if last { self.widest(layer, output, settings)? } else { layer };
        let handed_on = self.handed_on(settings)?.checked_mul(tokens)?;
        let small = (INPUTS * tokens).checked_add(CONSTANTS)?;
        widest.checked_add(mask)?.checked_add(handed_on)?.checked_add(small)
    }

    /// What one GPU hands to the next is there in each copy, as it comes in, on its way and as it goes out; with it a state's steps.
    fn handed_on(&self, settings: &Settings) -> Option<u128> {
        if settings.gpus == 1 {
            return Some(0);
        }
        let steps = if self.state_space { self.network.checked_mul(4)? } else { 0 };
        self.embedding.checked_mul(3 * COPIES)?.checked_add(steps)
    }

    /// Layers and output in turn, or side by side where one leaves no room that the other could take.
    fn widest(&self, layer: u128, output: u128, settings: &Settings) -> Option<u128> {
        match settings.flash_attention {
            true if output >= CHUNK || self.state_space => layer.checked_add(output),
            false if settings.gpus > 1 => layer.max(output).checked_add(layer.min(output) / 2),
            // A large matrix leaves room that the output takes; what a state leaves is in pieces.
            false if self.state_space => {
                output.checked_add(layer.min(output)).map(|both| both.max(layer))
            }
            true | false => Some(layer.max(output)),
        }
    }

    /// The widest station of a layer. With a full matrix of attention, what follows finds no room between what came before.
    fn layer(&self, masks: &Masks, settings: &Settings) -> Option<u128> {
        let attention =
            self.queries.checked_mul(3)?.checked_add(self.pairs)?.checked_add(self.beside()?)?;
        let network = self.network.checked_mul(3)?.checked_add(self.beside()?)?;
        if settings.flash_attention {
            return Some(attention.max(network));
        }
        let matrix = masks.longest.checked_mul(self.heads)?;
        matrix.checked_add(attention)?.checked_add(network)
    }

    /// Beside each station: the running sum, its norm, what is being added to it, and what each expert said.
    fn beside(&self) -> Option<u128> {
        self.embedding.checked_mul(self.experts_used.checked_add(4)?)
    }

    /// Two bytes a number for a whole batch, and the scores of every request's next token three times in four bytes.
    fn vllm(&self, settings: &Settings) -> Option<u128> {
        let gpus = u128::from(settings.gpus);
        let network = self.network.checked_mul(3)?.div_ceil(gpus);
        let queries = self.queries.checked_mul(3)?.div_ceil(gpus);
        let wide = network.max(queries).checked_add(self.embedding.checked_mul(4)?)?;
        let pass = wide.checked_mul(settings.batch.into())?.checked_mul(2)?;
        let scores = self.vocabulary.checked_mul(settings.parallel.into())?.checked_mul(12)?;
        pass.checked_add(scores)
    }

    fn source(&self, settings: &Settings) -> String {
        let (embedding, vocabulary) = (self.embedding, self.vocabulary);
        let tokens = match settings.runtime {
            RuntimeKind::Vllm => settings.batch,
            RuntimeKind::LlamaCpp | RuntimeKind::Ollama => kv::ubatch(settings),
        };
        let attention = if settings.flash_attention { "with" } else { "without" };
        format!(
            "{tokens} tokens a pass, width {embedding}, {vocabulary} tokens known, {attention} flash attention"
        )
    }
}

/// Who may look at whom: one mask for layers that look at everything, one for layers with a window.
struct Masks {
    cells: u128,
    longest: u128,
}

impl Masks {
    fn of(shape: &Shape, settings: &Settings) -> Result<Masks, EstimateError> {
        let layers = shape.layers.get().map(Vec::as_slice).unwrap_or_default();
        let (mut full, mut windowed) = (0, 0);
        for layer in layers {
            match *layer {
                Cache::Latent { .. } => full = kv::cells(None, settings)?,
                Cache::Grouped { window: None, .. } => full = kv::cells(None, settings)?,
                Cache::Grouped { window, .. } => {
                    windowed = windowed.max(kv::cells(window, settings)?)
                }
                Cache::Recurrent { .. } | Cache::None => {}
            }
        }
        Ok(Masks {
            cells: u128::from(full) + u128::from(windowed),
            longest: full.max(windowed).into(),
        })
    }

    fn bytes(&self, settings: &Settings) -> Option<u128> {
        let cell = if settings.flash_attention { 2 } else { 4 };
        self.cells.checked_mul(at_once(settings))?.checked_mul(cell)
    }
}

/// Tokens that are computed at once. llama.cpp rounds up to as many for each request; this is the most that can add.
fn at_once(settings: &Settings) -> u128 {
    u128::from(kv::ubatch(settings)) + u128::from(settings.parallel.saturating_sub(1))
}

fn need(fact: &Fact<u64>) -> Result<u128, Part> {
    fact.get().map(|value| u128::from(*value)).ok_or_else(|| Part::unknown_as(fact.source()))
}

fn network(shape: &Shape) -> u128 {
    let widest =
        |fact: &Fact<Vec<u64>>| fact.get().and_then(|list| list.iter().copied().max()).unwrap_or(0);
    let dense = widest(&shape.feed_forward);
    let used = shape.experts_used.get().copied().unwrap_or(0);
    let expert = match widest(&shape.expert_feed_forward) {
        0 => dense,
        expert => expert,
    };
    (u128::from(expert) * u128::from(used)).max(dense.into())
}

fn attends(cache: &Cache) -> bool {
    matches!(cache, Cache::Grouped { .. } | Cache::Latent { .. })
}

fn head(cache: &Cache) -> u128 {
    match *cache {
        Cache::Grouped { key_length, value_length, .. } => key_length.max(value_length).into(),
        Cache::Latent { kv_lora_rank, rope_length } => {
            u128::from(kv_lora_rank) + u128::from(rope_length)
        }
        Cache::Recurrent { .. } | Cache::None => 0,
    }
}

/// The numbers of a state.
fn state(cache: &Cache) -> u128 {
    match *cache {
        Cache::Recurrent { bytes } => u128::from(bytes / 4),
        Cache::Grouped { .. } | Cache::Latent { .. } | Cache::None => 0,
    }
}

fn pairs(cache: &Cache) -> u128 {
    match *cache {
        Cache::Grouped { kv_heads, key_length, value_length, .. } => {
            let both = u128::from(key_length) + u128::from(value_length);
            both.saturating_mul(kv_heads.into())
        }
        Cache::Latent { .. } | Cache::Recurrent { .. } | Cache::None => 0,
    }
}
