//! Errors of register annotations.

/// An unreadable register annotation. The caller names node and annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error("\"{value}\" lists no device: there is no colon after one, and it is no JSON list")]
    MissingSeparator { value: String },
    #[error("\"{segment}\" is not a device; it must be fields between commas")]
    Malformed { segment: String },
    #[error("\"{segment}\" has {count} fields; a device has 7 or 9")]
    FieldCount { segment: String, count: usize },
    #[error("{field} of device \"{device}\" is \"{value}\", and must be {expected}")]
    Field { device: String, field: &'static str, value: String, expected: &'static str },
    #[error("invalid JSON at {path}: {message}")]
    Json { path: String, message: String },
    #[error("device {position} has no id")]
    NoId { position: usize },
    #[error("device \"{id}\" is listed twice; which entry counts cannot be told")]
    Twice { id: String },
}
