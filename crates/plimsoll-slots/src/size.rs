//! Sizes and times as people write them: `74.49GiB`, `20s`.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::units::{Bytes, Timespan, TimespanError};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Memory as it was declared: a whole number of bytes, or text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub Bytes);

impl ToSchema for Size {}

impl PartialSchema for Size {
    fn schema() -> RefOr<Schema> {
        let bytes = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::UInt64)))
            .description(Some("Bytes. Answers have this form."));
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A number with a unit"))
            .examples(["14.5GiB"]);
        RefOr::T(OneOfBuilder::new().item(bytes).item(text).into())
    }
}

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

/// The memory of a model: all of it, split evenly over its GPUs, an amount on each, or the word
/// `measure`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Memory {
    /// All of it; every GPU holds an equal part, rounded up.
    Total(Size),
    /// An amount on each GPU.
    PerGpu(Vec<Size>),
    /// Whole GPUs until a slot was measured, and the measured use after that.
    Measure(MeasureKeyword),
}

/// The word that declares that the memory of a model is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasureKeyword {
    Measure,
}

/// The text of [`MeasureKeyword`].
const MEASURE: &str = "measure";

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
            "a size such as \"14.5GiB\" or 15569256448, a list with one size for each GPU, or \
             \"measure\"",
        )
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Memory, E> {
        SizeVisitor.visit_u64(bytes).map(Memory::Total)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Memory, E> {
        match text {
            MEASURE => Ok(Memory::Measure(MeasureKeyword::Measure)),
            size => SizeVisitor.visit_str(size).map(Memory::Total),
        }
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

impl From<Span> for Timespan {
    fn from(span: Span) -> Timespan {
        Timespan::millis(span.0)
    }
}

impl From<Timespan> for Span {
    fn from(span: Timespan) -> Span {
        Span(span.as_millis())
    }
}

impl Span {
    /// Creates a span of seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Span(seconds * 1000)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Timespan::from(*self).fmt(f)
    }
}

impl FromStr for Span {
    type Err = TimespanError;

    fn from_str(text: &str) -> Result<Self, TimespanError> {
        text.parse::<Timespan>().map(Span::from)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        from.deserialize_str(SpanVisitor)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a duration with a unit, such as \"500ms\", \"20s\" or \"5m\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_without_a_unit_is_rejected_with_an_example() {
        let error = serde_json::from_str::<Span>("5").expect_err("no unit").to_string();
        assert!(error.contains("integer `5`, expected a duration with a unit"), "{error}");
        assert_eq!(serde_json::from_str::<Span>(r#""5s""#).ok(), Some(Span(5000)));
    }

    #[test]
    fn memory_is_one_size_or_a_list_of_sizes_or_measured() {
        let read = |text: &str| serde_json::from_str::<Memory>(text);
        assert_eq!(read("1024").ok(), Some(Memory::Total(Size(Bytes::new(1024)))));
        assert_eq!(read(r#""1KiB""#).ok(), Some(Memory::Total(Size(Bytes::new(1024)))));
        let two = vec![Size(Bytes::new(1)), Size(Bytes::new(1024))];
        assert_eq!(read(r#"[1, "1KiB"]"#).ok(), Some(Memory::PerGpu(two)));
        let measure = read(r#""measure""#).expect("the word is known");
        assert_eq!(measure, Memory::Measure(MeasureKeyword::Measure));
        assert_eq!(serde_json::to_string(&measure).ok().as_deref(), Some(r#""measure""#));
        for (text, part) in [
            ("-1", "-1"),
            ("1.5", "1.5"),
            (r#""8 gigs""#, "8 gigs"),
            ("true", "true"),
            ("[[1]]", "sequence"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
