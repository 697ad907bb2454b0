//! The reasons why a launch command cannot be rendered, with the field that must change.

use std::fmt;

use plimsoll_core::units::Bytes;

use super::overhead::Overhead;
use crate::settings::{KvType, KvTypes, RuntimeKind};

/// The reason why a launch command cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("{runtime} needs a GPU, but none is charged")]
    NoGpu { runtime: RuntimeKind },
    #[error("{runtime} supports at most {max} GPUs, not {gpus}")]
    TooManyGpus { runtime: RuntimeKind, gpus: u64, max: u64 },
    #[error("{gpus} GPUs do not divide the model's {heads} attention heads")]
    Heads { gpus: u64, heads: u64 },
    #[error("{gpus} GPUs neither divide the model's {heads} KV heads nor are a multiple of them")]
    KvHeads { gpus: u64, heads: u64 },
    #[error("the charge of {charge} exceeds the GPU's {total}")]
    LargerThanGpu { charge: Bytes, total: Bytes },
    #[error("the memory of GPU {index} is unknown, and vLLM's limit is a fraction of it")]
    UnknownGpu {
        /// The position in the spec's devices, from 0.
        index: usize,
    },
    #[error(
        "the charge of {charge} leaves nothing for the model: the runtime itself uses {} ({})",
        .overhead.bytes, .overhead.source
    )]
    NothingLeft { charge: Bytes, overhead: Overhead },
    #[error("{pool} is less than a ten-thousandth of a GPU with {total}")]
    ShareTooSmall { pool: Bytes, total: Bytes },
    #[error(
        "{runtime} does not support KV cache type {kv}; it supports {}",
        KvType::names_for(*.runtime)
    )]
    KvType { runtime: RuntimeKind, kv: KvType },
    #[error("{runtime} supports only one KV cache type for keys and values, not {kv}")]
    TwoKvTypes { runtime: RuntimeKind, kv: KvTypes },
    #[error("KV cache type {kv} for values requires flash attention")]
    NeedsFlashAttention { kv: KvType },
    #[error("{field} is {value}, but must be from {min} to {max}")]
    OutOfRange { field: &'static str, value: u64, min: u64, max: u64 },
    #[error(
        "{field} is {word:?}; it must not be empty, start with a dash or contain control characters"
    )]
    InvalidWord { field: &'static str, word: String },
    /// An argument that the user may not set. `flag` is the full name of what was `written`.
    #[error("{}{reason}", reserved_flag(.written, .flag))]
    ReservedArgument { written: String, flag: String, reason: ReservedReason },
    #[error("{name} {reason}")]
    ReservedVariable { name: String, reason: ReservedReason },
}

fn reserved_flag(written: &str, flag: &str) -> String {
    if written == flag { format!("{flag} ") } else { format!("{written} means {flag}, which ") }
}

impl RenderError {
    /// Returns the field of the declaration that must change.
    pub fn field(&self) -> &'static str {
        match self {
            RenderError::NoGpu { .. }
            | RenderError::TooManyGpus { .. }
            | RenderError::Heads { .. }
            | RenderError::KvHeads { .. } => "gpus",
            RenderError::LargerThanGpu { .. }
            | RenderError::UnknownGpu { .. }
            | RenderError::NothingLeft { .. }
            | RenderError::ShareTooSmall { .. } => "memory",
            RenderError::KvType { .. }
            | RenderError::TwoKvTypes { .. }
            | RenderError::NeedsFlashAttention { .. } => "kv",
            RenderError::OutOfRange { field, .. } | RenderError::InvalidWord { field, .. } => field,
            RenderError::ReservedArgument { .. } => "args",
            RenderError::ReservedVariable { .. } => "env",
        }
    }
}

/// The reason why a flag or variable is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedReason {
    /// It is rendered from this field of the declaration.
    SetBy(&'static str),
    /// It always has the same value, with this effect.
    Fixed(&'static str),
    /// It uses memory that is not in the charge.
    Uncharged(&'static str),
    /// It uses memory that only declared memory can include.
    OnlyDeclared(&'static str),
    /// It starts something other than what was charged.
    NotAllowed(&'static str),
}

impl fmt::Display for ReservedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReservedReason::SetBy(field) => {
                write!(f, "is set from `{field}`; declare that instead")
            }
            ReservedReason::Fixed(effect) => write!(f, "is set by Plimsoll so that {effect}"),
            ReservedReason::Uncharged(why) => {
                write!(f, "uses memory that is not in the charge: {why}")
            }
            ReservedReason::OnlyDeclared(why) => {
                write!(f, "needs declared `memory` that includes it: {why}")
            }
            ReservedReason::NotAllowed(why) => write!(f, "is not allowed: {why}"),
        }
    }
}
