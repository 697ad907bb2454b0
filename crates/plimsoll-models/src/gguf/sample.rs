//! A builder of small GGUF files for tests.

use std::io::Cursor;

use super::error::GgufError;
use super::header::{self, Header};
use super::shape;
use crate::shape::Shape;

/// A GGUF header under construction.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    keys: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    end: u64,
}

impl Sample {
    /// Starts a file with these numbers under the keys of an architecture.
    pub(crate) fn with_numbers(architecture: &str, numbers: &[(&str, u32)]) -> Sample {
        let sample = Sample::default().text("general.architecture", architecture);
        numbers.iter().fold(sample, |sample, (key, number)| {
            sample.number(&format!("{architecture}.{key}"), *number)
        })
    }

    /// Adds a key with a type and the raw bytes of its value.
    pub(crate) fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Sample {
        let mut bytes = text(key);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        self.keys.push(bytes);
        self
    }

    /// Adds a text.
    pub(crate) fn text(self, key: &str, value: &str) -> Sample {
        self.raw(key, 8, &text(value))
    }

    /// Adds a number.
    pub(crate) fn number(self, key: &str, value: u32) -> Sample {
        self.raw(key, 4, &value.to_le_bytes())
    }

    /// Adds a list of numbers.
    pub(crate) fn list(self, key: &str, values: &[u32]) -> Sample {
        let mut bytes = 4_u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    /// Adds a vocabulary of `count` tokens.
    pub(crate) fn tokens(self, count: u64) -> Sample {
        let mut bytes = 8_u32.to_le_bytes().to_vec();
        bytes.extend(count.to_le_bytes());
        (0..count).for_each(|_| bytes.extend(text("a")));
        self.raw("tokenizer.ggml.tokens", 9, &bytes)
    }

    /// Adds a tensor of 16-bit floats after the last one.
    pub(crate) fn tensor(mut self, name: &str, shape: &[u64]) -> Sample {
        let offset = self.end;
        self.end += (shape.iter().product::<u64>() * 2).next_multiple_of(32);
        self.tensor_at(name, shape, 1, offset)
    }

    /// Adds a tensor of any type at any offset.
    pub(crate) fn tensor_at(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Sample {
        let mut bytes = text(name);
        bytes.extend(u32::try_from(shape.len()).expect("few dimensions").to_le_bytes());
        shape.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        self.tensors.push(bytes);
        self
    }

    /// Returns the file without tensor data.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        self.keys.iter().chain(&self.tensors).for_each(|part| bytes.extend(part));
        bytes
    }

    /// Returns the header as the reader sees it.
    pub(crate) fn header(&self) -> Result<Header, GgufError> {
        header::read(Cursor::new(self.bytes()))
    }

    /// Returns the shape as the reader sees it.
    pub(crate) fn shape(&self) -> Result<Shape, GgufError> {
        shape::from_headers(&[self.header()?])
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// Returns a small model with plain attention.
pub(crate) fn llama() -> Sample {
    let numbers = [
        ("block_count", 2),
        ("context_length", 8192),
        ("embedding_length", 256),
        ("feed_forward_length", 512),
        ("attention.head_count", 8),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 64),
        ("attention.value_length", 64),
    ];
    let sample = Sample::with_numbers("llama", &numbers)
        .tokens(1000)
        .tensor("token_embd.weight", &[256, 1000]);
    let sample = sample
        .tensor("blk.0.attn_q.weight", &[256, 512])
        .tensor("blk.1.attn_q.weight", &[256, 512]);
    sample.tensor("output_norm.weight", &[256]).tensor("output.weight", &[256, 1000])
}
