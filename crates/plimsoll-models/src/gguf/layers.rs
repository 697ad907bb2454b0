//! What each layer of a GGUF model keeps: the architecture's rule, with the file's numbers.

use super::GgufError;
use super::rules::{self, Choice, Pattern, Rule, Width};
use super::value::Metadata;
use crate::shape::Cache;
use crate::source::Fact;

/// What each of `count` layers keeps.
pub fn read(
    metadata: &Metadata,
    architecture: &str,
    count: usize,
) -> Result<Fact<Vec<Cache>>, GgufError> {
    let Some(rule) = rules::of(architecture) else {
        return Ok(Fact::unknown(format!(
            "a rule for the layers of the architecture {architecture}"
        )));
    };
    let keys = Keys { metadata, prefix: architecture, count };
    let mut layers = match keys.apply(rule) {
        Ok(layers) => layers,
        Err(GgufError::Missing { key }) => return Ok(Fact::unknown(key)),
        Err(error) => return Err(error),
    };
    keys.drop_what_no_token_passes(architecture, &mut layers)?;
    Ok(keys.with_source(layers))
}

struct Keys<'a> {
    metadata: &'a Metadata,
    prefix: &'a str,
    count: usize,
}

/// The lengths of one head's key and value, in a layer with a window and in others.
#[derive(Clone, Copy)]
struct Lengths {
    full: (u64, u64),
    window: (u64, u64),
}

