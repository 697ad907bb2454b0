//! Workloads: objects that create pods, which may not exist yet.

use serde::Deserialize;

use super::{Condition, Metadata, PodSpec, nullable};

/// The conditions of a Job that starts no more pods.
const OVER: [&str; 4] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];

/// The kind of a workload. Kinds differ in how the number of pods is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Job,
}

impl WorkloadKind {
    /// Returns the kind as Kubernetes spells it.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadKind::Deployment => "Deployment",
            WorkloadKind::ReplicaSet => "ReplicaSet",
            WorkloadKind::ReplicationController => "ReplicationController",
            WorkloadKind::StatefulSet => "StatefulSet",
            WorkloadKind::Job => "Job",
        }
    }
}

/// A Deployment, ReplicaSet, ReplicationController, StatefulSet or Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub kind: WorkloadKind,
    pub metadata: Metadata,
    pub spec: WorkloadSpec,
    pub status: WorkloadStatus,
}

impl Workload {
    /// Returns the number of pods that should exist now: `replicas`, or for a Job the lesser of
    /// `parallelism` and the remaining `completions`. A finished Job needs none.
    pub fn desired_pods(&self) -> u64 {
        if self.spec.suspend {
            return 0;
        }
        let at_least_none = |number: i64| u64::try_from(number).unwrap_or(0);
        if self.kind != WorkloadKind::Job {
            return at_least_none(self.spec.replicas.unwrap_or(1));
        }
        if self.status.is_over() {
            return 0;
        }
        let parallelism = at_least_none(self.spec.parallelism.unwrap_or(1));
        let done = at_least_none(self.status.succeeded);
        match self.spec.completions {
            Some(completions) => parallelism.min(at_least_none(completions).saturating_sub(done)),
            // Without `completions` the first success finishes the Job: no pod is started after it.
            None if done > 0 => 0,
            None => parallelism,
        }
    }
}

/// The fields that all kinds share, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct WorkloadFields {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: WorkloadSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: WorkloadStatus,
}

impl WorkloadFields {
    pub(crate) fn into_workload(self, kind: WorkloadKind) -> Workload {
        Workload { kind, metadata: self.metadata, spec: self.spec, status: self.status }
    }
}

/// The desired state of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// 1 by default; unused by Jobs.
    pub replicas: Option<i64>,
    /// The number of pods of a Job that run at the same time; 1 by default.
    pub parallelism: Option<i64>,
    /// The number of pods of a Job that must succeed.
    pub completions: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub ordinals: Ordinals,
    /// True for a Job that must not start pods.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    #[serde(deserialize_with = "nullable")]
    pub template: PodTemplate,
}

/// The numbering of the pods of a StatefulSet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    #[serde(deserialize_with = "nullable")]
    pub start: i64,
}

/// `spec.template` of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpec,
}

/// The reported state of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadStatus {
    #[serde(deserialize_with = "nullable")]
    pub succeeded: i64,
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

impl WorkloadStatus {
    /// Returns true if a Job has finished, successfully or not.
    fn is_over(&self) -> bool {
        let ends =
            |condition: &Condition| OVER.contains(&&*condition.kind) && condition.status == "True";
        self.conditions.iter().any(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: WorkloadKind, json: &str) -> Workload {
        serde_json::from_str::<WorkloadFields>(json).unwrap().into_workload(kind)
    }

    #[test]
    fn a_workload_wants_the_pods_that_its_own_rules_say() {
        for (kind, json, wanted) in [
            (WorkloadKind::Deployment, r#"{"spec":{"replicas":3}}"#, 3),
            (WorkloadKind::StatefulSet, r#"{"spec":{"replicas":null}}"#, 1),
            (WorkloadKind::ReplicaSet, r#"{"spec":{"replicas":0}}"#, 0),
            (WorkloadKind::ReplicaSet, r#"{"spec":{"replicas":-1}}"#, 0),
            (WorkloadKind::Job, r#"{"spec":{}}"#, 1),
            (
                WorkloadKind::Job,
                r#"{"spec":{"parallelism":4,"completions":10},"status":{"succeeded":8}}"#,
                2,
            ),
            (
                WorkloadKind::Job,
                r#"{"spec":{"parallelism":4,"completions":10},"status":{"succeeded":11}}"#,
                0,
            ),
            (WorkloadKind::Job, r#"{"spec":{"parallelism":4},"status":{"succeeded":0}}"#, 4),
            (WorkloadKind::Job, r#"{"spec":{"parallelism":4},"status":{"succeeded":1}}"#, 0),
            (WorkloadKind::Job, r#"{"spec":{"parallelism":4,"suspend":true}}"#, 0),
            (
                WorkloadKind::Job,
                r#"{"status":{"conditions":[{"type":"Complete","status":"True"}]}}"#,
                0,
            ),
            (
                WorkloadKind::Job,
                r#"{"status":{"conditions":[{"type":"Failed","status":"True"}]}}"#,
                0,
            ),
            (
                WorkloadKind::Job,
                r#"{"status":{"conditions":[{"type":"FailureTarget","status":"True"}]}}"#,
                0,
            ),
            (
                WorkloadKind::Job,
                r#"{"status":{"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}}"#,
                0,
            ),
            (
                WorkloadKind::Job,
                r#"{"status":{"conditions":[{"type":"Failed","status":"False"}]}}"#,
                1,
            ),
            (
                WorkloadKind::Job,
                r#"{"status":{"conditions":[{"type":"Suspended","status":"True"}]}}"#,
                1,
            ),
            (WorkloadKind::Job, r#"{"status":{"conditions":null}}"#, 1),
            (
                WorkloadKind::Deployment,
                r#"{"status":{"conditions":[{"type":"Failed","status":"True"}]}}"#,
                1,
            ),
        ] {
            assert_eq!(workload(kind, json).desired_pods(), wanted, "{kind:?} {json}");
        }
    }
}
