//! Rows about the pods of a live cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{RequestRow, Time};
use crate::explanation::Explanation;

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

/// The state of the watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchRow {
    /// Pods that vanished before are unknown.
    #[schema(value_type = Option<String>)]
    pub watching_since: Option<Time>,
    pub nodes: usize,
    pub devices: usize,
    pub holders: usize,
    pub pending: usize,
    pub releasing: usize,
}
