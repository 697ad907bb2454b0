//! Device needs of a pod's containers, by the resources of HAMi's vendors, plain plugins and MIG.

use std::num::NonZeroU16;

use plimsoll_core::request::{Amount, Compute, Container, DeviceSelector, Misuse, Need, Shape};
use plimsoll_core::units::{Bytes, Cores, Portion};

use crate::cluster::Reading;
use crate::hami::capacity::slices_name;
use crate::hami::request::{self, DeviceRequest, MemoryRequest, RequestError};
use crate::hami::vendor::{Charged, CoresUnit, SOFT_SPLIT_MODE, SPLIT_MODE, VENDORS, Vendor};
use crate::object::{self, Pod};
use crate::plugins::{self, PluginSharing};
use crate::quantity::Quantity;

use super::super::misuse::{listed, misuse, misuse_of, resource};
use super::{in_start_order, legacy_mig, selection, share};

/// The prefix before the profile in resources of MIG instances.
pub(in crate::translate) const MIG_PREFIX: &str = "nvidia.com/mig-";

/// NVIDIA's resource for shared GPUs, where its plugin is configured to rename them.
const SHARED_GPU: &str = "nvidia.com/gpu.shared";
const SHARED_SUFFIX: &str = ".shared";

/// The cores of a Neuron device, by HAMi's rule. Their memory is unknown, so that each device is
/// used whole.
const NEURON_CORES: u64 = 2;

/// Translates the needs of the containers, in start order.
pub(in crate::translate) fn shape(pod: &Pod, reading: &Reading) -> Result<Shape, Misuse> {
    let containers = in_start_order(&pod.spec).map(|(role, container)| {
        let needs = needs(container, Split::from_pod(pod), reading)?;
        Ok(Container { name: container.name.as_str().into(), role, needs })
    });
    let mut containers: Vec<Container> = containers.collect::<Result<_, _>>()?;
    share::add(pod, &mut containers)?;
    legacy_mig::add(pod, &mut containers)?;
    selection::add(&pod.metadata.annotations, &mut containers)?;
    Ok(Shape { containers })
}

/// The way in which a pod accepts that Ascend's devices are split.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Split {
    /// By templates, or by software on nodes that do so. The template is the larger amount.
    Any,
    /// By software only, which gives the requested amount.
    Soft,
}

impl Split {
    fn from_pod(pod: &Pod) -> Split {
        match pod.metadata.annotations.get(SPLIT_MODE) {
            Some(SOFT_SPLIT_MODE) => Split::Soft,
            _ => Split::Any,
        }
    }

    fn charged(self, vendor: &'static Vendor, mib: u64) -> Charged {
        match self {
            Split::Soft if vendor.has_soft_split() => Charged::AsAsked(mib),
            Split::Soft | Split::Any => vendor.charged(mib),
        }
    }
}

/// Returns true if a resource requests a device or a part of one.
pub(in crate::translate) fn asks_devices(name: &str) -> bool {
    is_counted(name) || kind_asked(name).is_some()
}

/// Returns the kind of device that a vendor's resource requests.
pub(in crate::translate) fn kind_asked(name: &str) -> Option<&'static str> {
    let asks = |vendor: &&Vendor| vendor.resource_names().any(|resource| resource == name);
    let of_vendor = VENDORS.iter().find(asks).map(Vendor::kind);
    of_vendor.or_else(|| plugins::counted(name).map(|resource| resource.kind))
}

/// Returns true for a resource that is a number of devices and nothing else.
fn is_counted(name: &str) -> bool {
    name == SHARED_GPU || name.starts_with(MIG_PREFIX) || plugins::counted(name).is_some()
}

fn needs(
    container: &object::Container,
    split: Split,
    reading: &Reading,
) -> Result<Vec<Need>, Misuse> {
    let resources = &container.resources;
    let names = || resources.limits.iter().chain(resources.requests.iter()).map(|(name, _)| name);
    // Most containers request no extended resource at all.
    if !resources.has_extended() {
        return Ok(Vec::new());
    }
    agree(container)?;
    let mut needs = Vec::new();
    for vendor in VENDORS {
        let asked =
            request::read(vendor, resources).map_err(|error| unreadable(container, error))?;
        if let Some(asked) = asked {
            needs.push(need(container, vendor, asked, split, reading)?);
        }
    }
    let mut counted: Vec<&str> = names().filter(|name| is_counted(name)).collect();
    counted.sort_unstable();
    counted.dedup();
    for name in counted {
        needs.extend(whole_slices(container, name, reading)?);
    }
    Ok(needs)
}

/// Rejects an extended resource whose limit and request differ: it cannot be overcommitted.
fn agree(container: &object::Container) -> Result<(), Misuse> {
    let (limits, requests) = (&container.resources.limits, &container.resources.requests);
    for (name, limit) in limits.iter().filter(|(name, _)| asks_devices(name)) {
        let Some(request) = requests.get(name).filter(|request| *request != limit) else {
            continue;
        };
        let text =
            |amount: Result<&Quantity, &_>| amount.map_or("?".to_owned(), |q| q.text().to_owned());
        let fields = [listed(container, "limits", name), listed(container, "requests", name)];
        let problem = format!(
            "{} is {} and the request is {}; a device resource must be the same in both",
            fields[0],
            text(limit),
            text(request)
        );
        return Err(misuse(fields, problem));
    }
    Ok(())
}

