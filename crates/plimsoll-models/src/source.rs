//! Values that carry their source, so that every number in an estimate can be traced.
//!
//! An estimate decides what is charged to a GPU. A default in place of a missing number would be
//! charged like a real one, so a missing number stays unknown and names the field that is missing.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The origin of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// Read from the file; `from` is the key, or the part of the file.
    Read { from: String },
    /// Computed from numbers in the file, with the formula that the runtime itself uses.
    Computed { from: String },
    /// Taken from a table of published or measured numbers in this crate; `what` is the row.
    Table { what: String },
    /// Not known; `missing` is the field that would have provided it.
    Unknown { missing: String },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Read { from } => write!(f, "read: {from}"),
            Source::Computed { from } => write!(f, "computed: {from}"),
            Source::Table { what } => write!(f, "table: {what}"),
            Source::Unknown { missing } => write!(f, "unknown: {missing} is missing"),
        }
    }
}

/// A value with its source, or the name of the missing field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    value: Option<T>,
    source: Source,
}

impl<T> Sourced<T> {
    /// Wraps a value that the file contains under `from`.
    pub fn read(value: T, from: impl Into<String>) -> Self {
        Sourced { value: Some(value), source: Source::Read { from: from.into() } }
    }

    /// Wraps a value that was computed from numbers in the file.
    pub fn computed(value: T, from: impl Into<String>) -> Self {
        Sourced { value: Some(value), source: Source::Computed { from: from.into() } }
    }

    /// Wraps a value from a table of this crate.
    pub fn table(value: T, what: impl Into<String>) -> Self {
        Sourced { value: Some(value), source: Source::Table { what: what.into() } }
    }

    /// Returns an unknown value that names the missing field.
    pub fn unknown(missing: impl Into<String>) -> Self {
        Sourced { value: None, source: Source::Unknown { missing: missing.into() } }
    }

    /// Returns the value; `None` exactly when the source is [`Source::Unknown`].
    pub const fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Returns the source.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// Transforms the value and keeps the source.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: self.value.map(f), source: self.source }
    }
}
