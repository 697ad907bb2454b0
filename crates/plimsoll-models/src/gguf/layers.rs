//! The cache of each layer of a GGUF model: the architecture's rule, with the numbers of the file.

use super::error::GgufError;
use super::rules::{self, Pattern, RecurrentLayers, Rule, Width};
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
    let Some(rule) = rules::for_architecture(architecture) else {
        return Ok(Sourced::unknown(format!("a cache rule for the architecture {architecture}")));
    };
    let keys = Keys { metadata, prefix: architecture, count };
    let mut layers = match keys.apply(rule) {
        Ok(layers) => layers,
        Err(GgufError::MissingKey { key }) => return Ok(Sourced::unknown(key)),
        Err(error) => return Err(error),
    };
    keys.clear_layers_without_cache(&mut layers)?;
    Ok(keys.with_source(layers))
}

/// The metadata of one architecture: keys without their prefix, lists of one number per layer.
struct Keys<'a> {
    metadata: &'a Metadata,
    /// The prefix of the keys, which is the architecture's name.
    prefix: &'a str,
    count: usize,
}

/// The elements in the key and in the value of one head.
#[derive(Clone, Copy)]
struct HeadLengths {
    key: u64,
    value: u64,
}

impl Keys<'_> {
    fn apply(&self, rule: Rule) -> Result<Vec<Cache>, GgufError> {
        match rule {
            Rule::NoCache => Ok(vec![Cache::None; self.count]),
            Rule::Full => self.attention(&vec![None; self.count]),
            Rule::Latent => self.latent(0),
            Rule::LatentWithIndexer => self.latent(self.require("attention.indexer.key_length")?),
            Rule::Windowed(width, pattern) => self.attention(&self.windows(width, pattern)?),
            Rule::Recurrent => Ok(vec![self.recurrent_state()?; self.count]),
            Rule::Hybrid(recurrent) => self.hybrid(recurrent),
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
    fn latent(&self, indexer_length: u64) -> Result<Vec<Cache>, GgufError> {
        let key_length_mla = self.number("attention.key_length_mla")?.unwrap_or(0);
        let value_length_mla = self.number("attention.value_length_mla")?.unwrap_or(0);
        if key_length_mla == 0 || value_length_mla == 0 {
            return self.attention(&vec![None; self.count]);
        }
        let key_length = self.head_lengths()?.key;
        let kv_lora_rank = self.require("attention.kv_lora_rank")?;
        let rope_length =
            key_length.checked_sub(kv_lora_rank).ok_or_else(|| GgufError::InvalidValue {
                key: self.key("attention.key_length"),
                expected: "at least attention.kv_lora_rank",
            })?;
        Ok(vec![Cache::Latent { kv_lora_rank, rope_length, indexer_length }; self.count])
    }

    fn hybrid(&self, recurrent: RecurrentLayers) -> Result<Vec<Cache>, GgufError> {
        let state = self.recurrent_state()?;
        let is_recurrent = self.recurrent_layers(recurrent)?;
        let attention = self.attention(&vec![self.hybrid_window()?; self.count])?;
        let feed_forward = self.feed_forward()?;
        let mut layers = attention;
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

    /// Returns the window of a hybrid's attention layers. Only llama.cpp's `lfm2` uses one.
    fn hybrid_window(&self) -> Result<Option<u64>, GgufError> {
        if self.prefix != "lfm2" {
            return Ok(None);
        }
        Ok(self.number("attention.sliding_window")?.filter(|width| *width > 0))
    }

    fn recurrent_layers(&self, recurrent: RecurrentLayers) -> Result<Vec<bool>, GgufError> {
        let heads = self.kv_heads()?;
        match recurrent {
            RecurrentLayers::WithoutHeads => Ok(heads.iter().map(|heads| *heads == 0).collect()),
            RecurrentLayers::WithoutHeadsOrFeedForward => {
                let layers = heads.into_iter().zip(self.feed_forward()?);
                Ok(layers.map(|(heads, feed_forward)| heads == 0 && feed_forward == 0).collect())
            }
            RecurrentLayers::Interval => {
                if let Some(list) = self.per_layer("attention.recurrent_layers")? {
                    return Ok(list.into_iter().map(|recurrent| recurrent != 0).collect());
                }
                // llama.cpp's default if the key is absent.
                let interval = self.number("full_attention_interval")?.unwrap_or(4).max(1);
                Ok((1..=self.count as u64).map(|number| !number.is_multiple_of(interval)).collect())
            }
        }
    }

    /// Returns the state of one sequence in one layer, which llama.cpp keeps in 32-bit floats.
    ///
    /// The family decides the size, and its keys tell the families apart: RWKV keeps the last
    /// tokens and a matrix per head, LFM2 the inputs of a short convolution, and state-space
    /// models (Mamba) both the inputs of a convolution and a state.
    fn recurrent_state(&self) -> Result<Cache, GgufError> {
        let (key, elements) = if self.metadata.has(&self.key("wkv.head_size")) {
            ("wkv.head_size", self.rwkv_elements()?)
        } else if self.metadata.has(&self.key("shortconv.l_cache")) {
            ("shortconv.l_cache", self.short_convolution_elements()?)
        } else {
            ("ssm.inner_size", self.state_space_elements()?)
        };
        let bytes = elements.and_then(|elements| elements.checked_mul(4));
        let bytes = bytes.ok_or_else(|| GgufError::InvalidValue {
            key: self.key(key),
            expected: "a size that fits in 64 bits",
        })?;
        Ok(Cache::Recurrent { bytes })
    }

    fn rwkv_elements(&self) -> Result<Option<u64>, GgufError> {
        let width = self.require("embedding_length")?;
        // llama.cpp's default if the key is absent.
        let shifts = self.number("token_shift_count")?.unwrap_or(2);
        let head_size = self.require("wkv.head_size")?;
        Ok(shifts.checked_add(head_size).and_then(|rows| rows.checked_mul(width)))
    }

    /// A convolution over `l_cache` tokens keeps all of them but the newest.
    fn short_convolution_elements(&self) -> Result<Option<u64>, GgufError> {
        let width = self.require("embedding_length")?;
        let past = self.require("shortconv.l_cache")?.saturating_sub(1);
        Ok(width.checked_mul(past))
    }

    fn state_space_elements(&self) -> Result<Option<u64>, GgufError> {
        let inner = self.require("ssm.inner_size")?;
        let state = self.require("ssm.state_size")?;
        let past = self.require("ssm.conv_kernel")?.saturating_sub(1);
        let groups = self.number("ssm.group_count")?.unwrap_or(0);
        let convolution = groups
            .checked_mul(state)
            .and_then(|group| group.checked_mul(2)?.checked_add(inner)?.checked_mul(past));
        let state = state.checked_mul(inner);
        Ok(convolution.zip(state).and_then(|(convolution, state)| convolution.checked_add(state)))
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
    ///
    /// Multi-token-prediction layers are not part of the normal pass. The upper layers of Gemma 3n
    /// and Gemma 4 attend to the cache of a lower layer instead of their own: layers with a window
    /// to that of the last layer but one with a cache, the others to that of the last.
    fn clear_layers_without_cache(&self, layers: &mut [Cache]) -> Result<(), GgufError> {
        let prediction = self.number("nextn_predict_layers")?.unwrap_or(0);
        let prediction = usize::try_from(prediction).unwrap_or(layers.len());
        layers.iter_mut().rev().take(prediction).for_each(|layer| *layer = Cache::None);
        let count = self.count as u64;
        let owners = match self.prefix {
            "gemma3n" => GEMMA3N_LAYERS_WITH_CACHE,
            "gemma4" => {
                count.saturating_sub(self.number("attention.shared_kv_layers")?.unwrap_or(0))
            }
            _ => count,
        };
        let first = usize::try_from(owners).unwrap_or(layers.len());
        for layer in layers.iter_mut().skip(first) {
            let from_end =
                if matches!(layer, Cache::Grouped { window: Some(_), .. }) { 2 } else { 1 };
            *layer = Cache::Shared { owner: owners.saturating_sub(from_end) };
        }
        Ok(())
    }

    fn head_lengths(&self) -> Result<HeadLengths, GgufError> {
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

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, GgufError> {
        self.metadata.number(&self.key(name))
    }

    fn per_layer(&self, name: &str) -> Result<Option<Vec<u64>>, GgufError> {
        self.metadata.per_layer(&self.key(name), self.count)
    }

    fn require(&self, name: &str) -> Result<u64, GgufError> {
        self.number(name)?.ok_or_else(|| GgufError::MissingKey { key: self.key(name) })
    }
}

/// The number of Gemma 3n layers with a cache of their own. llama.cpp hard-codes it
/// (`n_layer_kv_from_start = 20`), and files have no key for it. It matches `num_hidden_layers`
/// minus `num_kv_shared_layers` of both published sizes: 30 - 10 for E2B and 35 - 15 for E4B.
const GEMMA3N_LAYERS_WITH_CACHE: u64 = 20;

/// Returns the cache of an attention layer. A layer without KV heads has no keys; without flash
/// attention, llama.cpp still allocates values of the widest layer for it.
fn attention_layer(kv_heads: u64, lengths: HeadLengths, window: Option<u64>) -> Cache {
    Cache::Grouped { kv_heads, key_length: lengths.key, value_length: lengths.value, window }
}
