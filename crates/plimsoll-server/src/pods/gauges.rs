//! Metrics of a live cluster.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::Millis;
use plimsoll_kube::audit;
use plimsoll_kube::live::Watch;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics::{Number, Word, seconds};
use crate::served::{FrontGauges, QueueGauges};

/// The numbers of a cluster at one moment.
pub(super) struct PodGauges {
    pending: u64,
    gated: u64,
    oldest_seconds: f64,
    releasing: u64,
    silent: u64,
    /// Milliseconds since 1970.
    holders_known_since: u64,
    damaged_records: u64,
    /// By code.
    findings: BTreeMap<&'static str, u64>,
}

impl PodGauges {
    pub(super) fn copy(watch: &Watch, scheduler: &Scheduler, now: Millis) -> PodGauges {
        let created = watch.pending().filter_map(|pod| pod.created.as_deref()?.parse().ok());
        let oldest: Option<jiff::Timestamp> = created.min();
        let oldest = oldest.and_then(|at| u64::try_from(at.as_millisecond()).ok());
        let silent = scheduler.ledger().nodes();
        let silent = silent.filter(|(_, view)| view.node.silent_since.is_some());
        let mut findings = BTreeMap::new();
        for finding in audit::with_ledger(watch.findings(), scheduler.ledger()) {
            *findings.entry(finding.code().as_str()).or_default() += 1;
        }
        PodGauges {
            pending: watch.pending().count() as u64,
            gated: watch.gated().count() as u64,
            oldest_seconds: oldest.map_or(0.0, |oldest| seconds(Millis(oldest), now)),
            releasing: watch.releases().count() as u64,
            silent: silent.count() as u64,
            holders_known_since: watch.holders_known_since().unwrap_or(now).0,
            damaged_records: watch.damaged_records().len() as u64,
            findings,
        }
    }
}

impl FrontGauges for PodGauges {
    fn queue(&self) -> QueueGauges {
        let lengths = vec![("pod", self.pending), ("gated", self.gated)];
        QueueGauges { lengths, oldest_seconds: self.oldest_seconds }
    }

    fn register(&self, registry: &mut Registry) {
        let releasing = Number::default();
        releasing.set(self.releasing);
        let help = "Pods whose memory is being released and waits for evidence";
        registry.register("pods_releasing", help, releasing);
        let silent = Number::default();
        silent.set(self.silent);
        registry.register("nodes_silent", "Nodes whose kubelet is not heard", silent);
        let known = Gauge::<f64, AtomicU64>::default();
        known.set(self.holders_known_since as f64 / 1000.0);
        let help = "Unix time before which a pod that vanished is unknown";
        registry.register("holders_known_since_seconds", help, known);
        let damaged = Number::default();
        damaged.set(self.damaged_records);
        let help = "Parts of the record of holders that are damaged and not used";
        registry.register("holders_record_damaged", help, damaged);
        let findings: Family<Word, Number> = Family::default();
        for (code, count) in &self.findings {
            findings.get_or_create(&[("code", code)]).set(*count);
        }
        registry.register("findings", "Findings of the audit, by code", findings);
    }
}
