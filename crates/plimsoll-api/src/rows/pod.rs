//! Rows about the pods of a live cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{RequestRow, Time};
use crate::explanation::{Explanation, RemedyRow};
use crate::forecast::ForecastRow;
use crate::offline::FindingRow;

/// A pod that no scheduler has placed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingPodRow {
    /// The place in the order by priority and creation, from 1; null if it is gated.
    pub position: Option<usize>,
    /// `NAMESPACE/NAME`.
    pub id: String,
    pub request: RequestRow,
    /// The time of creation as the API server wrote it.
    pub created: Option<String>,
    pub priority: i32,
    /// The scheduler that is to place it.
    pub scheduler: Option<String>,
    /// The last report of that scheduler.
    pub reported: Option<String>,
    /// Scheduling gates that hold it back.
    pub gates: Vec<String>,
    /// True if it fits by memory now, so that only its scheduler keeps it pending; null until it
    /// was judged.
    pub fits: Option<bool>,
    /// The node where it fits, or that came nearest.
    pub node: Option<String>,
    /// The opinion in one sentence: why it fits nowhere, with the nearest miss.
    pub reason: String,
    /// Features that it uses and that are not considered.
    pub not_considered: Vec<String>,
    /// Its account and its expected start; null if it is gated. Pods end only by themselves, so
    /// that no promise and no bound exists for memory that they hold.
    #[serde(default)]
    pub forecast: Option<ForecastRow>,
}

/// A decision about a pod of another scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PodDecisionRow {
    /// `SEQ.INDEX`.
    pub id: String,
    #[schema(value_type = String)]
    pub created: Time,
    pub request: RequestRow,
    /// True: it says what memory allows, and places nothing.
    pub opinion: bool,
    /// The scheduler that places the pod.
    pub scheduler: Option<String>,
    /// The last report of that scheduler at the time of the decision.
    pub reported: Option<String>,
    pub placed: bool,
    /// The node where it fits, or that came nearest.
    pub node: Option<String>,
    #[serde(flatten)]
    pub explanation: Explanation,
    pub digest: String,
}

/// A question for an opinion that changes nothing: about a pod of the cluster, or about a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PodWhatIf {
    /// A pod of the cluster that has no node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodName>,
    /// An object of kind Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub manifest: Option<serde_json::Value>,
}

/// The name of a pod of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

/// The opinion about one more pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PodWhatIfRow {
    pub request: RequestRow,
    /// True: it says what memory allows, and places nothing.
    pub opinion: bool,
    pub placed: bool,
    /// The node where it fits, or that came nearest.
    pub node: Option<String>,
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Features that it uses and that are not considered.
    pub not_considered: Vec<String>,
    /// Problems of the pod itself, as `findings[]` of audit.
    pub findings: Vec<FindingRow>,
    /// Verified changes that would make it fit; those that affect no other pod come first.
    pub would_fit_if: Vec<RemedyRow>,
}

/// A pod whose memory is being released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleasingRow {
    pub request: RequestRow,
    pub node: Option<String>,
    #[schema(value_type = String)]
    pub since: Time,
    /// The evidence that is missing.
    pub waits_for: String,
}

/// The place of the record of holders, from which a restart learns what vanished meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoldersRecordPlace {
    /// None is kept.
    None,
    /// ConfigMaps in Plimsoll's own namespace.
    ConfigMaps,
    DataDirectory,
}

/// The state of the watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchRow {
    /// The start of this process.
    #[schema(value_type = Option<String>)]
    pub watching_since: Option<Time>,
    /// Pods that vanished before are unknown: since the record of holders is kept, or since this
    /// process watches.
    #[schema(value_type = Option<String>)]
    pub holders_known_since: Option<Time>,
    /// The place of the record of holders.
    pub record: HoldersRecordPlace,
    /// Parts of the record that could not be read, and are not used.
    pub damaged_records: usize,
    pub nodes: usize,
    pub devices: usize,
    pub holders: usize,
    pub pending: usize,
    pub releasing: usize,
}
