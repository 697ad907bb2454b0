//! Hugging Face's `config.json`: what the formulas need of a model, where its class is known.

pub mod fields;

pub mod rules;

pub mod layers;

pub mod weights;

pub mod shape;

/// Why a `config.json` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be opened or read.
    #[error("could not read config.json")]
    Io(#[source] std::io::Error),
    /// The file is longer than any such file.
    #[error("config.json has more than {most} bytes")]
    TooLong {
        /// The most that is read.
        most: u64,
    },
    /// The file is not JSON.
    #[error("config.json is malformed")]
    Malformed(#[source] serde_json::Error),
    /// The file is JSON, but nothing that a model has.
    #[error("{field} of config.json is not {expected}")]
    Kind {
        /// Which field.
        field: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A number is more than any model has.
    #[error("{field} of config.json is {value}, more than {most}")]
    TooMuch {
        /// Which field.
        field: String,
        /// What it says.
        value: u64,
        /// The most that is read.
        most: u64,
    },
    /// A field without which nothing can be said is missing.
    #[error("{field} of config.json is missing")]
    Missing {
        /// Which field.
        field: String,
    },
}
