//! The devices that HAMi has written on a pod.
//!
//! The annotation is a list of containers, init containers first, each ended by a semicolon; a
//! container is a list of devices, each ended by a colon; a device is `uuid,type,MiB,cores`. Users
//! can write it too: the caller decides whether to trust it.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::object::StringMap;
use crate::quantity::quoted;

use super::register::{Placement, RegisterError, json};
use super::vendor::{VENDORS, Vendor};

/// Pod annotation: the node that HAMi chose.
pub const NODE: &str = "hami.io/vgpu-node";

/// Pod annotation: the time of HAMi's decision, in seconds.
pub const TIME: &str = "hami.io/vgpu-time";

/// Pod annotation: the progress of binding, `allocating`, `success` or `failed`.
pub const BIND_PHASE: &str = "hami.io/bind-phase";

/// Pod annotation: the MIG instances of the pod.
pub const MIG_ALLOCATIONS: &str = "hami.io/vgpu-mig-allocations";

/// The devices of each container, by its position.
pub type Containers = Vec<Vec<AllocatedDevice>>;

/// A device that was allocated to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatedDevice {
    pub uuid: String,
    /// Vendor or model, as HAMi wrote it.
    pub kind: String,
    pub memory_mib: u64,
    pub cores: u64,
    /// The MIG instance, which HAMi before 2.10 wrote behind the UUID.
    pub mig: Option<MigSuffix>,
}

/// A MIG instance as older versions wrote it: `[template-position]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigSuffix {
    /// The index of the device's geometry.
    pub template: u32,
    /// The index of the instance in it.
    pub position: u32,
}

/// An unreadable annotation. The caller names pod and annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocatedError {
    #[error(
        "\"{device}\" of container {container} has {count} fields; a device has uuid, type, memory and cores"
    )]
    FieldCount { container: usize, device: String, count: usize },
    #[error(
        "{field} of \"{device}\" in container {container} is \"{value}\", and must be 0 to {}",
        i32::MAX
    )]
    Number { container: usize, device: String, field: &'static str, value: String },
    #[error("container {container} is given something of a device without UUID")]
    NoUuid { container: usize },
    #[error("\"{uuid}\" in container {container} does not end in [template-position]")]
    MigSuffix { container: usize, uuid: String },
    #[error(transparent)]
    Json(RegisterError),
    /// Plimsoll's own booking.
    #[error("it is no booking: {0}")]
    Booking(String),
    #[error("the MIG instance of container {container}, device {device} is listed twice")]
    MigTwice { container: u32, device: u32 },
    #[error(
        "the MIG instance of container {container}, device {device} must have all of migUUID, gpuInstanceID and \
         computeInstanceID, or none"
    )]
    MigPartly { container: u32, device: u32 },
}

/// Parses an annotation of allocated devices, or of devices to allocate.
pub fn decode(text: &str) -> Result<Containers, AllocatedError> {
    text.split(';')
        .enumerate()
        .map(|(position, container)| decode_container(position, container))
        .collect()
}

/// Formats an annotation of allocated devices.
pub fn encode(containers: &[Vec<AllocatedDevice>]) -> String {
    let device = |device: &AllocatedDevice| {
        let mig =
            device.mig.map_or(String::new(), |mig| format!("[{}-{}]", mig.template, mig.position));
        format!("{}{mig},{},{},{}:", device.uuid, device.kind, device.memory_mib, device.cores)
    };
    containers
        .iter()
        .map(|container| container.iter().map(device).collect::<String>() + ";")
        .collect()
}

/// The annotations of one vendor on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorAllocations {
    pub vendor: &'static Vendor,
    pub allocated: Option<Result<Containers, AllocatedError>>,
    /// The devices that the device plugin has not handed out yet.
    pub to_allocate: Option<Result<Containers, AllocatedError>>,
}

/// Reads all annotations of HAMi on a pod, in the order of the vendor table.
pub fn read_all(annotations: &StringMap) -> Vec<VendorAllocations> {
    let read = |key: &str| annotations.get(key).map(decode);
    let of = |vendor: &'static Vendor| VendorAllocations {
        vendor,
        allocated: read(vendor.allocated),
        to_allocate: vendor.to_allocate.and_then(read),
    };
    VENDORS
        .iter()
        .map(of)
        .filter(|written| written.allocated.is_some() || written.to_allocate.is_some())
        .collect()
}

fn decode_container(position: usize, text: &str) -> Result<Vec<AllocatedDevice>, AllocatedError> {
    let devices = text.split(':').map(str::trim).filter(|device| !device.is_empty());
    devices.filter_map(|device| decode_device(position, device).transpose()).collect()
}

