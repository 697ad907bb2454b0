//! What there is when somebody looks: numbers copied off the ledger and the desk in one go, and named afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use plimsoll_core::room::{DeviceRoom, NodeView};
use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_slots::desk::{Census, DeskView, PendingEntry};
use plimsoll_slots::memory::Need;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{PREFIX, Word};

/// So many models have a label of their own, by name; the others share one.
const MODELS: usize = 200;
const OTHERS: &str = "(others)";

/// What the ledger and the desk said. The thread that decides copies it, so it copies little: accounts are shared, and read later.
#[derive(Debug)]
pub(super) struct Sheet {
    nodes: Vec<Node>,
    runners: Vec<Runner>,
    models: BTreeMap<String, Model>,
    /// Slots that wait for a device, real work and speculative, and places that wait for a slot.
    queue: [u64; 3],
    /// How long the one has waited who has waited longest, in seconds; speculative work may wait for ever.
    oldest: f64,
    records: u64,
}

#[derive(Debug)]
struct Node {
    view: NodeView,
    /// How old the last measurement of each device is, in seconds; none where nobody measures.
    measured: Vec<Option<f64>>,
}

#[derive(Debug)]
struct Runner {
    name: Name,
    silent: bool,
    heard: Option<f64>,
}

#[derive(Debug, Default)]
struct Model {
    census: Census,
    memory: Vec<Memory>,
}

