//! What a runner and the server say to each other. Sizes are whole bytes; an unknown size is left out, never 0.
//!
//! ```text
//!  runner                                                    server
//!    PUT  /api/v1/runners/{id}            Registration  ──▶  Welcome        once, and again whenever a beat answers 404
//!    POST /api/v1/runners/{id}/heartbeat  Heartbeat     ──▶  Orders         every `heartbeat_ms`, and when something happens
//!    GET  /api/v1/runners/{id}/work?after=REVISION      ──▶  Orders         answers when there is something newer
//! ```
//!
//! Both sides say what is, never what changed: a message that is lost, late or doubled is made good by the next one. An order
//! stands until the runner's report makes it untrue; a report stands until the orders do not mention its slot any more. Only how a slot is
//! started is left out of its order while the runner reports it: it was told.

use std::collections::BTreeMap;

use plimsoll_models::shape::Shape;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A runner says what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// When the agent started, in milliseconds since 1970. Of two agents with one name the later one wins; the earlier is told 409.
    pub session: u64,
    /// The agent's version.
    #[serde(default)]
    pub version: String,
    /// Labels that models select runners by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its physical devices; the position is the index.
    pub devices: Vec<DeviceFacts>,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// Its UUID, where it has one.
    #[serde(default)]
    pub uuid: Option<String>,
    /// Its kind: `NVIDIA`, or another vendor's word.
    #[serde(default = "nvidia")]
    pub kind: String,
    /// Its model, such as `NVIDIA A100 80GB PCIe`.
    #[serde(default)]
    pub model: Option<String>,
    /// Its memory; a device whose memory is not known takes no model.
    #[serde(default)]
    pub total: Option<u64>,
    /// What the driver keeps for itself.
    #[serde(default)]
    pub reserve: u64,
    /// The most that may be booked on it, where that is less.
    #[serde(default)]
    pub cap: Option<u64>,
    /// Its NUMA node.
    #[serde(default)]
    pub numa: Option<u16>,
    /// Whether it works.
    #[serde(default = "yes")]
    pub healthy: bool,
    /// Who says so.
    #[serde(default)]
    pub source: FactsSource,
}

impl DeviceFacts {
    /// A device of which only this is said; the rest is what is meant where it is left out.
    pub fn new(uuid: impl Into<String>, total: u64) -> Self {
        DeviceFacts {
            uuid: Some(uuid.into()),
            kind: nvidia(),
            model: None,
            total: Some(total),
            reserve: 0,
            cap: None,
            numa: None,
            healthy: yes(),
            source: FactsSource::default(),
        }
    }
}

/// Who says what a device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactsSource {
    /// The operator, in a list.
    #[default]
    Declared,
    /// The driver.
    Nvml,
}

fn nvidia() -> String {
    "NVIDIA".to_string()
}

fn yes() -> bool {
    true
}

/// The server's answer to a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Welcome {
    /// How often to report, in milliseconds.
    pub heartbeat_ms: u64,
    /// After so long a silence, in milliseconds, the runner's slots are unknown (and still charged), and it gets no new work.
    pub lease_ms: u64,
    /// What to do now.
    pub orders: Orders,
}

/// A runner says what is so now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The session that it registered with.
    pub session: u64,
    /// Counts up with every heartbeat of the session: what comes late is not taken for news.
    pub sequence: u64,
    /// What was measured on its devices; a device that is not in the list was not measured.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
    /// Every slot that it knows of.
    #[serde(default)]
    pub slots: Vec<SlotReport>,
    /// What it found where the files should be that it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReport>,
    /// Whether it is about to end, and starts nothing any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
}

impl Heartbeat {
    /// One that says how its slots are, and nothing else.
    pub fn of(session: u64, sequence: u64, slots: Vec<SlotReport>) -> Self {
        Heartbeat {
            session,
            sequence,
            slots,
            devices: Vec::new(),
            files: Vec::new(),
            ending: false,
        }
    }
}

/// What a runner found where a model's file should be. With neither a shape nor a problem it says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileReport {
    /// The path, as it was asked for.
    pub path: String,
    /// Whether something is there.
    pub is_there: bool,
    /// What the model is, as `plimsoll-models` reads it from the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub shape: Option<Box<Shape>>,
    /// Why it cannot be read or is not understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What was measured on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceStatus {
    /// Its index.
    pub index: u16,
    /// Memory in use, by whomever.
    #[serde(default)]
    pub used: Option<u64>,
    /// How busy its compute is, in percent.
    #[serde(default)]
    pub utilisation: Option<u8>,
    /// The processes that use it and belong to no slot.
    #[serde(default)]
    pub foreign: Vec<Process>,
    /// For how long this has not been measured any more, in milliseconds, where measuring fails: the numbers are the last good ones.
    #[serde(default)]
    pub stale_for: Option<u64>,
}

