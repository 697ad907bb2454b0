//! The devices of a cluster.

use plimsoll_core::units::Name;
use serde::{Deserialize, Serialize};

use super::InputRow;
use crate::device::DeviceRow;
use crate::explanation::PromisedRow;

/// The output of `plimsoll devices -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicesOutput {
    pub schema_version: u32,
    pub input: InputRow,
    /// Node by node, as they are held now.
    pub devices: Vec<DeviceRow>,
    /// Pending pods that have a promise of memory that is being released.
    pub promised: Vec<PromisedPodRow>,
}

/// A pending pod and its promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedPodRow {
    pub namespace: Name,
    pub pod: Name,
    pub promised: PromisedRow,
}
