//! Devices of vendors that list none: they follow from the node's capacity, by HAMi's rules.
//!
//! Where HAMi assumes the same memory for every model of a vendor, the memory is unknown here.

use serde::Deserialize;
use serde_json::Value;

use crate::object::{Resources, StringMap, nullable};
use crate::quantity::{Quantity, QuantityError, quoted};

use super::register::{self, MigProfile, Placement, RegisterError, RegisteredDevice, checked};
use super::vendor::{CapacityRule, Register, Vendor};

/// The maximum number of devices of a node. A larger number is a mistake, and bounding it bounds
/// memory.
pub const MAX_DEVICES: u64 = 1024;

/// Virtual cores per card.
const CORES_PER_MLU: u64 = 100;
const CORES_PER_MTHREADS: u64 = 16;

/// The reason why the devices of a vendor on a node are unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DevicesError {
    #[error("annotation {key}: {error}")]
    Annotation { key: &'static str, error: RegisterError },
    #[error("capacity {resource}: {error}")]
    Amount { resource: &'static str, error: QuantityError },
    #[error(
        "capacity {resource} is {amount}, which is no whole number of cards of {per_card} each"
    )]
    PartOfACard { resource: &'static str, amount: u64, per_card: u64 },
    #[error("capacity {resource} would be {count} devices; no node has more than {MAX_DEVICES}")]
    TooMany { resource: &'static str, count: u64 },
}

/// Lists the devices of one vendor on a node; `None` if the node has nothing of this vendor.
pub fn devices(
    vendor: &'static Vendor,
    node: &str,
    annotations: &StringMap,
    capacity: &Resources,
) -> Result<Option<Vec<RegisteredDevice>>, DevicesError> {
    let from =
        |key: &'static str, read: &dyn Fn(&str) -> Result<Vec<RegisteredDevice>, RegisterError>| {
            annotations
                .get(key)
                .map(read)
                .transpose()
                .map_err(|error| DevicesError::Annotation { key, error })
        };
    match vendor.register {
        Register::Annotation(key) => from(key, &register::decode),
        Register::MetaxSgpu(key) => from(key, &register::decode_metax_sgpu),
        Register::EnflameDrs(key) => from(key, &|text| enflame_drs(node, text)),
        Register::Capacity(rule) => by_rule(rule, vendor, node, capacity),
    }
}

fn by_rule(
    rule: CapacityRule,
    vendor: &'static Vendor,
    node: &str,
    capacity: &Resources,
) -> Result<Option<Vec<RegisteredDevice>>, DevicesError> {
    match rule {
        CapacityRule::Cambricon => {
            split_cards(vendor, CORES_PER_MLU, node, "cambricon-mlu", capacity)
        }
        CapacityRule::Mthreads => {
            split_cards(vendor, CORES_PER_MTHREADS, node, "mthreads", capacity)
        }
        CapacityRule::Whole { infix } => whole(vendor, node, infix, capacity, |_, _| Some(0)),
        CapacityRule::WholeInTwoHalves { infix } => {
            whole(vendor, node, infix, capacity, |index, count| {
                Some(u32::from(u64::from(index) >= count / 2))
            })
        }
        CapacityRule::Neuron => neuron(vendor, node, capacity),
    }
}

/// Derives cards from cores and memory that the node reports as sums.
fn split_cards(
    vendor: &'static Vendor,
    per_card: u64,
    node: &str,
    infix: &str,
    capacity: &Resources,
) -> Result<Option<Vec<RegisteredDevice>>, DevicesError> {
    let (Some(cores), Some(memory)) = (vendor.cores, vendor.memory) else {
        return Ok(None);
    };
    let amount = amount(capacity, cores.name)?.unwrap_or(0);
    if amount == 0 {
        return Ok(None);
    }
    if !amount.is_multiple_of(per_card) {
        return Err(DevicesError::PartOfACard { resource: cores.name, amount, per_card });
    }
    let cards = bounded(cores.name, amount / per_card)?;
    let total_mib = match capacity.get(memory.name) {
        None => None,
        Some(amount) => {
            let mib = amount.map_err(Clone::clone).and_then(|amount| memory.mib(amount));
            Some(mib.map_err(|error| DevicesError::Amount { resource: memory.name, error })?)
        }
    };
    let memory_mib = total_mib.map(|total| total / u64::from(cards)).filter(|mib| *mib > 0);
    let card = |index| RegisteredDevice {
        slots: 100,
        memory_mib,
        cores: Some(per_card),
        ..device(vendor, node, infix, index)
    };
    Ok(Some((0..cards).map(card).collect()))
}