impl Keys<'_> {
    fn apply(&self, rule: Rule) -> Result<Vec<Cache>, GgufError> {
        match rule {
            Rule::Nothing => Ok(vec![Cache::None; self.count]),
            Rule::Plain => self.attention(&vec![None; self.count]),
            Rule::Latent => self.latent(),
            Rule::Windowed(width, pattern) => self.attention(&self.windows(width, pattern)?),
            Rule::Recurrent => Ok(vec![self.state()?; self.count]),
            Rule::Hybrid(choice) => self.hybrid(choice),
        }
    }

    fn attention(&self, windows: &[Option<u64>]) -> Result<Vec<Cache>, GgufError> {
        let heads = self.kv_heads()?;
        let lengths = self.lengths()?;
        let layer = |(kv_heads, window): (&u64, &Option<u64>)| {
            let (key_length, value_length) =
                if window.is_some() { lengths.window } else { lengths.full };
            match kv_heads {
                0 => Cache::None,
                _ => Cache::Grouped {
                    kv_heads: *kv_heads,
                    key_length,
                    value_length,
                    window: *window,
                },
            }
        };
        Ok(heads.iter().zip(windows).map(layer).collect())
    }

    fn latent(&self) -> Result<Vec<Cache>, GgufError> {
        let compressed = self.number("attention.key_length_mla")?.unwrap_or(0) > 0
            && self.number("attention.value_length_mla")?.unwrap_or(0) > 0;
        if !compressed {
            return self.attention(&vec![None; self.count]);
        }
        let key_length = self.lengths()?.full.0;
        let kv_lora_rank = self.need("attention.kv_lora_rank")?;
        let rope_length = key_length.checked_sub(kv_lora_rank).ok_or_else(|| GgufError::Kind {
            key: self.key("attention.key_length"),
            expected: "at least attention.kv_lora_rank",
        })?;
        Ok(vec![Cache::Latent { kv_lora_rank, rope_length }; self.count])
    }

    fn hybrid(&self, choice: Choice) -> Result<Vec<Cache>, GgufError> {
        let state = self.state()?;
        let recurrent = self.recurrent(choice)?;
        // Only LFM2 among the hybrids can have a window, and then in every layer with attention.
        let window = self.number("attention.sliding_window")?.filter(|width| *width > 0);
        let window = if self.prefix == "lfm2" { window } else { None };
        let attention = self.attention(&vec![window; self.count])?;
        let networks = self.networks()?;
        let layer = |(index, attention): (usize, Cache)| {
            if recurrent[index] {
                state
            } else if choice == Choice::WithoutHeadsOrNetwork && networks[index] > 0 {
                Cache::None
            } else {
                attention
            }
        };
        Ok(attention.into_iter().enumerate().map(layer).collect())
    }

    fn recurrent(&self, choice: Choice) -> Result<Vec<bool>, GgufError> {
        let heads = self.kv_heads()?;
        match choice {
            Choice::WithoutHeads => Ok(heads.iter().map(|heads| *heads == 0).collect()),
            Choice::WithoutHeadsOrNetwork => {
                let networks = self.networks()?;
                Ok(heads
                    .iter()
                    .zip(networks)
                    .map(|(heads, network)| *heads == 0 && network == 0)
                    .collect())
            }
            Choice::Interval => {
                if let Some(list) = self.per_layer("attention.recurrent_layers")? {
                    return Ok(list.into_iter().map(|recurrent| recurrent != 0).collect());
                }
                let interval = self.number("full_attention_interval")?.unwrap_or(4).max(1);
                Ok((1..=self.count as u64).map(|number| !number.is_multiple_of(interval)).collect())
            }
        }
    }

    /// One sequence's state in one layer, in 32-bit floats.
    fn state(&self) -> Result<Cache, GgufError> {
        let key = if self.metadata.has(&self.key("wkv.head_size")) {
            "wkv.head_size"
        } else if self.metadata.has(&self.key("shortconv.l_cache")) {
            "shortconv.l_cache"
        } else {
            "ssm.inner_size"
        };
        let numbers = match key {
            "wkv.head_size" => {
                let shifts = self.number("token_shift_count")?.unwrap_or(2);
                let width = self.need("embedding_length")?;
                product(width, shifts).zip(product(width, self.need(key)?))
            }
            "shortconv.l_cache" => {
                product(self.need("embedding_length")?, self.need(key)?.saturating_sub(1))
                    .zip(Some(0))
            }
            _ => self.state_space()?,
        };
        let bytes = numbers.and_then(|(one, other)| one.checked_add(other)?.checked_mul(4));
        let bytes =
            bytes.ok_or(GgufError::Kind { key: self.key(key), expected: "a possible size" })?;
        Ok(Cache::Recurrent { bytes })
    }

    /// The numbers of the convolution's past and of the state itself.
    fn state_space(&self) -> Result<Option<(u64, u64)>, GgufError> {
        let inner = self.need("ssm.inner_size")?;
        let state = self.need("ssm.state_size")?;
        let past = self.need("ssm.conv_kernel")?.saturating_sub(1);
        let groups = self.number("ssm.group_count")?.unwrap_or(0);
        let row = product(groups, state).and_then(|group| group.checked_mul(2)?.checked_add(inner));
        Ok(row.and_then(|row| product(past, row)).zip(product(state, inner)))
    }

    fn windows(&self, width: Width, pattern: Pattern) -> Result<Vec<Option<u64>>, GgufError> {
        let Some(width) = self.width(width)? else { return Ok(vec![None; self.count]) };
        Ok(self.windowed(pattern)?.into_iter().map(|windowed| windowed.then_some(width)).collect())
    }

    fn width(&self, width: Width) -> Result<Option<u64>, GgufError> {
        let given = self.number("attention.sliding_window")?;
        Ok(match width {
            Width::Required => Some(self.need("attention.sliding_window")?),
            Width::Optional => given.filter(|width| *width > 0),
            Width::Default(default) => Some(given.unwrap_or(default)),
            Width::UnlessZero(fixed) => (given != Some(0)).then_some(fixed),
            Width::WhereGiven(fixed) => given.filter(|width| *width > 0).map(|_| fixed),
            Width::Sized(layers, default) => {
                (self.count as u64 == layers).then(|| given.unwrap_or(default))
            }
        })
    }

    fn windowed(&self, pattern: Pattern) -> Result<Vec<bool>, GgufError> {
        let name = "attention.sliding_window_pattern";
        if self.metadata.length(&self.key(name)).is_ok_and(|list| list.is_some()) {
            let list = self.per_layer(name)?.unwrap_or_default();
            return Ok(list.into_iter().map(|windowed| windowed != 0).collect());
        }
        let given = self.number(name)?;
        let layers = 0..self.count as u64;
        Ok(match pattern {
            Pattern::LastFull(period) => {
                let period = given.unwrap_or(period);
                layers.map(|layer| period == 0 || layer % period + 1 < period).collect()
            }
            Pattern::FirstFull(period) => {
                let period = given.unwrap_or(period);
                layers.map(|layer| period == 0 || layer % period != 0).collect()
            }
            Pattern::Listed => return Err(GgufError::Missing { key: self.key(name) }),
        })
    }

    /// Layers that only predict further tokens, and layers that look into another one's cache, keep nothing themselves.
    fn drop_what_no_token_passes(
        &self,
        architecture: &str,
        layers: &mut [Cache],
    ) -> Result<(), GgufError> {
        let further = self.number("nextn_predict_layers")?.unwrap_or(0);
        let shared = match architecture {
            "gemma3n" => (self.count as u64).saturating_sub(20),
            "gemma4" => self.number("attention.shared_kv_layers")?.unwrap_or(0),
            _ => 0,
        };
        let without = usize::try_from(further.saturating_add(shared)).unwrap_or(usize::MAX);
        layers.iter_mut().rev().take(without).for_each(|layer| *layer = Cache::None);
        Ok(())
    }

    fn lengths(&self) -> Result<Lengths, GgufError> {
        let full = (self.length("attention.key_length")?, self.length("attention.value_length")?);
        let key = self.number("attention.key_length_swa")?.unwrap_or(full.0);
        let value = self.number("attention.value_length_swa")?.unwrap_or(full.1);
        Ok(Lengths { full, window: (key, value) })
    }

    fn length(&self, name: &str) -> Result<u64, GgufError> {
        if let Some(length) = self.number(name)? {
            return Ok(length);
        }
        let heads = self.per_layer("attention.head_count")?;
        match heads.and_then(|heads| heads.first().copied()) {
            Some(heads) if heads > 0 => Ok(self.need("embedding_length")? / heads),
            _ => Err(GgufError::Missing { key: self.key(name) }),
        }
    }

    fn kv_heads(&self) -> Result<Vec<u64>, GgufError> {
        if let Some(heads) = self.per_layer("attention.head_count_kv")? {
            return Ok(heads);
        }
        let key = "attention.head_count";
        self.per_layer(key)?.ok_or_else(|| GgufError::Missing { key: self.key(key) })
    }

    fn networks(&self) -> Result<Vec<u64>, GgufError> {
        Ok(self.per_layer("feed_forward_length")?.unwrap_or_else(|| vec![0; self.count]))
    }

    fn with_source(&self, layers: Vec<Cache>) -> Fact<Vec<Cache>> {
        let names = ["attention.head_count_kv", "attention.key_length", "attention.value_length"];
        let absent: Vec<_> =
            names.into_iter().filter(|name| !self.metadata.has(&self.key(name))).collect();
        let attention = layers.iter().any(|layer| matches!(layer, Cache::Grouped { .. }));
        if !attention || absent.is_empty() {
            return Fact::read(layers, format!("{}.attention.*", self.prefix));
        }
        let how = "as llama.cpp does without them: heads of head_count, lengths of embedding_length / head_count";
        Fact::computed(layers, format!("{} {how}", absent.join(", ")))
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

    fn need(&self, name: &str) -> Result<u64, GgufError> {
        self.number(name)?.ok_or_else(|| GgufError::Missing { key: self.key(name) })
    }
}

fn product(one: u64, other: u64) -> Option<u64> {
    one.checked_mul(other)
}
