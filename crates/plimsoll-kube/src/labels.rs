//! The labels of NVIDIA's GPU feature discovery.
//!
//! One set of labels describes all GPUs of a node; on a node with different models it is right for
//! one of them at most. Each value is read by itself; comparing them with each other and with the
//! node's capacity is left to the caller.

use std::collections::BTreeMap;

use crate::object::StringMap;
use crate::quantity::quoted;

/// The number of physical GPUs.
pub const COUNT: &str = "nvidia.com/gpu.count";
/// The number of replicas that the device plugin makes of each GPU.
pub const REPLICAS: &str = "nvidia.com/gpu.replicas";
/// The memory of one physical GPU, in MiB.
pub const MEMORY: &str = "nvidia.com/gpu.memory";
pub const PRODUCT: &str = "nvidia.com/gpu.product";
/// The sharing strategy of the device plugin.
pub const SHARING_STRATEGY: &str = "nvidia.com/gpu.sharing-strategy";
/// The strategy by which MIG instances are advertised.
pub const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// The prefix before the profile in labels of MIG instances.
const MIG_PREFIX: &str = "nvidia.com/mig-";

/// One TiB in MiB: more than any GPU has, and a sign that a tool wrote bytes.
const SUSPICIOUS_MIB: u64 = 1 << 20;

/// A value that may be missing or unreadable.
pub type Field<T> = Option<Result<T, LabelError>>;

/// The labels that describe the GPUs of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureLabels {
    /// Physical GPUs; under the MIG strategy `single`, instances.
    pub count: Field<u64>,
    /// Replicas of each GPU; 0 for GPUs that cannot be used whole.
    pub replicas: Field<u64>,
    pub memory_mib: Field<u64>,
    pub product: Option<String>,
    pub sharing: Option<Sharing>,
    pub mig_strategy: Field<MigStrategy>,
    /// MIG instances by profile, such as `1g.5gb`.
    pub mig: BTreeMap<String, MigLabels>,
}

/// The sharing strategy of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sharing {
    None,
    /// Tenants take turns; their memory is not limited.
    TimeSlicing,
    /// Tenants run concurrently, each with a memory limit.
    Mps,
    /// A strategy that is not known here.
    Other(String),
}

/// The strategy by which MIG instances are advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigStrategy {
    None,
    /// As GPUs, all of one profile.
    Single,
    /// Each profile as its own resource.
    Mixed,
}

/// The labels of the MIG instances of one profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MigLabels {
    pub count: Field<u64>,
    pub memory_mib: Field<u64>,
    pub replicas: Field<u64>,
}

/// An invalid label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("label {label} is \"{value}\", and must be a whole number")]
    NotANumber { label: String, value: String },
    #[error("label {label} is 0; a GPU without memory does not exist, so its memory is not known")]
    NoMemory { label: String },
    #[error(
        "label {label} is {mib} MiB, more than any GPU has; it looks like bytes, and must be MiB"
    )]
    Bytes { label: String, mib: u64 },
    #[error(
        "label {label} is {mib} MiB, but an instance of MIG profile {profile} has about {gigabytes} GB"
    )]
    OtherThanProfile { label: String, mib: u64, profile: String, gigabytes: u64 },
    #[error("label {label} is \"{value}\", and must be {expected}")]
    Unknown { label: String, value: String, expected: &'static str },
}

impl FeatureLabels {
    /// Reads the labels of a node.
    pub fn read(labels: &StringMap) -> FeatureLabels {
        // Under the MIG strategy `single` an instance is labelled as if it were a card.
        let profile = labels.get(PRODUCT).and_then(|product| Some(product.split_once("-MIG-")?.1));
        FeatureLabels {
            count: labels.get(COUNT).map(|value| number(COUNT, value)),
            replicas: labels.get(REPLICAS).map(|value| number(REPLICAS, value)),
            memory_mib: labels.get(MEMORY).map(|value| match profile {
                Some(profile) => instance_memory(MEMORY, value, profile),
                None => memory(MEMORY, value),
            }),
            product: labels.get(PRODUCT).map(str::to_owned),
            sharing: labels.get(SHARING_STRATEGY).map(sharing),
            mig_strategy: labels.get(MIG_STRATEGY).map(mig_strategy),
            mig: mig(labels),
        }
    }

