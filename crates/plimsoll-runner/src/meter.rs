//! Measurements of the devices, and their sources.

mod nvml;
mod probe;

use nvml_wrapper::error::NvmlError;
use serde::Deserialize;

pub(crate) use nvml::Driver;
pub(crate) use probe::Probe;
pub use probe::ProbeError;

/// A source of measurements.
pub(crate) trait Meter: Send {
    /// Measures the devices. A device that is missing from the result was not measured.
    fn read(&mut self) -> Result<Vec<DeviceReading>, MeterError>;
}

/// Failure of a measurement, or of a query to the driver.
#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    #[error("cannot open the NVIDIA driver")]
    Open(#[source] NvmlError),
    #[error("cannot read the {what} of GPU {index} from the NVIDIA driver")]
    Query { index: u32, what: &'static str, source: NvmlError },
    #[error("cannot count the GPUs")]
    Count(#[source] NvmlError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// The meter of a machine without a driver and without a probe. The exit of a slot's processes is
/// then the only evidence of release.
pub(crate) struct NoMeter;

impl Meter for NoMeter {
    fn read(&mut self) -> Result<Vec<DeviceReading>, MeterError> {
        Ok(Vec::new())
    }
}

/// The measurement of one device. Also the format that a probe prints.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceReading {
    pub(crate) index: u16,
    /// Bytes in use by all processes.
    #[serde(default)]
    pub(crate) used: Option<u64>,
    #[serde(default)]
    pub(crate) utilisation: Option<u8>,
    /// `None` if the meter cannot list processes, which is not the same as an empty list.
    #[serde(default)]
    pub(crate) processes: Option<Vec<ProcessReading>>,
    #[serde(default)]
    pub(crate) healthy: Option<bool>,
}

/// The memory that one process uses on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessReading {
    pub(crate) pid: u32,
    #[serde(default)]
    pub(crate) bytes: Option<u64>,
}

impl DeviceReading {
    /// Returns PID and bytes of each process, if the bytes of all of them are known.
    pub(crate) fn attributed(&self) -> Option<Vec<(u32, u64)>> {
        self.processes.as_ref()?.iter().map(|process| Some((process.pid, process.bytes?))).collect()
    }

    /// Returns the bytes in use that no listed process accounts for.
    pub(crate) fn unexplained(&self) -> Option<u64> {
        let processes = self.attributed()?;
        let explained = processes.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        Some(self.used?.saturating_sub(explained))
    }
}
