//! Pod groups, which are placed all or nothing, and priority classes.

use serde::Deserialize;

use super::{Metadata, nullable};

/// The project that defines a PodGroup. They differ in how the minimum is written and in how pods
/// refer to the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodGroupFlavor {
    /// `scheduling.k8s.io`, Kubernetes' own.
    Kubernetes,
    /// `scheduling.x-k8s.io`, of the coscheduling plugin.
    Coscheduling,
    /// `scheduling.run.ai`, KAI's.
    Kai,
    /// `scheduling.volcano.sh`.
    Volcano,
}

impl PodGroupFlavor {
    /// Returns the flavor of an API group, if it has PodGroups.
    pub fn from_api_group(group: &str) -> Option<PodGroupFlavor> {
        match group {
            "scheduling.k8s.io" => Some(PodGroupFlavor::Kubernetes),
            "scheduling.x-k8s.io" => Some(PodGroupFlavor::Coscheduling),
            "scheduling.run.ai" => Some(PodGroupFlavor::Kai),
            "scheduling.volcano.sh" => Some(PodGroupFlavor::Volcano),
            _ => None,
        }
    }
}

/// A group of pods that are placed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroup {
    pub flavor: PodGroupFlavor,
    pub metadata: Metadata,
    /// The number of pods that must run together; `None` if the group is not a gang.
    pub min_member: Option<u32>,
}

/// The fields of all flavors as they are written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodGroupFields {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    spec: PodGroupSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodGroupSpec {
    min_member: Option<u32>,
    // `schedulingPolicy` since v1alpha2, `policy` before it.
    #[serde(alias = "schedulingPolicy", deserialize_with = "nullable")]
    policy: Policy,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Policy {
    gang: Option<Gang>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Gang {
    min_count: Option<u32>,
}

impl PodGroupFields {
    pub(crate) fn into_group(self, flavor: PodGroupFlavor) -> PodGroup {
        let min_member = match flavor {
            PodGroupFlavor::Kubernetes => self.spec.policy.gang.and_then(|gang| gang.min_count),
            _ => self.spec.min_member,
        };
        PodGroup { flavor, metadata: self.metadata, min_member }
    }
}

/// A priority class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PriorityClass {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub value: i32,
    /// True for the class of pods that name none.
    #[serde(deserialize_with = "nullable")]
    pub global_default: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flavor_of_pod_group_says_its_minimum() {
        for (group, json, minimum) in [
            ("scheduling.x-k8s.io", r#"{"spec":{"minMember":3}}"#, Some(3)),
            ("scheduling.run.ai", r#"{"spec":{"minMember":2,"queue":"a"}}"#, Some(2)),
            ("scheduling.volcano.sh", r#"{"spec":{"minMember":4}}"#, Some(4)),
            ("scheduling.k8s.io", r#"{"spec":{"policy":{"gang":{"minCount":5}}}}"#, Some(5)),
            (
                "scheduling.k8s.io",
                r#"{"spec":{"schedulingPolicy":{"gang":{"minCount":5}}}}"#,
                Some(5),
            ),
            ("scheduling.k8s.io", r#"{"spec":{"policy":{"basic":{}}}}"#, None),
        ] {
            let flavor = PodGroupFlavor::from_api_group(group).unwrap();
            let fields: PodGroupFields = serde_json::from_str(json).unwrap();
            assert_eq!(fields.into_group(flavor).min_member, minimum, "{group} {json}");
        }
        assert_eq!(PodGroupFlavor::from_api_group("example.com"), None);
    }
}
