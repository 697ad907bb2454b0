//! Where a number comes from. A number that nobody gives stays unknown; nothing stands in for it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// It stands in the file.
    Read {
        /// Under which key, or in which part of the file.
        from: String,
    },
    /// It follows from what stands in the file, as the runtime itself computes it.
    Computed {
        /// From what, and how.
        from: String,
    },
    /// It was measured or published once, and stands in a table here.
    Table {
        /// Which row of which table.
        what: String,
    },
    /// Nobody says it.
    Unknown {
        /// The field that would have said it.
        missing: String,
    },
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

/// A value with its source, or the name of the field that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact<T> {
    value: Option<T>,
    source: Source,
}

impl<T> Fact<T> {
    /// It stands in the file, under `from`.
    pub fn read(value: T, from: impl Into<String>) -> Self {
        Fact { value: Some(value), source: Source::Read { from: from.into() } }
    }

    /// It follows from what stands in the file.
    pub fn computed(value: T, from: impl Into<String>) -> Self {
        Fact { value: Some(value), source: Source::Computed { from: from.into() } }
    }

    /// It stands in a table of this crate.
    pub fn table(value: T, what: impl Into<String>) -> Self {
        Fact { value: Some(value), source: Source::Table { what: what.into() } }
    }

    /// Nobody says it; `missing` would have.
    pub fn unknown(missing: impl Into<String>) -> Self {
        Fact { value: None, source: Source::Unknown { missing: missing.into() } }
    }

    /// The value; `None` exactly when the source is [`Source::Unknown`].
    pub const fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Where it comes from.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// Whether the value is known.
    pub const fn is_known(&self) -> bool {
        self.value.is_some()
    }

    /// The same source with a value that follows from this one alone.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        Fact { value: self.value.map(f), source: self.source }
    }
}
