//! Errors of the API as rows.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A problem document as in RFC 9457.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ProblemRow {
    /// `urn:plimsoll:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The problem and what to do about it.
    pub detail: String,
    /// The stable code of the kind of problem.
    pub code: String,
    /// The reason for the reservation's status, in one sentence with its numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field or parameter that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The reservation whose outcome this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
}
