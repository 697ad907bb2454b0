//! Alerts in the log: findings about the cluster as they appear and disappear.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_engine::engine::{Decided, Observer};
use plimsoll_kube::finding::{Finding, Severity};
use plimsoll_kube::live::Watch;

/// The shortest time between two looks at the findings of the whole cluster. The engine's ticks
/// bring the second look where nothing else happens.
const PAUSE: Duration = Duration::from_millis(500);

/// Logs each new finding once, and that it is gone. Devices over their line are logged by the
/// shared part of the server.
#[derive(Default)]
pub(super) struct AlertLog {
    known: BTreeMap<String, &'static str>,
    /// Something has changed since the last look.
    is_due: bool,
    looked: Option<Instant>,
}

impl Observer<Watch> for AlertLog {
    fn decided(&mut self, decided: &Decided<'_, Watch>) {
        self.is_due |= !decided.topics.is_empty();
        let is_early = self.looked.is_some_and(|looked| looked.elapsed() < PAUSE);
        if !self.is_due || is_early {
            return;
        }
        (self.is_due, self.looked) = (false, Some(Instant::now()));
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
