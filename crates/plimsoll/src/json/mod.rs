//! The JSON that other programs read: stable names, sizes in bytes, and null for a size that is not known.

mod audit;
mod chaos;
mod decision;
mod device;
mod estimate;
mod explain;
mod replay;
mod sarif;

pub(crate) use audit::{audit, severity};
pub(crate) use chaos::chaos;
pub(crate) use decision::{
    ContainerVerdictRow, NodeVerdictRow, PromisedRow, RemedyRow, ScorePart, held_by,
    node as node_verdict, numbers, ordered, ordered_in, promised_row, remedy as remedy_row,
    score_parts,
};
pub(crate) use device::{DeviceRow, devices_of, sharing};
pub(crate) use estimate::estimate;
pub(crate) use explain::{LostBy, explain, lost_by, running, undecided};
pub(crate) use replay::{replay, replayed};
pub(crate) use sarif::sarif;

use std::borrow::Cow;
use std::collections::BTreeMap;

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::Simulation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::load;

/// Grows when a name or a meaning changes; names that are added do not change it.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The answer of `plimsoll simulate -o json`.
#[derive(Serialize)]
pub(crate) struct SimulateSheet<'a> {
    schema_version: u32,
    policy: &'a Name,
    understood: UnderstoodRow<'a>,
    nodes: Vec<device::NodeRow<'a>>,
    devices: Vec<device::DeviceRow>,
    placements: Vec<decision::PlacementRow<'a>>,
    refused: Vec<decision::RefusedRow<'a>>,
    breaches: Vec<BreachRow>,
    not_considered: Vec<NotConsideredRow<'a>>,
}

/// Everything that a simulation found.
pub(crate) fn simulate<'a>(
    cluster: &'a Cluster,
    simulation: &'a Simulation,
    full: bool,
) -> SimulateSheet<'a> {
    SimulateSheet {
        schema_version: SCHEMA_VERSION,
        policy: &simulation.policy().name,
        understood: understood(cluster),
        nodes: device::nodes(cluster, simulation.ledger()),
        devices: device::devices(cluster, simulation.ledger()),
        placements: simulation
            .placed
            .iter()
            .map(|p| decision::placement(cluster, simulation, p))
            .collect(),
        refused: simulation.rejected.iter().map(|r| decision::refused(cluster, r, full)).collect(),
        breaches: breaches(simulation),
        not_considered: not_considered(cluster, simulation),
    }
}

/// What was read, in numbers.
#[derive(Serialize)]
pub(crate) struct UnderstoodRow<'a> {
    nodes: usize,
    devices: usize,
    running: usize,
    terminating: usize,
    finished: usize,
    pending: usize,
    expanded: usize,
    gated: usize,
    ignored: &'a BTreeMap<String, usize>,
    findings: Vec<audit::FindingRow<'a>>,
    telemetry: &'static str,
}

/// What was read, in numbers. Offline nobody measures, and that is said.
pub(crate) fn understood(cluster: &Cluster) -> UnderstoodRow<'_> {
    let read = &cluster.understood;
    UnderstoodRow {
        nodes: cluster.nodes.len(),
        devices: cluster.nodes.iter().map(|facts| facts.node.devices.len()).sum(),
        running: read.running,
        terminating: read.terminating,
        finished: read.finished,
        pending: read.pending,
        expanded: read.expanded,
        gated: read.gated,
        ignored: &read.ignored,
        findings: load::about_pods(cluster).map(audit::finding).collect(),
        telemetry: "none",
    }
}

/// One thing that is wrong with what is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BreachRow {
    /// `over_line`, `no_assignment`, `slices_overlap` or `sums_differ`.
    pub(crate) kind: String,
    /// The node.
    #[schema(value_type = String)]
    pub(crate) node: Name,
    /// The device.
    pub(crate) uuid: Option<String>,
    /// What may be used there.
    #[schema(value_type = Option<u64>)]
    pub(crate) usable: Option<Bytes>,
    /// What is held there for certain, foreign memory included.
    #[schema(value_type = Option<u64>)]
    pub(crate) held: Option<Bytes>,
    /// By how much that is too much.
    #[schema(value_type = Option<u64>)]
    pub(crate) over_by: Option<Bytes>,
    /// What the holdings sum up to, where that is not what the ledger says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub(crate) holdings: Option<Bytes>,
    /// Who holds it, as `namespace/pod`.
    #[schema(value_type = Vec<String>)]
    pub(crate) holders: Vec<Name>,
}

fn breaches(simulation: &Simulation) -> Vec<BreachRow> {
    let ledger = simulation.ledger();
    breach::audit(ledger).into_iter().map(|breach| breach_row(ledger, breach)).collect()
}

/// A breach, with the devices called as people call them.
pub(crate) fn breach_row(ledger: &plimsoll_core::ledger::Ledger, breach: Breach) -> BreachRow {
    let row = |kind: &str, node: Name, ordinal: Option<u16>, holders| BreachRow {
        kind: kind.to_string(),
        uuid: ordinal.and_then(|ordinal| ledger.device_labels(&node, [ordinal]).pop()),
        node,
        usable: None,
        held: None,
        over_by: None,
        holdings: None,
        holders,
    };
    match breach {
        Breach::OverLine { node, ordinal, usable, held, over_by, holders } => BreachRow {
            usable: Some(usable),
            held: Some(held),
            over_by: Some(over_by),
            ..row("over_line", node, Some(ordinal), holders)
        },
        Breach::NoAssignment { node, usable, held, holders } => BreachRow {
            usable: Some(usable),
            held: Some(held),
            ..row("no_assignment", node, None, holders)
        },
        Breach::SumsDiffer { node, ordinal, sum, holdings } => BreachRow {
            held: Some(sum),
            holdings: Some(holdings),
            ..row("sums_differ", node, Some(ordinal), Vec::new())
        },
        Breach::SlicesOverlap { node, ordinal, holders } => {
            row("slices_overlap", node, Some(ordinal), holders)
        }
    }
}

/// A pod, and what about it did not count.
#[derive(Serialize)]
struct NotConsideredRow<'a> {
    namespace: &'a Name,
    pod: &'a Name,
    what: Vec<Cow<'a, str>>,
}

fn not_considered<'a>(
    cluster: &'a Cluster,
    simulation: &'a Simulation,
) -> Vec<NotConsideredRow<'a>> {
    let pending = cluster.pending.iter().filter(|pending| !pending.not_considered.is_empty());
    let features = pending.map(|pending| NotConsideredRow {
        namespace: &pending.request.id.account,
        pod: &pending.request.id.name,
        what: pending.not_considered.iter().map(|what| Cow::Borrowed(&**what)).collect(),
    });
    let uncounted = simulation.uncounted.iter().map(|uncounted| NotConsideredRow {
        namespace: &uncounted.request.account,
        pod: &uncounted.request.name,
        what: vec![Cow::Owned(uncounted.why.to_string())],
    });
    features.chain(uncounted).collect()
}

#[cfg(test)]
mod tests;