/// Parses a device; `None` for the entry that version 2.4 wrote for a container without devices.
fn decode_device(container: usize, text: &str) -> Result<Option<AllocatedDevice>, AllocatedError> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let &[uuid, kind, memory, cores, ..] = fields.as_slice() else {
        return Err(AllocatedError::FieldCount {
            container,
            device: quoted(text),
            count: fields.len(),
        });
    };
    let number = |field, value: &str| {
        let number = value.parse::<i32>().ok().and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| AllocatedError::Number {
            container,
            device: quoted(uuid),
            field,
            value: quoted(value),
        })
    };
    let (memory_mib, cores) = (number("memory", memory)?, number("cores", cores)?);
    if uuid.is_empty() {
        return if memory_mib == 0 && cores == 0 {
            Ok(None)
        } else {
            Err(AllocatedError::NoUuid { container })
        };
    }
    let (uuid, mig) = split_mig(uuid)
        .ok_or_else(|| AllocatedError::MigSuffix { container, uuid: quoted(uuid) })?;
    Ok(Some(AllocatedDevice {
        uuid: uuid.to_owned(),
        kind: kind.to_owned(),
        memory_mib,
        cores,
        mig,
    }))
}

fn split_mig(uuid: &str) -> Option<(&str, Option<MigSuffix>)> {
    let Some((uuid, suffix)) = uuid.split_once('[') else {
        return Some((uuid, None));
    };
    let (template, position) = suffix.strip_suffix(']')?.split_once('-')?;
    let mig = MigSuffix { template: template.parse().ok()?, position: position.parse().ok()? };
    (!uuid.is_empty()).then_some((uuid, Some(mig)))
}

/// A MIG instance of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigAllocation {
    pub container_index: u32,
    pub device_index: u32,
    #[serde(rename = "gpuUUID")]
    pub gpu_uuid: String,
    /// The profile, such as `2g.10gb`.
    pub profile: String,
    pub placement: Placement,
    /// The UUID of the instance, once the runtime has created it.
    #[serde(rename = "migUUID")]
    pub mig_uuid: Option<String>,
    #[serde(rename = "gpuInstanceID")]
    pub gpu_instance_id: Option<u32>,
    #[serde(rename = "computeInstanceID")]
    pub compute_instance_id: Option<u32>,
}

