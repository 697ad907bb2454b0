//! Hugging Face's `config.json`: the shape of models whose configuration class is known.

pub mod error;

pub mod fields;

pub mod rules;

pub mod hybrid;

mod sparse;

pub mod layers;

pub mod weights;

pub mod shape;

#[cfg(test)]
mod published;

pub use error::ConfigError;
