//! Headers of real models, written from cards: what a reader must read right, and a runtime must accept.
//!
//! A card is a text that lists a model's metadata and its tensors as its publisher does. The weights are not there: a file is
//! written as its header alone, or as long as the real one with a hole where the weights would be. Modules stand in reading
//! order.

pub mod dtype;

pub mod card;

pub mod gguf;

pub mod safetensors;

pub mod list;

pub mod judged;
