//! What there is when somebody looks: numbers copied off the ledger and the desk in one go, and named afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use plimsoll_core::room::{DeviceRoom, NodeView};
use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_slots::desk::{Desk, PlaceStatus, Unplaced};
use plimsoll_slots::memory::Need;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{PREFIX, Word};

/// So many models have a label of their own, by name; the others share one.
const MODELS: usize = 200;
const OTHERS: &str = "(others)";

const SLOT_STAGES: [&str; 5] = ["waiting", "starting", "running", "unknown", "releasing"];
const PLACE_STATUSES: [&str; 3] = ["waiting", "coming", "ready"];

/// What the ledger and the desk said.
#[derive(Debug)]
pub(super) struct Sheet {
    devices: Vec<Device>,
    runners: Vec<Runner>,
    models: BTreeMap<String, Model>,
    /// Slots that wait for a device, real work and speculative, and places that wait for a slot.
    queue: [u64; 3],
    /// How long the one has waited who has waited longest, in seconds; speculative work may wait for ever.
    oldest: f64,
    records: u64,
    notes: u64,
}

#[derive(Debug)]
struct Device {
    runner: Name,
    gpu: usize,
    stages: [(&'static str, Option<Bytes>); 8],
    usable: Option<Bytes>,
    load: Bytes,
    promised: Bytes,
    closed: bool,
    /// How old its last measurement is, in seconds; none where nobody measures.
    measured: Option<f64>,
}

#[derive(Debug)]
struct Runner {
    name: Name,
    silent: bool,
    heard: Option<f64>,
}

#[derive(Debug, Default)]
struct Model {
    slots: [u64; SLOT_STAGES.len()],
    places: [u64; PLACE_STATUSES.len()],
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
        let sum = |bytes: &mut dyn Iterator<Item = Bytes>| bytes.fold(Bytes::ZERO, Bytes::plus).get();
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

impl Model {
    fn add(&mut self, other: &Model) {
        self.slots.iter_mut().zip(other.slots).for_each(|(sum, more)| *sum += more);
        self.places.iter_mut().zip(other.places).for_each(|(sum, more)| *sum += more);
    }
}

impl Sheet {
    /// Copies what is to be shown.
    pub(super) fn of(desk: &Desk, now: Millis) -> Sheet {
        let ledger = desk.scheduler().ledger();
        let devices = ledger.nodes().flat_map(|(_, view)| devices(desk, view, now)).collect();
        let runners = desk.runners().map(|runner| Runner {
            name: runner.id.clone(),
            silent: desk.is_silent(&runner.id),
            heard: desk.live(&runner.id).map(|live| seconds(live.last_seen, now)),
        });
        let (queue, oldest) = queue(desk, now);
        let (records, notes) = desk.next_numbers();
        Sheet { devices, runners: runners.collect(), models: models(desk), queue, oldest, records, notes }
    }
}

fn devices<'a>(desk: &'a Desk, view: &'a NodeView, now: Millis) -> impl Iterator<Item = Device> + 'a {
    let live = desk.live(&view.node.name);
    view.room.devices().iter().enumerate().map(move |(gpu, room)| {
        let memory = &view.node.devices[gpu].memory;
        let status =
            live.and_then(|live| live.devices.iter().find(|status| usize::from(status.index) == gpu));
        let measured = live.zip(status.filter(|status| status.used.is_some())).map(|(live, status)| {
            let stale = status.stale_for.unwrap_or(0);
            seconds(Millis(live.last_seen.0.saturating_sub(stale)), now)
        });
        Device {
            runner: view.node.name.clone(),
            gpu,
            stages: [
                ("offered", held(room, "offered")),
                ("sent", held(room, "sent")),
                ("running", held(room, "running")),
                ("releasing", Some(room.releasing())),
                ("foreign", Some(room.foreign())),
                ("reserve", Some(memory.reserve)),
                ("free", room.free()),
                ("total", memory.total.bytes()),
            ],
            usable: room.usable(),
            load: room.load(),
            promised: room.promised(),
            closed: room.takes_nothing(),
            measured,
        }
    })
}

/// The tenants of one stage, of those that the account counts as held; unknown where one of them does not say how much.
fn held(room: &DeviceRoom, stage: &str) -> Option<Bytes> {
    let tenants = room.tenants().iter().filter(|tenant| tenant.stage.name() == stage);
    tenants.map(|tenant| tenant.bytes).try_fold(Bytes::ZERO, |sum, bytes| Some(sum.plus(bytes?)))
}

fn models(desk: &Desk) -> BTreeMap<String, Model> {
    let mut models: BTreeMap<String, Model> = BTreeMap::new();
    for model in desk.models() {
        let row = models.entry(model.name().to_string()).or_default();
        row.memory = desk.needs(model).iter().map(Memory::of).collect();
    }
    for slot in desk.slots() {
        let stage = desk.stage(slot).name();
        if let Some(index) = SLOT_STAGES.iter().position(|name| *name == stage) {
            models.entry(slot.model.clone()).or_default().slots[index] += 1;
        }
    }
    for place in desk.places() {
        let index = match desk.place_status(place.id) {
            Some(PlaceStatus::Waiting) => 0,
            Some(PlaceStatus::Coming { .. }) => 1,
            Some(PlaceStatus::Ready { .. }) => 2,
            Some(PlaceStatus::Ended { .. }) | None => continue,
        };
        models.entry(place.model.clone()).or_default().places[index] += 1;
    }
    models
}

fn queue(desk: &Desk, now: Millis) -> ([u64; 3], f64) {
    let (mut lengths, mut oldest) = ([0; 3], now);
    for unplaced in desk.unplaced() {
        let (kind, since) = match unplaced {
            Unplaced::Slot { waiting, .. } if waiting.request.terms.speculative => (1, now),
            Unplaced::Slot { waiting, .. } => (0, waiting.since),
            Unplaced::Place(place) => (2, place.created),
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
    bases: u64,
    /// How long ago the last whole state was written, in seconds.
    base_age: Option<f64>,
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
                Some(name) if name.starts_with("base-") && name.ends_with(".json") => {
                    files.bases += facts.len();
                    let age = facts.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
                    let age = age.map(|age| age.as_secs_f64());
                    files.base_age = match (files.base_age, age) {
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
    name_devices(&mut registry, &sheet.devices);
    name_runners(&mut registry, &sheet.runners);
    name_models(&mut registry, &sheet.models);
    name_queue(&mut registry, sheet);
    name_store(&mut registry, sheet, files);
    registry
}

fn name_devices(registry: &mut Registry, devices: &[Device]) {
    let memory: Family<Labels<3>, Number> = Family::default();
    let [usable, load, promised, closed] = [(); 4].map(|()| Family::<Labels<2>, Number>::default());
    let measured: Family<Labels<2>, Seconds> = Family::default();
    for device in devices {
        let [runner, gpu] = [("runner", device.runner.to_string()), ("gpu", device.gpu.to_string())];
        // What is not known has no row: 0 would be a lie.
        for (stage, bytes) in device.stages.iter().filter_map(|(stage, bytes)| Some((stage, (*bytes)?))) {
            let labels = [runner.clone(), gpu.clone(), ("stage", (*stage).to_string())];
            memory.get_or_create(&labels).set(bytes.get());
        }
        let labels = [runner, gpu];
        if let Some(bytes) = device.usable {
            usable.get_or_create(&labels).set(bytes.get());
        }
        if let Some(age) = device.measured {
            measured.get_or_create(&labels).set(age);
        }
        load.get_or_create(&labels).set(device.load.get());
        promised.get_or_create(&labels).set(device.promised.get());
        closed.get_or_create(&labels).set(device.closed.into());
    }
    registry.register("device_memory_bytes", "Memory of a device, by what it is used for", memory);
    registry.register("device_usable_bytes", "The line of a device: what may be used of it", usable);
    registry.register("device_load_bytes", "Everything that counts against the line of a device", load);
    registry.register("device_promised_bytes", "What is promised to those who wait for a release", promised);
    registry.register("device_closed", "Whether a device is closed because of a breach", closed);
    registry.register("device_telemetry_age_seconds", "How old the last measurement is", measured);
}

fn name_runners(registry: &mut Registry, runners: &[Runner]) {
    let states: Family<Word, Number> = Family::default();
    for state in ["alive", "silent"] {
        let count = runners.iter().filter(|runner| runner.silent == (state == "silent")).count();
        states.get_or_create(&[("state", state)]).set(count as u64);
    }
    let heard: Family<Labels<1>, Seconds> = Family::default();
    for (name, age) in runners.iter().filter_map(|runner| Some((&runner.name, runner.heard?))) {
        heard.get_or_create(&[("runner", name.to_string())]).set(age);
    }
    registry.register("runners", "Runners, by whether they are heard", states);
    registry.register("runner_heard_age_seconds", "How long ago a runner was heard last", heard);
}

fn name_models(registry: &mut Registry, models: &BTreeMap<String, Model>) {
    let count: Number = Gauge::default();
    count.set(models.len() as u64);
    let mut all = Model::default();
    let mut others = Model::default();
    let [slots_of, places_of] = [(); 2].map(|()| Family::<Labels<2>, Number>::default());
    let name = |model: &str, counts: &Model| {
        let labels = |key, word: &str| [("model", model.to_string()), (key, word.to_string())];
        for (stage, count) in SLOT_STAGES.into_iter().zip(counts.slots) {
            slots_of.get_or_create(&labels("stage", stage)).set(count);
        }
        for (status, count) in PLACE_STATUSES.into_iter().zip(counts.places) {
            places_of.get_or_create(&labels("status", status)).set(count);
        }
    };
    for (index, (model, counts)) in models.iter().enumerate() {
        all.add(counts);
        if index < MODELS {
            name(model, counts);
        } else {
            others.add(counts);
        }
    }
    if models.len() > MODELS {
        name(OTHERS, &others);
    }
    let [slots, places] = [(); 2].map(|()| Family::<Word, Number>::default());
    for (stage, count) in SLOT_STAGES.into_iter().zip(all.slots) {
        slots.get_or_create(&[("stage", stage)]).set(count);
    }
    for (status, count) in PLACE_STATUSES.into_iter().zip(all.places) {
        places.get_or_create(&[("status", status)]).set(count);
    }
    name_memory(registry, models);
    registry.register("models", "Models that are declared or have a slot", count);
    registry.register("slots", "Slots, by stage", slots);
    registry.register("places", "Places that are not over, by status", places);
    registry.register("model_slots", "Slots of a model, by stage", slots_of);
    registry.register("model_places", "Places of a model that are not over, by status", places_of);
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
    for (kind, length) in ["slot", "prewarm", "place"].into_iter().zip(sheet.queue) {
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
    let [records, notes] = [(); 2].map(|()| Number::default());
    records.set(sheet.records);
    notes.set(sheet.notes);
    let bytes: Family<Word, Number> = Family::default();
    for (file, size) in [("journal", files.journal), ("wal", files.wal), ("bases", files.bases)] {
        bytes.get_or_create(&[("file", file)]).set(size);
    }
    registry.register("store_records", "Records that were ever written to the journal", records);
    registry.register("store_notes", "Notes that were ever written to the journal", notes);
    registry.register("store_bytes", "Size of the files of the data directory", bytes);
    if let Some(seconds) = files.base_age {
        let age = Seconds::default();
        age.set(seconds);
        registry.register("store_base_age_seconds", "How old the last whole state is", age);
    }
}
