//! Headers of real models, written from text cards, for tests of the readers and estimates.
//!
//! A card lists a model's metadata and tensors as its publisher has them. There are no weights: a
//! file is written as its header alone, or at its real length with a hole for the weights. Modules
//! are in reading order.

pub mod dtype;

pub mod card;

pub mod gguf;

pub mod safetensors;

pub mod list;

pub mod judged;
