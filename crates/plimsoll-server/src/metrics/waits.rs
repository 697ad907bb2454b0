//! Waiting times: how long requests waited for memory, how long those wait that are pending now,
//! and whether one is past its bound. Labels are accounts with a share and classes of size, so that
//! the number of time series is bounded.

use std::collections::BTreeMap;

use plimsoll_core::account::Shares;
use plimsoll_core::event::{Event, Operation};
use plimsoll_core::front::Front;
use plimsoll_core::ledger::OperationKind;
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::request::{Amount, Request, RequestId, Spec};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis};
use plimsoll_engine::engine::{Decided, Durable, Observer};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Word;
use super::scraped::{Labels, Number, Seconds, seconds};

/// The number of accounts with a label of their own, by name.
const LABELLED_ACCOUNTS: usize = 100;
const OTHER_ACCOUNTS: &str = "(others)";

/// From this size on, one GPU is a large part of one.
const MEDIUM: Bytes = Bytes::gib(24);
const LARGE: Bytes = Bytes::gib(64);

/// The size of a request: its preferred shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SizeClass {
    WithoutGpu,
    /// Less than 24 GiB of one GPU.
    Small,
    /// 24 GiB or more of one GPU.
    Medium,
    /// 64 GiB or more of one GPU, or a whole one.
    Large,
    SeveralGpus,
}

impl SizeClass {
    const ALL: [SizeClass; 5] = [
        SizeClass::WithoutGpu,
        SizeClass::Small,
        SizeClass::Medium,
        SizeClass::Large,
        SizeClass::SeveralGpus,
    ];

    fn of(spec: &Spec) -> SizeClass {
        let Some(shape) = spec.shapes().first() else { return SizeClass::WithoutGpu };
        let needs = shape.containers.iter().flat_map(|container| &container.needs);
        let sizes = needs.map(|need| match &need.amount {
            Amount::Bytes(bytes) => Bytes::new(bytes.get()),
            Amount::Portion(_) | Amount::Profile(_) => Bytes::ZERO,
            Amount::Whole | Amount::Plain(_) | Amount::Unknown(_) => LARGE,
        });
        match (shape.device_count(), sizes.max().unwrap_or_default()) {
            (0, _) => SizeClass::WithoutGpu,
            (2.., _) => SizeClass::SeveralGpus,
            (1, size) if size >= LARGE => SizeClass::Large,
            (1, size) if size >= MEDIUM => SizeClass::Medium,
            (1, _) => SizeClass::Small,
        }
    }

    fn name(self) -> &'static str {
        match self {
            SizeClass::WithoutGpu => "without_gpu",
            SizeClass::Small => "small",
            SizeClass::Medium => "medium",
            SizeClass::Large => "large",
            SizeClass::SeveralGpus => "several_gpus",
        }
    }
}

/// Returns the label of a request's account: its name if it has one of the first shares.
fn account_label(shares: &Shares, request: &Request) -> String {
    let account = shares.levels(request.account()).account;
    let is_labelled = shares.iter().take(LABELLED_ACCOUNTS).any(|(name, _)| name == account);
    if is_labelled { account.to_string() } else { OTHER_ACCOUNTS.to_string() }
}

fn labels(shares: &Shares, request: &Request) -> Labels<2> {
    let size = SizeClass::of(&request.spec).name();
    [("account", account_label(shares, request)), ("size", size.to_string())]
}

/// Measures how long requests waited until they were placed.
#[derive(Clone, Debug)]
pub(crate) struct WaitTimes {
    waits: Family<Labels<2>, Histogram, fn() -> Histogram>,
    /// The pending requests after the last batch.
    pending: Option<BTreeMap<RequestId, Waiting>>,
    /// The waits that ended in the batch that is not durable yet, in seconds.
    in_flight: Vec<(Labels<2>, f64)>,
}

#[derive(Clone, Debug)]
struct Waiting {
    since: Millis,
    labels: Labels<2>,
}

impl Default for WaitTimes {
    fn default() -> Self {
        let waits = Family::new_with_constructor(buckets as fn() -> Histogram);
        WaitTimes { waits, pending: None, in_flight: Vec::new() }
    }
}

fn buckets() -> Histogram {
    Histogram::new([0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0])
}

impl WaitTimes {
    /// Registers the histogram.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Time from the arrival of a request to its placement, without speculative work";
        registry.register("queue_wait_seconds", help, self.waits.clone());
    }

    fn note(&mut self, shares: &Shares, now: Millis, event: &Event, operation: &Operation) {
        let Some(pending) = &mut self.pending else { return };
        match operation {
            Operation::Enqueue(entry) if !entry.request.terms.speculative => {
                let labels = labels(shares, &entry.request);
                pending.insert(entry.request.id.clone(), Waiting { since: entry.since, labels });
            }
            Operation::Dequeue(request) => drop(pending.remove(request)),
            Operation::Ledger(operation) if operation.kind() == OperationKind::Hold => {
                let Some(id) = operation.request() else { return };
                // The charge comes before the request leaves the queue.
                if let Some(Waiting { since, labels }) = pending.get(id) {
                    self.in_flight.push((labels.clone(), seconds(*since, now)));
                } else if let Some(request) = submitted(event, id) {
                    self.in_flight.push((labels(shares, request), 0.0));
                }
            }
            _ => {}
        }
    }
}

