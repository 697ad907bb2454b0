//! Device selection by HAMi's annotations on the pod.

use crate::object::StringMap;
use crate::quantity::quoted;

use super::register::go_bool;
use super::vendor::Vendor;
use super::weights::{
    DEVICE_POLICY, DevicePolicy, NODE_POLICY, NodePolicy, PolicyError, WEIGHTS, Weights,
};

/// Pod annotation: use devices of one NUMA node.
pub const NUMA_BIND: &str = "nvidia.com/numa-bind";

/// Pod annotation: the accepted sharing modes.
pub const MODE: &str = "nvidia.com/vgpu-mode";

/// Names to include and to exclude. Without included names all are included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameFilter {
    pub wanted: Vec<String>,
    /// Excluded even if included too.
    pub unwanted: Vec<String>,
}

impl NameFilter {
    /// Parses comma-separated lists. Spaces around names and empty names are ignored.
    pub fn parse(wanted: Option<&str>, unwanted: Option<&str>) -> NameFilter {
        NameFilter { wanted: names(wanted), unwanted: names(unwanted) }
    }

    /// Returns true if a device of this UUID is selected. UUIDs match whole.
    pub fn allows_uuid(&self, uuid: &str) -> bool {
        self.allows(|name| name == uuid)
    }

    /// Returns true if a device of this model is selected. Names match a part of the model,
    /// ignoring case.
    pub fn allows_model(&self, model: &str) -> bool {
        let model = model.to_uppercase();
        self.allows(|name| model.contains(&name.to_uppercase()))
    }

    /// Returns true if no name is included or excluded.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.unwanted.is_empty()
    }

    fn allows(&self, matches: impl Fn(&str) -> bool) -> bool {
        let wanted = self.wanted.is_empty() || self.wanted.iter().any(|name| matches(name));
        wanted && !self.unwanted.iter().any(|name| matches(name))
    }
}

