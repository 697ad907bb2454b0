//! The fields of a `config.json`, as the text part of the model has them.

use std::io::Read;

use serde_json::{Map, Value};

use super::ConfigError;

/// The longest file that is read. Published ones have a few kilobytes.
pub const CONFIG_MOST: u64 = 16 << 20;

/// The fields of a model's text part.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    own: Map<String, Value>,
    outer: Map<String, Value>,
}

impl Fields {
    /// Reads a `config.json`.
    pub fn read(from: impl Read) -> Result<Fields, ConfigError> {
        let mut text = Vec::new();
        from.take(CONFIG_MOST + 1).read_to_end(&mut text).map_err(ConfigError::Io)?;
        if text.len() as u64 > CONFIG_MOST {
            return Err(ConfigError::TooLong { most: CONFIG_MOST });
        }
        let outer: Value = serde_json::from_slice(&text).map_err(ConfigError::Malformed)?;
        let Value::Object(outer) = outer else {
            return Err(ConfigError::Kind {
                field: "the whole".to_string(),
                expected: "an object",
            });
        };
        let own = match outer.get("text_config") {
            Some(Value::Object(text)) => text.clone(),
            _ => outer.clone(),
        };
        Ok(Fields { own, outer })
    }

    /// The value of a field, unless it is missing or null. What the text part lacks may stand outside of it.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let value = self.own.get(field).or_else(|| self.outer.get(field));
        value.filter(|value| !value.is_null())
    }

    /// A whole number.
    pub fn number(&self, field: &str) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let expected = "a whole number";
        value
            .as_u64()
            .map(Some)
            .ok_or_else(|| ConfigError::Kind { field: field.to_string(), expected })
    }

    /// The first of several fields that is there, with its name.
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

    /// Whether something is so.
    pub fn flag(&self, field: &str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let expected = "true or false";
        value
            .as_bool()
            .map(Some)
            .ok_or_else(|| ConfigError::Kind { field: field.to_string(), expected })
    }

    /// A text.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.get(field).and_then(Value::as_str)
    }

    /// A list.
    pub fn list(&self, field: &str) -> Result<Option<&Vec<Value>>, ConfigError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let expected = "a list";
        value
            .as_array()
            .map(Some)
            .ok_or_else(|| ConfigError::Kind { field: field.to_string(), expected })
    }

    /// A whole number that must be there.
    pub fn need(&self, field: &str) -> Result<u64, ConfigError> {
        self.number(field)?.ok_or_else(|| ConfigError::Missing { field: field.to_string() })
    }

    /// The architecture's name: the class that loads it, else the type of model.
    pub fn architecture(&self) -> Option<&str> {
        let class =
            self.outer.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
        class.or_else(|| self.text("model_type"))
    }
}
