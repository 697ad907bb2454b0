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

/// The widths that decide how large the buffers are.
struct Wanted {
    embedding: u128,
    vocabulary: u128,
    network: u128,
    heads: u128,
    head: u128,
    attends: bool,
}

impl Wanted {
    fn of(shape: &Shape) -> Result<Wanted, Part> {
        let embedding = need(&shape.embedding)?;
        let vocabulary = need(&shape.vocabulary)?;
        let layers = shape.layers.get().ok_or_else(|| Part::unknown_as(shape.layers.source()))?;
        let head = layers.iter().map(head).max().unwrap_or(0);
        let attends =
            layers.iter().any(|cache| matches!(cache, Cache::Grouped { .. } | Cache::Latent { .. }));
        let heads = match shape.heads.get() {
            Some(heads) => heads.iter().copied().max().unwrap_or(0),
            None if attends => return Err(Part::unknown_as(shape.heads.source())),
            None => 0,
        };
        let network = network(shape)?;
        let (heads, head) = (u128::from(heads), u128::from(head));
        Ok(Wanted { embedding, vocabulary, network, heads, head, attends })
    }

    /// Four bytes a number: the mask, and the largest of output, network and attention beside the running sum.
    fn llama(&self, settings: &Settings, last: bool) -> Option<u128> {
        let tokens = u128::from(kv::ubatch(settings));
        let context = u128::from(settings.context).checked_mul(settings.parallel.into())?;
        let context = context.checked_next_multiple_of(kv::CELLS.into())?;
        let output = if last { self.vocabulary.checked_add(self.embedding)? } else { 0 };
        let network = self.network.checked_mul(3)?.checked_add(self.embedding.checked_mul(2)?)?;
        let matrix = if settings.flash_attention { 0 } else { context.checked_mul(self.heads)? };
        let queries = self.heads.checked_mul(self.head)?.checked_mul(3)?;
        let attention = matrix.checked_add(queries)?.checked_add(self.embedding.checked_mul(2)?)?;
        let widest = output.max(network).max(attention);
        let cell = if settings.flash_attention { 2 } else { 4 };
        // Several GPUs work on several batches at a time, each with its own inputs.
        let copies = if settings.gpus > 1 { 4 } else { 1 };
        let mask = if self.attends {
            context.checked_mul(tokens)?.checked_mul(cell)?.checked_mul(copies)?
        } else {
            0
        };
        let handed_on = self.embedding.checked_mul(tokens)?.checked_mul(4 * (copies - 1))?;
        widest.checked_mul(tokens)?.checked_mul(4)?.checked_add(mask)?.checked_add(handed_on)
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
