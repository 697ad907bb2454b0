//! The header of one safetensors file: the tensors with their sizes, checked for overlap.
//!
//! A header is untrusted input. Its length is compared with the format's limit and with the file
//! before it is read, so the cost is bounded by [`MAX_HEADER_BYTES`], and the number of tensors by
//! [`MAX_TENSORS`].

use std::fmt;
use std::io::{Read, Seek, SeekFrom};

use plimsoll_core::units::Bytes;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::dtype;
use super::error::{SafetensorsError, TensorProblem};

/// The longest header, as the format defines it.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The largest number of tensors in one file.
pub const MAX_TENSORS: usize = 1 << 20;

/// The longest tensor name that is quoted in an error.
const MAX_QUOTED_NAME: usize = 200;

/// The bytes before the header, which hold its length.
const LENGTH_BYTES: u64 = 8;

/// A tensor as a header lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub bytes: Bytes,
}

/// The header of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The tensors, sorted by name.
    pub tensors: Vec<Tensor>,
    /// The bytes of tensor data that the file lacks.
    pub absent: Bytes,
}

/// Reads the header of a file and nothing after it. `file` is its name for errors.
pub fn read<R: Read + Seek>(mut from: R, file: &str) -> Result<Header, SafetensorsError> {
    let io_error = |source| SafetensorsError::Io { file: file.to_string(), source };
    let file_length = from.seek(SeekFrom::End(0)).map_err(io_error)?;
    from.seek(SeekFrom::Start(0)).map_err(io_error)?;
    let Some(rest) = file_length.checked_sub(LENGTH_BYTES) else {
        return Err(truncated(file, file_length, LENGTH_BYTES));
    };
    let mut length = [0; 8];
    from.read_exact(&mut length).map_err(io_error)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        let (file, limit) = (format!("the header of {file}"), MAX_HEADER_BYTES);
        return Err(SafetensorsError::LimitExceeded { file, value: length, limit });
    }
    let Some(data_length) = rest.checked_sub(length) else {
        return Err(truncated(file, file_length, length));
    };
    let mut text = Vec::new();
    from.take(length).read_to_end(&mut text).map_err(io_error)?;
    parse(&text, data_length, file)
}

fn truncated(file: &str, at: u64, length: u64) -> SafetensorsError {
    SafetensorsError::Truncated { file: file.to_string(), at, length }
}

fn parse(text: &[u8], data_length: u64, file: &str) -> Result<Header, SafetensorsError> {
    let Entries(mut entries) = serde_json::from_slice(text).map_err(|source| {
        SafetensorsError::Malformed { file: format!("the header of {file}"), source }
    })?;
    let data_end = check_offsets(&mut entries, file)?;
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(tensor_error(&pair[0].0, file, TensorProblem::Duplicate));
    }
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        match entry.bytes() {
            Ok(bytes) => {
                tensors.push(Tensor { name, dtype: entry.dtype, shape: entry.shape, bytes });
            }
            Err(problem) => return Err(tensor_error(&name, file, problem)),
        }
    }
    Ok(Header { tensors, absent: Bytes::new(data_end.saturating_sub(data_length)) })
}

fn tensor_error(name: &str, file: &str, problem: TensorProblem) -> SafetensorsError {
    let name = name.chars().take(MAX_QUOTED_NAME).collect();
    SafetensorsError::Tensor { name, file: file.to_string(), problem }
}

