//! Why the devices of a node could not be read.

/// Why the devices of a node could not be read. The caller names the node and the annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The comma form ends each device with a colon, and there is none.
    #[error("\"{value}\" lists no device: there is no colon after one, and it is no JSON list")]
    MissingSeparator {
        /// The annotation.
        value: String,
    },
    /// A part between colons is no device.
    #[error("\"{segment}\" is not a device; it must be fields between commas")]
    Malformed {
        /// The part.
        segment: String,
    },
    /// A device has neither 7 nor 9 fields.
    #[error("\"{segment}\" has {count} fields; a device has 7 or 9")]
    FieldCount {
        /// The device.
        segment: String,
        /// How many it has.
        count: usize,
    },
    /// A field is not what it must be.
    #[error("{field} of device \"{device}\" is \"{value}\", and must be {expected}")]
    Field {
        /// The device's id.
        device: String,
        /// The field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// The JSON is not the list that it must be.
    #[error("the JSON is not as it must be at {path}: {message}")]
    Json {
        /// Where.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// A device has no id.
    #[error("device {position} has no id")]
    NoId {
        /// Its position in the list, from 1.
        position: usize,
    },
    /// Two devices have the same id.
    #[error("device \"{id}\" is listed twice; which entry counts cannot be told")]
    Twice {
        /// The id.
        id: String,
    },
}