/// What a model needs over so many GPUs.
#[derive(Debug)]
struct Memory {
    gpus: u16,
    /// What each source says, in all.
    said: Vec<(&'static str, u64)>,
    disagrees: bool,
}

impl Memory {
    fn of(need: &Need) -> Memory {
        let sum =
            |bytes: &mut dyn Iterator<Item = Bytes>| bytes.fold(Bytes::ZERO, Bytes::plus).get();
        let charged = need.charge.as_ref().ok().map(|(_, sizes)| sizes.iter().map(|size| size.0));
        let measured = need.measured.as_ref().map(|measured| measured.bytes.iter().copied());
        let estimated = need.estimated.as_ref().and_then(|estimate| estimate.all.total);
        let said = [
            ("charged", charged.map(|mut bytes| sum(&mut bytes))),
            ("measured", measured.map(|mut bytes| sum(&mut bytes))),
            ("estimated", estimated.map(Bytes::get)),
        ];
        let said = said.into_iter().filter_map(|(who, bytes)| Some((who, bytes?))).collect();
        Memory { gpus: need.gpus, said, disagrees: need.disagreement().is_some() }
    }
}

type Counts<const N: usize> = [(&'static str, u64); N];

/// What is counted of the slots of a model, by stage, and of its places, by status.
fn counts(census: &Census) -> (Counts<5>, Counts<3>) {
    let slots = [
        ("pending", census.pending),
        ("starting", census.starting),
        ("running", census.running),
        ("unknown", census.unknown),
        ("releasing", census.releasing),
    ];
    let places = [
        ("pending", census.reservations_pending),
        ("starting", census.reservations_starting),
        ("ready", census.reservations_ready),
    ];
    (slots, places)
}

impl Sheet {
    /// Copies what is to be shown.
    pub(super) fn of(desk: DeskView<'_>, now: Millis, records: u64) -> Sheet {
        let ledger = desk.scheduler().ledger();
        let nodes = ledger.nodes().map(|(_, view)| node(desk, view, now)).collect();
        let runners = desk.runners().map(|runner| Runner {
            name: runner.id.clone(),
            silent: desk.is_silent(&runner.id),
            heard: desk.live(&runner.id).map(|live| seconds(live.last_seen, now)),
        });
        let (queue, oldest) = queue(desk, now);
        Sheet { nodes, runners: runners.collect(), models: models(desk), queue, oldest, records }
    }
}

fn node(desk: DeskView<'_>, view: &NodeView, now: Millis) -> Node {
    let live = desk.live(&view.node.name);
    let measured = |gpu: usize| {
        let live = live?;
        let status = live.devices.iter().find(|status| usize::from(status.index) == gpu)?;
        let stale = status.used.map(|_| status.stale_for.unwrap_or(0))?;
        Some(seconds(Millis(live.last_seen.0.saturating_sub(stale)), now))
    };
    Node { view: view.clone(), measured: (0..view.room.devices().len()).map(measured).collect() }
}

/// What the memory of a device is used for; unknown where somebody does not say how much.
fn by_use(view: &NodeView, gpu: usize) -> [(&'static str, Option<Bytes>); 8] {
    let (room, memory) = (&view.room.devices()[gpu], &view.node.devices[gpu].memory);
    [
        ("offered", held(room, "offered")),
        ("sent", held(room, "sent")),
        ("running", held(room, "running")),
        ("releasing", Some(room.releasing())),
        ("foreign", Some(room.foreign())),
        ("reserve", Some(memory.reserve)),
        ("free", room.free()),
        ("total", memory.total.bytes()),
    ]
}

/// The tenants of one stage, of those that the account counts as held; unknown where one of them does not say how much.
fn held(room: &DeviceRoom, stage: &str) -> Option<Bytes> {
    let tenants = room.tenants().iter().filter(|tenant| tenant.stage.name() == stage);
    tenants.map(|tenant| tenant.bytes).try_fold(Bytes::ZERO, |sum, bytes| Some(sum.plus(bytes?)))
}

fn models(desk: DeskView<'_>) -> BTreeMap<String, Model> {
    let row = |(index, (name, census)): (usize, (&str, Census))| {
        // Only so many have rows of their own.
        let model = desk.model(name).filter(|_| index < MODELS);
        let memory =
            model.map_or(Vec::new(), |model| desk.needs(model).iter().map(Memory::of).collect());
        (name.to_string(), Model { census, memory })
    };
    desk.census().into_iter().enumerate().map(row).collect()
}

fn queue(desk: DeskView<'_>, now: Millis) -> ([u64; 3], f64) {
    let (mut lengths, mut oldest) = ([0; 3], now);
    for entry in desk.pending() {
        let (kind, since) = match entry {
            PendingEntry::Slot { waiting, .. } if waiting.request.terms.speculative => (1, now),
            PendingEntry::Slot { waiting, .. } => (0, waiting.since),
            PendingEntry::Reservation(reservation) => (2, reservation.created),
        };
        lengths[kind] += 1;
        oldest = oldest.min(since);
    }
    (lengths, seconds(oldest, now))
}

/// From then to now.
fn seconds(then: Millis, now: Millis) -> f64 {
    std::time::Duration::from_millis(now.0.saturating_sub(then.0)).as_secs_f64()
}

/// What the data directory holds, as the file system says.
#[derive(Debug, Default)]
pub(super) struct Files {
    journal: u64,
    wal: u64,
    snapshots: u64,
    /// How long ago the last whole state was written, in seconds.
    snapshot_age: Option<f64>,
}

impl Files {
    /// Asks the file system.
    pub(super) fn of(data: &Path) -> Files {
        let mut files = Files::default();
        for entry in fs::read_dir(data).into_iter().flatten().flatten() {
            let (name, Ok(facts)) = (entry.file_name(), entry.metadata()) else { continue };
            match name.to_str() {
                Some("journal.db") => files.journal = facts.len(),
                Some("journal.db-wal") => files.wal = facts.len(),
                Some(name) if name.starts_with("snapshot-") && name.ends_with(".json") => {
                    files.snapshots += facts.len();
                    let age = facts
                        .modified()
                        .ok()
                        .and_then(|at| SystemTime::now().duration_since(at).ok());
                    let age = age.map(|age| age.as_secs_f64());
                    files.snapshot_age = match (files.snapshot_age, age) {
                        (Some(known), Some(age)) => Some(known.min(age)),
                        (known, age) => known.or(age),
                    };
                }
                _ => {}
            }
        }
        files
    }
}

type Number = Gauge<u64, AtomicU64>;
type Seconds = Gauge<f64, AtomicU64>;

type Labels<const N: usize> = [(&'static str, String); N];

/// Names everything.
pub(super) fn registry(sheet: &Sheet, files: &Files) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    name_devices(&mut registry, &sheet.nodes);
    name_runners(&mut registry, &sheet.runners);
    name_models(&mut registry, &sheet.models);
    name_queue(&mut registry, sheet);
    name_store(&mut registry, sheet, files);
    registry
}

fn name_devices(registry: &mut Registry, nodes: &[Node]) {
    let memory: Family<Labels<3>, Number> = Family::default();
    let [usable, load, promised, closed] = [(); 4].map(|()| Family::<Labels<2>, Number>::default());
    let measured: Family<Labels<2>, Seconds> = Family::default();
    for (Node { view, .. }, gpu, age) in nodes
        .iter()
        .flat_map(|node| node.measured.iter().enumerate().map(move |(gpu, age)| (node, gpu, *age)))
    {
        let room = &view.room.devices()[gpu];
        let labels = [("runner", view.node.name.to_string()), ("gpu", gpu.to_string())];
        // What is not known has no row: 0 would be a lie.
        for (stage, bytes) in
            by_use(view, gpu).into_iter().filter_map(|(stage, bytes)| Some((stage, bytes?)))
        {
            let [runner, gpu] = labels.clone();
            memory.get_or_create(&[runner, gpu, ("stage", stage.to_string())]).set(bytes.get());
        }
        if let Some(bytes) = room.usable() {
            usable.get_or_create(&labels).set(bytes.get());
        }
        if let Some(age) = age {
            measured.get_or_create(&labels).set(age);
        }
        load.get_or_create(&labels).set(room.load().get());
        promised.get_or_create(&labels).set(room.promised().get());
        closed.get_or_create(&labels).set(room.takes_nothing().into());
    }
    registry.register("device_memory_bytes", "Memory of a device, by what it is used for", memory);
    registry.register(
        "device_usable_bytes",
        "The line of a device: what may be used of it",
        usable,
    );
    registry.register(
        "device_load_bytes",
        "Everything that counts against the line of a device",
        load,
    );
    registry.register(
        "device_promised_bytes",
        "What is promised to those who wait for a release",
        promised,
    );
    registry.register("device_closed", "Whether a device is closed because of a breach", closed);
    registry.register("device_telemetry_age_seconds", "How old the last measurement is", measured);
}

fn name_runners(registry: &mut Registry, runners: &[Runner]) {
    let states: Family<Word, Number> = Family::default();
    for state in ["online", "silent"] {
        let count = runners.iter().filter(|runner| runner.silent == (state == "silent")).count();
        states.get_or_create(&[("state", state)]).set(count as u64);
    }
    let heard: Family<Labels<1>, Seconds> = Family::default();
    for (name, age) in runners.iter().filter_map(|runner| Some((&runner.name, runner.heard?))) {
        heard.get_or_create(&[("runner", name.to_string())]).set(age);
    }
    registry.register("runners", "Runners, by whether they are heard", states);
    registry.register(
        "runner_heartbeat_age_seconds",
        "Time since the last heartbeat of a runner",
        heard,
    );
}

fn name_models(registry: &mut Registry, models: &BTreeMap<String, Model>) {
    let count: Number = Gauge::default();
    count.set(models.len() as u64);
    let [slots_of, reservations_of] = [(); 2].map(|()| Family::<Labels<2>, Number>::default());
    let [slots, reservations] = [(); 2].map(|()| Family::<Word, Number>::default());
    let (no_slots, no_reservations) = counts(&Census::default());
    no_slots
        .iter()
        .for_each(|(stage, none)| _ = slots.get_or_create(&[("stage", *stage)]).set(*none));
    no_reservations.iter().for_each(|(status, none)| {
        _ = reservations.get_or_create(&[("status", *status)]).set(*none);
    });
    for (index, (model, row)) in models.iter().enumerate() {
        let model = if index < MODELS { model } else { OTHERS };
        let labels = |key, word: &str| [("model", model.to_string()), (key, word.to_string())];
        let (slots_by, reservations_by) = counts(&row.census);
        for (stage, count) in slots_by {
            slots_of.get_or_create(&labels("stage", stage)).inc_by(count);
            slots.get_or_create(&[("stage", stage)]).inc_by(count);
        }
        for (status, count) in reservations_by {
            reservations_of.get_or_create(&labels("status", status)).inc_by(count);
            reservations.get_or_create(&[("status", status)]).inc_by(count);
        }
    }
    name_memory(registry, models);
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

fn name_memory(registry: &mut Registry, models: &BTreeMap<String, Model>) {
    let said: Family<Labels<3>, Number> = Family::default();
    let disagrees: Family<Labels<1>, Number> = Family::default();
    for (model, row) in models.iter().take(MODELS) {
        for memory in &row.memory {
            for (source, bytes) in &memory.said {
                let labels = [
                    ("model", model.clone()),
                    ("gpus", memory.gpus.to_string()),
                    ("source", (*source).to_string()),
                ];
                said.get_or_create(&labels).set(*bytes);
            }
        }
        let any = row.memory.iter().any(|memory| memory.disagrees);
        disagrees.get_or_create(&[("model", model.clone())]).set(any.into());
    }
    registry.register(
        "model_memory_bytes",
        "What a slot of a model is charged in all, was measured to use, and is estimated to need",
        said,
    );
    registry.register(
        "model_memory_disagrees",
        "Whether what was measured and what the file says differ by more than a tenth",
        disagrees,
    );
}

fn name_queue(registry: &mut Registry, sheet: &Sheet) {
    let lengths: Family<Word, Number> = Family::default();
    for (kind, length) in ["slot", "prewarm", "reservation"].into_iter().zip(sheet.queue) {
        lengths.get_or_create(&[("kind", kind)]).set(length);
    }
    let oldest: Seconds = Gauge::default();
    oldest.set(sheet.oldest);
    registry.register("queue_length", "Who waits: slots for a device, places for a slot", lengths);
    registry.register(
        "queue_oldest_age_seconds",
        "How long the first has waited, prewarmed slots aside",
        oldest,
    );
}

fn name_store(registry: &mut Registry, sheet: &Sheet, files: &Files) {
    let records = Number::default();
    records.set(sheet.records);
    let bytes: Family<Word, Number> = Family::default();
    for (file, size) in
        [("journal", files.journal), ("wal", files.wal), ("snapshots", files.snapshots)]
    {
        bytes.get_or_create(&[("file", file)]).set(size);
    }
    registry.register("store_records", "Records ever written to the journal", records);
    registry.register("store_bytes", "Size of the files of the data directory", bytes);
    if let Some(seconds) = files.snapshot_age {
        let age = Seconds::default();
        age.set(seconds);
        registry.register("store_snapshot_age_seconds", "Age of the newest snapshot", age);
    }
}
