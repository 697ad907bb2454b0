//! Messages of the server: the slots that a runner should have, and how to start them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::report::{DeviceFacts, OnDevice};

/// The response to a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Welcome {
    /// The interval between heartbeats in milliseconds.
    pub heartbeat_ms: u64,
    /// The silence in milliseconds after which the runner gets no new work and the state of its
    /// slots is unknown. They stay charged.
    pub lease_ms: u64,
    pub orders: Orders,
}

/// The desired state of a runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Orders {
    /// Increases whenever the orders of the runner change. Pass it as `after` to wait for newer
    /// ones.
    pub revision: u64,
    /// The number of the server's start, which heartbeats repeat. A runner that learns another one
    /// sends a heartbeat at once.
    #[serde(default)]
    pub epoch: u64,
    /// One order for each slot.
    pub orders: Vec<Order>,
    /// Model files to inspect and to report with the next heartbeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// The desired state of one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Order {
    pub slot: String,
    /// The generation that reports name. A process of an earlier generation is adopted under this
    /// one.
    pub generation: u64,
    pub model: String,
    pub action: Action,
    /// Omitted if the last heartbeat of this session reported the slot with this generation: the
    /// runner has the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
}

/// The action that an order asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Start the slot unless it exists. A start that fails is reported once nothing is left of it.
    Start,
    /// Keep the slot running. If it does not exist, report it as gone instead of starting it.
    Keep,
    /// Stop the slot, and report it as gone once its processes exited and the device shows its
    /// memory free.
    Stop,
}

/// The launch of a slot: one record for its charge, its flags and its report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Launch {
    pub model: String,
    /// The devices of the slot; none for a model that runs on the CPU only.
    pub devices: Vec<LaunchDevice>,
    pub start: Start,
    /// The time between SIGTERM and SIGKILL in milliseconds.
    pub grace_ms: u64,
    /// The context length, if the model declares one.
    pub context: Option<u64>,
    /// The number of requests that the slot serves at once.
    pub concurrency: u32,
    /// The number of devices that the model is split over.
    pub tensor_parallel: u16,
    /// Further settings of a runtime whose flags Plimsoll renders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeSettings>,
}

impl Launch {
    /// Returns the known charges, as reports list them.
    pub fn booked(&self) -> Vec<OnDevice> {
        let charge =
            |device: &LaunchDevice| Some(OnDevice { index: device.index, bytes: device.bytes? });
        self.devices.iter().filter_map(charge).collect()
    }

    /// Returns the UUID of a device that the slot was placed on and that is not among these.
    pub fn missing_uuid(&self, devices: &[DeviceFacts]) -> Option<&str> {
        let mut uuids = self.devices.iter().filter_map(|placed| placed.uuid.as_deref());
        uuids.find(|uuid| devices.iter().all(|device| device.uuid.as_deref() != Some(uuid)))
    }
}

/// A device of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaunchDevice {
    /// The index on the runner.
    pub index: u16,
    pub uuid: Option<String>,
    /// The charge on the device; omitted if its amount is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The memory of the device as the runtime sees it.
    pub total: Option<u64>,
}

/// The command that starts a slot, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    Command(StartCommand),
    /// The runtime cannot be configured for the charge. The runner reports the start as failed.
    Invalid {
        /// The field of the declaration that must change.
        field: String,
        problem: String,
    },
    /// The server did not start the slot and does not know its command. The runner can keep and
    /// stop it.
    Unknown,
}

/// The process of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartCommand {
    /// The program and its arguments. The runner replaces `{port}` and `{host}`.
    pub argv: Vec<String>,
    /// The environment, including the variables that confine the process to its devices.
    pub env: BTreeMap<String, String>,
    /// A path that answers 200 once the server is ready, such as `/health`. Without it, the slot is
    /// ready when its port accepts connections; without a port, as soon as it runs.
    pub ready: Option<String>,
    /// The time to become ready in milliseconds.
    pub ready_within_ms: u64,
    /// The request that loads the model after `ready` answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preload: Option<Preload>,
}

/// A `POST` request that makes a server load its model. The server answers 200 once it is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preload {
    pub path: String,
    /// The JSON body. Its braces are doubled, as in every text in which the runner replaces
    /// placeholders.
    pub body: String,
}

/// The settings of a runtime whose flags Plimsoll renders, besides context, concurrency and
/// devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuntimeSettings {
    /// `vllm`, `llama.cpp` or `ollama`.
    pub name: String,
    /// The KV cache type.
    pub kv: String,
    /// The number of tokens that are processed at once.
    pub batch: u64,
    /// The fraction of each device that the runtime may use, if it has such a limit: `0.4875`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ratio: Option<String>,
    /// The memory on each device that the runtime uses outside its own pool. Part of the charge.
    pub overhead: u64,
    /// The source of the overhead.
    pub overhead_source: String,
    /// Limits of the runtime that Plimsoll cannot enforce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}
