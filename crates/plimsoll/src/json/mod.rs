//! The JSON that other programs read: stable names, sizes in bytes, and null for a size that is not known.

mod audit;
mod chaos;
mod decision;
mod estimate;
mod explain;
mod replay;
mod sarif;

pub(crate) use audit::audit;
pub(crate) use chaos::chaos;
pub(crate) use estimate::estimate;
pub(crate) use explain::{explain, running, undecided};
pub(crate) use replay::{replay, replayed};
pub(crate) use sarif::sarif;

use std::borrow::Cow;
use std::collections::BTreeMap;

use plimsoll_api::breach::{BreachRow, breach_row};
use plimsoll_api::device;
use plimsoll_core::breach;
use plimsoll_core::units::Name;
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::Simulation;
use serde::Serialize;

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
        findings: cluster.pod_problems().map(|(finding, _)| audit::finding(finding)).collect(),
        telemetry: "none",
    }
}

fn breaches(simulation: &Simulation) -> Vec<BreachRow> {
    let ledger = simulation.ledger();
    breach::audit(ledger).into_iter().map(|breach| breach_row(ledger, breach)).collect()
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
