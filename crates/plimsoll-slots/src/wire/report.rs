//! Messages of a runner: its devices when it registers, then its complete state in every heartbeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_models::shape::Shape;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The registration of a runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The start time of the agent in Unix milliseconds. Of two agents with one name the later one
    /// wins; the earlier one gets 409.
    pub session: u64,
    /// Increases with every registration of the session. The server drops one that arrives after a
    /// later one.
    #[serde(default)]
    pub sequence: u64,
    /// The version of the agent.
    #[serde(default)]
    pub version: String,
    /// Labels that models can select the runner by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The physical devices; the position is the index.
    pub devices: Vec<DeviceFacts>,
}

/// The facts about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    #[serde(default)]
    pub uuid: Option<String>,
    /// `NVIDIA`, or the name of another vendor.
    #[serde(default = "nvidia")]
    pub kind: String,
    /// The product name, such as `NVIDIA A100 80GB PCIe`.
    #[serde(default)]
    pub model: Option<String>,
    /// The memory of the device. A device whose memory is unknown takes no model.
    #[serde(default)]
    pub total: Option<u64>,
    /// Memory that the driver reserves.
    #[serde(default)]
    pub reserve: u64,
    /// A limit of the operator on the memory that is charged.
    #[serde(default)]
    pub cap: Option<u64>,
    /// The NUMA node.
    #[serde(default)]
    pub numa: Option<u16>,
    #[serde(default = "yes")]
    pub healthy: bool,
    /// The source of these facts.
    #[serde(default)]
    pub source: FactsSource,
}

impl DeviceFacts {
    /// Returns a healthy NVIDIA device with this memory and the defaults of the protocol.
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

/// The source of the facts about a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactsSource {
    /// A declaration of the operator.
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

/// The complete state of a runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The session that the agent registered with.
    pub session: u64,
    /// Increases with every heartbeat of the session. The server drops a heartbeat that arrives
    /// after a later one.
    pub sequence: u64,
    /// The epoch of the last orders that the runner has. The server drops a heartbeat of an earlier
    /// epoch, because it was sent before the server started. Omitted before the first orders; the
    /// heartbeat is then of the epoch in which its session registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The measured devices.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
    /// All slots that the runner knows.
    #[serde(default)]
    pub slots: Vec<SlotReport>,
    /// The results for the files that the orders name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReport>,
    /// True if the agent is shutting down and starts nothing any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
}

impl Heartbeat {
    /// Returns a heartbeat that reports only slots.
    pub fn with_slots(session: u64, sequence: u64, slots: Vec<SlotReport>) -> Self {
        Heartbeat {
            session,
            sequence,
            epoch: None,
            slots,
            devices: Vec::new(),
            files: Vec::new(),
            ending: false,
        }
    }
}

/// The result of inspecting a model file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileReport {
    /// The path as the server named it.
    pub path: String,
    pub content: FileContent,
}

/// The content of a model file, as one runner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileContent {
    /// A model whose header the crate `plimsoll-models` can read.
    Model {
        #[schema(value_type = Object)]
        shape: Arc<Shape>,
    },
    /// The file exists, but its format or architecture is not supported.
    Unsupported { problem: String },
    /// The file exists, and no runtime can load it: it is cut short, or it is no model.
    Damaged { problem: String },
    /// The file does not exist or cannot be read.
    Unreadable { problem: String },
}

impl FileContent {
    /// Returns the problem with the file; `None` for a model.
    pub fn problem(&self) -> Option<&str> {
        match self {
            FileContent::Model { .. } => None,
            FileContent::Unsupported { problem }
            | FileContent::Damaged { problem }
            | FileContent::Unreadable { problem } => Some(problem),
        }
    }

    /// Returns true if a runtime may be able to load the file.
    pub fn is_loadable(&self) -> bool {
        matches!(self, FileContent::Model { .. } | FileContent::Unsupported { .. })
    }
}

/// The measurements of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceStatus {
    pub index: u16,
    /// Memory in use by all processes.
    #[serde(default)]
    pub used: Option<u64>,
    /// Compute utilisation in percent.
    #[serde(default)]
    pub utilisation: Option<u8>,
    /// The processes on the device that belong to no slot.
    #[serde(default)]
    pub foreign: Vec<Process>,
    /// The age of the values in milliseconds, if measuring fails and they are the last good ones.
    #[serde(default)]
    pub stale_for: Option<u64>,
}

/// A process that belongs to no slot, or foreign memory that an operator declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Omitted for declared memory.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The name of its program, if it can be read; `declared` for declared memory.
    #[serde(default)]
    pub name: Option<String>,
    /// Its memory on the device, if it can be measured.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// The state of a slot on its runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotReport {
    pub slot: String,
    /// The generation of the start that the report is about.
    pub generation: u64,
    pub model: String,
    pub state: SlotState,
    /// The reason for the end of the slot, with its last output.
    #[serde(default)]
    pub reason: Option<String>,
    /// The address of the model server, once it answers.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The charge on each device that the slot was started with.
    #[serde(default)]
    pub booked: Vec<OnDevice>,
    /// The measured use of each device, if it can be measured.
    #[serde(default)]
    pub used: Vec<OnDevice>,
}

/// Memory on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OnDevice {
    /// The index of the device.
    pub index: u16,
    pub bytes: u64,
}

/// The state of a slot on its runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// The process exists and does not answer yet.
    Starting,
    /// The model server answers.
    Running,
    /// The slot is stopping or its process exited, and processes or memory remain.
    Stopping,
    /// It never became ready, no process is left, and the device shows its memory free.
    Failed,
    /// No process is left, and the device shows its memory free.
    Gone,
}

impl SlotState {
    /// Returns true while the slot is meant to serve.
    pub fn is_live(self) -> bool {
        matches!(self, SlotState::Starting | SlotState::Running)
    }

    /// Returns true if nothing is left of the slot on the device.
    pub fn is_over(self) -> bool {
        matches!(self, SlotState::Failed | SlotState::Gone)
    }
}
