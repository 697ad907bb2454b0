//! Maps of strings and of quantities, ordered by key. A duplicate key is an error.
//!
//! A cluster has hundreds of thousands of them with a few keys each. A `BTreeMap` reserves room for
//! eleven pairs in its smallest node, which was most of the memory of a pod.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::quantity::{Quantity, QuantityError};

use super::Scalar;

/// Labels, annotations or a node selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StringMap(SmallMap<Box<str>>);

/// Pairs in the order of their keys, without room for more.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SmallMap<V>(Box<[(Box<str>, V)]>);

impl<V> Default for SmallMap<V> {
    fn default() -> Self {
        SmallMap(Box::default())
    }
}

impl<V> SmallMap<V> {
    fn get(&self, key: &str) -> Option<&V> {
        let found = self.0.binary_search_by(|(known, _)| (**known).cmp(key));
        found.ok().map(|at| &self.0[at].1)
    }
}

impl<K: Into<Box<str>>, V> FromIterator<(K, V)> for SmallMap<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        // Of equal keys the last one counts, as in every map.
        let map: BTreeMap<Box<str>, V> =
            pairs.into_iter().map(|(key, value)| (key.into(), value)).collect();
        SmallMap(map.into_iter().collect())
    }
}

impl StringMap {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|value| &**value)
    }

    /// Returns true if the key is present, even with an empty value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.0.get(key).is_some()
    }

    /// Iterates over all pairs, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns true if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for StringMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> StringMap {
        let text = |value: V| value.into().into_boxed_str();
        StringMap(pairs.into_iter().map(|(key, value)| (key.into(), text(value))).collect())
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<StringMap, D::Error> {
        from.deserialize_map(UniqueKeys::<Text>(PhantomData)).map(|map| {
            StringMap(map.into_iter().map(|(key, Text(value))| (key, value.into())).collect())
        })
    }
}

/// Amounts by resource name. An unreadable amount is stored as its error, so that only a reader of
/// this resource fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources(SmallMap<Result<Quantity, QuantityError>>);

impl Resources {
    /// Returns the amount of a resource, or why it is unreadable; `None` if it is not listed.
    pub fn get(&self, name: &str) -> Option<Result<&Quantity, &QuantityError>> {
        self.0.get(name).map(Result::as_ref)
    }

    /// Returns true if the resource is listed, readable or not.
    pub fn contains_key(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    /// Iterates over all resources, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Result<&Quantity, &QuantityError>)> {
        self.0.0.iter().map(|(name, amount)| (&**name, amount.as_ref()))
    }

    /// Returns true if no resource is listed.
    pub fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }
}

impl<K: Into<String>, V: AsRef<str>> FromIterator<(K, V)> for Resources {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Resources {
        Resources(
            pairs
                .into_iter()
                .map(|(name, text)| (name.into().into_boxed_str(), Quantity::parse(text.as_ref())))
                .collect(),
        )
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Resources, D::Error> {
        from.deserialize_map(UniqueKeys::<Amount>(PhantomData)).map(|map| {
            Resources(map.into_iter().map(|(name, Amount(amount))| (name, amount)).collect())
        })
    }
}

/// Reads a map and rejects duplicate keys: picking one of them would be a guess. `null` values of
/// strings are empty, as in Kubernetes.
struct UniqueKeys<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for UniqueKeys<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = from.next_entry::<String, T>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key \"{key}\" is there twice; remove one of them"
                )));
            }
            map.insert(key, value);
        }
        Ok(map)
    }
}

/// A string in a map. The error for an unquoted number or boolean tells to quote it.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
        match Scalar::deserialize(from)? {
            Scalar::Text(text) => Ok(Text(text)),
            Scalar::Null => Ok(Text(String::new())),
            other => Err(other.unexpected(&"a string; put the value in quotes")),
        }
    }
}

/// An amount or its error. Deserializing it never fails.
struct Amount(Result<Quantity, QuantityError>);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        let scalar = Scalar::deserialize(from)?;
        let written = match &scalar {
            Scalar::Bool(value) => value.to_string(),
            Scalar::List => "[…]".to_owned(),
            Scalar::Map => "{…}".to_owned(),
            _ => "null".to_owned(),
        };
        let text = scalar.into_number_text();
        let amount = text.map_or(Err(QuantityError::NotANumber { value: written }), |text| {
            Quantity::parse(&text)
        });
        Ok(Amount(amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_that_cannot_be_read_is_kept_as_its_error() {
        let json = r#"{"cpu": 2, "memory": "16Gi", "a": "8000MB", "b": null, "c": {"x": 1}, "d": true, "e": [1], "f": 0.5}"#;
        let resources: Resources = serde_json::from_str(json).unwrap();
        assert_eq!(resources.get("cpu").unwrap().unwrap().whole(), Ok(2));
        assert_eq!(resources.get("f").unwrap().unwrap().milli_ceil(), Ok(500));
        assert!(matches!(resources.get("a"), Some(Err(QuantityError::UnknownSuffix { .. }))));
        for name in ["b", "c", "d", "e"] {
            assert!(
                matches!(resources.get(name), Some(Err(QuantityError::NotANumber { .. }))),
                "{name}"
            );
        }
        assert_eq!(resources.get("gpu"), None);
    }

    #[test]
    fn a_duplicate_key_is_rejected() {
        let twice = r#"{"gpu-memory": "1", "gpu-memory": "2"}"#;
        let error = serde_json::from_str::<StringMap>(twice).unwrap_err().to_string();
        assert!(error.contains("\"gpu-memory\" is there twice"), "{error}");
        assert!(serde_json::from_str::<Resources>(twice).is_err());
    }

    #[test]
    fn a_number_without_quotes_in_a_string_map_is_rejected_with_a_hint() {
        let error =
            serde_json::from_str::<StringMap>(r#"{"gpu-memory": 8000}"#).unwrap_err().to_string();
        assert!(error.contains("put the value in quotes"), "{error}");
    }
}
