//! What a model needs: memory read from its file, and how a model server is told.
//!
//! Everything here is a function of values and of the bytes of a file: no clock, no network, nothing written. Modules stand in
//! reading order.

pub mod source;

pub mod settings;

pub mod shape;

pub mod gguf;

pub mod safetensors;

pub mod config;

pub mod open;

pub mod kv;

pub mod estimate;

pub mod fit;
