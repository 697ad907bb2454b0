//! Nodes and devices as words.

use std::sync::Arc;

use plimsoll_core::device::{
    Capacity, Device, DeviceChoice, Geometry, Health, Identity, Node, Profile, Sharing, Source,
    Span, Strategy,
};
use plimsoll_core::resources::ResourceAmounts;
use plimsoll_core::units::{Bytes, Cores, MilliCpu};

use super::presets;
use super::rules;
use super::words::{Problem, Word, Words, bad, number, one_of, size, switch, unknown};

const NODE_FIELDS: [&str; 12] = [
    "choice",
    "missing",
    "unknown",
    "unschedulable",
    "taint",
    "file",
    "failed-starts",
    "cpu",
    "memory",
    "pods",
    "resource",
    "label.KEY",
];
const DEVICE_FIELDS: [&str; 18] = [
    "kind", "uuid", "model", "memory", "source", "reserve", "cap", "cores", "slots", "sharing",
    "numa", "board", "mode", "health", "cordoned", "slices", "profile", "links",
];
const CHOICES: [(&str, DeviceChoice); 2] =
    [("owned", DeviceChoice::Owned), ("plugin", DeviceChoice::Plugin)];
pub(crate) const SOURCES: [(&str, Source); 5] = [
    ("declared", Source::Declared),
    ("nvml", Source::Nvml),
    ("label", Source::Label),
    ("register", Source::Register),
    ("capacity", Source::Capacity),
];
pub(crate) const HEALTH: [(&str, Health); 3] =
    [("healthy", Health::Healthy), ("faulty", Health::Faulty), ("gone", Health::Gone)];

/// Changes the facts of a node by the words that are left.
pub(crate) fn change_node(node: &mut Node, mut words: Words) -> Result<(), Problem> {
    while let Some(word) = words.next() {
        let Word::Pair(key, value) = &word else {
            return Err(unknown("fact of a node", &word.to_string(), &NODE_FIELDS));
        };
        match key.as_str() {
            "choice" => node.choice = one_of(value, "choice", &CHOICES)?,
            "missing" => node.missing_cards = number(value)?,
            "unknown" => node.unknown = (!value.is_empty()).then(|| value.as_str().into()),
            "unschedulable" => node.unschedulable = switch(value)?,
            "taint" => node.taints.push(rules::taint(value)?),
            "file" => drop(node.files.insert(value.as_str().into())),
            "failed-starts" => node.failed_starts = number(value)?,
            "cpu" => node.allocatable.cpu = Some(cpu(value)?),
            "memory" => node.allocatable.memory = Some(size(value)?),
            "pods" => node.allocatable.pods = Some(number(value)?),
            "resource" => change_resource(&mut node.allocatable.extended, value)?,
            key => match key.strip_prefix("label.") {
                Some(label) => drop(node.labels.insert(label.into(), value.as_str().into())),
                None => return Err(unknown("fact of a node", key, &NODE_FIELDS)),
            },
        }
    }
    Ok(())
}

/// Processor time: `8`, or `500m`.
pub(crate) fn cpu(text: &str) -> Result<MilliCpu, Problem> {
    match text.strip_suffix('m') {
        Some(milli) => number(milli).map(MilliCpu),
        None => number::<u64>(text)?
            .checked_mul(1000)
            .map(MilliCpu)
            .ok_or_else(|| bad(text, "that is too much")),
    }
}

/// Replaces the amount of a named resource: `nvidia.com/gpu:8`.
pub(crate) fn change_resource(amounts: &mut ResourceAmounts, text: &str) -> Result<(), Problem> {
    let (resource, amount) = text
        .rsplit_once(':')
        .filter(|(resource, _)| !resource.is_empty())
        .ok_or_else(|| bad(text, "write a resource as NAME:AMOUNT"))?;
    amounts.set(resource, number(amount)?);
    Ok(())
}

/// The ordinals that a word names: `3`, or `0-7`.
pub(crate) fn ordinals(text: &str) -> Result<Vec<u16>, Problem> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Ok((number::<u16>(from)?..=number(to)?).collect())
}

/// Adds devices to a node, or changes the facts of those that are there.
pub(crate) fn change_devices(node: &mut Node, mut words: Words) -> Result<(), Problem> {
    let named = words.plain("the device's ordinal")?;
    for ordinal in ordinals(&named)? {
        let at = usize::from(ordinal);
        match at.checked_sub(node.devices.len()) {
            None => {}
            Some(0) => node.devices.push(unsaid()),
            Some(_) => {
                return Err(bad(&named, format!("device {} comes first", node.devices.len())));
            }
        }
        change_device(&mut node.devices[at], ordinal, words.clone())?;
    }
    Ok(())
}

/// A device of which nothing was said: its memory is not known.
fn unsaid() -> Device {
    let device = Device::new("NVIDIA", Bytes::ZERO, Source::Declared);
    let total = Capacity::Unknown { missing: "its memory was not said".into() };
    Device { memory: plimsoll_core::device::Memory { total, ..device.memory }, ..device }
}

