//! The reasons why safetensors files cannot be read.

use std::io;

/// The reason why safetensors files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsError {
    #[error("cannot read {file}")]
    Io {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("{file} ends at byte {at}, inside its header of {length} bytes")]
    Truncated { file: String, at: u64, length: u64 },
    #[error("{file} is too large to read: {value} bytes; the limit is {limit}")]
    LimitExceeded { file: String, value: u64, limit: u64 },
    #[error("{file} is malformed")]
    Malformed {
        file: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("tensor {name} of {file} {problem}")]
    Tensor { name: String, file: String, problem: TensorProblem },
    #[error("{file}, listed in the index, {problem}")]
    Shard { file: String, problem: ShardProblem },
    #[error("no safetensors file found")]
    NoFiles,
    #[error("{count} safetensors files, but no model.safetensors.index.json that lists them")]
    NoIndex { count: usize },
}

/// The reason why an entry of a tensor list is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorProblem {
    #[error("is listed twice")]
    Duplicate,
    #[error("is in two files")]
    InTwoFiles,
    #[error("ends at {end}, before its start at {start}")]
    Reversed { start: u64, end: u64 },
    #[error("starts at {start}, inside the previous tensor")]
    Overlaps { start: u64 },
    #[error("has unknown type {dtype}")]
    UnknownType { dtype: String },
    #[error("has shape {shape:?}, which is not a whole number of bytes or too large")]
    Shape { shape: Vec<u64> },
    #[error("has {found} bytes of data, but its shape needs {expected}")]
    Length { found: u64, expected: u64 },
}

/// The reason why a file of an index is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardProblem {
    #[error("is not in the directory of the index")]
    OtherDirectory,
    #[error("is missing")]
    Missing,
    #[error("does not contain tensor {tensor}")]
    TensorMissing { tensor: String },
}