/// Checks that no two tensors overlap and returns the end of the data.
fn check_offsets(entries: &mut [(String, Entry)], file: &str) -> Result<u64, SafetensorsError> {
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut previous_end = 0;
    for (name, entry) in entries {
        let [start, end] = entry.data_offsets;
        if end < start {
            return Err(tensor_error(name, file, TensorProblem::Reversed { start, end }));
        }
        if start < previous_end {
            return Err(tensor_error(name, file, TensorProblem::Overlaps { start }));
        }
        previous_end = end;
    }
    Ok(previous_end)
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Entry {
    /// Returns the size of the tensor, which the shape and the offsets must agree on.
    fn bytes(&self) -> Result<Bytes, TensorProblem> {
        let Some(bits) = dtype::bits(&self.dtype) else {
            return Err(TensorProblem::UnknownType { dtype: self.dtype.clone() });
        };
        let elements =
            self.shape.iter().try_fold(1_u64, |product, side| product.checked_mul(*side));
        let bits = elements.and_then(|elements| elements.checked_mul(bits));
        let Some(bits) = bits.filter(|bits| bits.is_multiple_of(8)) else {
            return Err(TensorProblem::Shape { shape: self.shape.clone() });
        };
        let (found, expected) = (self.data_offsets[1] - self.data_offsets[0], bits / 8);
        if found != expected {
            return Err(TensorProblem::Length { found, expected });
        }
        Ok(Bytes::new(expected))
    }
}

/// The entries of a header in file order, duplicates included.
///
/// The visitor is hand-written because a derived map keeps the last of two entries with the same
/// name, which would hide tensors from the sum, and because it checks [`MAX_TENSORS`] while it
/// reads.
struct Entries(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Entries, D::Error> {
        from.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with one entry per tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if entries.len() == MAX_TENSORS {
                return Err(de::Error::custom(format!("more than {MAX_TENSORS} tensors")));
            }
            entries.push((name, map.next_value::<Entry>()?));
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; data]);
        bytes
    }

    fn read_header(header: &str, data: usize) -> Result<Header, SafetensorsError> {
        read(Cursor::new(file(header, data)), "m.safetensors")
    }

    #[test]
    fn tensors_have_the_size_of_their_shape() {
        let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},
            "b":{"dtype":"F4","shape":[4],"data_offsets":[12,14]},"c":{"dtype":"F8_E4M3","shape":[],"data_offsets":[14,15]}}"#;
        let header = read_header(header, 15).expect("reads the header");
        let sizes: Vec<_> =
            header.tensors.iter().map(|t| (t.name.as_str(), t.bytes.get())).collect();
        assert_eq!(sizes, [("a", 12), ("b", 2), ("c", 1)]);
        assert!(header.absent.is_zero());
    }

    #[test]
    fn a_header_without_data_reports_the_absent_bytes() {
        let header = read_header(r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#, 3)
            .expect("reads the header");
        assert_eq!(header.absent, Bytes::new(13));
    }

    #[test]
    fn a_hostile_header_is_rejected_with_its_problem() {
        for (header, message) in [
            (
                r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,15]}}"#,
                "has 15 bytes of data, but its shape needs 16",
            ),
            (r#"{"a":{"dtype":"F3","shape":[4],"data_offsets":[0,16]}}"#, "unknown type F3"),
            (r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}"#, "before its start"),
            (
                r#"{"a":{"dtype":"F32","shape":[9223372036854775808,4],"data_offsets":[0,16]}}"#,
                "not a whole number of bytes or too large",
            ),
            (
                r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#,
                "not a whole number of bytes or too large",
            ),
            (
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#,
                "inside the previous tensor",
            ),
            (
                r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
                "is listed twice",
            ),
            ("[]", "is malformed"),
            (r#"{"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}"#, "is malformed"),
        ] {
            let error = read_header(header, 64).expect_err(header).to_string();
            assert!(error.contains(message), "{header}: {error}");
        }
        let nested = "[".repeat(100_000);
        assert!(read_header(&format!("{{\"__metadata__\":{nested}"), 0).is_err());
    }

    #[test]
    fn a_header_longer_than_the_limit_or_the_file_is_rejected() {
        for (length, message) in [
            (u64::MAX, "the limit is 100000000"),
            (1 << 63, "the limit is"),
            (99, "ends at byte 10"),
        ] {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend(b"{}");
            let error =
                read(Cursor::new(bytes), "m.safetensors").expect_err("is rejected").to_string();
            assert!(error.contains(message), "{error}");
        }
        assert!(read(Cursor::new([1, 2, 3]), "m.safetensors").is_err());
    }

    proptest! {
        #[test]
        fn a_corrupted_header_is_read_or_rejected_without_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let header = r#"{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"b":{"dtype":"F4","shape":[4],"data_offsets":[12,14]}}"#;
            let mut bytes = file(header, 14);
            for (index, byte) in changes {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            let _ = read(Cursor::new(bytes), "m.safetensors");
        }
    }
}
