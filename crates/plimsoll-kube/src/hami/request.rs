//! A container's request for devices of one vendor, by HAMi's resources.

use crate::object::ContainerResources;
use crate::quantity::{Quantity, QuantityError};

use super::vendor::{CountUnit, Vendor};

/// A container's request for devices of one vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRequest {
    /// `None` where only cores are requested, and their number determines it.
    pub devices: Option<u64>,
    /// Slices of one device, for vendors that count those.
    pub slices: Option<u64>,
    /// Memory of each device.
    pub memory: MemoryRequest,
    /// Compute, in the vendor's unit.
    pub cores: Option<u64>,
}

/// The requested memory of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRequest {
    /// Not specified, which is all of it.
    Unset,
    Mib(u64),
    /// Hundredths, 1 to 100.
    Percent(u8),
}

/// An invalid request. The caller names pod and container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{resource}: {error}")]
    Amount { resource: &'static str, error: QuantityError },
    #[error("{resource} is 0; leave it out to take the whole device, or say how much is needed")]
    NoMemory { resource: &'static str },
    #[error("{memory} is {mib} and {percentage} is {percent}; say one of them")]
    TwoMemories { memory: &'static str, mib: u64, percentage: &'static str, percent: u64 },
    #[error("{resource} is asked without {count}; say how many devices")]
    NoCount { resource: &'static str, count: &'static str },
    #[error("{count} is 0 and {resource} is {amount}; ask for a device, or leave {resource} out")]
    NoDevice { count: &'static str, resource: &'static str, amount: u64 },
    #[error("{resource} is {amount}, which cannot be divided evenly over {devices} devices")]
    Uneven { resource: &'static str, amount: u64, devices: u64 },
    #[error("{resource} is {devices}, and must be {allowed}: HAMi allocates no other number")]
    Count { resource: &'static str, devices: u64, allowed: &'static str },
}

/// Reads a container's request for devices of a vendor; `None` if there is none. Limits count, and
/// requests where there is no limit.
pub fn read(
    vendor: &'static Vendor,
    resources: &ContainerResources,
) -> Result<Option<DeviceRequest>, RequestError> {
    let count = amount(resources, vendor.count, Quantity::whole)?;
    if count == Some(0) {
        return no_device(vendor, resources).map(|()| None);
    }
    let memory = memory(vendor, resources)?;
    let cores = match vendor.cores {
        Some(cores) => amount(resources, cores.name, Quantity::whole)?,
        None => None,
    };
    if count.is_none() && memory == MemoryRequest::Unset && cores.is_none() {
        return Ok(None);
    }
    let cores = cores.or(vendor.unset_cores);
    let (devices, slices) = devices(vendor, count, memory, cores)?;
    if let Some(devices) = devices
        && let Some(allowed) = vendor.counts.broken_by(devices)
    {
        return Err(RequestError::Count { resource: vendor.count, devices, allowed });
    }
    let ask = DeviceRequest { devices, slices, memory, cores };
    per_device(vendor, ask).map(Some)
}

/// Rejects a request for memory or cores that explicitly counts no device.
fn no_device(vendor: &'static Vendor, resources: &ContainerResources) -> Result<(), RequestError> {
    let parts = [
        vendor.memory.map(|memory| memory.name),
        vendor.percentage,
        vendor.cores.map(|cores| cores.name),
    ];
    for resource in parts.into_iter().flatten() {
        if let Some(amount @ 1..) = amount(resources, resource, Quantity::whole)? {
            return Err(RequestError::NoDevice { count: vendor.count, resource, amount });
        }
    }
    Ok(())
}

fn devices(
    vendor: &'static Vendor,
    count: Option<u64>,
    memory: MemoryRequest,
    cores: Option<u64>,
) -> Result<(Option<u64>, Option<u64>), RequestError> {
    match (count, vendor.count_unit) {
        (Some(slices), CountUnit::Slices) => Ok((Some(1), Some(slices))),
        (Some(devices), CountUnit::Devices) => Ok((Some(devices), None)),
        (None, _) if vendor.count_defaults_to_one => Ok((Some(1), None)),
        // Neuron cores can be requested without devices.
        (None, _) if vendor.memory.is_none() && cores.is_some() => Ok((None, None)),
        (None, _) => {
            let asked = if memory == MemoryRequest::Unset {
                vendor.cores.map(|cores| cores.name)
            } else {
                None
            };
            let asked = asked.or(vendor.memory.map(|memory| memory.name));
            Err(RequestError::NoCount {
                resource: asked.unwrap_or(vendor.name),
                count: vendor.count,
            })
        }
    }
}

fn memory(
    vendor: &'static Vendor,
    resources: &ContainerResources,
) -> Result<MemoryRequest, RequestError> {
    let percent = match vendor.percentage {
        // HAMi reads 0 as "not specified" and more than 100 as 100. Both book the whole device, so
        // this does too.
        Some(name) => amount(resources, name, Quantity::whole)?
            .filter(|percent| *percent > 0)
            .map(|percent| (name, percent)),
        None => None,
    };
    let mib = match vendor.memory {
        Some(memory) => amount(resources, memory.name, |quantity| memory.mib(quantity))?
            .map(|mib| (memory.name, mib)),
        None => None,
    };
    match (mib, percent) {
        (Some((resource, 0)), _) => Err(RequestError::NoMemory { resource }),
        (Some((memory, mib)), Some((percentage, percent))) if percent <= 100 => {
            Err(RequestError::TwoMemories { memory, mib, percentage, percent })
        }
        (Some((_, mib)), _) => Ok(MemoryRequest::Mib(mib)),
        (None, Some((_, percent))) => {
            Ok(MemoryRequest::Percent(u8::try_from(percent.min(100)).unwrap_or(100)))
        }
        (None, None) => Ok(MemoryRequest::Unset),
    }
}

/// Divides sums over all devices of the container into the part of each device.
fn per_device(
    vendor: &'static Vendor,
    mut ask: DeviceRequest,
) -> Result<DeviceRequest, RequestError> {
    let Some(devices) = ask.devices.filter(|devices| *devices > 0) else {
        return Ok(ask);
    };
    if let (MemoryRequest::Mib(total), Some(memory)) =
        (ask.memory, vendor.memory.filter(|memory| memory.is_total))
    {
        ask.memory = MemoryRequest::Mib(share(memory.name, total, devices)?);
    }
    if let (Some(total), Some(cores)) = (ask.cores, vendor.cores.filter(|cores| cores.is_total)) {
        ask.cores = Some(share(cores.name, total, devices)?);
    }
    Ok(ask)
}

fn share(resource: &'static str, amount: u64, devices: u64) -> Result<u64, RequestError> {
    if amount.is_multiple_of(devices) {
        Ok(amount / devices)
    } else {
        Err(RequestError::Uneven { resource, amount, devices })
    }
}

fn amount(
    resources: &ContainerResources,
    resource: &'static str,
    read: impl Fn(&Quantity) -> Result<u64, QuantityError>,
) -> Result<Option<u64>, RequestError> {
    let quantity = resources.limits.get(resource).or_else(|| resources.requests.get(resource));
    let amount = quantity.map(|quantity| quantity.map_err(Clone::clone).and_then(&read));
    amount.transpose().map_err(|error| RequestError::Amount { resource, error })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::vendor::VENDORS;
    use super::*;

    fn ask(
        word: &str,
        limits: &[(&'static str, &'static str)],
    ) -> Result<Option<DeviceRequest>, RequestError> {
        let resources = ContainerResources {
            limits: limits.iter().copied().collect(),
            ..ContainerResources::default()
        };
        read(Vendor::by_name(word).unwrap(), &resources)
    }

    fn nvidia(limits: &[(&'static str, &'static str)]) -> DeviceRequest {
        ask("NVIDIA", limits).unwrap().unwrap()
    }

    const GPU: (&str, &str) = ("nvidia.com/gpu", "1");
    const MEM: &str = "nvidia.com/gpumem";
    const PCT: &str = "nvidia.com/gpumem-percentage";

    #[test]
    fn requests_are_read_as_table_a3_says() {
        let one = DeviceRequest {
            devices: Some(1),
            slices: None,
            memory: MemoryRequest::Unset,
            cores: None,
        };
        assert_eq!(nvidia(&[GPU]), one);
        let two = DeviceRequest { devices: Some(2), memory: MemoryRequest::Mib(4096), ..one };
        assert_eq!(nvidia(&[("nvidia.com/gpu", "2"), (MEM, "4096")]), two);
        for (percent, memory) in [
            ("50", MemoryRequest::Percent(50)),
            ("150", MemoryRequest::Percent(100)),
            ("101", MemoryRequest::Percent(100)),
            ("4294967346", MemoryRequest::Percent(100)),
            ("0", MemoryRequest::Unset),
        ] {
            assert_eq!(nvidia(&[GPU, (PCT, percent)]).memory, memory, "{percent}");
        }
        assert_eq!(nvidia(&[GPU, (PCT, "0"), (MEM, "2000")]).memory, MemoryRequest::Mib(2000));
        let requests = ContainerResources {
            requests: [GPU].into_iter().collect(),
            ..ContainerResources::default()
        };
        assert_eq!(read(Vendor::by_name("NVIDIA").unwrap(), &requests), Ok(Some(one)));
        // Row A4: memory or cores alone mean one device.
        assert_eq!(nvidia(&[(MEM, "4096")]).devices, Some(1));
        assert_eq!(nvidia(&[("nvidia.com/gpucores", "30")]).cores, Some(30));
    }

    #[test]
    fn rows_of_table_a3_that_make_a_request_vanish_are_rejected_instead() {
        // A3 "-1 -> treated as unset": a negative amount is a mistake, and acceptance B10 refuses
        // it.
        let error = ask("NVIDIA", &[GPU, (PCT, "-1")]).unwrap_err().to_string();
        assert_eq!(error, "nvidia.com/gpumem-percentage: \"-1\" is negative; an amount cannot be");
        // A3 "gpumem 16Gi or 16.0Gi -> empty request": such a pod would be placed anywhere with
        // nothing booked (B10).
        for text in ["16Gi", "16.0Gi"] {
            let error = ask("NVIDIA", &[GPU, (MEM, text)]).unwrap_err().to_string();
            assert!(
                error.starts_with("nvidia.com/gpumem: ") && error.ends_with("write 16384"),
                "{error}"
            );
        }
        // B10 as well: an amount beside a percentage. HAMi lets the amount win.
        let error = ask("NVIDIA", &[GPU, (MEM, "8k"), (PCT, "50")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "nvidia.com/gpumem is 8000 and nvidia.com/gpumem-percentage is 50; say one of them"
        );
        for text in ["1500m", "1e9999", "NaN", "8000MB", "", "0", "99999999999999999999999"] {
            let error = ask("NVIDIA", &[GPU, (MEM, text)]).unwrap_err().to_string();
            assert!(error.starts_with("nvidia.com/gpumem"), "{text}: {error}");
        }
    }

    #[test]
    fn the_same_amount_written_in_three_ways_is_the_same_request() {
        for text in ["8000", "8k", "8e3"] {
            assert_eq!(nvidia(&[GPU, (MEM, text)]).memory, MemoryRequest::Mib(8000), "{text}");
        }
    }

    #[test]
    fn every_vendor_has_its_own_rules() {
        let memory = |word, limits: &[_]| ask(word, limits).unwrap().unwrap().memory;
        assert_eq!(
            memory("MLU", &[("cambricon.com/vmlu", "1"), ("cambricon.com/mlu.smlu.vmemory", "4")]),
            MemoryRequest::Mib(1024)
        );
        let two = [
            ("mthreads.com/vgpu", "2"),
            ("mthreads.com/sgpu-memory", "192"),
            ("mthreads.com/sgpu-core", "32"),
        ];
        let two = ask("Mthreads", &two).unwrap().unwrap();
        assert_eq!((two.memory, two.cores), (MemoryRequest::Mib(49152), Some(16)));
        assert!(matches!(
            ask("Mthreads", &[("mthreads.com/vgpu", "2"), ("mthreads.com/sgpu-core", "17")]),
            Err(RequestError::Uneven { .. })
        ));
        let slices = ask("Enflame", &[("enflame.com/drs-gcu", "3")]).unwrap().unwrap();
        assert_eq!((slices.devices, slices.slices), (Some(1), Some(3)));
        let cores = ask("AWSNeuron", &[("aws.amazon.com/neuroncore", "4")]).unwrap().unwrap();
        assert_eq!((cores.devices, cores.cores), (None, Some(4)));
        let metax = [("metax-tech.com/sgpu", "1"), ("metax-tech.com/vmemory", "4")];
        assert_eq!(ask("Metax-SGPU", &metax).unwrap().unwrap().cores, Some(100));
        let error = ask("DCU", &[("hygon.com/dcumem", "4096")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "hygon.com/dcumem is asked without hygon.com/dcunum; say how many devices"
        );
    }

    #[test]
    fn a_container_that_asks_nothing_asks_nothing() {
        for vendor in VENDORS {
            assert_eq!(read(vendor, &ContainerResources::default()), Ok(None), "{}", vendor.name);
        }
        const NO_GPU: (&str, &str) = ("nvidia.com/gpu", "0");
        for limits in [vec![NO_GPU], vec![NO_GPU, (MEM, "0")], vec![NO_GPU, (PCT, "0")]] {
            assert_eq!(ask("NVIDIA", &limits), Ok(None), "{limits:?}");
        }
    }

    #[test]
    fn a_part_of_no_device_is_rejected() {
        for (word, count, part, amount) in [
            ("NVIDIA", "nvidia.com/gpu", MEM, "4096"),
            ("NVIDIA", "nvidia.com/gpu", PCT, "50"),
            ("NVIDIA", "nvidia.com/gpu", "nvidia.com/gpucores", "30"),
            ("DCU", "hygon.com/dcunum", "hygon.com/dcumem", "2048"),
            ("AWSNeuron", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "4"),
        ] {
            let error = ask(word, &[(count, "0"), (part, amount)]).unwrap_err().to_string();
            let said = format!(
                "{count} is 0 and {part} is {amount}; ask for a device, or leave {part} out"
            );
            assert_eq!(error, said);
        }
    }

    proptest! {
        #[test]
        fn no_amount_makes_it_panic(amounts in prop::collection::vec("[-+0-9.eEkMGi]{0,12}|\\PC{0,6}", 4)) {
            for vendor in VENDORS {
                let limits = vendor.resource_names().zip(amounts.iter().map(String::as_str)).collect();
                let _ = read(vendor, &ContainerResources { limits, ..ContainerResources::default() });
            }
        }
    }
}
