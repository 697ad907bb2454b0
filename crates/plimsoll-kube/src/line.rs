//! The line of a namespace: the check of the bindings there.

use crate::object::StringMap;

/// The label of a namespace that says how its bindings are checked.
pub const LINE_LABEL: &str = "plimsoll.dev/line";

/// The check of the bindings in one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// They are not checked.
    #[default]
    Off,
    /// They are checked and pass; what would be rejected is reported.
    Warn,
    /// A binding that would overcommit a device is rejected.
    Enforce,
}

impl Line {
    /// Reads the label. Any other value is off: the webhooks select namespaces by the same values,
    /// so that no other namespace is ever called for.
    pub fn from_labels(labels: &StringMap) -> Line {
        match labels.get(LINE_LABEL) {
            Some("enforce") => Line::Enforce,
            Some("warn") => Line::Warn,
            _ => Line::Off,
        }
    }
}
