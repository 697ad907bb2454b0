//! Which devices a user wants and which not, by HAMi's annotations on the pod.

use crate::object::StringMap;
use crate::quantity::quoted;

use super::register::go_bool;
use super::vendor::Vendor;
use super::weights::{
    DEVICE_POLICY, DevicePolicy, NODE_POLICY, NodePolicy, PolicyError, WEIGHTS, Weights,
};

/// The pod annotation that asks for devices of one NUMA node.
pub const NUMA_BIND: &str = "nvidia.com/numa-bind";

/// The pod annotation that asks for a way of sharing.
pub const MODE: &str = "nvidia.com/vgpu-mode";

/// Names that are wanted and names that are not. Without wanted names all are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// Only these, if there are any.
    pub wanted: Vec<String>,
    /// Not these, even if they are wanted too.
    pub unwanted: Vec<String>,
}

impl Wish {
    /// Reads lists of names between commas; blanks around a name, and empty names, are nothing.
    pub fn parse(wanted: Option<&str>, unwanted: Option<&str>) -> Wish {
        Wish { wanted: names(wanted), unwanted: names(unwanted) }
    }

    /// Whether a device of this UUID may be used: the whole UUID must match.
    pub fn allows_uuid(&self, uuid: &str) -> bool {
        self.allows(|name| name == uuid)
    }

    /// Whether a device of this model may be used: a part of the model must match, in small or capital letters.
    pub fn allows_model(&self, model: &str) -> bool {
        let model = model.to_uppercase();
        self.allows(|name| model.contains(&name.to_uppercase()))
    }

    /// Whether nothing is asked.
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

/// All that a pod's annotations ask about devices of one vendor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// By model.
    pub models: Wish,
    /// By UUID.
    pub uuids: Wish,
    /// Whether all devices of a container must be of one NUMA node.
    pub numa_bind: bool,
    /// The ways of sharing that are accepted, as written; `None` for all.
    pub mode: Option<String>,
    /// How to choose among nodes.
    pub node_policy: Option<NodePolicy>,
    /// How to choose among devices, the first key first.
    pub device_policy: Vec<DevicePolicy>,
    /// The weights of the score of a device.
    pub weights: Option<Weights>,
}

/// Why a wish could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// A policy or weights.
    #[error("annotation {key}: {error}")]
    Policy {
        /// The annotation.
        key: &'static str,
        /// Why.
        error: PolicyError,
    },
    /// A switch is neither on nor off.
    #[error("annotation {key} is \"{value}\", and must be \"true\" or \"false\"")]
    NotABool {
        /// The annotation.
        key: &'static str,
        /// What it says.
        value: String,
    },
}

impl Wishes {
    /// Reads what a pod asks about devices of one vendor.
    pub fn read(vendor: &Vendor, annotations: &StringMap) -> Result<Wishes, WishError> {
        let wish = |keys: super::vendor::WishKeys| {
            Wish::parse(annotations.get(keys.wanted), annotations.get(keys.unwanted))
        };
        let policy = |key| move |error| WishError::Policy { key, error };
        let numa_bind = match annotations.get(NUMA_BIND).map(str::trim) {
            None | Some("") => false,
            Some(value) => go_bool(value)
                .ok_or_else(|| WishError::NotABool { key: NUMA_BIND, value: quoted(value) })?,
        };
        Ok(Wishes {
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

    /// Whether a device that is shared in this way may be used: the wish must contain the way's name.
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
                Wish::parse(wanted, unwanted).allows_uuid(uuid),
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
                Wish::parse(wanted, unwanted).allows_model(model),
                allowed,
                "{wanted:?} {unwanted:?} {model}"
            );
        }
    }

    #[test]
    fn all_wishes_of_a_pod_are_read() {
        let annotations = StringMap::from_iter([
            ("nvidia.com/use-gputype", "A100"),
            ("nvidia.com/nouse-gpuuuid", "GPU-1"),
            ("nvidia.com/numa-bind", "true"),
            ("nvidia.com/vgpu-mode", "hami-core,mps"),
            ("hami.io/node-scheduler-policy", "spread"),
            ("hami.io/gpu-scheduler-policy", "binpack,numa"),
            ("hami.io/device-scoring-weights", "slot=1,core=1,memory=3"),
        ]);
        let wishes = Wishes::read(Vendor::by_word("NVIDIA").unwrap(), &annotations).unwrap();
        assert!(wishes.models.allows_model("A100") && !wishes.uuids.allows_uuid("GPU-1"));
        assert!(wishes.numa_bind && wishes.allows_mode("mps") && !wishes.allows_mode("mig"));
        assert_eq!(wishes.node_policy, Some(NodePolicy::Spread));
        assert_eq!(wishes.device_policy, [DevicePolicy::Binpack, DevicePolicy::Numa]);
        assert_eq!(wishes.weights.map(|weights| weights.memory), Some(3));
        let none = Wishes::read(Vendor::by_word("DCU").unwrap(), &StringMap::default()).unwrap();
        assert_eq!(none, Wishes::default());
    }

    #[test]
    fn a_wish_that_cannot_be_read_names_its_annotation() {
        for (key, value) in
            [(NODE_POLICY, "best"), (DEVICE_POLICY, "best"), (WEIGHTS, ""), (NUMA_BIND, "yes")]
        {
            let error = Wishes::read(
                Vendor::by_word("NVIDIA").unwrap(),
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
            prop_assert!(Wish::parse(Some(&list), None).allows_uuid(&uuid));
            prop_assert!(!Wish::parse(None, Some(&list)).allows_uuid(&uuid));
            prop_assert!(Wish::parse(Some(&list), None).allows_model(&uuid.to_lowercase()));
        }
    }
}