/// Derives devices that are used whole.
fn whole(
    vendor: &'static Vendor,
    node: &str,
    infix: &str,
    capacity: &Resources,
    numa: impl Fn(u32, u64) -> Option<u32>,
) -> Result<Option<Vec<RegisteredDevice>>, DevicesError> {
    let count = bounded(vendor.count, amount(capacity, vendor.count)?.unwrap_or(0))?;
    let card = |index| RegisteredDevice {
        slots: 1,
        numa: numa(index, u64::from(count)),
        ..device(vendor, node, infix, index)
    };
    Ok((count > 0).then(|| (0..count).map(card).collect()))
}

/// Derives devices whose cores can have one tenant each.
fn neuron(
    vendor: &'static Vendor,
    node: &str,
    capacity: &Resources,
) -> Result<Option<Vec<RegisteredDevice>>, DevicesError> {
    let count = bounded(vendor.count, amount(capacity, vendor.count)?.unwrap_or(0))?;
    if count == 0 {
        return Ok(None);
    }
    let per_device = u64::from(count);
    let cores = match vendor.cores {
        Some(cores) => amount(capacity, cores.name)?.map(|total| (cores.name, total)),
        None => None,
    };
    let cores = match cores {
        Some((resource, amount)) if !amount.is_multiple_of(per_device) => {
            return Err(DevicesError::PartOfACard { resource, amount, per_card: per_device });
        }
        Some((_, total)) => Some(total / per_device).filter(|cores| *cores > 0),
        None => None,
    };
    let card = |index| RegisteredDevice {
        slots: cores.unwrap_or(1),
        cores,
        ..device(vendor, node, "AWSNeuron", index)
    };
    Ok(Some((0..count).map(card).collect()))
}

fn device(vendor: &Vendor, node: &str, infix: &str, index: u32) -> RegisteredDevice {
    RegisteredDevice {
        id: format!("{node}-{infix}-{index}"),
        index,
        slots: 1,
        model: vendor.name.to_owned(),
        numa: Some(0),
        healthy: true,
        ..RegisteredDevice::default()
    }
}

fn amount(capacity: &Resources, resource: &'static str) -> Result<Option<u64>, DevicesError> {
    let amount =
        capacity.get(resource).map(|amount| amount.map_err(Clone::clone).and_then(Quantity::whole));
    amount.transpose().map_err(|error| DevicesError::Amount { resource, error })
}

fn bounded(resource: &'static str, count: u64) -> Result<u32, DevicesError> {
    u32::try_from(count)
        .ok()
        .filter(|_| count <= MAX_DEVICES)
        .ok_or(DevicesError::TooMany { resource, count })
}

/// The annotation of Enflame's dynamic slicing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Drs {
    #[serde(deserialize_with = "nullable")]
    devices: Vec<DrsDevice>,
    #[serde(deserialize_with = "nullable")]
    profiles: std::collections::BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DrsDevice {
    #[serde(deserialize_with = "nullable")]
    index: String,
    capacity: Value,
}

/// Parses Enflame's annotation. A device has the memory of its largest profile, and a slot per
/// slice. It is handed out in the slices that its profiles describe.
pub fn enflame_drs(node: &str, text: &str) -> Result<Vec<RegisteredDevice>, RegisterError> {
    let drs: Drs = register::json(text.trim())?;
    let largest_gib =
        drs.profiles.keys().filter_map(|name| profile(name)).map(|(_, gib)| gib).max();
    let device = |(wire, position): (&DrsDevice, u32)| {
        let field = |field, value: &str, expected| RegisterError::Field {
            device: position.to_string(),
            field,
            value: quoted(value),
            expected,
        };
        let index = match wire.index.trim() {
            "" => position,
            index => index
                .parse()
                .map_err(|_| field("index", index, "a whole number that is not negative"))?,
        };
        let capacity = match &wire.capacity {
            Value::String(text) => text.trim().parse().ok(),
            number => number.as_u64(),
        };
        let slots = capacity.filter(|slots| *slots > 0).ok_or_else(|| {
            field("capacity", &wire.capacity.to_string(), "a positive whole number")
        })?;
        let named = drs.profiles.keys().filter_map(|name| profile(name));
        let mut mig_profiles: Vec<MigProfile> =
            named.filter_map(|(slices, gib)| drs_profile(slices, gib, slots)).collect();
        mig_profiles.sort_by_key(|profile| profile.slice_count);
        Ok(RegisteredDevice {
            id: format!("{node}-enflame-drs-{index}"),
            index,
            slots,
            mig_profiles,
            memory_mib: largest_gib.map(|gib| u64::from(gib) * 1024).filter(|mib| *mib > 0),
            cores: Some(100),
            model: "Enflame".to_owned(),
            numa: Some(0),
            healthy: true,
            ..RegisteredDevice::default()
        })
    };
    checked(drs.devices.iter().zip(0..).map(device).collect::<Result<_, _>>()?)
}

