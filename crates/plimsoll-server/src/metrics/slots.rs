//! Metrics of the slots front end: runners, models, slots and reservations.

use std::collections::BTreeMap;

use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_engine::engine::{Decided, Durable, Observer};
use plimsoll_slots::desk::{
    Census, Desk, DeskView, Ending, PendingEntry, PendingLimit, ReservationState, Topic,
};
use plimsoll_slots::memory::Need;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Word;
use super::scraped::{Labels, Number, Seconds, device_labels, seconds};
use super::waits::PendingWaits;
use crate::served::{FrontGauges, QueueGauges};

/// The number of models with a label of their own, by name. The others share a label, so that the
/// number of time series is bounded.
const LABELLED_MODELS: usize = 200;
const OTHER_MODELS: &str = "(others)";

/// Counts the reservations that end.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndingCounter {
    ended: Family<Word, Counter>,
    /// The endings of the batch that is not durable yet.
    in_flight: Vec<&'static str>,
}

impl EndingCounter {
    /// Registers the counter, with 0 for every ending: an alert on growth would miss the first
    /// count of a series that starts at 1.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for ending in Ending::NAMES {
            drop(self.ended.get_or_create(&[("ending", ending)]));
        }
        let help = "Reservations that ended, by ending";
        registry.register("reservations_ended", help, self.ended.clone());
    }
}

impl Observer<Desk> for EndingCounter {
    fn decided(&mut self, decided: &Decided<'_, Desk>) {
        let desk = decided.front.view(decided.scheduler);
        let changed = decided.topics.iter().filter_map(|topic| match topic {
            Topic::Reservation(id) => desk.reservation(*id),
            Topic::Runner(_) => None,
        });
        let ended = changed.filter_map(|reservation| match &reservation.state {
            ReservationState::Ended { ending, .. } => Some(ending.name()),
            ReservationState::Pending | ReservationState::Seated { .. } => None,
        });
        self.in_flight = ended.collect();
    }

    fn durable(&mut self, _: &Durable<'_, Desk>) {
        for ending in self.in_flight.drain(..) {
            self.ended.get_or_create(&[("ending", ending)]).inc();
        }
    }
}

/// Counts the requests for a reservation that a limit on pending ones rejected.
#[derive(Clone, Debug, Default)]
pub(crate) struct RejectionCounter(Family<Word, Counter>);

impl RejectionCounter {
    /// Registers the counter, with 0 for every limit.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for limit in PendingLimit::NAMES {
            drop(self.0.get_or_create(&[("limit", limit)]));
        }
        let help = "Requests rejected because too many reservations were pending, by limit";
        registry.register("reservations_rejected", help, self.0.clone());
    }

    pub(crate) fn count(&self, limit: &PendingLimit) {
        self.0.get_or_create(&[("limit", limit.name())]).inc();
    }
}

/// The gauges of the slots front end at one moment.
pub(crate) struct SlotGauges {
    telemetry: Vec<DeviceTelemetry>,
    runners: Vec<RunnerGauges>,
    models: BTreeMap<String, ModelGauges>,
    queue: QueueGauges,
    waits: PendingWaits,
}

struct DeviceTelemetry {
    runner: Name,
    gpu: usize,
    /// The age of the last measurement of its memory; `None` without one.
    age_seconds: Option<f64>,
    /// The compute utilisation, from 0 to 1.
    utilisation: Option<f64>,
}

struct RunnerGauges {
    name: Name,
    is_silent: bool,
    heartbeat_age_seconds: Option<f64>,
}

#[derive(Default)]
struct ModelGauges {
    census: Census,
    memory: Vec<MemoryGauges>,
}

