//! The cache of each layer of a GGUF model: the architecture's rule, with the numbers of the file.

use plimsoll_core::units::Bytes;

use super::architectures;
use super::error::GgufError;
use super::rules::{Attention, Indexer, Pattern, RecurrentLayers, Rule, Sharing, Width};
use super::value::Metadata;
use crate::shape::Cache;
use crate::source::Sourced;

/// Returns the cache of each of `count` layers.
///
/// It is unknown, and not an error, if the architecture is not listed or a key is missing: the
/// rest of the file is still useful, and the estimate names the gap.
pub fn read(
    metadata: &Metadata,
    architecture: &str,
    count: usize,
) -> Result<Sourced<Vec<Cache>>, GgufError> {
    let Some(row) = architectures::find(architecture) else {
        let missing = match architectures::unserved(architecture) {
            Some(what) => format!("a model to serve: {architecture} is {what}"),
            None => format!("a cache rule for the architecture {architecture}"),
        };
        return Ok(Sourced::unknown(missing));
    };
    let keys = Keys { metadata, prefix: architecture, count };
    let mut layers = match keys.apply(row.caches) {
        Ok(layers) => layers,
        Err(GgufError::MissingKey { key }) => return Ok(Sourced::unknown(key)),
        Err(error) => return Err(error),
    };
    keys.clear_layers_without_cache(&mut layers, row.sharing)?;
    Ok(keys.with_source(layers))
}

/// The metadata of one architecture: keys without their prefix, lists of one number per layer.
pub(super) struct Keys<'a> {
    pub(super) metadata: &'a Metadata,
    /// The prefix of the keys, which is the architecture's name.
    pub(super) prefix: &'a str,
    count: usize,
}

/// The elements in the key and in the value of one head.
#[derive(Clone, Copy)]
pub(super) struct HeadLengths {
    pub(super) key: u64,
    value: u64,
}

