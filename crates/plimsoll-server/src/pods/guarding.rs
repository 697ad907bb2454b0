//! Counters of the guard.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 2];

/// The counters of one process, shared by everything that counts.
#[derive(Clone, Debug)]
pub struct GuardCounters {
    reviews: Family<Labels, Counter>,
    seconds: Histogram,
    leading: Gauge,
    registered: Gauge,
    errands: Family<Labels, Counter>,
}

impl Default for GuardCounters {
    fn default() -> Self {
        let seconds = Histogram::new([
            0.000_25, 0.0005, 0.001, 0.0015, 0.002, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5,
        ]);
        GuardCounters {
            reviews: Family::default(),
            seconds,
            leading: Gauge::default(),
            registered: Gauge::default(),
            errands: Family::default(),
        }
    }
}

impl GuardCounters {
    /// Registers the counters.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for outcome in ["ignored", "admitted", "warned", "rejected", "unavailable"] {
            let _ = self.reviews.get_or_create(&[("kind", "binding"), ("outcome", outcome)]);
        }
        let help = "Reviews of bindings and pods, by outcome";
        registry.register("guard_reviews", help, self.reviews.clone());
        let help = "Time to answer a review, from its body to its answer";
        registry.register("guard_review_seconds", help, self.seconds.clone());
        let help = "1 while this replica decides";
        registry.register("guard_leading", help, self.leading.clone());
        let help = "1 while this replica decides and the webhooks are registered";
        registry.register("guard_registered", help, self.registered.clone());
        let help = "Requests of the guard to the API server, by outcome";
        registry.register("guard_errands", help, self.errands.clone());
    }

    pub(super) fn reviewed(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.reviews.get_or_create(&[("kind", kind), ("outcome", outcome)]).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts an errand.
    pub fn errand(&self, kind: &'static str, outcome: &'static str) {
        self.errands.get_or_create(&[("kind", kind), ("outcome", outcome)]).inc();
    }

    /// Records that this replica decides from now on, or no longer.
    pub fn leads(&self, leads: Leads) {
        self.leading.set(i64::from(leads == Leads::Yes));
        if leads == Leads::No {
            self.registered.set(0);
        }
    }

    /// Records the presence of the registration.
    pub fn registered(&self, registered: Leads) {
        self.registered.set(i64::from(registered == Leads::Yes));
    }
}

/// The answer to a question of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    Yes,
    No,
}
