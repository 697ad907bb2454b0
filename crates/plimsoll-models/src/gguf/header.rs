//! The header of one GGUF file: metadata, tensor list, and the extent of the tensor data.

use std::collections::BTreeSet;
use std::io::{Read, Seek};

use plimsoll_core::units::Bytes;

use super::cursor::Cursor;
use super::error::{GgufError, OffsetProblem};
use super::tensor::{self, Tensor};
use super::value::{self, Metadata};

/// The largest number of tensors in one file. The largest published models have a few thousand.
pub const MAX_TENSORS: u64 = 1 << 16;

/// The largest number of metadata keys in one file.
pub const MAX_KEYS: u64 = 1 << 16;

/// The longest metadata key, as the format defines it.
pub const MAX_KEY_BYTES: u64 = (1 << 16) - 1;

/// The memory charged for one metadata entry besides its key and a list.
const ENTRY_BYTES: u64 = 64;

/// The alignment of tensor data if `general.alignment` is absent.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The header of one GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    pub version: u32,
    pub metadata: Metadata,
    /// The tensors, in file order.
    pub tensors: Vec<Tensor>,
    /// The position of the tensor data in the file.
    pub data_start: u64,
    /// The length of the tensor data with padding.
    pub data_length: u64,
    /// The length of the file. It is shorter than the data's end if only the header was fetched.
    pub file_length: u64,
}

impl Header {
    /// Returns the bytes of tensor data that the file lacks.
    pub fn absent(&self) -> Bytes {
        let end = self.data_start.saturating_add(self.data_length);
        Bytes::new(end.saturating_sub(self.file_length))
    }
}

/// Reads the header of a file and nothing after it.
pub fn read<R: Read + Seek>(from: R) -> Result<Header, GgufError> {
    let mut from = Cursor::new(from)?;
    let version = read_version(&mut from)?;
    let tensor_count = from.count("the number of tensors", MAX_TENSORS)?;
    let key_count = from.count("the number of keys", MAX_KEYS)?;
    let metadata = read_metadata(&mut from, key_count)?;
    let tensors = read_tensors(&mut from, tensor_count)?;
    let alignment = alignment(&metadata)?;
    let data_start = from.position().next_multiple_of(alignment);
    let data_length = check_offsets(&tensors, alignment)?;
    let file_length = from.file_length();
    Ok(Header { version, metadata, tensors, data_start, data_length, file_length })
}

/// Reads magic and version. A big-endian file has its version in the upper half of the number.
fn read_version<R: Read + Seek>(from: &mut Cursor<R>) -> Result<u32, GgufError> {
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

fn read_metadata<R: Read + Seek>(from: &mut Cursor<R>, count: u64) -> Result<Metadata, GgufError> {
    let mut metadata = Metadata::default();
    for index in 0..count {
        let key = from.text(&format!("the name of key {index}"), MAX_KEY_BYTES)?;
        from.reserve(ENTRY_BYTES, &key)?;
        let value = value::read(from, &key)?;
        if metadata.has(&key) {
            return Err(GgufError::DuplicateKey { name: key });
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn read_tensors<R: Read + Seek>(
    from: &mut Cursor<R>,
    count: u64,
) -> Result<Vec<Tensor>, GgufError> {
    let mut tensors: Vec<Tensor> = Vec::new();
    for index in 0..count {
        tensors.push(tensor::read(from, index)?);
    }
    let mut names = BTreeSet::new();
    match tensors.iter().find(|tensor| !names.insert(tensor.name.as_str())) {
        Some(duplicate) => Err(GgufError::DuplicateTensor { name: duplicate.name.clone() }),
        None => Ok(tensors),
    }
}

fn alignment(metadata: &Metadata) -> Result<u64, GgufError> {
    let key = "general.alignment";
    let alignment = metadata.number(key)?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        let expected = "a power of two up to 1048576";
        return Err(GgufError::InvalidValue { key: key.to_string(), expected });
    }
    Ok(alignment)
}

/// Checks that no two tensors overlap and returns the length of the data.
///
/// Overlapping tensors would be counted twice, and a file could then claim any total at no cost.
fn check_offsets(tensors: &[Tensor], alignment: u64) -> Result<u64, GgufError> {
    let mut by_offset: Vec<&Tensor> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    let mut end = 0;
    let mut previous: Option<&Tensor> = None;
    for tensor in by_offset {
        end = tensor_end(tensor, previous, end, alignment).map_err(|problem| {
            GgufError::TensorOffset { name: tensor.name.clone(), offset: tensor.offset, problem }
        })?;
        previous = Some(tensor);
    }
    Ok(end.next_multiple_of(alignment))
}

/// Returns the end of a tensor that must start at or after the end of the previous one.
fn tensor_end(
    tensor: &Tensor,
    previous: Option<&Tensor>,
    previous_end: u64,
    alignment: u64,
) -> Result<u64, OffsetProblem> {
    if !tensor.offset.is_multiple_of(alignment) {
        return Err(OffsetProblem::Misaligned { alignment });
    }
    if let Some(previous) = previous.filter(|_| tensor.offset < previous_end) {
        return Err(OffsetProblem::Overlaps { other: previous.name.clone() });
    }
    let end = tensor.offset.checked_add(tensor.bytes.get());
    end.filter(|end| *end <= i64::MAX as u64).ok_or(OffsetProblem::TooFar)
}
