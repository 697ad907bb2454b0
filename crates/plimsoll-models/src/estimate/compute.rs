//! Buffers for the numbers in between: the largest moment of one pass over a batch, on one GPU.

use plimsoll_core::units::Bytes;

use super::EstimateError;
use super::parts::Part;
use crate::kv;
use crate::settings::{RuntimeKind, Settings};
use crate::shape::{Cache, Shape};
use crate::source::Fact;

/// The compute buffers on GPU number `gpu`.
pub(super) fn on(shape: &Shape, settings: &Settings, gpu: usize) -> Result<Part, EstimateError> {
    let wanted = Wanted::of(shape);
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(missing) => return Ok(missing),
    };
    let last = gpu as u64 + 1 == settings.gpus;
    let bytes = match settings.runtime {
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => wanted.llama(settings, last),
        RuntimeKind::Vllm => wanted.vllm(settings),
    };
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = bytes.ok_or(EstimateError::Overflow { what: "the compute buffers" })?;
    Ok(Part::computed(Bytes::new(bytes), &wanted.source(settings)))
}

/// What llama.cpp reads in for a pass beside the mask, and small gaps between its tensors.
const SMALL_INPUTS: u128 = 1 << 20;

/// The widths that decide how large the buffers are.
struct Wanted {
    embedding: u128,
    vocabulary: u128,
    network: u128,
    heads: u128,
    head: u128,
    caches: Vec<Cache>,
    experts_used: u128,
}

impl Wanted {
    fn of(shape: &Shape) -> Result<Wanted, Part> {
        let embedding = need(&shape.embedding)?;
        let vocabulary = need(&shape.vocabulary)?;
        let layers = shape.layers.get().ok_or_else(|| Part::unknown_as(shape.layers.source()))?;
        let caches = distinct(layers);
        let head = caches.iter().map(head).max().unwrap_or(0);
        let heads = match shape.heads.get() {
            Some(heads) => heads.iter().copied().max().unwrap_or(0),
            None if caches.iter().any(attends) => return Err(Part::unknown_as(shape.heads.source())),
            None => 0,
        };
        let network = network(shape)?;
        let (heads, head) = (u128::from(heads), u128::from(head));
        let experts_used = shape.experts_used.get().copied().unwrap_or(0).into();
        Ok(Wanted { embedding, vocabulary, network, heads, head, caches, experts_used })
    }

    /// The largest of three moments of a pass: attention, network and output, each with the mask beside it. What else is
    /// held in a moment was fitted to what llama.cpp books, so that no question of `docs/estimates-judged.md` is below it.
    fn llama(&self, settings: &Settings, last: bool) -> Option<u128> {
        let Wanted { embedding, network, .. } = *self;
        let tokens = u128::from(kv::ubatch(settings));
        let values = if settings.flash_attention { 0 } else { 2 };
        let network = sum(&[(3, network), (4, embedding), (values, self.kv_width())])?;
        let output = if last { sum(&[(1, self.vocabulary), (1, self.held()?)])? } else { 0 };
        let widest = output.max(network).max(self.attention(settings)?);
        // Several GPUs work on several batches at a time, each with its own inputs.
        let copies = if settings.gpus > 1 { 4 } else { 1 };
        let inputs = sum(&[(copies, self.mask(settings)?), (4 * (copies - 1), embedding)])?;
        sum(&[(4, widest), (1, inputs)])?.checked_mul(tokens)?.checked_add(SMALL_INPUTS)
    }

    /// Numbers a token in the attention of a layer, without the mask.
    fn attention(&self, settings: &Settings) -> Option<u128> {
        let queries = self.heads.checked_mul(self.head)?;
        let kv = self.kv_width();
        let compressed = u128::from(self.caches.iter().any(|cache| matches!(cache, Cache::Latent { .. })));
        if settings.flash_attention {
            return sum(&[(2 + compressed, queries), (2, kv), (2, self.embedding)]);
        }
        let state = if self.has_wide_state() { self.network } else { 0 };
        let matrix = self.heads.checked_mul(self.cells(settings).max().unwrap_or(0))?;
        sum(&[(1, matrix), (3 + compressed, queries), (2, kv), (3, self.embedding), (1, state)])
    }

    /// Numbers a token that lie below the output when it is computed: gaps that are too small for it.
    fn held(&self) -> Option<u128> {
        if self.has_wide_state() {
            return sum(&[(3, self.network), (2, self.embedding)]);
        }
        sum(&[(4, self.embedding), (self.experts_used, self.embedding)])
    }

