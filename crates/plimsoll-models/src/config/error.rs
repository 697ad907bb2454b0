//! The reasons why a `config.json` cannot be read.

use std::io;

/// The reason why a `config.json` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read config.json")]
    Io(#[source] io::Error),
    #[error("config.json is too large to read; the limit is {limit} bytes")]
    TooLong { limit: u64 },
    #[error("config.json is not valid JSON")]
    Malformed(#[source] serde_json::Error),
    #[error("config.json is not a JSON object")]
    NotAnObject,
    #[error("config.json: {field} must be {expected}")]
    InvalidValue { field: String, expected: &'static str },
    #[error("config.json: {field} is {value}; the limit is {limit}")]
    LimitExceeded { field: String, value: u64, limit: u64 },
    #[error("config.json: {field} is missing")]
    MissingField { field: String },
}

impl ConfigError {
    pub(super) fn missing(field: impl Into<String>) -> ConfigError {
        ConfigError::MissingField { field: field.into() }
    }

    pub(super) fn invalid(field: &str, expected: &'static str) -> ConfigError {
        ConfigError::InvalidValue { field: field.to_string(), expected }
    }
}