/// Parses the MIG instances of a pod.
pub fn decode_mig(text: &str) -> Result<Vec<MigAllocation>, AllocatedError> {
    let instances: Vec<MigAllocation> = json(text.trim()).map_err(AllocatedError::Json)?;
    let mut seen = BTreeSet::new();
    for instance in &instances {
        let (container, device) = (instance.container_index, instance.device_index);
        if !seen.insert((container, device)) {
            return Err(AllocatedError::MigTwice { container, device });
        }
        let runtime = [
            instance.mig_uuid.is_some(),
            instance.gpu_instance_id.is_some(),
            instance.compute_instance_id.is_some(),
        ];
        if runtime.contains(&true) && runtime.contains(&false) {
            return Err(AllocatedError::MigPartly { container, device });
        }
    }
    Ok(instances)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn device(uuid: &str, kind: &str, memory_mib: u64, cores: u64) -> AllocatedDevice {
        AllocatedDevice { uuid: uuid.into(), kind: kind.into(), memory_mib, cores, mig: None }
    }

    #[test]
    fn annotations_are_read_and_written_as_table_a2_says() {
        assert_eq!(encode(&[]), "");
        assert_eq!(decode(""), Ok(vec![vec![]]));
        let one = vec![device("U", "T", 1000, 30)];
        assert_eq!(encode(std::slice::from_ref(&one)), "U,T,1000,30:;");
        assert_eq!(decode("U,T,1000,30:;"), Ok(vec![one.clone(), vec![]]));
        assert_eq!(
            decode("uuid,type,100:;"),
            Err(AllocatedError::FieldCount {
                container: 0,
                device: "uuid,type,100".into(),
                count: 3
            })
        );
    }

    #[test]
    fn positions_of_containers_are_kept() {
        let gpu = |uuid| device(uuid, "NVIDIA", 500, 3);
        for (text, expected) in [
            ("a,NVIDIA,500,3:;b,NVIDIA,500,3:;", vec![vec![gpu("a")], vec![gpu("b")], vec![]]),
            ("a,NVIDIA,500,3:b,NVIDIA,500,3:;", vec![vec![gpu("a"), gpu("b")], vec![]]),
            (";a,NVIDIA,500,3:;", vec![vec![], vec![gpu("a")], vec![]]),
            (";;a,NVIDIA,500,3:;", vec![vec![], vec![], vec![gpu("a")], vec![]]),
            (",,0,0:;a,NVIDIA,500,3:;", vec![vec![], vec![gpu("a")], vec![]]),
            ("a,NVIDIA,500,3,extra:;", vec![vec![gpu("a")], vec![]]),
            (";;;", vec![vec![]; 4]),
        ] {
            assert_eq!(decode(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn older_versions_wrote_the_mig_instance_behind_the_uuid() {
        let read = decode("GPU-9366[7-9],NVIDIA,500,3:;").unwrap();
        assert_eq!(read[0][0].uuid, "GPU-9366");
        assert_eq!(read[0][0].mig, Some(MigSuffix { template: 7, position: 9 }));
        for text in [
            "GPU[7],T,1,1:",
            "GPU[7-9,T,1,1:",
            "GPU[a-b],T,1,1:",
            "GPU[-1-2],T,1,1:",
            "[1-2],T,1,1:",
        ] {
            assert!(matches!(decode(text), Err(AllocatedError::MigSuffix { .. })), "{text}");
        }
    }

    #[test]
    fn amounts_that_would_lower_or_overflow_a_sum_are_rejected() {
        // HAMi takes a negative amount, which lowers what it believes the card to hold.
        for (text, field) in [
            ("a,NVIDIA,-500,3:;", "memory"),
            ("a,NVIDIA,500,-3:;", "cores"),
            ("a,NVIDIA,2147483648,3:;", "memory"),
            ("a,NVIDIA,99999999999999999999999,3:;", "memory"),
            ("a,NVIDIA,1.5,3:;", "memory"),
            ("a,NVIDIA,,3:;", "memory"),
        ] {
            assert!(
                matches!(decode(text), Err(AllocatedError::Number { field: found, .. }) if found == field),
                "{text}"
            );
        }
        assert_eq!(decode(",NVIDIA,500,3:;"), Err(AllocatedError::NoUuid { container: 0 }));
    }

    #[test]
    fn mig_instances_are_whole_and_unique() {
        let full = r#"{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb","placement":{"start":0,"size":2},
            "migUUID":"MIG-a","gpuInstanceID":4,"computeInstanceID":0}"#;
        let read = decode_mig(&format!("[{full}]")).unwrap();
        assert_eq!(
            (read[0].placement, read[0].compute_instance_id),
            (Placement { start: 0, size: 2 }, Some(0))
        );
        let partly = full.replace("\"gpuInstanceID\":4,", "");
        assert!(matches!(
            decode_mig(&format!("[{partly}]")),
            Err(AllocatedError::MigPartly { .. })
        ));
        assert!(matches!(
            decode_mig(&format!("[{full},{full}]")),
            Err(AllocatedError::MigTwice { .. })
        ));
        assert!(matches!(decode_mig("{}"), Err(AllocatedError::Json(_))));
    }

    #[test]
    fn the_annotations_of_every_vendor_are_found() {
        let pairs = VENDORS.iter().map(|vendor| (vendor.allocated, "U,T,1,1:;"));
        let found =
            read_all(&pairs.chain([("hami.io/vgpu-devices-to-allocate", "junk")]).collect());
        assert_eq!(found.len(), VENDORS.len());
        assert!(found[0].to_allocate.as_ref().is_some_and(Result::is_err));
        assert!(found.iter().all(|written| written.allocated.as_ref().is_some_and(Result::is_ok)));
        assert_eq!(read_all(&StringMap::default()), []);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = (decode(&text), decode_mig(&text));
        }

        #[test]
        fn nothing_that_looks_like_devices_makes_it_panic(text in "[-0-9a-z,:;\\[\\]]{0,60}") {
            let _ = decode(&text);
        }

        #[test]
        fn what_is_written_is_read_again(
            containers in prop::collection::vec(
                prop::collection::vec(
                    ("[A-Z][A-Za-z0-9-]{0,12}", "[A-Za-z0-9]{0,8}", 0..=i32::MAX as u64, 0u64..=100, prop::option::of((0u32.., 0u32..))),
                    0..3,
                ),
                0..4,
            )
        ) {
            let containers: Containers = containers
                .into_iter()
                .map(|devices| devices.into_iter().map(|(uuid, kind, memory_mib, cores, mig)| AllocatedDevice {
                    uuid, kind, memory_mib, cores, mig: mig.map(|(template, position)| MigSuffix { template, position }),
                }).collect())
                .collect();
            let mut expected = containers.clone();
            expected.push(vec![]);
            prop_assert_eq!(decode(&encode(&containers)), Ok(expected));
        }
    }
}
