//! The header of one safetensors file: every tensor with its size, each with a place of its own.

use std::fmt;
use std::io::{Read, Seek, SeekFrom};

use plimsoll_core::units::Bytes;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{SafetensorsError, dtype};

/// The longest header, as the format has it.
pub const HEADER_MOST: u64 = 100_000_000;

/// The most tensors of one file.
pub const TENSORS_MOST: usize = 1 << 20;

/// A tensor as a header lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The name of its numbers' type.
    pub dtype: String,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// How many bytes it takes.
    pub bytes: Bytes,
}

/// The header of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its tensors, in the order of their names.
    pub tensors: Vec<Tensor>,
    /// How many bytes of their data are not in the file.
    pub absent: Bytes,
}

/// Reads the header of a file, and nothing behind it. `file` is its name, for errors.
pub fn read<R: Read + Seek>(mut from: R, file: &str) -> Result<Header, SafetensorsError> {
    let failed = |source| SafetensorsError::Io { file: file.to_string(), source };
    let end = from.seek(SeekFrom::End(0)).map_err(failed)?;
    from.seek(SeekFrom::Start(0)).map_err(failed)?;
    let truncated =
        |length| SafetensorsError::Truncated { file: file.to_string(), at: end, length };
    if end < 8 {
        return Err(truncated(8));
    }
    let mut length = [0; 8];
    from.read_exact(&mut length).map_err(failed)?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_MOST {
        let (file, most) = (file.to_string(), HEADER_MOST);
        return Err(SafetensorsError::TooMuch { what: "the header", file, value: length, most });
    }
    if length > end - 8 {
        return Err(truncated(length));
    }
    let mut text = Vec::new();
    from.take(length).read_to_end(&mut text).map_err(failed)?;
    header(&text, end - 8 - length, file)
}

fn header(text: &[u8], data_there: u64, file: &str) -> Result<Header, SafetensorsError> {
    let malformed = |source| SafetensorsError::Malformed { file: file.to_string(), source };
    let Entries(mut entries) = serde_json::from_slice(text).map_err(malformed)?;
    let data = places(&mut entries, file)?;
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    if let Some(twice) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(wrong(&twice[0].0, file, "stands there twice"));
    }
    let tensors = entries.into_iter().map(|(name, entry)| entry.tensor(name, file));
    let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
    Ok(Header { tensors, absent: Bytes::new(data.saturating_sub(data_there)) })
}

fn wrong(name: &str, file: &str, problem: impl Into<String>) -> SafetensorsError {
    let (name, file) = (name.chars().take(200).collect(), file.to_string());
    SafetensorsError::Tensor { name, file, problem: problem.into() }
}

/// Where the data ends, after checking that every tensor has a place of its own.
fn places(entries: &mut [(String, Entry)], file: &str) -> Result<u64, SafetensorsError> {
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end = 0;
    for (name, entry) in entries {
        let [from, to] = entry.data_offsets;
        if to < from {
            return Err(wrong(name, file, format!("ends at {to}, before it begins at {from}")));
        }
        if from < end {
            return Err(wrong(
                name,
                file,
                format!("begins at {from}, inside the tensor before it"),
            ));
        }
        end = to;
    }
    Ok(end)
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Entry {
    fn tensor(self, name: String, file: &str) -> Result<Tensor, SafetensorsError> {
        let Entry { dtype, shape, data_offsets: [from, to] } = self;
        let Some(bits) = dtype::bits(&dtype) else {
            return Err(wrong(
                &name,
                file,
                format!("has the type {dtype}, whose size is not known"),
            ));
        };
        let numbers = shape.iter().try_fold(1_u64, |product, length| product.checked_mul(*length));
        let bits = numbers.and_then(|numbers| numbers.checked_mul(bits));
        let Some(bits) = bits.filter(|bits| bits.is_multiple_of(8)) else {
            return Err(wrong(
                &name,
                file,
                format!("has the shape {shape:?}, which is not possible"),
            ));
        };
        if bits / 8 != to - from {
            let problem =
                format!("has {} bytes of data, not the {} of its shape", to - from, bits / 8);
            return Err(wrong(&name, file, problem));
        }
        Ok(Tensor { name, dtype, shape, bytes: Bytes::new(bits / 8) })
    }
}

/// The entries of a header, with those that stand there twice: a map would keep the last and say nothing.
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
        out.write_str("an object with an entry for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if entries.len() == TENSORS_MOST {
                return Err(de::Error::custom(format!("more than {TENSORS_MOST} tensors")));
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

    fn of(header: &str, data: usize) -> Result<Header, SafetensorsError> {
        read(Cursor::new(file(header, data)), "m.safetensors")
    }

    #[test]
    fn every_tensor_has_the_size_of_its_shape() {
        let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},
            "b":{"dtype":"F4","shape":[4],"data_offsets":[12,14]},"c":{"dtype":"F8_E4M3","shape":[],"data_offsets":[14,15]}}"#;
        let header = of(header, 15).expect("a header");
        let sizes: Vec<_> =
            header.tensors.iter().map(|t| (t.name.as_str(), t.bytes.get())).collect();
        assert_eq!(sizes, [("a", 12), ("b", 2), ("c", 1)]);
        assert!(header.absent.is_zero());
    }

    #[test]
    fn a_header_alone_is_enough_and_says_what_is_absent() {
        let header =
            of(r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#, 3).expect("a header");
        assert_eq!(header.absent, Bytes::new(13));
    }

    #[test]
    fn a_hostile_header_is_refused_with_what_is_wrong() {
        for (header, part) in [
            (
                r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,15]}}"#,
                "15 bytes of data, not the 16",
            ),
            (r#"{"a":{"dtype":"F3","shape":[4],"data_offsets":[0,16]}}"#, "type F3"),
            (r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}"#, "before it begins"),
            (
                r#"{"a":{"dtype":"F32","shape":[9223372036854775808,4],"data_offsets":[0,16]}}"#,
                "not possible",
            ),
            (r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#, "not possible"),
            (
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#,
                "inside the tensor before it",
            ),
            (
                r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
                "twice",
            ),
            ("[]", "malformed"),
            (r#"{"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}"#, "malformed"),
        ] {
            let error = of(header, 64).expect_err(header).to_string();
            assert!(error.contains(part), "{header}: {error}");
        }
        let nested = "[".repeat(100_000);
        assert!(of(&format!("{{\"__metadata__\":{nested}"), 0).is_err());
    }

    #[test]
    fn a_header_longer_than_the_format_allows_or_than_the_file_is_refused() {
        for (length, part) in
            [(u64::MAX, "more than 100000000"), (1 << 63, "more than"), (99, "ends at byte 10")]
        {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend(b"{}");
            let error = read(Cursor::new(bytes), "m.safetensors").expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(read(Cursor::new([1, 2, 3]), "m.safetensors").is_err());
    }

    proptest! {
        /// What is read back is either a list of tensors or a refusal, whatever was changed.
        #[test]
        fn a_changed_header_is_read_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let header = r#"{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"b":{"dtype":"F4","shape":[4],"data_offsets":[12,14]}}"#;
            let mut bytes = file(header, 14);
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let _ = read(Cursor::new(bytes), "m.safetensors");
        }
    }
}
