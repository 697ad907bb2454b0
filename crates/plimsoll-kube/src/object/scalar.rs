//! One value of JSON or YAML whose type decides later: a number or a text, as people write both.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Expected, IgnoredAny, Unexpected};
use serde::de::{MapAccess, SeqAccess, Visitor};

/// A value as it was written. Deserializing it never fails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Text(String),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Null,
    List,
    Map,
}

impl Scalar {
    /// Returns the text of a text or a number; `None` for all others. A float becomes the shortest
    /// text that reads back as it: what its author wrote, except for its spelling.
    pub(crate) fn into_number_text(self) -> Option<String> {
        match self {
            Scalar::Text(text) => Some(text),
            Scalar::Unsigned(number) => Some(number.to_string()),
            Scalar::Signed(number) => Some(number.to_string()),
            Scalar::Float(number) => Some(float_text(number)),
            Scalar::Bool(_) | Scalar::Null | Scalar::List | Scalar::Map => None,
        }
    }

    /// Creates the error of a reader that expected something else.
    pub(crate) fn unexpected<E: Error>(&self, expected: &dyn Expected) -> E {
        let found = match self {
            Scalar::Text(text) => return E::invalid_value(Unexpected::Str(text), expected),
            Scalar::Unsigned(number) => Unexpected::Unsigned(*number),
            Scalar::Signed(number) => Unexpected::Signed(*number),
            Scalar::Float(number) => Unexpected::Float(*number),
            Scalar::Bool(value) => Unexpected::Bool(*value),
            Scalar::Null => Unexpected::Unit,
            Scalar::List => Unexpected::Seq,
            Scalar::Map => Unexpected::Map,
        };
        E::invalid_type(found, expected)
    }
}

fn float_text(number: f64) -> String {
    if number == 0.0 || (1e-9..1e15).contains(&number.abs()) {
        format!("{number}")
    } else {
        format!("{number:e}")
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Scalar, D::Error> {
        from.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(text))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Signed(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(number))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Scalar, A::Error> {
        while from.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Scalar, A::Error> {
        while from.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Map)
    }
}

#[cfg(test)]
mod tests {
    use crate::quantity::Quantity;

    use super::*;

    #[test]
    fn texts_and_numbers_are_quantities() {
        for (json, text) in [
            ("8000", "8000"),
            ("\"8k\"", "8k"),
            ("8e3", "8000"),
            ("0.5", "500m"),
            ("-1", "-1"),
            ("1e18", "1E"),
        ] {
            let scalar: Scalar = serde_json::from_str(json).unwrap();
            let read = Quantity::parse(&scalar.into_number_text().unwrap());
            assert_eq!(read, Quantity::parse(text), "{json}");
        }
        for json in ["true", "null", "[1, [2]]", "{\"a\": {}}"] {
            let scalar: Scalar = serde_json::from_str(json).unwrap();
            assert_eq!(scalar.into_number_text(), None, "{json}");
        }
        for json in ["\"\"", "\"8000MB\"", "1e300"] {
            let scalar: Scalar = serde_json::from_str(json).unwrap();
            assert!(Quantity::parse(&scalar.into_number_text().unwrap()).is_err(), "{json}");
        }
    }
}