/// Returns the request that an event submits, if it has this id and is not speculative.
fn submitted<'e>(event: &'e Event, id: &RequestId) -> Option<&'e Request> {
    let requests = match event {
        Event::Submit { request, .. } => std::slice::from_ref(request),
        Event::SubmitGang { members, .. } => members,
        _ => return None,
    };
    requests.iter().find(|request| request.id == *id && !request.terms.speculative)
}

impl<F: Front> Observer<F> for WaitTimes {
    fn decided(&mut self, decided: &Decided<'_, F>) {
        let shares = decided.scheduler.ledger().shares();
        // The requests that an earlier process left pending; those that this batch placed are gone.
        self.pending.get_or_insert_with(|| {
            let real = decided.scheduler.queue().iter();
            let real = real.filter(|entry| !entry.request.terms.speculative);
            let row = |entry: &PendingRequest| Waiting {
                since: entry.since,
                labels: labels(shares, &entry.request),
            };
            real.map(|entry| (entry.request.id.clone(), row(entry))).collect()
        });
        for record in decided.records {
            for operation in &record.operations {
                self.note(shares, record.now, &record.event, operation);
            }
        }
    }

    fn durable(&mut self, _: &Durable<'_, F>) {
        for (labels, seconds) in self.in_flight.drain(..) {
            self.waits.get_or_create(&labels).observe(seconds);
        }
    }
}

/// The waits of the requests that are pending at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingWaits {
    /// The age of the oldest request in seconds; 0 without one.
    oldest: BTreeMap<Labels<2>, f64>,
    /// Pending requests by the code of their expected start.
    expected: BTreeMap<&'static str, u64>,
    /// The longest time past a bound in seconds.
    overdue_seconds: f64,
}

/// The code of requests without a promise. Only a search through the fleet would tell more.
const NOT_PROMISED: &str = "not_promised";

impl PendingWaits {
    /// Reads the queue. Requests without a promise cost no search.
    pub(super) fn copy(scheduler: &Scheduler, now: Millis) -> PendingWaits {
        let shares = scheduler.ledger().shares();
        let mut waits = PendingWaits::default();
        for code in ["by", "after_stop", "after_work", NOT_PROMISED] {
            waits.expected.insert(code, 0);
        }
        let accounts = shares.iter().take(LABELLED_ACCOUNTS).map(|(name, _)| name.to_string());
        for account in accounts.chain([OTHER_ACCOUNTS.to_string()]) {
            for size in SizeClass::ALL {
                let labels = [("account", account.clone()), ("size", size.name().to_string())];
                waits.oldest.insert(labels, 0.0);
            }
        }
        for entry in scheduler.queue().iter() {
            if entry.request.terms.speculative {
                continue;
            }
            let age = seconds(entry.since, now);
            let oldest = waits.oldest.entry(labels(shares, &entry.request)).or_default();
            *oldest = oldest.max(age);
            let start = scheduler.promised_start(&entry.request.id);
            let code = start.as_ref().map_or(NOT_PROMISED, |start| start.code());
            *waits.expected.entry(code).or_default() += 1;
            let overdue = start.map(|start| start.overdue(now).as_millis()).unwrap_or_default();
            waits.overdue_seconds = waits.overdue_seconds.max(seconds(Millis(0), Millis(overdue)));
        }
        waits
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let oldest: Family<Labels<2>, Seconds> = Family::default();
        for (labels, age) in &self.oldest {
            oldest.get_or_create(labels).set(*age);
        }
        let help = "Age of the oldest pending request of an account and a size";
        registry.register("queue_oldest_wait_seconds", help, oldest);
        let expected: Family<Word, Number> = Family::default();
        for (code, count) in &self.expected {
            expected.get_or_create(&[("start", code)]).set(*count);
        }
        let help = "Pending requests, by what their start depends on";
        registry.register("queue_expected", help, expected);
        let overdue = Seconds::default();
        overdue.set(self.overdue_seconds);
        let help = "Longest time by which a pending request is past its expected start";
        registry.register("queue_overdue_seconds", help, overdue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::request::{Need, Shape};

    #[test]
    fn a_size_class_follows_the_preferred_shape() {
        let gib = |size: u64| Need::one("gpu", Amount::bytes(Bytes::gib(size)));
        let two = Need { count: std::num::NonZeroU16::new(2).expect("not 0"), ..gib(1) };
        for (need, class) in [
            (gib(23), SizeClass::Small),
            (gib(24), SizeClass::Medium),
            (gib(63), SizeClass::Medium),
            (gib(64), SizeClass::Large),
            (Need::one("gpu", Amount::Whole), SizeClass::Large),
            (two, SizeClass::SeveralGpus),
        ] {
            let spec =
                Spec::from_shapes(vec![Shape::single("c", need), Shape::single("c", gib(1))]);
            assert_eq!(SizeClass::of(&spec), class, "{spec:?}");
        }
        assert_eq!(SizeClass::of(&Spec::from_shapes(Vec::new())), SizeClass::WithoutGpu);
    }
}