/// The memory that a model needs over a number of GPUs.
struct MemoryGauges {
    gpus: u16,
    by_source: Vec<(&'static str, u64)>,
    disagrees: bool,
}

impl SlotGauges {
    pub(crate) fn copy(desk: &Desk, scheduler: &Scheduler, now: Millis) -> SlotGauges {
        let desk = desk.view(scheduler);
        let runners = desk.runners().map(|runner| RunnerGauges {
            name: runner.id.clone(),
            is_silent: desk.is_silent(&runner.id),
            heartbeat_age_seconds: desk.live(&runner.id).map(|live| seconds(live.last_seen, now)),
        });
        SlotGauges {
            telemetry: telemetry(desk, now),
            runners: runners.collect(),
            models: models(desk),
            queue: queue(desk, now),
            waits: PendingWaits::copy(scheduler, now),
        }
    }
}

fn telemetry(desk: DeskView<'_>, now: Millis) -> Vec<DeviceTelemetry> {
    let mut measured = Vec::new();
    for runner in desk.runners() {
        let Some(live) = desk.live(&runner.id) else { continue };
        for status in &live.devices {
            let at = live.last_seen.0.saturating_sub(status.stale_for.unwrap_or(0));
            measured.push(DeviceTelemetry {
                runner: runner.id.clone(),
                gpu: usize::from(status.index),
                age_seconds: status.used.map(|_| seconds(Millis(at), now)),
                // A runner that is silent, or a driver that is, says nothing about now.
                utilisation: status
                    .utilisation
                    .filter(|_| status.stale_for.is_none() && !desk.is_silent(&runner.id))
                    .map(|percent| f64::from(percent) / 100.0),
            });
        }
    }
    measured
}

fn models(desk: DeskView<'_>) -> BTreeMap<String, ModelGauges> {
    let mut models = BTreeMap::new();
    for (index, (name, census)) in desk.census().into_iter().enumerate() {
        let labelled = desk.model(name).filter(|_| index < LABELLED_MODELS);
        let memory = labelled.map(|model| desk.needs(model).iter().map(memory).collect());
        models.insert(name.to_string(), ModelGauges { census, memory: memory.unwrap_or_default() });
    }
    models
}

fn memory(need: &Need) -> MemoryGauges {
    let charged = need.charge.as_ref().ok().map(|(_, sizes)| sizes.iter().map(|size| size.0));
    let measured = need.measured.as_ref().map(|measured| measured.bytes.iter().copied());
    let estimated = need.estimated.as_ref().and_then(|estimate| estimate.all.total);
    let by_source = [
        ("charged", charged.map(sum)),
        ("measured", measured.map(sum)),
        ("estimated", estimated.map(Bytes::get)),
    ];
    MemoryGauges {
        gpus: need.gpus,
        by_source: by_source.into_iter().filter_map(|(who, bytes)| Some((who, bytes?))).collect(),
        disagrees: need.disagreement().is_some(),
    }
}

fn sum(bytes: impl Iterator<Item = Bytes>) -> u64 {
    bytes.fold(Bytes::ZERO, Bytes::plus).get()
}

fn queue(desk: DeskView<'_>, now: Millis) -> QueueGauges {
    let (mut slots, mut prewarms, mut reservations) = (0, 0, 0);
    let mut oldest = now;
    for entry in desk.pending() {
        let since = match entry {
            PendingEntry::Slot { entry, .. } if entry.request.terms.speculative => {
                prewarms += 1;
                continue;
            }
            PendingEntry::Slot { entry, .. } => {
                slots += 1;
                entry.since
            }
            PendingEntry::Reservation(reservation) => {
                reservations += 1;
                reservation.created
            }
        };
        oldest = oldest.min(since);
    }
    QueueGauges {
        lengths: vec![("slot", slots), ("prewarm", prewarms), ("reservation", reservations)],
        oldest_seconds: seconds(oldest, now),
    }
}

impl FrontGauges for SlotGauges {
    fn queue(&self) -> QueueGauges {
        self.queue.clone()
    }

