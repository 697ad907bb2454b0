//! KAI's annotations and labels: shares of GPUs, and the physical GPU of a share.

use std::collections::BTreeSet;

use crate::object::{Pod, StringMap};
use crate::quantity::{Quantity, QuantityError, quoted};

/// Pod annotation: MiB of each GPU.
pub const GPU_MEMORY: &str = "gpu-memory";
/// Pod annotation: a fraction of each GPU.
pub const GPU_FRACTION: &str = "gpu-fraction";
/// Pod annotation: the number of GPUs, each with the same share.
pub const NUM_DEVICES: &str = "gpu-fraction-num-devices";
/// Pod annotation: the container that gets the GPUs.
pub const CONTAINER_NAME: &str = "gpu-fraction-container-name";
/// Pod label: the GPU group of the pod. A pod on several GPUs has one label per group, with the
/// group after a slash.
pub const GPU_GROUP: &str = "runai-gpu-group";
/// The namespaces of reservation pods, each with the prefix of their names there: KAI's, and
/// run:ai's.
const RESERVATION_NAMES: &[(&str, &str)] = &[
    ("kai-resource-reservation", "gpu-reservation-"),
    ("runai-reservation", "runai-reservation-gpu-"),
];
/// Annotation of a reservation pod with the UUID (not the index) of its GPU.
pub const RESERVED_UUID: &str = "run.ai/reserve_for_gpu_index";
/// Default label of nodes and pods that names their pool.
pub const NODE_POOL: &str = "kai.scheduler/node-pool";

/// The label of reservation pods, in whichever namespace KAI is configured to create them.
const APP: &str = "app";
/// The values of [`APP`] on reservation pods: KAI's, and run:ai's.
const RESERVATION_APPS: &[&str] = &["kai-resource-reservation", "runai-reservation"];
/// The scheduler names of KAI and of run:ai, and the label of KAI's queues.
const SCHEDULERS: &[&str] = &["kai-scheduler", "runai-scheduler"];
const QUEUE: &str = "kai.scheduler/queue";

/// The maximum number of decimal places of a fraction: finer than one byte of any GPU.
const MAX_PLACES: usize = 18;

/// The GPU share that a pod requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRequest {
    pub share: Share,
    pub devices: u32,
    /// The container that gets the GPUs; the first one if not given.
    pub container: Option<String>,
}

/// A share of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// At least 1 MiB.
    Mib(u64),
    Fraction(Fraction),
}

/// An exact fraction between 0 and 1, exclusively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    pub numerator: u64,
    pub denominator: u64,
}

/// An invalid request for a share. Each variant names the annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KaiError {
    #[error("annotation {GPU_MEMORY}: {0}")]
    Memory(QuantityError),
    #[error("annotation {GPU_MEMORY} is 0, and must be a positive number of MiB")]
    NoMemory,
    #[error(
        "annotation {GPU_FRACTION} is \"{value}\", and must be a decimal number above 0 and below 1, such as 0.5"
    )]
    Fraction { value: String },
    #[error(
        "annotations {GPU_MEMORY} (\"{memory}\") and {GPU_FRACTION} (\"{fraction}\") are both there; say one of them"
    )]
    Both { memory: String, fraction: String },
    #[error("annotation {NUM_DEVICES} is \"{value}\", and must be a positive whole number")]
    Devices { value: String },
    #[error(
        "annotation {key} is there without {GPU_MEMORY} or {GPU_FRACTION}; say how much of each GPU"
    )]
    NoShare { key: &'static str },
}