    /// Returns true if no label describes GPUs.
    pub fn is_empty(&self) -> bool {
        *self == FeatureLabels::default()
    }
}

fn number(label: &str, value: &str) -> Result<u64, LabelError> {
    value
        .trim()
        .parse()
        .map_err(|_| LabelError::NotANumber { label: label.to_owned(), value: quoted(value) })
}

fn memory(label: &str, value: &str) -> Result<u64, LabelError> {
    match number(label, value)? {
        0 => Err(LabelError::NoMemory { label: label.to_owned() }),
        mib if mib >= SUSPICIOUS_MIB => Err(LabelError::Bytes { label: label.to_owned(), mib }),
        mib => Ok(mib),
    }
}

/// Parses the memory of a MIG instance, which must be about that of its profile.
///
/// The name of a profile has its memory in GB, rounded; what feature discovery writes for it is
/// between nine tenths of that number of GiB and all of it. Labels have been seen with the memory
/// of another profile, and with that of the whole card.
fn instance_memory(label: &str, value: &str, profile: &str) -> Result<u64, LabelError> {
    let mib = memory(label, value)?;
    let Some(gigabytes) = gigabytes_of(profile) else { return Ok(mib) };
    let named = gigabytes.saturating_mul(1024);
    if mib >= named / 4 * 3 && mib <= named.saturating_add(1024) {
        return Ok(mib);
    }
    let (label, profile) = (label.to_owned(), profile.to_owned());
    Err(LabelError::OtherThanProfile { label, mib, profile, gigabytes })
}

/// Returns the memory in the name of a MIG profile: 10 of `1g.10gb.me` and of `1g.10gb-SHARED`.
fn gigabytes_of(profile: &str) -> Option<u64> {
    let (before, _) = profile.split_once("gb")?;
    before.rsplit_once('.')?.1.parse().ok()
}

fn sharing(value: &str) -> Sharing {
    match value.trim() {
        "none" | "" => Sharing::None,
        "time-slicing" => Sharing::TimeSlicing,
        "mps" => Sharing::Mps,
        other => Sharing::Other(other.to_owned()),
    }
}

fn mig_strategy(value: &str) -> Result<MigStrategy, LabelError> {
    match value.trim() {
        "none" | "" => Ok(MigStrategy::None),
        "single" => Ok(MigStrategy::Single),
        "mixed" => Ok(MigStrategy::Mixed),
        other => Err(LabelError::Unknown {
            label: MIG_STRATEGY.to_owned(),
            value: quoted(other),
            expected: "none, single or mixed",
        }),
    }
}

