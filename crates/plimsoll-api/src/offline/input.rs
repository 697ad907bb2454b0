//! The summary of the input of the offline commands.

use std::collections::BTreeMap;

use plimsoll_kube::cluster::Cluster;
use serde::{Deserialize, Serialize};

use super::FindingRow;

/// The objects that were read, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRow {
    pub nodes: usize,
    pub devices: usize,
    /// Pods that have a node and hold resources.
    pub running: usize,
    pub terminating: usize,
    pub finished: usize,
    /// Pending pods, including those created for workloads.
    pub pending: usize,
    /// Pending pods that were created for workloads.
    pub expanded: usize,
    /// Pods held back by scheduling gates.
    pub gated: usize,
    /// Ignored kinds, with the number of objects of each.
    pub ignored: BTreeMap<String, usize>,
    /// Errors and warnings about pods that do not count, or not as they are written.
    pub findings: Vec<FindingRow>,
    /// `none`: there are no measurements offline.
    pub telemetry: String,
}

impl InputRow {
    /// Summarizes what was read of a cluster.
    pub fn new(cluster: &Cluster) -> InputRow {
        let read = &cluster.understood;
        let pod_problems = cluster.pod_problems();
        InputRow {
            nodes: cluster.nodes.len(),
            devices: cluster.nodes.iter().map(|facts| facts.node.devices.len()).sum(),
            running: read.running,
            terminating: read.terminating,
            finished: read.finished,
            pending: read.pending,
            expanded: read.expanded,
            gated: read.gated,
            ignored: read.ignored.clone(),
            findings: pod_problems.map(|(finding, _)| FindingRow::from(finding)).collect(),
            telemetry: "none".to_string(),
        }
    }
}
