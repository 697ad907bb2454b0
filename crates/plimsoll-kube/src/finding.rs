//! What is wrong in a cluster, as a value with its numbers and its remedy.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A device holds more than it has, or could at any moment.
    Error,
    /// Nothing is broken yet, but nothing keeps it from breaking.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable code in kebab case, such as `device-over-line`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The node it is about.
    pub node: Option<Name>,
    /// The device it is about, as people know it.
    pub uuid: Option<Name>,
    /// What is wrong, in one sentence with its numbers.
    pub message: String,
    /// The numbers by name, in bytes where they are sizes.
    pub numbers: BTreeMap<&'static str, u64>,
    /// What to do about it.
    pub remedy: String,
}
