//! Workloads: objects that stand for pods which may not exist yet.

use serde::Deserialize;

use super::{Condition, Metadata, PodSpec, nullable};

/// The conditions of a Job that starts no more pods: it is over, or it is being ended.
const OVER: [&str; 4] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];

/// Which kind of workload it is; they differ in how many pods they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// Makes ReplicaSets, which make pods.
    Deployment,
    /// Makes pods.
    ReplicaSet,
    /// Makes pods, the old way.
    ReplicationController,
    /// Makes pods with names that last.
    StatefulSet,
    /// Makes pods that end.
    Job,
}

impl WorkloadKind {
    /// The kind as Kubernetes writes it.
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

/// A workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Which kind it is.
    pub kind: WorkloadKind,
    /// Name and owner.
    pub metadata: Metadata,
    /// How many pods, and what they look like.
    pub spec: WorkloadSpec,
    /// How many of them are done.
    pub status: WorkloadStatus,
}

impl Workload {
    /// How many pods it wants at one time, by its own rules: replicas, or for a Job the lesser of its parallelism and
    /// the completions that are left. A Job that is over wants none.
    pub fn pods_wanted(&self) -> u64 {
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
            // Without completions the first success ends the work: no pod is started after it.
            None if done > 0 => 0,
            None => parallelism,
        }
    }
}

/// The fields that all kinds of workload share on the wire.
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
    pub(crate) fn of_kind(self, kind: WorkloadKind) -> Workload {
        Workload { kind, metadata: self.metadata, spec: self.spec, status: self.status }
    }
}

/// How many pods a workload wants, and what they look like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// How many pods; 1 if not given. Not for a Job.
    pub replicas: Option<i64>,
    /// How many pods of a Job run at one time; 1 if not given.
    pub parallelism: Option<i64>,
    /// How many pods of a Job must succeed.
    pub completions: Option<i64>,
    /// How the pods of a StatefulSet are numbered.
    #[serde(deserialize_with = "nullable")]
    pub ordinals: Ordinals,
    /// Whether a Job is held back.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// What its pods look like.
    #[serde(deserialize_with = "nullable")]
    pub template: PodTemplate,
}

/// How the pods of a StatefulSet are numbered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    /// The first ordinal.
    #[serde(deserialize_with = "nullable")]
    pub start: i64,
}

/// What the pods of a workload look like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    /// Labels and annotations of the pods.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    /// What the pods ask.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpec,
}

/// How far a workload is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// How many pods of a Job have succeeded.
    #[serde(deserialize_with = "nullable")]
    pub succeeded: i64,
    /// Its conditions; those of a Job say whether it is over.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

impl WorkloadStatus {
    /// Whether a Job has ended, well or not.
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
        serde_json::from_str::<WorkloadFields>(json).unwrap().of_kind(kind)
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
            assert_eq!(workload(kind, json).pods_wanted(), wanted, "{kind:?} {json}");
        }
    }
}