    /// Whether a layer keeps a state that is much larger than a token, which it computes in wide steps.
    fn has_wide_state(&self) -> bool {
        let wide = |cache: &Cache| matches!(cache, Cache::Recurrent { bytes } if u128::from(*bytes) > 64 * self.embedding);
        self.caches.iter().any(wide)
    }

    /// Bytes a token in the masks: one for layers that see everything, one for each window.
    fn mask(&self, settings: &Settings) -> Option<u128> {
        let cell = if settings.flash_attention { 2 } else { 4 };
        sum(&self.cells(settings).map(|cells| (cell, cells)).collect::<Vec<_>>())
    }

    /// The tokens of one cache, once for each kind of window.
    fn cells(&self, settings: &Settings) -> impl Iterator<Item = u128> {
        let mut windows: Vec<Option<u64>> =
            self.caches.iter().filter(|cache| attends(cache)).map(window).collect();
        windows.sort_unstable();
        windows.dedup();
        windows.into_iter().map(|window| kv::cells(window, settings).map_or(u128::MAX, u128::from))
    }

    fn kv_width(&self) -> u128 {
        let width = |cache: &Cache| match cache {
            Cache::Grouped { kv_heads, key_length, .. } => u128::from(*kv_heads) * u128::from(*key_length),
            Cache::Latent { .. } => u128::from(head(cache)),
            Cache::Recurrent { .. } | Cache::None => 0,
        };
        self.caches.iter().map(width).max().unwrap_or(0)
    }

    /// Two bytes a number for a whole batch, and the scores of every request's next token three times in four bytes.
    fn vllm(&self, settings: &Settings) -> Option<u128> {
        let gpus = u128::from(settings.gpus);
        let network = self.network.checked_mul(3)?.div_ceil(gpus);
        let queries = self.heads.checked_mul(self.head)?.checked_mul(3)?.div_ceil(gpus);
        let wide = network.max(queries).checked_add(self.embedding.checked_mul(4)?)?;
        let pass = wide.checked_mul(settings.batch.into())?.checked_mul(2)?;
        let scores = self.vocabulary.checked_mul(settings.parallel.into())?.checked_mul(12)?;
        pass.checked_add(scores)
    }

    fn source(&self, settings: &Settings) -> String {
        let (embedding, vocabulary) = (self.embedding, self.vocabulary);
        match settings.runtime {
            RuntimeKind::Vllm => {
                format!("{} tokens a batch, width {embedding}, {vocabulary} tokens known", settings.batch)
            }
            RuntimeKind::LlamaCpp | RuntimeKind::Ollama => {
                let attention = if settings.flash_attention { "with" } else { "without" };
                let tokens = kv::ubatch(settings);
                format!(
                    "{tokens} tokens a pass, width {embedding}, {vocabulary} tokens known, {attention} flash attention"
                )
            }
        }
    }
}

fn need(fact: &Fact<u64>) -> Result<u128, Part> {
    fact.get().map(|value| u128::from(*value)).ok_or_else(|| Part::unknown_as(fact.source()))
}

/// The sum of so many times each.
fn sum(terms: &[(u128, u128)]) -> Option<u128> {
    terms.iter().try_fold(0u128, |sum, (times, of)| sum.checked_add(times.checked_mul(*of)?))
}

fn distinct(layers: &[Cache]) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cache in layers {
        if !caches.contains(cache) {
            caches.push(*cache);
        }
    }
    caches
}

fn attends(cache: &Cache) -> bool {
    matches!(cache, Cache::Grouped { .. } | Cache::Latent { .. })
}

fn window(cache: &Cache) -> Option<u64> {
    match cache {
        Cache::Grouped { window, .. } => *window,
        Cache::Latent { .. } | Cache::Recurrent { .. } | Cache::None => None,
    }
}

/// The widest network that one token passes: of a dense layer, or of all experts that it uses.
fn network(shape: &Shape) -> Result<u128, Part> {
    let widest = |fact: &Fact<Vec<u64>>| fact.get().and_then(|list| list.iter().copied().max()).unwrap_or(0);
    let dense = widest(&shape.feed_forward);
    let used = shape.experts_used.get().copied().unwrap_or(0);
    let expert = match widest(&shape.expert_feed_forward) {
        0 => dense,
        expert => expert,
    };
    let experts = u128::from(expert) * u128::from(used);
    Ok(experts.max(dense.into()))
}

fn head(cache: &Cache) -> u64 {
    match cache {
        Cache::Grouped { key_length, value_length, .. } => *key_length.max(value_length),
        Cache::Latent { kv_lora_rank, rope_length } => kv_lora_rank.saturating_add(*rope_length),
        Cache::Recurrent { .. } | Cache::None => 0,
    }
}
