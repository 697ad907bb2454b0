//! GGUF files: their metadata and their list of tensors, read without the tensors' data.

pub mod cursor;

pub mod value;

pub mod tensor;

pub mod header;

pub mod split;

pub mod rules;

pub mod layers;

pub mod shape;

#[cfg(test)]
pub(crate) mod sample;

#[cfg(test)]
mod tests;

/// Why a GGUF file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file could not be opened or read.
    #[error("could not read the file at byte {at}, in {field}")]
    Io {
        /// Where.
        at: u64,
        /// What was being read.
        field: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file ends inside its header.
    #[error("the file ends at byte {at}, in {field}")]
    Truncated {
        /// Where.
        at: u64,
        /// What was being read.
        field: String,
    },
    /// The file is something else.
    #[error("this is no GGUF file: it begins with {found:?}")]
    NotGguf {
        /// The first four bytes, as far as they are text.
        found: String,
    },
    /// Numbers stand with their most significant byte first.
    #[error("this GGUF file is big endian; only little endian files can be read")]
    BigEndian,
    /// A version that is too old or not known.
    #[error("this GGUF file has version {version}; versions 2 and 3 can be read")]
    Version {
        /// What the file says.
        version: u32,
    },
    /// A length or a count is more than any model has.
    #[error("{field} at byte {at} is {value}, more than {most}")]
    TooMuch {
        /// Where.
        at: u64,
        /// Which number.
        field: String,
        /// What the file says.
        value: u64,
        /// The most that is read.
        most: u64,
    },
    /// A value has a type that the format does not have, or an array stands in an array.
    #[error("{field} at byte {at} has type {kind}, which cannot be read")]
    ValueType {
        /// Where.
        at: u64,
        /// Whose type.
        field: String,
        /// The type's number.
        kind: u32,
    },
    /// A text is not UTF-8.
    #[error("{field} at byte {at} is not text")]
    NotText {
        /// Where.
        at: u64,
        /// Which text.
        field: String,
    },
    /// A key or a tensor stands there twice.
    #[error("{what} {name} stands there twice")]
    Twice {
        /// `key` or `tensor`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A tensor's type is not known.
    #[error("tensor {name} has type {kind}, whose size is not known")]
    TensorType {
        /// Its name.
        name: String,
        /// The type's number.
        kind: u32,
    },
    /// A tensor's shape is not possible.
    #[error("tensor {name} has the shape {shape:?}, which {problem}")]
    TensorShape {
        /// Its name.
        name: String,
        /// Its dimensions.
        shape: Vec<u64>,
        /// What is wrong.
        problem: &'static str,
    },
    /// A tensor's place is not possible.
    #[error("tensor {name} begins at {offset}, which {problem}")]
    TensorPlace {
        /// Its name.
        name: String,
        /// Its offset.
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// A key is needed and not there.
    #[error("the key {key} is missing")]
    Missing {
        /// Its name.
        key: String,
    },
    /// A key has another kind of value.
    #[error("the key {key} is not {expected}")]
    Kind {
        /// Its name.
        key: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A split model is not complete or not of one piece.
    #[error("part {part} of {parts}, {file}, {problem}")]
    Part {
        /// Which part, from 1.
        part: u64,
        /// How many there should be.
        parts: u64,
        /// The name of its file.
        file: String,
        /// What is wrong.
        problem: String,
    },
}