fn unreadable(container: &object::Container, error: RequestError) -> Misuse {
    let said = format!("container \"{}\": {error}", container.name);
    match error {
        RequestError::Amount { resource: name, error } => {
            misuse_of(&resource(container, name), error)
        }
        RequestError::TwoMemories { memory, percentage, .. } => {
            misuse([resource(container, memory), resource(container, percentage)], said)
        }
        RequestError::NoCount { resource: name, count } => {
            misuse([resource(container, name), listed(container, "limits", count)], said)
        }
        RequestError::NoDevice { count, resource: name, .. } => {
            misuse([resource(container, count), resource(container, name)], said)
        }
        RequestError::NoMemory { resource: name }
        | RequestError::Uneven { resource: name, .. }
        | RequestError::Count { resource: name, .. } => misuse([resource(container, name)], said),
    }
}

fn need(
    container: &object::Container,
    vendor: &'static Vendor,
    asked: DeviceRequest,
    split: Split,
    reading: &Reading,
) -> Result<Need, Misuse> {
    let devices = asked.devices.unwrap_or_else(|| asked.cores.unwrap_or(1).div_ceil(NEURON_CORES));
    let slots = asked.slices.unwrap_or(1);
    let too_many = |amount| {
        misuse_of(
            &resource(container, vendor.count),
            format_args!("{amount} is more than any node has"),
        )
    };
    let need = Need {
        kind: vendor.kind().into(),
        count: count(devices).ok_or_else(|| too_many(devices))?,
        amount: Amount::Whole,
        compute: compute(vendor, asked),
        slots: u32::try_from(slots).map_err(|_| too_many(slots))?,
        selector: DeviceSelector::default(),
    };
    match (asked.slices, asked.memory) {
        (Some(slices), MemoryRequest::Unset) => {
            Ok(Need { amount: Amount::Profile(slices_name(slices).into()), ..need })
        }
        _ => with_memory(container, vendor, (asked.memory, split), need, reading),
    }
}

fn with_memory(
    container: &object::Container,
    vendor: &'static Vendor,
    (memory, split): (MemoryRequest, Split),
    need: Need,
    reading: &Reading,
) -> Result<Need, Misuse> {
    let bytes = |mib: u64| {
        Bytes::from_mib(mib).map(Amount::bytes).ok_or_else(|| {
            let name = vendor.memory.map_or(vendor.count, |memory| memory.name);
            misuse_of(
                &resource(container, name),
                format_args!("{mib} MiB is more than can be counted"),
            )
        })
    };
    Ok(match memory {
        MemoryRequest::Unset if is_plain(vendor) => {
            Need { amount: Amount::Plain(reading.plain), ..need }
        }
        MemoryRequest::Unset => need,
        MemoryRequest::Percent(percent) => {
            let portion = Portion::new(u64::from(percent), 100);
            let amount =
                portion.map_or(Amount::Unknown("a percentage above 0".into()), Amount::Portion);
            // HAMi's webhook gives all cores to a request for all memory that does not mention
            // cores.
            let all = percent == 100 && need.compute == Compute::Any;
            Need { amount, compute: if all { Compute::All } else { need.compute }, ..need }
        }
        MemoryRequest::Mib(mib) => match split.charged(vendor, mib) {
            Charged::AsAsked(mib) => Need { amount: bytes(mib)?, ..need },
            Charged::Template(template) => Need { amount: bytes(template.memory_mib)?, ..need },
            // No template is large enough: the device is used whole. The amount is kept, since the
            // device must be that large.
            Charged::Whole => {
                let selector = DeviceSelector { alone: true, ..DeviceSelector::default() };
                Need { amount: bytes(mib)?, compute: Compute::All, selector, ..need }
            }
        },
    })
}

/// Returns true for vendors whose plain plugin shares cards by tokens without memory.
fn is_plain(vendor: &Vendor) -> bool {
    matches!(vendor.name, "NVIDIA" | "AMD")
}

fn compute(vendor: &Vendor, asked: DeviceRequest) -> Compute {
    let (Some(cores), Some(resource)) = (asked.cores.filter(|cores| *cores > 0), vendor.cores)
    else {
        return Compute::Any;
    };
    match resource.unit {
        // NVIDIA's devices have as many hundredths as their operator configures, and are compared
        // by number.
        CoresUnit::Percent if vendor.name != "NVIDIA" => {
            Compute::Percent(u8::try_from(cores.min(100)).unwrap_or(100))
        }
        _ => Compute::Units(Cores(u32::try_from(cores).unwrap_or(u32::MAX))),
    }
}

/// Translates MIG instances, and shared devices that their plugin renamed: a number and nothing
/// else.
fn whole_slices(
    container: &object::Container,
    name: &str,
    reading: &Reading,
) -> Result<Option<Need>, Misuse> {
    let resources = &container.resources;
    let amount = resources.limits.get(name).or_else(|| resources.requests.get(name));
    let number =
        amount.map_or(Ok(0), |amount| amount.map_err(Clone::clone).and_then(Quantity::whole));
    let field = || resource(container, name);
    let number = number.map_err(|error| misuse_of(&field(), error))?;
    if number == 0 {
        return Ok(None);
    }
    let kind = if name == SHARED_GPU {
        "NVIDIA"
    } else {
        name.strip_suffix(SHARED_SUFFIX).unwrap_or(name)
    };
    let shared = name.ends_with(SHARED_SUFFIX)
        || plugins::counted(name).is_some_and(|one| one.sharing == PluginSharing::Possible);
    let amount = if shared { Amount::Plain(reading.plain) } else { Amount::Whole };
    let count = count(number)
        .ok_or_else(|| misuse_of(&field(), format_args!("{number} is more than any node has")))?;
    Ok(Some(Need { count, ..Need::one(kind, amount) }))
}

fn count(devices: u64) -> Option<NonZeroU16> {
    u16::try_from(devices).ok().and_then(NonZeroU16::new)
}
