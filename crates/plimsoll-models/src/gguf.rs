//! GGUF files: metadata and tensor list, read without the tensor data.

pub mod error;

pub mod cursor;

pub mod value;

pub mod tensor;

pub mod header;

pub mod split;

pub mod rules;

pub mod architectures;

pub mod layers;

mod states;

pub mod split_inputs;

pub mod identity;

mod projectors;

pub mod shape;

mod additions;

pub use error::GgufError;

#[cfg(test)]
pub(crate) mod sample;

#[cfg(test)]
mod tests;
