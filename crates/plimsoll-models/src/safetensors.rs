//! Safetensors files: the tensor list, read without the tensor data.

pub mod error;

pub mod dtype;

pub mod header;

pub mod shards;

pub mod weights;

pub use error::SafetensorsError;
