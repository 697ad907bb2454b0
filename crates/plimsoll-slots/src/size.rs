//! Sizes and times as people write them: `74.49GiB`, `20s`.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::units::Bytes;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Memory as it was declared: a whole number of bytes, or text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, example = "14.5GiB")]
pub struct Size(pub Bytes);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.0.get())
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a whole number of bytes, or text with a unit such as \"14.5GiB\"")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
        Ok(Size(Bytes::new(bytes)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
        text.parse().map(Size).map_err(E::custom)
    }
}

/// The memory of a model: all of it, to be split evenly over its GPUs, or so much on each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Memory {
    /// All of it; every GPU holds an equal part, rounded up.
    Total(Size),
    /// So much on each GPU.
    PerGpu(Vec<Size>),
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Memory, D::Error> {
        from.deserialize_any(MemoryVisitor)
    }
}

struct MemoryVisitor;

impl<'de> Visitor<'de> for MemoryVisitor {
    type Value = Memory;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(
            "a size such as \"14.5GiB\" or 15569256448, or a list with one size for each GPU",
        )
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Memory, E> {
        SizeVisitor.visit_u64(bytes).map(Memory::Total)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Memory, E> {
        SizeVisitor.visit_str(text).map(Memory::Total)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Memory, A::Error> {
        let mut sizes = Vec::new();
        while let Some(size) = list.next_element()? {
            sizes.push(size);
        }
        Ok(Memory::PerGpu(sizes))
    }
}

/// A length of time, in milliseconds; written `500ms`, `20s`, `5m` or `1h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, example = "20s")]
pub struct Span(pub u64);

impl Span {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Span(seconds * 1000)
    }
}

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, unit): &&(&str, u64)| self.0.is_multiple_of(*unit) && self.0 >= *unit;
        let (name, unit) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[1]);
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a length of time; write 500ms, 20s, 5m or 1h");
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(end);
        let unit = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(unit))
            .map(Span)
            .ok_or_else(wrong)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_reads_back_as_it_is_written() {
        for text in ["500ms", "20s", "5m", "1h", "90s", "1500ms", "0s"] {
            assert_eq!(text.parse::<Span>().map(|span| span.to_string()), Ok(text.to_string()));
        }
        for text in
            ["", "5", "s", "-1s", "1.5s", "5 m", "99999999999999999999h", "18446744073709551615h"]
        {
            assert!(text.parse::<Span>().is_err_and(|error| error.contains(text)), "{text}");
        }
    }

    #[test]
    fn memory_is_one_size_or_a_list_of_sizes() {
        let read = |text: &str| serde_json::from_str::<Memory>(text);
        assert_eq!(read("1024").ok(), Some(Memory::Total(Size(Bytes::new(1024)))));
        assert_eq!(read(r#""1KiB""#).ok(), Some(Memory::Total(Size(Bytes::new(1024)))));
        let two = vec![Size(Bytes::new(1)), Size(Bytes::new(1024))];
        assert_eq!(read(r#"[1, "1KiB"]"#).ok(), Some(Memory::PerGpu(two)));
        for (text, part) in [
            ("-1", "-1"),
            ("1.5", "1.5"),
            (r#""8GB""#, "8GB"),
            ("true", "true"),
            ("[[1]]", "sequence"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
