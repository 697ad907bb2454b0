//! The reasons why a GGUF file cannot be read.

use std::io;

/// The reason why a GGUF file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("cannot read {field} at byte {at}")]
    Io {
        at: u64,
        field: String,
        #[source]
        source: io::Error,
    },
    #[error("the file ends at byte {at}, inside {field}")]
    Truncated { at: u64, field: String },
    #[error("not a GGUF file: it starts with {found:?}")]
    NotGguf { found: String },
    #[error("big-endian GGUF files are not supported")]
    BigEndian,
    #[error("GGUF version {version} is not supported; versions 2 and 3 are")]
    Version { version: u32 },
    #[error("{field} at byte {at} is {value}; the limit is {limit}")]
    LimitExceeded { at: u64, field: String, value: u64, limit: u64 },
    /// A type number that the format does not define, or an array of arrays.
    #[error("{field} at byte {at} has unsupported type {kind}")]
    ValueType { at: u64, field: String, kind: u32 },
    #[error("{field} at byte {at} is not valid UTF-8")]
    NotUtf8 { at: u64, field: String },
    #[error("duplicate key {name}")]
    DuplicateKey { name: String },
    #[error("duplicate tensor {name}")]
    DuplicateTensor { name: String },
    #[error("tensor {name} has unknown type {kind}")]
    TensorType { name: String, kind: u32 },
    #[error("tensor {name} has shape {shape:?}, which {problem}")]
    TensorShape { name: String, shape: Vec<u64>, problem: ShapeProblem },
    #[error("tensor {name} starts at offset {offset}, which {problem}")]
    TensorOffset { name: String, offset: u64, problem: OffsetProblem },
    #[error("key {key} is missing")]
    MissingKey { key: String },
    #[error("key {key} must be {expected}")]
    InvalidValue { key: String, expected: &'static str },
    #[error("part {part} of {parts} ({file}) {problem}")]
    Part { part: u64, parts: u64, file: String, problem: PartProblem },
}

/// The reason why a tensor's shape is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeProblem {
    #[error("has a dimension of size 0")]
    Empty,
    #[error("is not a whole number of blocks of its type")]
    PartialBlock,
    #[error("is too large")]
    TooLarge,
    #[error("makes the model too large")]
    ModelTooLarge,
}

/// The reason why a tensor's offset is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffsetProblem {
    #[error("is not a multiple of {alignment}")]
    Misaligned { alignment: u64 },
    #[error("overlaps tensor {other}")]
    Overlaps { other: String },
    #[error("is beyond the largest possible file")]
    TooFar,
}

/// The reason why one file of a split model is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartProblem {
    #[error("has a name that does not end in -00001-of-{parts:05}.gguf; other parts not found")]
    FileName { parts: u64 },
    #[error("is missing")]
    Missing,
    #[error("contains a different part")]
    WrongPart,
    #[error("declares {expected} tensors for the whole model, but the parts have {found}")]
    TensorCount { found: u64, expected: u64 },
}
