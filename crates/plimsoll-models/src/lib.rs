//! Memory estimates from model files, and the launch flags of model servers.
//!
//! Everything here is a function of its arguments and of the bytes of model files: no clock, no
//! network, no writes. Modules are in reading order, and each uses only those above it.

pub mod source;

pub mod settings;

pub mod shape;

pub mod gguf;

pub mod safetensors;

pub mod config;

pub mod reader;

pub mod estimate;

pub mod fit;

pub mod runtime;