impl ShareRequest {
    /// Reads a pod's request; `None` if it has no annotation of KAI's.
    pub fn read(annotations: &StringMap) -> Result<Option<ShareRequest>, KaiError> {
        let share = match (annotations.get(GPU_MEMORY), annotations.get(GPU_FRACTION)) {
            (Some(memory), Some(fraction)) => {
                return Err(KaiError::Both { memory: quoted(memory), fraction: quoted(fraction) });
            }
            (Some(memory), None) => Share::Mib(memory_mib(memory)?),
            (None, Some(fraction)) => Share::Fraction(Fraction::parse(fraction)?),
            (None, None) => {
                let alone = [NUM_DEVICES, CONTAINER_NAME]
                    .into_iter()
                    .find(|key| annotations.contains_key(key));
                return alone.map_or(Ok(None), |key| Err(KaiError::NoShare { key }));
            }
        };
        let container =
            annotations.get(CONTAINER_NAME).map(str::trim).filter(|name| !name.is_empty());
        Ok(Some(ShareRequest {
            share,
            devices: annotations.get(NUM_DEVICES).map_or(Ok(1), devices)?,
            container: container.map(str::to_owned),
        }))
    }
}

fn memory_mib(text: &str) -> Result<u64, KaiError> {
    let mib =
        Quantity::parse(text).and_then(|quantity| quantity.units(1)).map_err(KaiError::Memory)?;
    if mib == 0 { Err(KaiError::NoMemory) } else { Ok(mib) }
}

fn devices(text: &str) -> Result<u32, KaiError> {
    let number = Quantity::parse(text).and_then(|quantity| quantity.whole()).ok();
    let number = number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| KaiError::Devices { value: quoted(text) })
}

impl Fraction {
    /// Parses a decimal number above 0 and below 1, without floating point.
    pub fn parse(text: &str) -> Result<Fraction, KaiError> {
        Fraction::decimal(text).ok_or_else(|| KaiError::Fraction { value: quoted(text) })
    }

    fn decimal(text: &str) -> Option<Fraction> {
        let (whole, places) = text.split_once('.')?;
        let places = places.trim_end_matches('0');
        let digits = places.bytes().all(|byte| byte.is_ascii_digit());
        if !digits
            || places.is_empty()
            || places.len() > MAX_PLACES
            || !whole.bytes().all(|byte| byte == b'0')
        {
            return None;
        }
        let numerator: u64 = places.parse().ok()?;
        let denominator = 10u64.checked_pow(u32::try_from(places.len()).ok()?)?;
        let common = gcd(numerator, denominator);
        Some(Fraction { numerator: numerator / common, denominator: denominator / common })
    }

    /// Returns this fraction of an amount, rounded down.
    pub fn floor_of(self, amount: u64) -> u64 {
        let part =
            u128::from(amount) * u128::from(self.numerator) / u128::from(self.denominator.max(1));
        u64::try_from(part).unwrap_or(amount)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A pod that KAI starts to occupy a physical GPU and to learn its UUID. It uses no memory itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub group: Option<String>,
    pub node: Option<String>,
    /// `None` until the pod has written it.
    pub uuid: Option<String>,
}

/// Reads a reservation pod; `None` for every other pod.
pub fn reservation(pod: &Pod) -> Option<Reservation> {
    let metadata = &pod.metadata;
    let is_named = RESERVATION_NAMES.iter().any(|(namespace, prefix)| {
        metadata.namespace.as_deref() == Some(*namespace) && metadata.name.starts_with(prefix)
    });
    // A group belongs to it: the app label alone could hide the devices of any pod.
    let is_labelled = metadata.labels.get(APP).is_some_and(|app| RESERVATION_APPS.contains(&app))
        && metadata.labels.contains_key(GPU_GROUP);
    let is_one = is_named || is_labelled;
    let text = |value: Option<&str>| {
        value.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
    };
    is_one.then(|| Reservation {
        group: text(metadata.labels.get(GPU_GROUP)),
        node: text(pod.node_name()),
        uuid: text(metadata.annotations.get(RESERVED_UUID)),
    })
}

/// Returns true if KAI schedules the pod: by its scheduler name, or by the label of its queue.
pub fn is_scheduled_by_kai(pod: &Pod) -> bool {
    let scheduler = pod.spec.scheduler_name.as_deref();
    scheduler.is_some_and(|name| SCHEDULERS.contains(&name))
        || pod.metadata.labels.contains_key(QUEUE)
}

/// Returns the groups of the GPUs that a pod shares.
pub fn gpu_groups(labels: &StringMap) -> BTreeSet<String> {
    let group = |(label, value): (&str, &str)| match label.strip_prefix(GPU_GROUP)? {
        "" => Some(value.to_owned()),
        rest => rest.strip_prefix('/').map(str::to_owned),
    };
    labels.iter().filter_map(group).filter(|group| !group.trim().is_empty()).collect()
}

/// Adds GPU groups to the labels of a pod, where its labels name none.
pub(crate) fn join_gpu_groups<'a>(
    labels: &mut StringMap,
    groups: impl IntoIterator<Item = &'a str>,
) {
    if gpu_groups(labels).is_empty() {
        let own =
            groups.into_iter().map(|group| (format!("{GPU_GROUP}/{group}"), group.to_owned()));
        let others = labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        *labels = others.chain(own).collect();
    }
}

