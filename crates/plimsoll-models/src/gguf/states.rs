//! The recurrent state of a GGUF model's layers, with the numbers of the file.

use super::error::GgufError;
use super::layers::Keys;
use crate::shape::Cache;

impl Keys<'_> {
    /// Returns the state of one sequence in one layer, which llama.cpp keeps in 32-bit floats.
    ///
    /// The family decides the size, and its keys tell the families apart: RWKV keeps the last
    /// tokens and a matrix per head, LFM2 the inputs of a short convolution, and state-space
    /// models (Mamba) both the inputs of a convolution and a state.
    pub(super) fn recurrent_state(&self) -> Result<Cache, GgufError> {
        let (key, elements) = if self.metadata.has(&self.key("wkv.head_size")) {
            ("wkv.head_size", self.rwkv_elements()?)
        } else if self.metadata.has(&self.key("shortconv.l_cache")) {
            ("shortconv.l_cache", self.short_convolution_elements()?)
        } else if self.metadata.has(&self.key("kda.head_dim")) {
            ("kda.head_dim", self.delta_elements()?)
        } else if self.metadata.has(&self.key("ssm.inner_size")) {
            ("ssm.inner_size", self.state_space_elements()?)
        } else if self.prefix == "minimax-01" {
            ("attention.key_length", self.matrix_elements()?)
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

    /// Kimi delta attention: the inputs of three convolutions and a matrix per head.
    fn delta_elements(&self) -> Result<Option<u64>, GgufError> {
        let length = self.require("kda.head_dim")?;
        let past = self.require("ssm.conv_kernel")?.saturating_sub(1);
        let width = self.first_heads()?.checked_mul(length);
        let rows = past.checked_mul(3).and_then(|inputs| inputs.checked_add(length));
        Ok(width.zip(rows).and_then(|(width, rows)| width.checked_mul(rows)))
    }

    /// Linear attention: a matrix per head.
    fn matrix_elements(&self) -> Result<Option<u64>, GgufError> {
        let length = self.head_lengths()?.key;
        let matrix = length.checked_mul(length);
        let heads = self.first_heads()?;
        Ok(matrix.and_then(|matrix| matrix.checked_mul(heads)))
    }

    fn first_heads(&self) -> Result<u64, GgufError> {
        let key = "attention.head_count";
        let heads = self.per_layer(key)?.and_then(|heads| heads.first().copied());
        heads.ok_or_else(|| GgufError::MissingKey { key: self.key(key) })
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
}