fn names(list: Option<&str>) -> Vec<String> {
    let names = list.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The device selection of a pod for one vendor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceSelection {
    pub models: NameFilter,
    pub uuids: NameFilter,
    /// True if all devices of a container must be on one NUMA node.
    pub numa_bind: bool,
    /// The accepted sharing modes, as written; `None` for all.
    pub mode: Option<String>,
    pub node_policy: Option<NodePolicy>,
    /// Most important first.
    pub device_policy: Vec<DevicePolicy>,
    pub weights: Option<Weights>,
}

/// An invalid annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("annotation {key}: {error}")]
    Policy { key: &'static str, error: PolicyError },
    #[error("annotation {key} is \"{value}\", and must be \"true\" or \"false\"")]
    NotABool { key: &'static str, value: String },
}

impl DeviceSelection {
    /// Reads the device selection of a pod for one vendor.
    pub fn read(
        vendor: &Vendor,
        annotations: &StringMap,
    ) -> Result<DeviceSelection, SelectionError> {
        let wish = |keys: super::vendor::SelectionKeys| {
            NameFilter::parse(annotations.get(keys.wanted), annotations.get(keys.unwanted))
        };
        let policy = |key| move |error| SelectionError::Policy { key, error };
        let numa_bind = match annotations.get(NUMA_BIND).map(str::trim) {
            None | Some("") => false,
            Some(value) => go_bool(value)
                .ok_or_else(|| SelectionError::NotABool { key: NUMA_BIND, value: quoted(value) })?,
        };
        Ok(DeviceSelection {
            models: vendor.types.map(wish).unwrap_or_default(),
            uuids: wish(vendor.uuids),
            numa_bind,
            mode: annotations
                .get(MODE)
                .map(str::trim)
                .filter(|mode| !mode.is_empty())
                .map(str::to_owned),
            node_policy: NodePolicy::parse(annotations.get(NODE_POLICY).unwrap_or_default())
                .map_err(policy(NODE_POLICY))?,
            device_policy: DevicePolicy::parse_chain(
                annotations.get(DEVICE_POLICY).unwrap_or_default(),
            )
            .map_err(policy(DEVICE_POLICY))?,
            weights: annotations
                .get(WEIGHTS)
                .map(Weights::parse)
                .transpose()
                .map_err(policy(WEIGHTS))?,
        })
    }

    /// Returns true if a device in this sharing mode is selected: the annotation contains the
    /// mode's name.
    pub fn allows_mode(&self, mode: &str) -> bool {
        self.mode.as_deref().is_none_or(|wish| wish.contains(mode))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uuids_match_as_table_a6_says() {
        for (wanted, unwanted, uuid, allowed) in [
            (Some("abc,123"), None, "1abc", false),
            (Some("abc,123"), None, "123", true),
            (Some(" abc , 123 "), None, "abc", true),
            (Some("abc"), Some("abc"), "abc", false),
            (None, Some("abc"), "abc", false),
            (None, Some("abc"), "abcd", true),
            (Some(""), None, "abc", true),
            (Some("   "), None, "abc", true),
            (None, Some(""), "abc", true),
            (None, None, "abc", true),
            (Some("ABC"), None, "abc", false),
        ] {
            assert_eq!(
                NameFilter::parse(wanted, unwanted).allows_uuid(uuid),
                allowed,
                "{wanted:?} {unwanted:?} {uuid}"
            );
        }
    }

    #[test]
    fn models_match_as_table_a7_says() {
        for (wanted, unwanted, model, allowed) in [
            (Some("a100"), None, "NVIDIA A100-SXM4-40GB", true),
            (Some("V100,"), None, "NVIDIA A100-SXM4-40GB", false),
            (Some("V100,"), None, "Tesla V100", true),
            (Some("v100, a100"), None, "NVIDIA A100", true),
            (Some("A100"), Some("SXM4"), "NVIDIA A100-SXM4", false),
            (None, Some("a100,"), "NVIDIA A100", false),
            (None, Some("v100,"), "NVIDIA A100", true),
            (Some(" "), Some(""), "NVIDIA A100", true),
        ] {
            assert_eq!(
                NameFilter::parse(wanted, unwanted).allows_model(model),
                allowed,
                "{wanted:?} {unwanted:?} {model}"
            );
        }
    }

    #[test]
    fn every_selection_annotation_of_a_pod_is_read() {
        let annotations = StringMap::from_iter([
            ("nvidia.com/use-gputype", "A100"),
            ("nvidia.com/nouse-gpuuuid", "GPU-1"),
            ("nvidia.com/numa-bind", "true"),
            ("nvidia.com/vgpu-mode", "hami-core,mps"),
            ("hami.io/node-scheduler-policy", "spread"),
            ("hami.io/gpu-scheduler-policy", "binpack,numa"),
            ("hami.io/device-scoring-weights", "slot=1,core=1,memory=3"),
        ]);
        let selection =
            DeviceSelection::read(Vendor::by_name("NVIDIA").unwrap(), &annotations).unwrap();
        assert!(selection.models.allows_model("A100") && !selection.uuids.allows_uuid("GPU-1"));
        assert!(
            selection.numa_bind && selection.allows_mode("mps") && !selection.allows_mode("mig")
        );
        assert_eq!(selection.node_policy, Some(NodePolicy::Spread));
        assert_eq!(selection.device_policy, [DevicePolicy::Binpack, DevicePolicy::Numa]);
        assert_eq!(selection.weights.map(|weights| weights.memory), Some(3));
        let none =
            DeviceSelection::read(Vendor::by_name("DCU").unwrap(), &StringMap::default()).unwrap();
        assert_eq!(none, DeviceSelection::default());
    }

    #[test]
    fn a_wish_that_cannot_be_read_names_its_annotation() {
        for (key, value) in
            [(NODE_POLICY, "best"), (DEVICE_POLICY, "best"), (WEIGHTS, ""), (NUMA_BIND, "yes")]
        {
            let error = DeviceSelection::read(
                Vendor::by_name("NVIDIA").unwrap(),
                &StringMap::from_iter([(key, value)]),
            );
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with(&format!("annotation {key}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_listed_is_matched(uuid in "[A-Za-z0-9-]{1,20}", others in "[a-z, ]{0,20}") {
            let list = format!("{others},{uuid} ");
            prop_assert!(NameFilter::parse(Some(&list), None).allows_uuid(&uuid));
            prop_assert!(!NameFilter::parse(None, Some(&list)).allows_uuid(&uuid));
            prop_assert!(NameFilter::parse(Some(&list), None).allows_model(&uuid.to_lowercase()));
        }
    }
}