    fn register(&self, registry: &mut Registry) {
        register_runners(registry, &self.runners);
        register_telemetry(registry, &self.telemetry);
        register_models(registry, &self.models);
        register_memory(registry, &self.models);
        self.waits.register(registry);
    }
}

fn register_runners(registry: &mut Registry, runners: &[RunnerGauges]) {
    let silent = runners.iter().filter(|runner| runner.is_silent).count();
    let states: Family<Word, Number> = Family::default();
    states.get_or_create(&[("state", "online")]).set((runners.len() - silent) as u64);
    states.get_or_create(&[("state", "silent")]).set(silent as u64);
    let ages: Family<Labels<1>, Seconds> = Family::default();
    for runner in runners {
        if let Some(age) = runner.heartbeat_age_seconds {
            ages.get_or_create(&[("node", runner.name.to_string())]).set(age);
        }
    }
    registry.register("runners", "Runners, by state", states);
    registry.register(
        "runner_heartbeat_age_seconds",
        "Time since the last heartbeat of a runner",
        ages,
    );
}

fn register_telemetry(registry: &mut Registry, telemetry: &[DeviceTelemetry]) {
    let [ages, utilisation] = [(); 2].map(|()| Family::<Labels<2>, Seconds>::default());
    for device in telemetry {
        let labels = device_labels(&device.runner, device.gpu);
        if let Some(age) = device.age_seconds {
            ages.get_or_create(&labels).set(age);
        }
        if let Some(ratio) = device.utilisation {
            utilisation.get_or_create(&labels).set(ratio);
        }
    }
    registry.register("device_telemetry_age_seconds", "Age of the last measurement", ages);
    registry.register(
        "device_utilisation_ratio",
        "Compute utilisation of a device, from 0 to 1",
        utilisation,
    );
}

fn register_models(registry: &mut Registry, models: &BTreeMap<String, ModelGauges>) {
    let count: Number = Gauge::default();
    count.set(models.len() as u64);
    let [slots_of, reservations_of] = [(); 2].map(|()| Family::<Labels<2>, Number>::default());
    let [slots, reservations] = [(); 2].map(|()| Family::<Word, Number>::default());
    for (stage, none) in slot_counts(&Census::default()) {
        slots.get_or_create(&[("stage", stage)]).set(none);
    }
    for (status, none) in reservation_counts(&Census::default()) {
        reservations.get_or_create(&[("status", status)]).set(none);
    }
    for (index, (model, row)) in models.iter().enumerate() {
        let model = if index < LABELLED_MODELS { model } else { OTHER_MODELS };
        for (stage, count) in slot_counts(&row.census) {
            let labels = [("model", model.to_string()), ("stage", stage.to_string())];
            slots_of.get_or_create(&labels).inc_by(count);
            slots.get_or_create(&[("stage", stage)]).inc_by(count);
        }
        for (status, count) in reservation_counts(&row.census) {
            let labels = [("model", model.to_string()), ("status", status.to_string())];
            reservations_of.get_or_create(&labels).inc_by(count);
            reservations.get_or_create(&[("status", status)]).inc_by(count);
        }
    }
    registry.register("models", "Models that are declared or have a slot", count);
    registry.register("slots", "Slots, by stage", slots);
    registry.register("reservations", "Reservations that have not ended, by status", reservations);
    registry.register("model_slots", "Slots of a model, by stage", slots_of);
    registry.register(
        "model_reservations",
        "Reservations of a model that have not ended, by status",
        reservations_of,
    );
}

fn slot_counts(census: &Census) -> [(&'static str, u64); 5] {
    [
        ("pending", census.pending),
        ("starting", census.starting),
        ("running", census.running),
        ("unknown", census.unknown),
        ("releasing", census.releasing),
    ]
}

fn reservation_counts(census: &Census) -> [(&'static str, u64); 3] {
    [
        ("pending", census.reservations_pending),
        ("starting", census.reservations_starting),
        ("ready", census.reservations_ready),
    ]
}

fn register_memory(registry: &mut Registry, models: &BTreeMap<String, ModelGauges>) {
    let bytes: Family<Labels<3>, Number> = Family::default();
    let disagrees: Family<Labels<1>, Number> = Family::default();
    for (model, row) in models.iter().take(LABELLED_MODELS) {
        for memory in &row.memory {
            for (source, amount) in &memory.by_source {
                let labels = [
                    ("model", model.clone()),
                    ("gpus", memory.gpus.to_string()),
                    ("source", (*source).to_string()),
                ];
                bytes.get_or_create(&labels).set(*amount);
            }
        }
        let any = row.memory.iter().any(|memory| memory.disagrees);
        disagrees.get_or_create(&[("model", model.clone())]).set(any.into());
    }
    registry.register(
        "model_memory_bytes",
        "Memory of a slot of a model: charged, measured and estimated",
        bytes,
    );
    registry.register(
        "model_memory_disagrees",
        "1 if measured and estimated memory of a model differ by more than a tenth",
        disagrees,
    );
}
