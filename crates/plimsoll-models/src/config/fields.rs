//! The fields of a `config.json`, as the text part of the model has them.

use std::io::Read;

use serde_json::{Map, Value};

use super::error::ConfigError;

/// The largest file that is read. Published ones have a few kilobytes.
pub const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// The objects in which multimodal models nest the fields of their text model.
const TEXT_PARTS: [&[&str]; 4] =
    [&["text_config"], &["llm_config"], &["language_config"], &["thinker_config", "text_config"]];

/// Other names of fields.
const OLDER_NAMES: [(&str, &str); 5] = [
    ("num_hidden_layers", "n_layer"),
    ("num_attention_heads", "n_head"),
    ("num_key_value_heads", "num_attention_groups"),
    ("hidden_size", "n_embd"),
    ("max_position_embeddings", "n_positions"),
];

/// The fields of a model's text part.
///
/// Multimodal models nest the text model's fields in an object (`TEXT_PARTS`). A field that is
/// missing there is looked up in the outer object.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    text_part: Map<String, Value>,
    outer: Map<String, Value>,
}

impl Fields {
    /// Reads a `config.json`.
    pub fn read(from: impl Read) -> Result<Fields, ConfigError> {
        let mut text = Vec::new();
        from.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut text).map_err(ConfigError::Io)?;
        if text.len() as u64 > MAX_CONFIG_BYTES {
            return Err(ConfigError::TooLong { limit: MAX_CONFIG_BYTES });
        }
        let outer: Value = serde_json::from_slice(&text).map_err(ConfigError::Malformed)?;
        let Value::Object(outer) = outer else { return Err(ConfigError::NotAnObject) };
        let text_part = TEXT_PARTS.iter().find_map(|path| nested(&outer, path));
        Ok(Fields { text_part: text_part.unwrap_or(&outer).clone(), outer })
    }

    /// Returns the value of a field, unless it is missing or null.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let older = OLDER_NAMES.iter().find(|(name, _)| *name == field).map(|(_, older)| *older);
        let names = [Some(field), older].into_iter().flatten();
        let mut values = names.filter_map(|name| {
            self.text_part.get(name).or_else(|| self.outer.get(name)).filter(|v| !v.is_null())
        });
        values.next()
    }

    /// Returns the numbers of a field that has one number for all layers, or a list. The last
    /// number of a shorter list is that of all further layers.
    pub fn per_layer(&self, field: &str, count: usize) -> Result<Option<Vec<u64>>, ConfigError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let invalid = || ConfigError::invalid(field, "a non-negative integer, or a list of them");
        let Some(list) = value.as_array() else {
            return value.as_u64().map(|number| Some(vec![number; count])).ok_or_else(invalid);
        };
        let numbers: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
        let mut numbers = numbers.filter(|list| !list.is_empty()).ok_or_else(invalid)?;
        let last = numbers.last().copied().unwrap_or(0);
        numbers.resize(count, last);
        Ok(Some(numbers))
    }

    /// Returns true if a field is present and null.
    pub fn is_null(&self, field: &str) -> bool {
        let value = self.text_part.get(field).or_else(|| self.outer.get(field));
        value.is_some_and(Value::is_null)
    }

    /// Returns a non-negative integer.
    pub fn number(&self, field: &str) -> Result<Option<u64>, ConfigError> {
        self.typed(field, Value::as_u64, "a non-negative integer")
    }

    /// Returns a boolean.
    pub fn boolean(&self, field: &str) -> Result<Option<bool>, ConfigError> {
        self.typed(field, Value::as_bool, "true or false")
    }

    /// Returns a list.
    pub fn list(&self, field: &str) -> Result<Option<&Vec<Value>>, ConfigError> {
        self.typed(field, Value::as_array, "a list")
    }

    fn typed<'a, T>(
        &'a self,
        field: &str,
        convert: fn(&'a Value) -> Option<T>,
        expected: &'static str,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| ConfigError::invalid(field, expected))
    }

    /// Returns a string; `None` also for a value of another type.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.get(field).and_then(Value::as_str)
    }

    /// Returns the first of several fields that is present, with its name.
    pub fn first_number(
        &self,
        fields: &[&'static str],
    ) -> Result<Option<(u64, &'static str)>, ConfigError> {
        for field in fields {
            if let Some(number) = self.number(field)? {
                return Ok(Some((number, field)));
            }
        }
        Ok(None)
    }

    /// Returns a non-negative integer that must be present.
    pub fn require(&self, field: &str) -> Result<u64, ConfigError> {
        self.number(field)?.ok_or_else(|| ConfigError::missing(field))
    }

    /// Returns the architecture: the name of the class that loads the model, else its type.
    pub fn architecture(&self) -> Option<&str> {
        let class =
            self.outer.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
        class.or_else(|| self.text("model_type"))
    }
}

fn nested<'a>(outer: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Map<String, Value>> {
    path.iter().try_fold(outer, |object, name| object.get(*name)?.as_object())
}
