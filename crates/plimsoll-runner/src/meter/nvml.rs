//! What NVIDIA's driver says about its devices.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use anyhow::{Context, Result};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml as Library};
use plimsoll_slots::wire::{DeviceFacts, FactsSource};
use tracing::warn;

use super::{DeviceReading, Meter, ProcessReading};

/// The driver of this machine.
pub(crate) struct Driver {
    library: Arc<Library>,
}

impl Driver {
    /// Opens the driver; where there is none, says why.
    pub(crate) fn open() -> Result<Driver> {
        // The name with the version is the one that machines have which run programs and build none.
        let library = Library::builder()
            .lib_path(OsStr::new("libnvidia-ml.so.1"))
            .init()
            .or_else(|_| Library::init());
        Ok(Driver { library: Arc::new(library.context("the NVIDIA driver cannot be asked")?) })
    }

    /// Its devices, in its order.
    pub(crate) fn devices(&self) -> Result<Vec<DeviceFacts>> {
        let count = self.library.device_count().context("could not count the devices")?;
        (0..count).map(|index| self.facts(index)).collect()
    }

    /// A meter for devices with these UUIDs. What the driver does not know is not measured.
    pub(crate) fn meter(&self, uuids: &[Option<String>]) -> Nvml {
        let indices =
            (0..u16::MAX).zip(uuids).filter_map(|(index, uuid)| Some((index, uuid.clone()?)));
        Nvml { library: Arc::clone(&self.library), uuids: indices.collect() }
    }

    fn facts(&self, index: u32) -> Result<DeviceFacts> {
        let failed = |what: &str| format!("could not ask device {index} for its {what}");
        let device = match self.library.device_by_index(index) {
            Err(NvmlError::GpuLost) => return Ok(lost()),
            found => found.with_context(|| failed("handle"))?,
        };
        let memory = memory(&device, index);
        Ok(DeviceFacts {
            uuid: Some(device.uuid().with_context(|| failed("UUID"))?),
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

/// A device that has fallen off its bus keeps its place, so that the others keep their index.
fn lost() -> DeviceFacts {
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

/// Total and reserved. Not known for a device that is cut into instances: its memory is theirs, and nothing runs on the whole.
fn memory(device: &Device<'_>, index: u32) -> Option<(u64, u64)> {
    if device.mig_mode().is_ok_and(|mode| mode.current == 1) {
        warn!(device = index, "the device is cut into MIG instances and takes no model as a whole");
        return None;
    }
    match device.memory_info() {
        Ok(memory) => Some((memory.total, memory.reserved)),
        Err(error) => {
            warn!(device = index, %error, "the memory of the device is not known, so that it takes no model");
            None
        }
    }
}

/// Measures with the driver. Memory in use is without what the driver reserves.
pub(crate) struct Nvml {
    library: Arc<Library>,
    uuids: BTreeMap<u16, String>,
}

impl Meter for Nvml {
    fn read(&mut self) -> Result<Vec<DeviceReading>> {
        self.uuids.iter().map(|(index, uuid)| read(&self.library, *index, uuid)).collect()
    }
}

fn read(library: &Library, index: u16, uuid: &str) -> Result<DeviceReading> {
    let unhealthy = DeviceReading {
        index,
        used: None,
        utilisation: None,
        processes: None,
        healthy: Some(false),
    };
    let device = match library.device_by_uuid(uuid) {
        Err(NvmlError::GpuLost) => return Ok(unhealthy),
        found => found.with_context(|| format!("could not find device {index}, {uuid}"))?,
    };
    let memory = match device.memory_info() {
        Err(NvmlError::GpuLost) => return Ok(unhealthy),
        memory => memory.with_context(|| format!("could not measure device {index}"))?,
    };
    let utilisation =
        device.utilization_rates().ok().and_then(|rates| u8::try_from(rates.gpu).ok());
    let processes = processes(&device);
    Ok(DeviceReading {
        index,
        used: Some(memory.used),
        utilisation,
        processes,
        healthy: Some(true),
    })
}

/// Compute and graphics processes; one that does both is listed in both, with the same memory.
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
