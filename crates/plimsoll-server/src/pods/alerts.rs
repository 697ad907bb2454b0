//! Alerts in the log: findings about the cluster as they appear and disappear.

use std::collections::BTreeMap;

use plimsoll_engine::engine::{Decided, Observer};
use plimsoll_kube::finding::{Finding, Severity};
use plimsoll_kube::live::Watch;

/// Logs each new finding once, and that it is gone. Devices over their line are logged by the
/// shared part of the server.
#[derive(Default)]
pub(super) struct AlertLog {
    known: BTreeMap<String, &'static str>,
}

impl Observer<Watch> for AlertLog {
    fn decided(&mut self, decided: &Decided<'_, Watch>) {
        if decided.topics.is_empty() {
            return;
        }
        let found = decided.front.findings();
        let worth = found.iter().filter(|finding| finding.severity() != Severity::Note);
        let now: BTreeMap<String, &'static str> =
            worth.map(|finding: &Finding| (finding.message(), finding.code().as_str())).collect();
        for (message, code) in now.iter().filter(|(message, _)| !self.known.contains_key(*message))
        {
            tracing::warn!(code, message, "finding");
        }
        for (message, code) in self.known.iter().filter(|(message, _)| !now.contains_key(*message))
        {
            tracing::info!(code, message, "finding resolved");
        }
        self.known = now;
    }
}
