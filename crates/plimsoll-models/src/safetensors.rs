//! Safetensors files: their list of tensors, read without the tensors' data.

pub mod dtype;

pub mod header;

pub mod shards;

pub mod weights;

/// Why safetensors files could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsError {
    /// A file could not be opened or read.
    #[error("could not read {file}")]
    Io {
        /// Its name.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file ends inside its header.
    #[error("{file} ends at byte {at}, in its header of {length} bytes")]
    Truncated {
        /// Its name.
        file: String,
        /// Where.
        at: u64,
        /// How long the header should be.
        length: u64,
    },
    /// A header, an index or a list is longer than the format allows.
    #[error("{what} of {file} is {value}, more than {most}")]
    TooMuch {
        /// Which number.
        what: &'static str,
        /// The file's name.
        file: String,
        /// What it says.
        value: u64,
        /// The most that is read.
        most: u64,
    },
    /// The header is not what the format says.
    #[error("the header of {file} is malformed")]
    Malformed {
        /// Its name.
        file: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// A tensor cannot be as it is listed.
    #[error("tensor {name} of {file} {problem}")]
    Tensor {
        /// Its name.
        name: String,
        /// The file's name.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The index names a file that is not there, or that has not what it should have.
    #[error("{file}, which the index names, {problem}")]
    Shard {
        /// Its name.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no file that could be the model.
    #[error("no safetensors file is there, nor an index of several")]
    Nothing,
    /// There are several files, and no index that says which belong together.
    #[error(
        "{count} safetensors files are there, but no model.safetensors.index.json that says which belong together"
    )]
    NoIndex {
        /// How many.
        count: usize,
    },
}
