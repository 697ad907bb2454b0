//! What is measured on the devices, and by what.

mod nvml;
mod probe;

use anyhow::Result;
use serde::Deserialize;

pub(crate) use nvml::Driver;
pub(crate) use probe::Probe;

/// Something that can tell what the devices hold now.
pub(crate) trait Meter: Send {
    /// Measures. A device that is not in the answer was not measured.
    fn read(&mut self) -> Result<Vec<DeviceReading>>;
}

/// Where nothing can be measured. The end of a slot's processes is then all the evidence there is.
pub(crate) struct Unmeasured;

impl Meter for Unmeasured {
    fn read(&mut self) -> Result<Vec<DeviceReading>> {
        Ok(Vec::new())
    }
}

/// What was measured on one device. It is also what a probe prints.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceReading {
    pub(crate) index: u16,
    /// Memory in use, by whomever.
    #[serde(default)]
    pub(crate) used: Option<u64>,
    #[serde(default)]
    pub(crate) utilisation: Option<u8>,
    /// Who uses it; nothing where the meter cannot tell, which is not the same as nobody.
    #[serde(default)]
    pub(crate) processes: Option<Vec<ProcessReading>>,
    /// Whether the device works, where the meter can tell.
    #[serde(default)]
    pub(crate) healthy: Option<bool>,
}

/// What one process uses of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessReading {
    pub(crate) pid: u32,
    #[serde(default)]
    pub(crate) bytes: Option<u64>,
}

impl DeviceReading {
    /// The processes with what each uses, if that is known of every one of them.
    pub(crate) fn attributed(&self) -> Option<Vec<(u32, u64)>> {
        self.processes.as_ref()?.iter().map(|process| Some((process.pid, process.bytes?))).collect()
    }

    /// What is in use and no listed process accounts for.
    pub(crate) fn unexplained(&self) -> Option<u64> {
        let explained: u64 =
            self.attributed()?.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
        Some(self.used?.saturating_sub(explained))
    }
}
