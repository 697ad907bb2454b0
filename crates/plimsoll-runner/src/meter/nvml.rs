//! Devices and measurements from the NVIDIA driver.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml as Library};
use plimsoll_slots::wire::{DeviceFacts, FactsSource};
use tracing::warn;

use super::{DeviceReading, Meter, MeterError, ProcessReading};

/// The driver of this machine.
pub(crate) struct Driver {
    library: Arc<Library>,
}

impl Driver {
    /// Loads the driver's library.
    pub(crate) fn open() -> Result<Driver, MeterError> {
        // Machines without the driver's development files have only the name with the version.
        let library = Library::builder()
            .lib_path(OsStr::new("libnvidia-ml.so.1"))
            .init()
            .or_else(|_| Library::init());
        Ok(Driver { library: Arc::new(library.map_err(MeterError::Open)?) })
    }

    /// Returns the devices, in the driver's order.
    pub(crate) fn devices(&self) -> Result<Vec<DeviceFacts>, MeterError> {
        let count = self.library.device_count().map_err(MeterError::Count)?;
        (0..count).map(|index| self.facts(index)).collect()
    }

    /// Returns a meter for the devices with these UUIDs. It does not measure devices that the
    /// driver does not know.
    pub(crate) fn meter(&self, uuids: &[Option<String>]) -> Nvml {
        let known =
            (0..u16::MAX).zip(uuids).filter_map(|(index, uuid)| Some((index, uuid.clone()?)));
        Nvml { library: Arc::clone(&self.library), uuids: known.collect() }
    }

    fn facts(&self, index: u32) -> Result<DeviceFacts, MeterError> {
        let device = match self.library.device_by_index(index) {
            Err(NvmlError::GpuLost) => return Ok(lost_device()),
            found => found.map_err(|source| query_error(index, "handle", source))?,
        };
        let memory = memory(&device, index);
        let uuid = device.uuid().map_err(|source| query_error(index, "UUID", source))?;
        Ok(DeviceFacts {
            uuid: Some(uuid),
            kind: "NVIDIA".to_owned(),
            model: device.name().ok(),
            total: memory.map(|(total, _)| total),
            reserve: memory.map_or(0, |(_, reserved)| reserved),
            cap: None,
            numa: device.numa_node_id().ok().and_then(|node| u16::try_from(node).ok()),
            healthy: !matches!(device.memory_info(), Err(NvmlError::GpuLost)),
            source: FactsSource::Nvml,
        })
    }
}

fn query_error(index: u32, what: &'static str, source: NvmlError) -> MeterError {
    MeterError::Query { index, what, source }
}

/// A device that fell off the bus stays in the list, so that the others keep their index.
fn lost_device() -> DeviceFacts {
    DeviceFacts {
        uuid: None,
        kind: "NVIDIA".to_owned(),
        model: None,
        total: None,
        reserve: 0,
        cap: None,
        numa: None,
        healthy: false,
        source: FactsSource::Nvml,
    }
}

/// Returns total and reserved memory. A device in MIG mode has none: its memory belongs to the
/// instances, and nothing can run on the whole device.
fn memory(device: &Device<'_>, index: u32) -> Option<(u64, u64)> {
    if device.mig_mode().is_ok_and(|mode| mode.current == 1) {
        warn!(device = index, "device is in MIG mode and takes no model");
        return None;
    }
    match device.memory_info() {
        Ok(memory) => Some((memory.total, memory.reserved)),
        Err(error) => {
            warn!(device = index, %error, "device memory is unknown; the device takes no model");
            None
        }
    }
}

/// Measures with the driver. The memory in use excludes what the driver reserves.
pub(crate) struct Nvml {
    library: Arc<Library>,
    uuids: BTreeMap<u16, String>,
}

impl Meter for Nvml {
    fn read(&mut self) -> Result<Vec<DeviceReading>, MeterError> {
        self.uuids.iter().map(|(index, uuid)| read_device(&self.library, *index, uuid)).collect()
    }
}

fn read_device(library: &Library, index: u16, uuid: &str) -> Result<DeviceReading, MeterError> {
    let unhealthy = DeviceReading {
        index,
        used: None,
        utilisation: None,
        processes: None,
        healthy: Some(false),
    };
    let device = match library.device_by_uuid(uuid) {
        Err(NvmlError::GpuLost) => return Ok(unhealthy),
        found => found.map_err(|source| query_error(index.into(), "handle", source))?,
    };
    let memory = match device.memory_info() {
        Err(NvmlError::GpuLost) => return Ok(unhealthy),
        memory => memory.map_err(|source| query_error(index.into(), "memory", source))?,
    };
    let rates = device.utilization_rates().ok();
    Ok(DeviceReading {
        index,
        used: Some(memory.used),
        utilisation: rates.and_then(|rates| u8::try_from(rates.gpu).ok()),
        processes: processes(&device),
        healthy: Some(true),
    })
}

/// Returns compute and graphics processes. A process that does both is in both lists, with the same
/// memory.
fn processes(device: &Device<'_>) -> Option<Vec<ProcessReading>> {
    let compute = device.running_compute_processes().ok()?;
    let graphics = device.running_graphics_processes().ok()?;
    let mut found: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for process in compute.iter().chain(&graphics) {
        let bytes = found.entry(process.pid).or_default();
        *bytes = (*bytes).max(used(process));
    }
    Some(found.into_iter().map(|(pid, bytes)| ProcessReading { pid, bytes }).collect())
}

fn used(process: &ProcessInfo) -> Option<u64> {
    match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    }
}
