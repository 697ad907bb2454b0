//! Messages about the output of slots: the server asks for a part, the runner answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most bytes of output in one answer.
pub const MAX_LOG_BYTES: u64 = 128 << 10;

/// A request for a part of a slot's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogRequest {
    /// The number to answer with.
    pub id: u64,
    /// The slot, by its name on the runner. It may have ended.
    pub slot: String,
    /// The offset in bytes from which on it is wanted; without it, the last lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The number of last lines.
    pub lines: u32,
}

/// A part of a slot's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogAnswer {
    /// The offset of the text.
    #[serde(default)]
    pub from: u64,
    /// The offset after it.
    #[serde(default)]
    pub next: u64,
    #[serde(default)]
    pub text: String,
    /// The reason why there is no output, if there is none to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