fn change_device(device: &mut Device, ordinal: u16, mut words: Words) -> Result<(), Problem> {
    while let Some(word) = words.next() {
        let Word::Pair(key, value) = &word else {
            return Err(unknown("fact of a device", &word.to_string(), &DEVICE_FIELDS));
        };
        let some = |value: &str| (!value.is_empty()).then(|| value.into());
        match key.as_str() {
            "kind" => device.kind = value.as_str().into(),
            "uuid" => {
                device.identity = Identity::Uuid(value.replace('*', &ordinal.to_string()).into());
            }
            "model" => device.model = some(value),
            "memory" => device.memory.total = capacity(value, source_of(device))?,
            "source" => set_source(device, one_of(value, "source", &SOURCES)?),
            "reserve" => device.memory.reserve = size(value)?,
            "cap" => device.memory.cap = if value.is_empty() { None } else { Some(size(value)?) },
            "cores" => device.cores = Some(Cores(number(value)?)),
            "slots" => device.slots = Some(number(value)?),
            "sharing" => device.sharing = sharing(value)?,
            "numa" => device.numa = Some(number(value)?),
            "board" => device.board = some(value),
            "mode" => device.mode = some(value),
            "health" => device.health = one_of(value, "state of health", &HEALTH)?,
            "cordoned" => device.cordoned = switch(value)?,
            "slices" => {
                let geometry = presets::geometry(value);
                device.geometry = Some(Arc::new(
                    geometry.ok_or_else(|| unknown("card", value, &presets::NAMES))?,
                ));
            }
            "profile" => {
                let so_far = device
                    .geometry
                    .as_deref()
                    .cloned()
                    .unwrap_or(Geometry { profiles: Vec::new() });
                let profiles = so_far.profiles.into_iter().chain([profile(value)?]).collect();
                device.geometry = Some(Arc::new(Geometry { profiles }));
            }
            "links" => device.links = links(value)?,
            key => return Err(unknown("fact of a device", key, &DEVICE_FIELDS)),
        }
    }
    Ok(())
}

fn source_of(device: &Device) -> Source {
    match device.memory.total {
        Capacity::Known { source, .. } => source,
        Capacity::Unknown { .. } => Source::Declared,
    }
}

fn set_source(device: &mut Device, now: Source) {
    if let Capacity::Known { source, .. } = &mut device.memory.total {
        *source = now;
    }
}

fn capacity(text: &str, source: Source) -> Result<Capacity, Problem> {
    match text.strip_prefix("unknown:") {
        Some(missing) => Ok(Capacity::Unknown { missing: missing.into() }),
        None => Ok(Capacity::Known { bytes: size(text)?, source }),
    }
}

/// Parses the sharing of a device: `none`, `shares`, `equal-shares`, `time-slicing:100`, `mps:4`.
fn sharing(text: &str) -> Result<Sharing, Problem> {
    let tokens = |replicas, strategy| Ok(Sharing::Tokens { replicas: number(replicas)?, strategy });
    match text.split_once(':') {
        Some(("time-slicing", replicas)) => tokens(replicas, Strategy::TimeSlicing),
        Some(("mps", replicas)) => tokens(replicas, Strategy::Mps),
        _ if text == "none" => Ok(Sharing::Exclusive),
        _ if text == "shares" => Ok(Sharing::Shares),
        _ if text == "equal-shares" => Ok(Sharing::EqualShares),
        _ => Err(unknown(
            "way of sharing",
            text,
            &["none", "shares", "equal-shares", "time-slicing:REPLICAS", "mps:REPLICAS"],
        )),
    }
}

/// Parses a profile of hardware slices: `1g.5gb:4864MiB:1:0+1,1+1`, with memory, compute and the
/// allowed positions.
fn profile(text: &str) -> Result<Profile, Problem> {
    let wrong = || bad(text, "write NAME:MEMORY:CORES:START+SIZE,START+SIZE");
    let [name, memory, cores, spans] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    let span = |span: &str| {
        let (start, size) = span.split_once('+').ok_or_else(wrong)?;
        Ok(Span { start: number(start)?, size: number(size)? })
    };
    let placements = spans.split(',').map(span).collect::<Result<_, Problem>>()?;
    Ok(Profile {
        name: name.into(),
        memory: size(memory)?,
        cores: Cores(number(cores)?),
        placements,
    })
}

/// Links to other devices: `1:100,2:50`.
fn links(text: &str) -> Result<std::collections::BTreeMap<u16, u32>, Problem> {
    let link = |pair: &str| {
        let (to, strength) =
            pair.split_once(':').ok_or_else(|| bad(pair, "write ORDINAL:STRENGTH"))?;
        Ok((number(to)?, number(strength)?))
    };
    text.split(',').filter(|pair| !pair.is_empty()).map(link).collect()
}
