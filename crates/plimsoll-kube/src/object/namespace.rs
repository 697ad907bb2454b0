//! A namespace, of which only the labels are read.

use serde::Deserialize;

use super::{Metadata, nullable};

/// A `Namespace`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
}
