//! The JSON formats of registers.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::object::nullable;

use super::{MigProfile, RegisteredDevice, known};

/// A device in HAMi's JSON format, which leaves out zero and false.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireDevice {
    #[serde(deserialize_with = "nullable")]
    id: String,
    #[serde(deserialize_with = "nullable")]
    index: u32,
    #[serde(deserialize_with = "nullable")]
    count: u64,
    #[serde(deserialize_with = "nullable")]
    devmem: u64,
    #[serde(deserialize_with = "nullable")]
    devcore: u64,
    #[serde(rename = "type", deserialize_with = "nullable")]
    model: String,
    #[serde(deserialize_with = "nullable")]
    numa: i32,
    mode: Option<String>,
    #[serde(rename = "migProfiles", deserialize_with = "nullable")]
    mig_profiles: Vec<MigProfile>,
    #[serde(deserialize_with = "nullable")]
    health: bool,
    #[serde(rename = "custominfo", deserialize_with = "nullable")]
    vendor: VendorInfo,
}

/// Vastai's additions to a device.
#[derive(Default, Deserialize)]
#[serde(default)]
struct VendorInfo {
    /// The unit that the plugin hands out: `die`, or whole cards.
    #[serde(rename = "DeviceStrategy", deserialize_with = "nullable")]
    strategy: String,
    /// The id of the physical card.
    #[serde(rename = "AIC", deserialize_with = "nullable")]
    card: String,
}

impl VendorInfo {
    fn board(self) -> Option<String> {
        (self.strategy == "die" && !self.card.is_empty()).then_some(self.card)
    }
}

impl From<WireDevice> for RegisteredDevice {
    fn from(wire: WireDevice) -> RegisteredDevice {
        RegisteredDevice {
            id: wire.id,
            index: wire.index,
            slots: wire.count,
            memory_mib: known(wire.devmem),
            cores: known(wire.devcore),
            model: wire.model,
            numa: u32::try_from(wire.numa).ok(),
            board: wire.vendor.board(),
            mode: wire.mode.filter(|mode| !mode.is_empty()),
            mig_profiles: wire.mig_profiles,
            healthy: wire.health,
        }
    }
}

/// A device in Metax' format.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct MetaxDevice {
    #[serde(deserialize_with = "nullable")]
    uuid: String,
    #[serde(deserialize_with = "nullable")]
    model: String,
    #[serde(deserialize_with = "nullable")]
    total_dev_count: u64,
    #[serde(deserialize_with = "nullable")]
    total_compute: u64,
    #[serde(rename = "totalVRam", deserialize_with = "nullable")]
    total_vram: u64,
    #[serde(deserialize_with = "nullable")]
    numa: i32,
    #[serde(deserialize_with = "nullable")]
    healthy: bool,
}

impl MetaxDevice {
    pub(super) fn at(self, index: u32) -> RegisteredDevice {
        RegisteredDevice {
            id: self.uuid,
            index,
            slots: self.total_dev_count,
            memory_mib: known(self.total_vram),
            cores: known(self.total_compute),
            model: self.model,
            numa: u32::try_from(self.numa).ok(),
            board: None,
            mode: None,
            mig_profiles: Vec::new(),
            healthy: self.healthy,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ScoreRow {
    pub(super) uuid: String,
    #[serde(default)]
    pub(super) score: BTreeMap<String, i64>,
}