impl Keys<'_> {
    fn apply(&self, rule: Rule) -> Result<Vec<Cache>, GgufError> {
        match rule {
            Rule::NoCache => Ok(vec![Cache::None; self.count]),
            Rule::Full => self.attention(&vec![None; self.count]),
            Rule::Latent(indexer) => self.latent(indexer),
            Rule::LatentWindowed => self.latent_windowed(),
            Rule::Indexed => self.indexed(),
            Rule::Compressed => self.compressed(),
            Rule::Parallel => self.parallel(),
            Rule::Looped => self.looped(),
            Rule::Windowed(width, pattern) => self.attention(&self.windows(width, pattern)?),
            Rule::Recurrent => Ok(vec![self.recurrent_state()?; self.count]),
            Rule::Hybrid(recurrent, attention) => self.hybrid(recurrent, attention),
        }
    }

    /// Returns the caches of attention layers with these windows. Heads may have other lengths in
    /// layers with a window.
    fn attention(&self, windows: &[Option<u64>]) -> Result<Vec<Cache>, GgufError> {
        let heads = self.kv_heads()?;
        let full = self.head_lengths()?;
        let windowed = HeadLengths {
            key: self.number("attention.key_length_swa")?.unwrap_or(full.key),
            value: self.number("attention.value_length_swa")?.unwrap_or(full.value),
        };
        let layers = heads.into_iter().zip(windows).map(|(kv_heads, window)| {
            let lengths = if window.is_some() { windowed } else { full };
            attention_layer(kv_heads, lengths, *window)
        });
        Ok(layers.collect())
    }

    /// Returns MLA caches. Old conversions of DeepSeek lack the MLA lengths; llama.cpp then
    /// expands the vectors and keeps keys and values of all heads.
    fn latent(&self, indexer: Indexer) -> Result<Vec<Cache>, GgufError> {
        let key_length_mla = self.number("attention.key_length_mla")?.unwrap_or(0);
        let value_length_mla = self.number("attention.value_length_mla")?.unwrap_or(0);
        if key_length_mla == 0 || value_length_mla == 0 {
            return self.attention(&vec![None; self.count]);
        }
        let key_length = self.head_lengths()?.key;
        let indexers = self.indexers(indexer)?.into_iter();
        indexers.map(|length| self.vector("attention.kv_lora_rank", key_length, length)).collect()
    }

    /// Returns the vector of a layer with full attention.
    fn vector(&self, rank: &str, key_length: u64, indexer: u64) -> Result<Cache, GgufError> {
        let kv_lora_rank = self.require(rank)?;
        let rope_length =
            key_length.checked_sub(kv_lora_rank).ok_or_else(|| GgufError::InvalidValue {
                key: self.key("attention.key_length"),
                expected: "at least attention.kv_lora_rank",
            })?;
        Ok(Cache::Latent { kv_lora_rank, rope_length, indexer_length: indexer, window: None })
    }

    /// Returns the length of the indexer's key in each layer; 0 without one.
    fn indexers(&self, indexer: Indexer) -> Result<Vec<u64>, GgufError> {
        let length = "attention.indexer.key_length";
        match indexer {
            Indexer::None => return Ok(vec![0; self.count]),
            Indexer::Optional if self.number("attention.indexer.top_k")?.unwrap_or(0) == 0 => {
                return Ok(vec![0; self.count]);
            }
            Indexer::Always => return Ok(vec![self.require(length)?; self.count]),
            Indexer::Listed | Indexer::Pooled | Indexer::Optional => {}
        }
        let parts = if indexer == Indexer::Pooled { POOLED_PARTS } else { 1 };
        let length = self.require(length)?.saturating_mul(parts);
        let marks = self.indexer_marks(indexer)?.into_iter();
        Ok(marks.map(|mark| if mark == 0 { 0 } else { length }).collect())
    }

    fn indexer_marks(&self, indexer: Indexer) -> Result<Vec<u64>, GgufError> {
        let types = "attention.indexer.types";
        let marks = self.metadata.leading(&self.key(types), self.count)?;
        let is_new = self.number("context_length")?.unwrap_or(0) >= 1 << 20;
        match (marks, indexer) {
            (Some(marks), _) => Ok(marks),
            (None, Indexer::Pooled) => Ok(vec![1; self.count]),
            (None, Indexer::Listed) if !is_new => Ok(vec![1; self.count]),
            (None, _) => Err(GgufError::MissingKey { key: self.key(types) }),
        }
    }

    /// Returns grouped caches, and a key for an indexer in all but the leading dense layers.
    fn indexed(&self) -> Result<Vec<Cache>, GgufError> {
        let indexer_length = self.require("attention.indexer.key_length")?;
        let dense = self.number("leading_dense_block_count")?.unwrap_or(0);
        let dense = usize::try_from(dense).unwrap_or(self.count);
        let mut layers = self.attention(&vec![None; self.count])?;
        for layer in layers.iter_mut().skip(dense) {
            if let Cache::Grouped { kv_heads, key_length, value_length, .. } = *layer {
                *layer = Cache::GroupedWithIndexer {
                    kv_heads,
                    key_length,
                    value_length,
                    indexer_length,
                };
            }
        }
        Ok(layers)
    }

    /// Returns MLA caches with vectors of another length in the layers with a window, which have
    /// no indexer.
    fn latent_windowed(&self) -> Result<Vec<Cache>, GgufError> {
        let full = self.latent(Indexer::Optional)?;
        let windows = self.windows(Width::Required, Pattern::Listed)?;
        let key_length = self.require("attention.key_length_swa")?;
        let windowed = self.vector("attention.kv_lora_rank_swa", key_length, 0)?;
        let layers = full.into_iter().zip(windows).map(|(full, window)| match (windowed, window) {
            (Cache::Latent { kv_lora_rank, rope_length, indexer_length, .. }, Some(_)) => {
                Cache::Latent { kv_lora_rank, rope_length, indexer_length, window }
            }
            _ => full,
        });
        Ok(layers.collect())
    }

    /// Returns caches of keys in a window, with the compressed keys of all tokens.
    ///
    /// The state of a compression has a row for each token of a key, or for twice as many where
    /// an indexer selects among the keys; each row has keys and scores in 32-bit floats.
    fn compressed(&self) -> Result<Vec<Cache>, GgufError> {
        let window = self.require("attention.sliding_window")?;
        let full = self.head_lengths()?.key;
        let key_length = self.number("attention.key_length_swa")?.unwrap_or(full);
        let indexer = self.require("attention.indexer.key_length")?;
        let key = "attention.compress_ratios";
        let ratios = self.per_layer(key)?;
        let ratios = ratios.ok_or_else(|| GgufError::MissingKey { key: self.key(key) })?;
        let layers = ratios.into_iter().map(|ratio| {
            let (ratio, indexer_length, elements) = match ratio {
                SELECTED_RATIO => {
                    let elements = key_length.saturating_add(indexer).saturating_mul(8 * ratio);
                    (ratio, indexer, elements)
                }
                PLAIN_RATIO => (ratio, 0, (2 * ratio).saturating_mul(key_length)),
                _ => (0, 0, 0),
            };
            let state = Bytes::new(elements.saturating_mul(4));
            Cache::Compressed { key_length, window, ratio, indexer_length, state }
        });
        Ok(layers.collect())
    }

    fn parallel(&self) -> Result<Vec<Cache>, GgufError> {
        let state = self.recurrent_state()?;
        let layers = self.attention(&vec![None; self.count])?.into_iter();
        Ok(layers.map(|layer| with_state(layer, state)).collect())
    }

    /// Returns a cache for each pass through the layers, as more heads of each layer.
    fn looped(&self) -> Result<Vec<Cache>, GgufError> {
        let passes = self.number(architectures::NANBEIGE_PASSES)?.unwrap_or(1).max(1);
        let mut layers = self.attention(&vec![None; self.count])?;
        for layer in &mut layers {
            if let Cache::Grouped { kv_heads, .. } = layer {
                *kv_heads = kv_heads.saturating_mul(passes);
            }
        }
        Ok(layers)
    }

    fn hybrid(&self, recurrent: RecurrentLayers, kind: Attention) -> Result<Vec<Cache>, GgufError> {
        let state = self.recurrent_state()?;
        let is_recurrent = self.recurrent_layers(recurrent)?;
        let feed_forward = self.feed_forward()?;
        let mut layers = self.hybrid_attention(kind)?;
        for (index, layer) in layers.iter_mut().enumerate() {
            if is_recurrent[index] {
                *layer = state;
            } else if recurrent == RecurrentLayers::WithoutHeadsOrFeedForward
                && feed_forward[index] > 0
            {
                *layer = Cache::None;
            }
        }
        Ok(layers)
    }

    fn hybrid_attention(&self, kind: Attention) -> Result<Vec<Cache>, GgufError> {
        match kind {
            Attention::Grouped => self.attention(&vec![None; self.count]),
            Attention::Windowed => {
                let window = self.number("attention.sliding_window")?.filter(|width| *width > 0);
                self.attention(&vec![window; self.count])
            }
            Attention::Latent(indexer) => self.latent(indexer),
        }
    }

    fn recurrent_layers(&self, recurrent: RecurrentLayers) -> Result<Vec<bool>, GgufError> {
        let heads = self.kv_heads()?;
        match recurrent {
            RecurrentLayers::WithoutHeads => Ok(heads.iter().map(|heads| *heads == 0).collect()),
            RecurrentLayers::WithoutHeadsOrFeedForward => {
                let layers = heads.into_iter().zip(self.feed_forward()?);
                Ok(layers.map(|(heads, feed_forward)| heads == 0 && feed_forward == 0).collect())
            }
            RecurrentLayers::Interval(default) => {
                if let Some(list) = self.per_layer("attention.recurrent_layers")? {
                    return Ok(list.into_iter().map(|recurrent| recurrent != 0).collect());
                }
                let interval = self.number("full_attention_interval")?.unwrap_or(default).max(1);
                Ok((1..=self.count as u64).map(|number| !number.is_multiple_of(interval)).collect())
            }
        }
    }

    fn windows(&self, width: Width, pattern: Pattern) -> Result<Vec<Option<u64>>, GgufError> {
        let Some(width) = self.window_width(width)? else { return Ok(vec![None; self.count]) };
        let layers = self.windowed_layers(pattern)?.into_iter();
        Ok(layers.map(|is_windowed| is_windowed.then_some(width)).collect())
    }

    fn window_width(&self, width: Width) -> Result<Option<u64>, GgufError> {
        let given = self.number("attention.sliding_window")?;
        Ok(match width {
            Width::Required => Some(self.require("attention.sliding_window")?),
            Width::Optional => given.filter(|width| *width > 0),
            Width::Default(default) => Some(given.unwrap_or(default)),
            Width::FixedUnlessZero(fixed) => (given != Some(0)).then_some(fixed),
            Width::FixedIfSet(fixed) => given.filter(|width| *width > 0).map(|_| fixed),
            Width::OnlyWithLayers { layers, default } => {
                (self.count as u64 == layers).then(|| given.unwrap_or(default))
            }
        })
    }

    /// Returns the layers with a window. The file may have a list with one entry per layer, or
    /// one number that replaces the group size of the pattern; 0 means a window in every layer.
    fn windowed_layers(&self, pattern: Pattern) -> Result<Vec<bool>, GgufError> {
        let name = "attention.sliding_window_pattern";
        if self.metadata.list_length(&self.key(name)).is_ok_and(|length| length.is_some()) {
            let list = self.per_layer(name)?.unwrap_or_default();
            return Ok(list.into_iter().map(|windowed| windowed != 0).collect());
        }
        let given = self.number(name)?;
        let layers = 0..self.count as u64;
        Ok(match pattern {
            Pattern::LastOfEach(size) => {
                let size = given.unwrap_or(size);
                layers.map(|layer| size == 0 || layer % size + 1 < size).collect()
            }
            Pattern::FirstOfEach(size) => {
                let size = given.unwrap_or(size);
                layers.map(|layer| size == 0 || layer % size != 0).collect()
            }
            Pattern::Listed => return Err(GgufError::MissingKey { key: self.key(name) }),
        })
    }

    /// Removes the caches of layers that do not allocate one, which are always the last ones.
    /// Layers for multi-token prediction are not part of the normal pass.
    fn clear_layers_without_cache(
        &self,
        layers: &mut [Cache],
        sharing: Sharing,
    ) -> Result<(), GgufError> {
        let prediction = self.number("nextn_predict_layers")?.unwrap_or(0);
        let prediction = usize::try_from(prediction).unwrap_or(layers.len());
        layers.iter_mut().rev().take(prediction).for_each(|layer| *layer = Cache::None);
        let count = self.count as u64;
        let owners = match sharing {
            Sharing::None => return Ok(()),
            Sharing::After(owners) => owners,
            Sharing::LastOnes => {
                count.saturating_sub(self.number("attention.shared_kv_layers")?.unwrap_or(0))
            }
        };
        let first = usize::try_from(owners).unwrap_or(layers.len());
        for layer in layers.iter_mut().skip(first) {
            let from_end =
                if matches!(layer, Cache::Grouped { window: Some(_), .. }) { 2 } else { 1 };
            *layer = Cache::Shared { owner: owners.saturating_sub(from_end) };
        }
        Ok(())
    }

    pub(super) fn head_lengths(&self) -> Result<HeadLengths, GgufError> {
        Ok(HeadLengths {
            key: self.head_length("attention.key_length")?,
            value: self.head_length("attention.value_length")?,
        })
    }

    /// Returns a head length from its key, or `embedding_length / head_count` as llama.cpp does.
    fn head_length(&self, name: &str) -> Result<u64, GgufError> {
        if let Some(length) = self.number(name)? {
            return Ok(length);
        }
        let heads = self.per_layer("attention.head_count")?;
        match heads.and_then(|heads| heads.first().copied()) {
            Some(heads) if heads > 0 => Ok(self.require("embedding_length")? / heads),
            _ => Err(GgufError::MissingKey { key: self.key(name) }),
        }
    }

    /// Returns the KV heads of each layer. Without the key, every attention head has its own.
    fn kv_heads(&self) -> Result<Vec<u64>, GgufError> {
        if let Some(heads) = self.per_layer("attention.head_count_kv")? {
            return Ok(heads);
        }
        let key = "attention.head_count";
        self.per_layer(key)?.ok_or_else(|| GgufError::MissingKey { key: self.key(key) })
    }

    fn feed_forward(&self) -> Result<Vec<u64>, GgufError> {
        Ok(self.per_layer("feed_forward_length")?.unwrap_or_else(|| vec![0; self.count]))
    }

    fn with_source(&self, layers: Vec<Cache>) -> Sourced<Vec<Cache>> {
        let names = ["attention.head_count_kv", "attention.key_length", "attention.value_length"];
        let absent: Vec<_> =
            names.into_iter().filter(|name| !self.metadata.has(&self.key(name))).collect();
        let has_attention = layers.iter().any(|layer| matches!(layer, Cache::Grouped { .. }));
        if !has_attention || absent.is_empty() {
            return Sourced::read(layers, format!("{}.attention.*", self.prefix));
        }
        let absent = absent.join(", ");
        Sourced::computed(
            layers,
            format!(
                "{absent} absent; llama.cpp's defaults: head_count, embedding_length / head_count"
            ),
        )
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, GgufError> {
        self.metadata.number(&self.key(name))
    }

    pub(super) fn per_layer(&self, name: &str) -> Result<Option<Vec<u64>>, GgufError> {
        self.metadata.per_layer(&self.key(name), self.count)
    }

    pub(super) fn require(&self, name: &str) -> Result<u64, GgufError> {
        self.number(name)?.ok_or_else(|| GgufError::MissingKey { key: self.key(name) })
    }
}

/// The parts of a row in the cache of an indexer that pools tokens: key, gate and pooled key.
const POOLED_PARTS: u64 = 3;

/// The tokens of one compressed key where an indexer selects among the keys, and where none does:
/// the two ratios that llama.cpp knows.
const SELECTED_RATIO: u64 = 4;
const PLAIN_RATIO: u64 = 128;

/// Returns the cache of an attention layer. A layer without KV heads has no keys; without flash
/// attention, llama.cpp still allocates values of the widest layer for it.
fn attention_layer(kv_heads: u64, lengths: HeadLengths, window: Option<u64>) -> Cache {
    Cache::Grouped { kv_heads, key_length: lengths.key, value_length: lengths.value, window }
}

fn with_state(layer: Cache, state: Cache) -> Cache {
    match (layer, state) {
        (Cache::Grouped { kv_heads, key_length, value_length, .. }, Cache::Recurrent { bytes }) => {
            let state = Bytes::new(bytes);
            Cache::GroupedWithState { kv_heads, key_length, value_length, state }
        }
        (other, _) => other,
    }
}
