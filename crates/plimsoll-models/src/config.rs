//! Hugging Face's `config.json`: the shape of models whose configuration class is known.

pub mod error;

pub mod fields;

pub mod rules;

pub mod layers;

pub mod weights;

pub mod shape;

pub use error::ConfigError;
