//! What is found while one node is read, and why its devices are unknown, where they are.

use plimsoll_core::units::Name;

use crate::finding::{Finding, Severity};

/// What is found while one node is read.
pub(super) struct Notes {
    node: Name,
    findings: Vec<Finding>,
    unknown: Vec<String>,
}

impl Notes {
    pub(super) fn new(node: &str) -> Notes {
        Notes { node: node.into(), findings: Vec::new(), unknown: Vec::new() }
    }

    /// The node's name.
    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Something is wrong, and the node can be used all the same.
    pub(super) fn add(&mut self, note: Note) {
        self.findings.push(Finding { node: Some(self.node.clone()), ..note.0 });
    }

    /// Something is wrong, and what devices the node has is unknown because of it.
    pub(super) fn close(&mut self, note: Note) {
        self.unknown.push(note.0.message.clone());
        self.add(note);
    }

    /// The findings, and why the node's devices are unknown.
    pub(super) fn into_parts(self) -> (Vec<Finding>, Option<Name>) {
        let unknown = (!self.unknown.is_empty()).then(|| self.unknown.join("; ").into());
        (self.findings, unknown)
    }
}

/// A finding in the making.
pub(super) struct Note(Finding);

impl Note {
    /// A device holds more than it has, or could: nothing may be assumed.
    pub(super) fn error(code: &'static str, message: impl Into<String>) -> Note {
        Note::new(code, Severity::Error, message.into())
    }

    /// Nothing is broken yet.
    pub(super) fn warning(code: &'static str, message: impl Into<String>) -> Note {
        Note::new(code, Severity::Warning, message.into())
    }

    /// Worth knowing.
    pub(super) fn remark(code: &'static str, message: impl Into<String>) -> Note {
        Note::new(code, Severity::Note, message.into())
    }

    /// What to do about it.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Note {
        Note(Finding { remedy: remedy.into(), ..self.0 })
    }

    /// The device it is about.
    pub(super) fn on(self, device: &str) -> Note {
        Note(Finding { uuid: Some(device.into()), ..self.0 })
    }

    /// Its numbers by name; sizes are in bytes.
    pub(super) fn with(self, numbers: impl IntoIterator<Item = (&'static str, u64)>) -> Note {
        Note(Finding { numbers: numbers.into_iter().collect(), ..self.0 })
    }

    fn new(code: &'static str, severity: Severity, message: String) -> Note {
        Note(Finding {
            code,
            severity,
            node: None,
            uuid: None,
            message,
            numbers: Default::default(),
            remedy: String::new(),
        })
    }
}