/// Returns the pool of a node or pod.
pub fn node_pool<'a>(labels: &'a StringMap, key: &str) -> Option<&'a str> {
    labels.get(key).filter(|pool| !pool.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(annotations: &[(&str, &str)]) -> Result<Option<ShareRequest>, KaiError> {
        ShareRequest::read(&annotations.iter().copied().collect())
    }

    #[test]
    fn memory_is_a_positive_number_of_mib_by_kubernetes_rules() {
        for text in ["8000", "8k", "8e3"] {
            let expected = ShareRequest { share: Share::Mib(8000), devices: 1, container: None };
            assert_eq!(ask(&[(GPU_MEMORY, text)]), Ok(Some(expected)), "{text}");
        }
        for text in ["0", "-1", "1500m", "1e9999", "NaN", "8000MB", "", "3Gi", "abc", " 8000"] {
            let error = ask(&[(GPU_MEMORY, text)]).expect_err(text).to_string();
            assert!(error.starts_with("annotation gpu-memory"), "{error}");
        }
        let error = ask(&[(GPU_MEMORY, "3Gi")]).unwrap_err().to_string();
        assert!(error.contains("3,221,225,472 MiB; write 3072"), "{error}");
    }

    #[test]
    fn a_fraction_is_exact() {
        for (text, numerator, denominator) in [
            ("0.5", 1, 2),
            (".25", 1, 4),
            ("0.33", 33, 100),
            ("00.10", 1, 10),
            ("0.000000000000000001", 1, 10u64.pow(18)),
        ] {
            assert_eq!(Fraction::parse(text), Ok(Fraction { numerator, denominator }), "{text}");
        }
        for text in [
            "0", "1", "0.0", "1.0", "1.5", "-0.5", "+0.5", "0.5.5", "5e-1", "NaN", "", ".", "0.",
            "50%", "500m", "0,5",
        ] {
            let error = Fraction::parse(text).expect_err(text).to_string();
            assert!(error.starts_with("annotation gpu-fraction is "), "{error}");
        }
        assert!(Fraction::parse(&format!("0.{}1", "0".repeat(18))).is_err());
        assert_eq!(Fraction::parse("0.5").unwrap().floor_of(32607), 16303);
        assert_eq!(
            Fraction::parse("0.999999999999999999").unwrap().floor_of(u64::MAX),
            u64::MAX - 19
        );
    }

    #[test]
    fn devices_and_container_go_with_a_share() {
        let full = ask(&[(GPU_FRACTION, "0.5"), (NUM_DEVICES, "2"), (CONTAINER_NAME, "main")])
            .unwrap()
            .unwrap();
        assert_eq!((full.devices, full.container.as_deref()), (2, Some("main")));
        for text in ["0", "-1", "1.5", "x", "", "4294967296"] {
            assert!(
                matches!(
                    ask(&[(GPU_FRACTION, "0.5"), (NUM_DEVICES, text)]),
                    Err(KaiError::Devices { .. })
                ),
                "{text}"
            );
        }
        assert_eq!(ask(&[(NUM_DEVICES, "2")]), Err(KaiError::NoShare { key: NUM_DEVICES }));
        assert_eq!(ask(&[]), Ok(None));
        let error = ask(&[(GPU_FRACTION, "0.5"), (GPU_MEMORY, "100")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "annotations gpu-memory (\"100\") and gpu-fraction (\"0.5\") are both there; say one of them"
        );
    }

    #[test]
    fn a_reservation_pod_tells_the_physical_gpu_of_its_group() {
        let json = r#"{"metadata":{"name":"gpu-reservation-1a2b","namespace":"kai-resource-reservation",
            "labels":{"runai-gpu-group":"g1"},"annotations":{"run.ai/reserve_for_gpu_index":"GPU-7"}},"spec":{"nodeName":"n"}}"#;
        let pod: Pod = serde_json::from_str(json).unwrap();
        let expected = Reservation {
            group: Some("g1".into()),
            node: Some("n".into()),
            uuid: Some("GPU-7".into()),
        };
        assert_eq!(reservation(&pod), Some(expected));
        for other in [
            json.replace("kai-resource-reservation", "default"),
            json.replace("gpu-reservation-", "web-"),
        ] {
            let pod: Pod = serde_json::from_str(&other).unwrap();
            assert_eq!(reservation(&pod), None, "{other}");
        }
    }

    #[test]
    fn a_reservation_pod_has_any_name_and_namespace_with_its_labels() {
        for app in ["runai-reservation", "kai-resource-reservation"] {
            let json = format!(
                r#"{{"metadata":{{"name":"runai-reservation-gpu-x","namespace":"any",
                "labels":{{"app":"{app}","runai-gpu-group":"g1"}}}}}}"#
            );
            let pod: Pod = serde_json::from_str(&json).unwrap();
            assert_eq!(reservation(&pod).and_then(|one| one.group), Some("g1".into()), "{app}");
            let alone: Pod = serde_json::from_str(&json.replace("runai-gpu-group", "x")).unwrap();
            assert_eq!(reservation(&alone), None, "the app label alone hides no pod");
        }
    }

    #[test]
    fn a_reservation_pod_of_run_ai_is_known_by_its_name() {
        let named = |namespace: &str| -> Pod {
            let json = format!(
                r#"{{"metadata":{{"name":"runai-reservation-gpu-n-x","namespace":"{namespace}"}}}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        assert!(reservation(&named("runai-reservation")).is_some());
        assert_eq!(reservation(&named("default")), None);
    }

    #[test]
    fn the_groups_of_a_pod_are_in_its_labels() {
        let labels = |pairs: &[(&str, &str)]| gpu_groups(&pairs.iter().copied().collect());
        assert_eq!(labels(&[("runai-gpu-group", "g1")]), BTreeSet::from(["g1".into()]));
        let several = [
            ("runai-gpu-group/g1", "g1"),
            ("runai-gpu-group/g2", "true"),
            ("runai-gpu-groups", "no"),
        ];
        assert_eq!(labels(&several), BTreeSet::from(["g1".into(), "g2".into()]));
        assert_eq!(labels(&[("runai-gpu-group", "")]), BTreeSet::new());
        assert_eq!(node_pool(&StringMap::from_iter([(NODE_POOL, "a")]), NODE_POOL), Some("a"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(a in "\\PC*", b in "\\PC*") {
            let _ = (ask(&[(GPU_MEMORY, &a), (NUM_DEVICES, &b)]), ask(&[(GPU_FRACTION, &a), (CONTAINER_NAME, &b)]));
        }

        #[test]
        fn a_fraction_is_the_number_that_was_written(places in 1u64..1_000_000) {
            let fraction = Fraction::parse(&format!("0.{places:06}")).unwrap();
            prop_assert_eq!(u128::from(fraction.numerator) * 1_000_000, u128::from(fraction.denominator) * u128::from(places));
            prop_assert!(2 * fraction.floor_of(80 << 30) <= 2 * (80 << 30));
        }

        #[test]
        fn two_halves_are_never_more_than_the_whole(amount: u64, places in 1u64..=500) {
            let fraction = Fraction::parse(&format!("0.{places:03}")).unwrap();
            prop_assert!(fraction.floor_of(amount).checked_mul(2).is_some_and(|both| both <= amount));
        }
    }
}
