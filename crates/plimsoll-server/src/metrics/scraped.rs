//! Gauges that are read at the moment of a scrape: devices, queue and store. They are copied in one
//! call on the decision thread, and named elsewhere.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use plimsoll_core::charge::Stage;
use plimsoll_core::device::Health;
use plimsoll_core::front::Core;
use plimsoll_core::room::{DeviceRoom, NodeView};
use plimsoll_core::units::{Bytes, Millis};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{PREFIX, Word};
use crate::served::{FrontGauges, QueueGauges, ServedFront};

pub(crate) type Number = Gauge<u64, AtomicU64>;
pub(super) type Seconds = Gauge<f64, AtomicU64>;
pub(super) type Labels<const N: usize> = [(&'static str, String); N];

/// The state at one moment. Accounts are shared by reference count, so that the decision thread
/// copies little.
pub(super) struct Sheet {
    nodes: Vec<NodeView>,
    records: u64,
    front: Box<dyn FrontGauges>,
}

impl Sheet {
    pub(super) fn copy<F: ServedFront>(front: &F, core: &Core<'_>) -> Sheet {
        Sheet {
            nodes: core.ledger().nodes().map(|(_, view)| view.clone()).collect(),
            records: core.next_seq(),
            front: front.gauges(core.scheduler(), core.now()),
        }
    }
}

/// Returns the time from then to now, in seconds.
pub(crate) fn seconds(then: Millis, now: Millis) -> f64 {
    Duration::from_millis(now.0.saturating_sub(then.0)).as_secs_f64()
}

/// The files of the data directory.
#[derive(Debug, Default)]
pub(super) struct Files {
    journal: u64,
    wal: u64,
    snapshots: u64,
    /// The age of the newest snapshot in seconds.
    snapshot_age: Option<f64>,
}

impl Files {
    pub(super) fn read(data: &Path) -> Files {
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
                        .and_then(|at| SystemTime::now().duration_since(at).ok())
                        .map(|age| age.as_secs_f64());
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

/// Returns a registry with the gauges; `files` is `None` for a server without a data directory.
pub(super) fn registry(sheet: &Sheet, files: Option<&Files>) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    register_devices(&mut registry, &sheet.nodes);
    register_queue(&mut registry, &sheet.front.queue());
    sheet.front.register(&mut registry);
    let records = Number::default();
    records.set(sheet.records);
    registry.register("store_records", "Records ever written to the journal", records);
    if let Some(files) = files {
        register_files(&mut registry, files);
    }
    registry
}

fn register_devices(registry: &mut Registry, nodes: &[NodeView]) {
    let memory: Family<Labels<3>, Number> = Family::default();
    let [usable, load, promised, closed, healthy] =
        [(); 5].map(|()| Family::<Labels<2>, Number>::default());
    for view in nodes {
        for (gpu, room) in view.room.devices().iter().enumerate() {
            let labels = device_labels(&view.node.name, gpu);
            for (stage, bytes) in memory_by_stage(view, gpu) {
                // An unknown amount has no row: 0 would be wrong.
                let Some(bytes) = bytes else { continue };
                let [node, gpu] = labels.clone();
                memory.get_or_create(&[node, gpu, ("stage", stage.to_string())]).set(bytes.get());
            }
            if let Some(bytes) = room.usable() {
                usable.get_or_create(&labels).set(bytes.get());
            }
            load.get_or_create(&labels).set(room.load().get());
            promised.get_or_create(&labels).set(room.promised().get());
            closed.get_or_create(&labels).set(room.takes_nothing().into());
            let is_healthy = view.node.devices[gpu].health == Health::Healthy;
            healthy.get_or_create(&labels).set(is_healthy.into());
        }
    }
    registry.register("device_memory_bytes", "Memory of a device, by stage", memory);
    registry.register(
        "device_usable_bytes",
        "Memory of a device that may be held: total less the reserve, at most the cap",
        usable,
    );
    registry.register("device_load_bytes", "Held, releasing and foreign memory of a device", load);
    registry.register("device_promised_bytes", "Memory promised to pending requests", promised);
    registry.register("device_closed", "1 if a breach closes the device to new work", closed);
    registry.register("device_healthy", "0 if the device is faulty or no longer reported", healthy);
}

pub(super) fn device_labels(node: &str, gpu: usize) -> Labels<2> {
    [("node", node.to_string()), ("gpu", gpu.to_string())]
}

/// Returns the memory of a device by stage; `None` if a holder's amount is unknown.
fn memory_by_stage(view: &NodeView, gpu: usize) -> [(&'static str, Option<Bytes>); 8] {
    let (room, memory) = (&view.room.devices()[gpu], &view.node.devices[gpu].memory);
    [
        ("offered", held(room, |stage| matches!(stage, Stage::Offered { .. }))),
        ("sent", held(room, |stage| matches!(stage, Stage::Sent))),
        ("running", held(room, |stage| matches!(stage, Stage::Running { .. }))),
        ("releasing", Some(room.releasing())),
        ("foreign", Some(room.foreign())),
        ("reserve", Some(memory.reserve)),
        ("free", room.free()),
        ("total", memory.total.bytes()),
    ]
}

fn held(room: &DeviceRoom, is_counted: fn(&Stage) -> bool) -> Option<Bytes> {
    let tenants = room.tenants().iter().filter(|tenant| is_counted(&tenant.stage));
    tenants.map(|tenant| tenant.bytes).try_fold(Bytes::ZERO, |sum, bytes| Some(sum.plus(bytes?)))
}

fn register_queue(registry: &mut Registry, queue: &QueueGauges) {
    let lengths: Family<Word, Number> = Family::default();
    for (kind, length) in &queue.lengths {
        lengths.get_or_create(&[("kind", *kind)]).set(*length);
    }
    let oldest = Seconds::default();
    oldest.set(queue.oldest_seconds);
    registry.register("queue_length", "Pending entries of the queue, by kind", lengths);
    registry.register(
        "queue_oldest_age_seconds",
        "Age of the oldest pending entry, without speculative work",
        oldest,
    );
}

fn register_files(registry: &mut Registry, files: &Files) {
    let bytes: Family<Word, Number> = Family::default();
    for (file, size) in
        [("journal", files.journal), ("wal", files.wal), ("snapshots", files.snapshots)]
    {
        bytes.get_or_create(&[("file", file)]).set(size);
    }
    registry.register("store_bytes", "Size of the files of the data directory", bytes);
    if let Some(seconds) = files.snapshot_age {
        let age = Seconds::default();
        age.set(seconds);
        registry.register("store_snapshot_age_seconds", "Age of the newest snapshot", age);
    }
}