fn mig(labels: &StringMap) -> BTreeMap<String, MigLabels> {
    let mut profiles: BTreeMap<String, MigLabels> = BTreeMap::new();
    for (label, value) in labels.iter() {
        let Some((profile, property)) =
            label.strip_prefix(MIG_PREFIX).and_then(|rest| rest.rsplit_once('.'))
        else {
            continue;
        };
        // Other properties, such as `slices.gi`, are not needed.
        if !matches!(property, "count" | "memory" | "replicas") {
            continue;
        }
        let entry = profiles.entry(profile.to_owned()).or_default();
        match property {
            "count" => entry.count = Some(number(label, value)),
            "memory" => entry.memory_mib = Some(instance_memory(label, value, profile)),
            _ => entry.replicas = Some(number(label, value)),
        }
    }
    profiles
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(labels: &[(&str, &str)]) -> FeatureLabels {
        FeatureLabels::read(&labels.iter().copied().collect())
    }

    #[test]
    fn the_labels_of_a_time_sliced_node_are_read() {
        let labels = read(&[
            (COUNT, "1"),
            (REPLICAS, "100"),
            (MEMORY, "32607"),
            (PRODUCT, "NVIDIA-Thor-SHARED"),
            (SHARING_STRATEGY, "time-slicing"),
            (MIG_STRATEGY, "none"),
            ("nvidia.com/gpu.family", "blackwell"),
        ]);
        let expected = FeatureLabels {
            count: Some(Ok(1)),
            replicas: Some(Ok(100)),
            memory_mib: Some(Ok(32607)),
            product: Some("NVIDIA-Thor-SHARED".into()),
            sharing: Some(Sharing::TimeSlicing),
            mig_strategy: Some(Ok(MigStrategy::None)),
            mig: BTreeMap::new(),
        };
        assert_eq!(labels, expected);
        assert!(read(&[("kubernetes.io/hostname", "n")]).is_empty());
    }

    #[test]
    fn mig_instances_are_read_by_profile() {
        let labels = read(&[
            (MIG_STRATEGY, "mixed"),
            ("nvidia.com/mig.capable", "true"),
            ("nvidia.com/mig-1g.5gb.count", "2"),
            ("nvidia.com/mig-1g.5gb.memory", "5120"),
            ("nvidia.com/mig-1g.5gb.slices.gi", "1"),
            ("nvidia.com/mig-1g.10gb.me.replicas", "x"),
            ("nvidia.com/mig-7g", "1"),
        ]);
        assert_eq!(labels.mig.keys().collect::<Vec<_>>(), ["1g.10gb.me", "1g.5gb"]);
        assert_eq!(
            labels.mig["1g.5gb"],
            MigLabels { count: Some(Ok(2)), memory_mib: Some(Ok(5120)), replicas: None }
        );
        assert!(matches!(
            labels.mig["1g.10gb.me"].replicas,
            Some(Err(LabelError::NotANumber { .. }))
        ));
    }

    #[test]
    fn a_label_that_cannot_be_believed_is_an_error_of_its_own() {
        for (label, value, part) in [
            (MEMORY, "32Gi", "\"32Gi\", and must be a whole number"),
            (MEMORY, "-1", "must be a whole number"),
            (MEMORY, "0", "its memory is not known"),
            (MEMORY, "1048576", "looks like bytes, and must be MiB"),
            (MEMORY, "34190917632", "34190917632 MiB, more than any GPU has"),
        ] {
            let labels = read(&[(label, value), (COUNT, "2")]);
            let error = labels.memory_mib.unwrap().unwrap_err().to_string();
            assert!(
                error.starts_with("label nvidia.com/gpu.memory") && error.contains(part),
                "{error}"
            );
            assert_eq!(labels.count, Some(Ok(2)));
        }
        assert_eq!(read(&[(MEMORY, "1048575")]).memory_mib, Some(Ok(1_048_575)));
        assert_eq!(
            read(&[(SHARING_STRATEGY, "magic")]).sharing,
            Some(Sharing::Other("magic".into()))
        );
        assert!(
            read(&[(MIG_STRATEGY, "magic")]).mig_strategy.is_some_and(|strategy| strategy.is_err())
        );
    }

    #[test]
    fn the_memory_of_an_instance_must_be_about_that_of_its_profile() {
        let of = |profile: &str, mib: &str| {
            let label = format!("{MIG_PREFIX}{profile}.memory");
            read(&[(label.as_str(), mib)]).mig[profile].memory_mib.clone().expect("it is there")
        };
        for (profile, mib) in [
            ("1g.5gb", "4864"),
            ("1g.5gb.me", "5120"),
            ("1g.18gb", "16384"),
            ("3g.47gb", "47488"),
            ("7g.80gb", "81559"),
            ("7g.141gb", "143771"),
            ("other", "1"),
        ] {
            assert_eq!(of(profile, mib), Ok(mib.parse().unwrap()), "{profile}");
        }
        for (profile, mib) in [("1g.5gb", "20096"), ("1g.5gb", "2048"), ("3g.20gb.me", "40960")] {
            let error = of(profile, mib).unwrap_err().to_string();
            assert!(error.contains(mib) && error.contains("has about"), "{error}");
        }
        let single = [(PRODUCT, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"), (MEMORY, "40960")];
        assert!(read(&single).memory_mib.unwrap().is_err(), "the memory of the whole card");
    }

    proptest! {
        #[test]
        fn no_label_makes_it_panic(suffix in "\\PC{0,20}", value in "\\PC*") {
            for label in [COUNT, REPLICAS, MEMORY, SHARING_STRATEGY, MIG_STRATEGY, &format!("{MIG_PREFIX}{suffix}")] {
                let _ = read(&[(label, &value)]);
            }
        }
    }
}