/// Describes the slices of one size of a device that has `capacity` slices: they can begin anywhere.
/// `None` if the device has fewer.
fn drs_profile(slices: u32, gib: u32, capacity: u64) -> Option<MigProfile> {
    let last = u32::try_from(capacity).ok()?.checked_sub(slices).filter(|_| slices > 0)?;
    Some(MigProfile {
        name: slices_name(u64::from(slices)),
        memory_mib: u64::from(gib) * 1024,
        core: 100 * u64::from(slices) / capacity,
        slice_count: slices,
        placements: (0..=last).map(|start| Placement { start, size: slices }).collect(),
    })
}

/// Returns the name of a profile by the number of its slices, which is how requests name it.
pub fn slices_name(slices: u64) -> String {
    format!("{slices}g")
}

/// Parses slices and GiB of a profile such as `3g.20gb`.
pub fn profile(name: &str) -> Option<(u32, u32)> {
    let (slices, memory) = name.trim().split_once('.')?;
    let slices = slices.strip_suffix(['g', 'G'])?.parse().ok()?;
    let memory = memory.to_ascii_lowercase();
    Some((slices, memory.strip_suffix("gb")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::vendor::VENDORS;
    use super::*;

    fn read(
        word: &str,
        capacity: &[(&'static str, &'static str)],
    ) -> Result<Option<Vec<RegisteredDevice>>, DevicesError> {
        let vendor = Vendor::by_name(word).unwrap();
        devices(vendor, "n", &StringMap::default(), &capacity.iter().copied().collect())
    }

    /// Id, slots, memory, cores and NUMA node of a device.
    type Row = (String, u64, Option<u64>, Option<u64>, Option<u32>);

    fn brief(devices: Result<Option<Vec<RegisteredDevice>>, DevicesError>) -> Vec<Row> {
        let row = |device: RegisteredDevice| {
            (device.id, device.slots, device.memory_mib, device.cores, device.numa)
        };
        devices.unwrap().unwrap_or_default().into_iter().map(row).collect()
    }

    #[test]
    fn devices_follow_from_capacity_by_each_vendors_rule() {
        let mlu = read(
            "MLU",
            &[("cambricon.com/mlu.smlu.vcore", "200"), ("cambricon.com/mlu.smlu.vmemory", "192")],
        );
        assert_eq!(
            brief(mlu),
            [
                ("n-cambricon-mlu-0".into(), 100, Some(24576), Some(100), Some(0)),
                ("n-cambricon-mlu-1".into(), 100, Some(24576), Some(100), Some(0)),
            ]
        );
        let mthreads = read(
            "Mthreads",
            &[("mthreads.com/sgpu-core", "16"), ("mthreads.com/sgpu-memory", "96")],
        );
        assert_eq!(brief(mthreads), [("n-mthreads-0".into(), 100, Some(49152), Some(16), Some(0))]);
        let metax = read("Metax-GPU", &[("metax-tech.com/gpu", "1")]);
        assert_eq!(brief(metax), [("n-metax-0".into(), 1, None, None, Some(0))]);
        let gcu = read("GCU", &[("enflame.com/gcu", "1")]);
        assert_eq!(brief(gcu), [("n-enflame-0".into(), 1, None, None, Some(0))]);
        let kunlun = brief(read("kunlun", &[("kunlunxin.com/xpu", "8")]));
        assert_eq!(
            kunlun.iter().map(|row| row.4.unwrap()).collect::<Vec<_>>(),
            [0, 0, 0, 0, 1, 1, 1, 1]
        );
        let neuron = read(
            "AWSNeuron",
            &[("aws.amazon.com/neuron", "2"), ("aws.amazon.com/neuroncore", "4")],
        );
        assert_eq!(brief(neuron)[1], ("n-AWSNeuron-1".into(), 2, None, Some(2), Some(0)));
        let bare = read("AWSNeuron", &[("aws.amazon.com/neuron", "1")]);
        assert_eq!(brief(bare), [("n-AWSNeuron-0".into(), 1, None, None, Some(0))]);
    }

    #[test]
    fn a_node_without_anything_of_a_vendor_has_none_of_its_devices() {
        for vendor in VENDORS {
            assert_eq!(
                devices(vendor, "n", &StringMap::default(), &Resources::default()),
                Ok(None),
                "{}",
                vendor.name
            );
        }
        assert_eq!(read("Metax-GPU", &[("metax-tech.com/gpu", "0")]), Ok(None));
    }

    #[test]
    fn contradictions_in_capacity_are_rejected() {
        let core = "cambricon.com/mlu.smlu.vcore";
        for (word, capacity, part) in [
            ("MLU", &[(core, "150")][..], "150, which is no whole number of cards of 100"),
            (
                "MLU",
                &[(core, "1.5k"), ("cambricon.com/mlu.smlu.vmemory", "x")],
                "vmemory: \"x\" is not a number",
            ),
            ("MLU", &[(core, "1e15")], "no node has more than 1024"),
            (
                "Metax-GPU",
                &[("metax-tech.com/gpu", "18446744073709551615")],
                "no node has more than 1024",
            ),
            ("kunlun", &[("kunlunxin.com/xpu", "-1")], "kunlunxin.com/xpu: \"-1\" is negative"),
            (
                "AWSNeuron",
                &[("aws.amazon.com/neuron", "2"), ("aws.amazon.com/neuroncore", "3")],
                "neuroncore is 3",
            ),
        ] {
            let error = read(word, capacity).unwrap_err().to_string();
            assert!(error.contains(part), "{word}: {error}");
        }
    }

    #[test]
    fn enflames_annotation_is_read() {
        let text = r#"{"devices":[{"index":"0","minor":"0","capacity":6},{"index":"3","capacity":"6"}],"profiles":{"1g.6gb":"0","3g.20gb":"1","6g.40gb":"2"}}"#;
        let read = enflame_drs("n", text).unwrap();
        assert_eq!((read[0].slots, read[0].memory_mib), (6, Some(40960)));
        let profiles = read[0].mig_profiles.iter();
        let profiles: Vec<_> =
            profiles.map(|one| (&*one.name, one.memory_mib, one.placements.len())).collect();
        assert_eq!(profiles, [("1g", 6144, 6), ("3g", 20480, 4), ("6g", 40960, 1)]);
        assert_eq!(read[1].id, "n-enflame-drs-3");
        assert_eq!(
            enflame_drs("n", r#"{"devices":[{"capacity":1}]}"#).unwrap()[0].memory_mib,
            None
        );
        for text in [
            r#"{"devices":[{"capacity":0}]}"#,
            r#"{"devices":[{"capacity":-6}]}"#,
            r#"{"devices":[{"index":"x","capacity":6}]}"#,
            r#"{"devices":[{"index":"1","capacity":6},{"index":"1","capacity":6}]}"#,
            "[]",
        ] {
            assert!(enflame_drs("n", text).is_err(), "{text}");
        }
        assert_eq!(profile("3g.20gb"), Some((3, 20)));
        assert_eq!(profile("3g"), None);
    }

    #[test]
    fn an_error_names_the_annotation() {
        let annotations = StringMap::from_iter([("hami.io/node-nvidia-register", "junk")]);
        let nvidia = Vendor::by_name("NVIDIA").unwrap();
        let error =
            devices(nvidia, "n", &annotations, &Resources::default()).unwrap_err().to_string();
        assert!(
            error.starts_with("annotation hami.io/node-nvidia-register: \"junk\" lists no device"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", amount in "[0-9]{0,25}[a-zA-Z]{0,2}") {
            let _ = (enflame_drs("n", &text), profile(&text));
            for vendor in VENDORS {
                let names = vendor.resource_names().map(|name| (name, amount.as_str()));
                let _ = devices(vendor, "n", &StringMap::default(), &names.collect());
            }
        }
    }
}
