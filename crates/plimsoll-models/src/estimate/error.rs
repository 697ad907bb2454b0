//! The reasons why an estimate is not possible.

use std::fmt;

use crate::settings::{KvType, KvTypes, RuntimeKind};

/// The reason why an estimate is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    #[error("the size of {what} does not fit in 64 bits")]
    Overflow { what: &'static str },
    #[error("{setting} is {value}, but must be from 1 to {limit}")]
    OutOfRange { setting: &'static str, value: u64, limit: u64 },
    #[error("{runtime} reads GGUF files only; use --runtime vllm for this model")]
    Format { runtime: RuntimeKind },
    #[error(
        "{runtime} does not support KV cache type {kv}; it supports {}",
        KvType::names_for(*.runtime)
    )]
    KvType { runtime: RuntimeKind, kv: KvType },
    #[error(
        "KV cache type {kv} has blocks of {block} elements, which do not divide the {length} \
         elements of a head's {half}"
    )]
    KvBlocks { kv: KvType, block: u64, half: CacheHalf, length: u64 },
    #[error("KV cache type {kv} for values requires flash attention")]
    NeedsFlashAttention { kv: KvType },
    #[error("the model keeps keys and values in one vector, which cannot have the two types {kv}")]
    KvTypesDiffer { kv: KvTypes },
    #[error("{gpus} GPUs do not divide the model's {heads} attention heads")]
    Heads { gpus: u64, heads: u64 },
    #[error(
        "{architecture} models pass their layers more than once, and llama.cpp copies the states \
         between GPUs each time; use one GPU"
    )]
    SeveralPasses { architecture: String },
    #[error("{runtime} loads no projector, adapter or draft model beside a model; llama.cpp does")]
    Additions { runtime: RuntimeKind },
    #[error("the file is {found}, which is loaded beside a model ({option})")]
    NotAModel { found: &'static str, option: &'static str },
    #[error("{option} must be {expected}, but the file is {found}")]
    NotThisAddition { option: &'static str, expected: &'static str, found: &'static str },
}

/// One half of a KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheHalf {
    Key,
    Value,
}

impl fmt::Display for CacheHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheHalf::Key => "key",
            CacheHalf::Value => "value",
        })
    }
}