/// A process that no slot accounts for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its program, where that can be read.
    #[serde(default)]
    pub name: Option<String>,
    /// What it uses of the device, where that can be measured.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// What a runner knows of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotReport {
    /// The slot.
    pub slot: String,
    /// The generation that it was started as.
    pub generation: u64,
    /// The model that it serves.
    pub model: String,
    /// How it is.
    pub state: SlotState,
    /// Why it failed or went, in a sentence, with the last lines that it said.
    #[serde(default)]
    pub reason: Option<String>,
    /// Where the model server answers, once it does.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// What it was booked for on each device when it was started.
    #[serde(default)]
    pub booked: Vec<OnDevice>,
    /// What it is measured to use on each device, where that can be measured.
    #[serde(default)]
    pub used: Vec<OnDevice>,
}

/// Memory on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OnDevice {
    /// The device's index.
    pub index: u16,
    /// How much.
    pub bytes: u64,
}

/// How a slot is on its runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// Its process is there and does not answer yet.
    Starting,
    /// It answers.
    Running,
    /// Its process was asked to go and is still there, or its memory is not back yet.
    Stopping,
    /// It never answered, its process is gone, and the device shows its memory back.
    Failed,
    /// Its process is gone, and the device shows its memory back.
    Gone,
}

impl SlotState {
    /// Returns true while the slot is meant to serve.
    pub fn is_live(self) -> bool {
        matches!(self, SlotState::Starting | SlotState::Running)
    }

    /// Whether nothing is left of it on the device.
    pub fn is_over(self) -> bool {
        matches!(self, SlotState::Failed | SlotState::Gone)
    }
}

/// What a runner has to do: everything that it should have, and everything that should go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Orders {
    /// Grows whenever the orders of this runner change; pass it as `after` to wait for newer ones.
    pub revision: u64,
    /// One order a slot.
    pub orders: Vec<Order>,
    /// Files of models that nobody else can say the memory of: look at each, and report what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// What to do about one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Order {
    /// The slot.
    pub slot: String,
    /// Reports name this generation. A process of the same slot that was started as an earlier one is adopted under it.
    pub generation: u64,
    /// The model that it serves.
    pub model: String,
    /// What to do.
    pub action: Action,
    /// How to start it: the record from which its charge was made. Left out where the runner's last heartbeat of this session reported
    /// this very slot and generation: it has it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
}

/// What to do about a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Start it, unless it is there already. When that fails, say so once nothing is left of it.
    Start,
    /// It should be running. It is not started again: when it is not there, say that it is gone.
    Keep,
    /// Let it go, and say that it is gone once the process is gone and the device shows its memory back.
    Stop,
}

/// How a model server is started: one record for the charge, the flags and the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Launch {
    /// The model.
    pub model: String,
    /// What it may use of each device; nothing for work that needs no device.
    pub devices: Vec<LaunchDevice>,
    /// The program and its arguments, with everything filled in but `{port}` and `{host}`, which the runner chooses.
    pub argv: Vec<String>,
    /// Variables for its environment, those that confine it to its devices among them.
    pub env: BTreeMap<String, String>,
    /// A path that answers 200 once the server is ready (`/health`); without one, it is ready when its port answers, and where it
    /// has no port, while it runs.
    pub ready: Option<String>,
    /// How long it may take to become ready, in milliseconds.
    pub ready_within_ms: u64,
    /// How long it may take to go after SIGTERM, in milliseconds, before SIGKILL.
    pub grace_ms: u64,
    /// The context length, where the model declares one.
    pub context: Option<u64>,
    /// How many requests it serves at once.
    pub concurrency: u32,
    /// Over how many devices it is split.
    pub tensor_parallel: u16,
    /// What else the runtime is told, where it is one that Plimsoll knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
}

impl Launch {
    /// What it may use of each device, as a report says it.
    pub fn booked(&self) -> Vec<OnDevice> {
        self.devices.iter().map(|on| OnDevice { index: on.index, bytes: on.bytes }).collect()
    }

    /// Returns the UUID of a device that it was placed on and that is not among these.
    pub fn missing_uuid(&self, devices: &[DeviceFacts]) -> Option<&str> {
        let mut uuids = self.devices.iter().filter_map(|placed| placed.uuid.as_deref());
        uuids.find(|uuid| devices.iter().all(|device| device.uuid.as_deref() != Some(uuid)))
    }
}

/// What a runtime is told beside context, concurrency and devices, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Told {
    /// `vllm`, `llama.cpp` or `ollama`.
    pub runtime: String,
    /// How its cache of keys and values is stored.
    pub kv: String,
    /// Tokens that are taken in at once.
    pub batch: u64,
    /// The share of each device that it keeps to, where it takes one: `0.4875`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ratio: Option<String>,
    /// What it takes on each device outside of what it counts itself: part of what is booked.
    pub outside: u64,
    /// Who says so.
    pub outside_source: String,
    /// What to ask once it answers, so that the model is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preload: Option<Preload>,
    /// What it does not promise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Why it cannot be told what was booked; then there is no program, and it is not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A request by `POST` that makes a server load its model: answered with 200 once that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preload {
    /// Where to.
    pub path: String,
    /// Its body, which is JSON. Its braces are doubled, as in every text that the runner fills in.
    pub body: String,
}

/// A device of a slot, with what is booked on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaunchDevice {
    /// Its index on the runner.
    pub index: u16,
    /// Its UUID, where it has one.
    pub uuid: Option<String>,
    /// What is booked on it.
    pub bytes: u64,
    /// What the device has, as the runtime sees it.
    pub total: Option<u64>,
}
