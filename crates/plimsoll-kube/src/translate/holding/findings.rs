//! What is wrong with what is written on a running pod, each as a finding.

use plimsoll_core::units::{Bytes, Name};

use crate::finding::{Finding, Severity};
use crate::object::Pod;

/// The findings about one pod.
pub(super) struct Findings<'a> {
    pod: &'a Pod,
    node: Option<Name>,
    pub(super) found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    /// No findings yet about a pod on a node.
    pub(super) fn on(pod: &'a Pod, node: &Name) -> Findings<'a> {
        Findings { pod, node: Some(node.clone()), found: Vec::new() }
    }

    /// An annotation names a device that the node does not have.
    pub(super) fn unknown_device(&mut self, key: &str, uuid: &str, bytes: Bytes) {
        let message = format!(
            "{} was given {bytes} of device {uuid} by {key}, and its node has no such device; it is counted on each \
             that it may be on",
            self.name()
        );
        let remedy =
            "let the device plugin register its devices again, or remove the pod".to_owned();
        self.add("allocation-unknown-device", Severity::Error, message, remedy);
        if let Some(finding) = self.found.last_mut() {
            finding.uuid = Some(uuid.into());
            finding.numbers = [("given", bytes.get())].into();
        }
    }

    /// An annotation cannot be read.
    pub(super) fn unreadable(&mut self, key: &str, why: impl std::fmt::Display) {
        let message = format!(
            "annotation {key} of {} cannot be read: {why}; what its spec asks is counted",
            self.name()
        );
        let remedy = "let its scheduler write the annotation again, or remove the pod".to_owned();
        self.add("allocation-unreadable", Severity::Error, message, remedy);
    }

    /// The spec of a pod that runs contradicts itself.
    pub(super) fn misunderstood(&mut self, problem: &str) {
        let message =
            format!("{} runs, and it cannot be said what it asks: {problem}", self.name());
        let remedy = "correct the pod; until then its devices are closed to new work".to_owned();
        self.add("pod-unreadable", Severity::Error, message, remedy);
    }

    /// An annotation says something else than the pod itself.
    pub(super) fn contradicts(&mut self, what: &str) {
        let message = format!("{} {what}", self.name());
        let remedy = "find out who wrote it: only the scheduler should".to_owned();
        self.add("ledger-annotation-contradicts", Severity::Warning, message, remedy);
    }

    /// An annotation stands on a pod that its scheduler cannot have given anything.
    pub(super) fn by_user(&mut self, key: &str, why: &str) {
        self.found.push(Finding { node: self.node.clone(), ..by_user(self.pod, key, why) });
    }

    fn name(&self) -> String {
        self.pod.metadata.namespaced_name()
    }

    fn add(&mut self, code: &'static str, severity: Severity, message: String, remedy: String) {
        let (node, numbers) = (self.node.clone(), std::collections::BTreeMap::new());
        self.found.push(Finding { code, severity, node, uuid: None, message, numbers, remedy });
    }
}

/// That a pod carries an annotation which only its scheduler should write.
pub(super) fn by_user(pod: &Pod, key: &str, why: &str) -> Finding {
    Finding {
        code: "ledger-annotation-by-user",
        severity: Severity::Note,
        node: None,
        uuid: None,
        message: format!("{} carries {key}, {why}; it is ignored", pod.metadata.namespaced_name()),
        numbers: std::collections::BTreeMap::new(),
        remedy: format!("leave {key} to the scheduler"),
    }
}

/// That pods are on a node that was not read.
pub(in crate::translate) fn node_unknown(node: &str, pods: u64, first: &str) -> Finding {
    let who = if pods == 1 {
        format!("{first} is")
    } else {
        format!("{first} and {} more pods are", pods - 1)
    };
    Finding {
        code: "node-unknown",
        severity: Severity::Warning,
        node: Some(node.into()),
        uuid: None,
        message: format!("{who} on node {node}, which was not read; what they hold is not counted"),
        numbers: [("pods", pods)].into(),
        remedy: "read nodes and pods together: kubectl get nodes,pods -A -o json".to_owned(),
    }
}
