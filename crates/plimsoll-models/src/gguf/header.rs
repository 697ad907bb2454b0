//! The header of one GGUF file: its keys, its tensors, and where their data begins.

use std::collections::BTreeSet;
use std::io::{Read, Seek};

use plimsoll_core::units::Bytes;

use super::GgufError;
use super::cursor::Cursor;
use super::tensor::{self, Tensor};
use super::value::{self, Metadata};

/// The most tensors of one file. The largest published models have a few thousand.
pub const TENSORS_MOST: u64 = 1 << 16;

/// The most keys of one file.
pub const KEYS_MOST: u64 = 1 << 16;

/// The longest key, as the format has it.
pub const KEY_MOST: u64 = (1 << 16) - 1;

/// The header of one GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The format's version.
    pub version: u32,
    /// Its keys.
    pub metadata: Metadata,
    /// Its tensors, in the file's order.
    pub tensors: Vec<Tensor>,
    /// Where the tensors' data begins.
    pub data_start: u64,
    /// How many bytes of data the tensors should have, padding included.
    pub data_length: u64,
    /// How long the file is. Shorter than the two together where only the header was fetched.
    pub file_length: u64,
}

impl Header {
    /// How many bytes of the tensors' data are not there.
    pub fn absent(&self) -> Bytes {
        let whole = self.data_start.saturating_add(self.data_length);
        Bytes::new(whole.saturating_sub(self.file_length))
    }
}

/// Reads the header of a file, and nothing behind it.
pub fn read<R: Read + Seek>(from: R) -> Result<Header, GgufError> {
    let mut from = Cursor::new(from)?;
    let version = version(&mut from)?;
    let tensor_count = from.count("the number of tensors", TENSORS_MOST)?;
    let key_count = from.count("the number of keys", KEYS_MOST)?;
    let metadata = metadata(&mut from, key_count)?;
    let tensors = tensors(&mut from, tensor_count)?;
    let alignment = alignment(&metadata)?;
    let data_start = from.at().next_multiple_of(alignment);
    let data_length = places(&tensors, alignment)?;
    Ok(Header { version, metadata, tensors, data_start, data_length, file_length: from.end() })
}

fn version<R: Read + Seek>(from: &mut Cursor<R>) -> Result<u32, GgufError> {
    let magic: [u8; 4] = from.bytes("the first four bytes")?;
    if magic != *b"GGUF" {
        return Err(GgufError::NotGguf { found: String::from_utf8_lossy(&magic).into_owned() });
    }
    match from.u32("the version")? {
        version @ (2 | 3) => Ok(version),
        version if version.trailing_zeros() >= 16 && version != 0 => Err(GgufError::BigEndian),
        version => Err(GgufError::Version { version }),
    }
}

fn metadata<R: Read + Seek>(from: &mut Cursor<R>, count: u64) -> Result<Metadata, GgufError> {
    let mut metadata = Metadata::default();
    for index in 0..count {
        let key = from.text(&format!("the name of key {index}"), KEY_MOST)?;
        from.keep(64, &key)?;
        let value = value::read(from, &key)?;
        if metadata.has(&key) {
            return Err(GgufError::Twice { what: "key", name: key });
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn tensors<R: Read + Seek>(from: &mut Cursor<R>, count: u64) -> Result<Vec<Tensor>, GgufError> {
    let mut tensors: Vec<Tensor> = Vec::new();
    for index in 0..count {
        tensors.push(tensor::read(from, index)?);
    }
    let mut names = BTreeSet::new();
    match tensors.iter().find(|tensor| !names.insert(tensor.name.as_str())) {
        Some(twice) => Err(GgufError::Twice { what: "tensor", name: twice.name.clone() }),
        None => Ok(tensors),
    }
}

fn alignment(metadata: &Metadata) -> Result<u64, GgufError> {
    let key = "general.alignment";
    match metadata.number(key)? {
        None => Ok(32),
        Some(alignment) if alignment.is_power_of_two() && alignment <= 1 << 20 => Ok(alignment),
        Some(_) => {
            Err(GgufError::Kind { key: key.to_string(), expected: "a power of two up to 1048576" })
        }
    }
}

/// Where the data ends, after checking that every tensor has a place of its own.
fn places(tensors: &[Tensor], alignment: u64) -> Result<u64, GgufError> {
    let mut order: Vec<&Tensor> = tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    let (mut end, mut before) = (0_u64, "");
    for tensor in order {
        let wrong = |problem: String| {
            let (name, offset) = (tensor.name.clone(), tensor.offset);
            Err(GgufError::TensorPlace { name, offset, problem })
        };
        if !tensor.offset.is_multiple_of(alignment) {
            return wrong(format!("is no multiple of {alignment}"));
        }
        if tensor.offset < end {
            return wrong(format!("is inside tensor {before}"));
        }
        match tensor.offset.checked_add(tensor.bytes.get()) {
            Some(sum) if sum <= i64::MAX as u64 => end = sum,
            _ => return wrong("is too far into the file".to_string()),
        }
        before = &tensor.name;
    }
    Ok(end.next_multiple_of(alignment))
}
