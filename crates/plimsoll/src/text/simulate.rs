//! A simulated cluster as text: placements, the load of every device, pods that are not placed.

use std::collections::BTreeMap;

use plimsoll_api::device::{DeviceIdentity, DeviceRow, Health};
use plimsoll_api::offline::{
    ChosenDevice, NotConsideredRow, PlacementRow, SimulateOutput, UnplacedRow, UnplacedStatus,
};
use plimsoll_core::units::{Bytes, Name};

use super::decision::help;
use super::load::{self, Load};
use super::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use super::table::{Align, Table};
use super::{count, sizes};

/// The pods with the same answer that are listed; the rest are counted unless all are wanted.
const SAME_ANSWER: usize = 8;

/// The selection of pods that are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Some of the pods with the same answer.
    Some,
    All,
}

/// Prints the outcome of a simulation.
pub(crate) fn simulate(page: &mut Page, output: &SimulateOutput, names: Names) {
    placements(page, &output.placements);
    bars(page, &output.devices);
    if !output.breaches.is_empty() {
        page.heading("Overcommitted");
    }
    for breach in &output.breaches {
        page.styled(2, BAD, &breach.text);
    }
    pending(page, output, names);
    not_considered(page, &output.not_considered);
    result(page, output);
}

/// Prints the pods that are not placed.
pub(crate) fn pending(page: &mut Page, output: &SimulateOutput, names: Names) {
    unplaced(page, "Pending", UnplacedStatus::Pending, &output.unplaced, names);
    unplaced(page, "Impossible", UnplacedStatus::Impossible, &output.unplaced, names);
}

fn placements(page: &mut Page, rows: &[PlacementRow]) {
    if rows.is_empty() {
        return;
    }
    page.heading("Placed");
    let mut table = Table::new(&[
        ("POD", Align::Left),
        ("NODE", Align::Left),
        ("DEVICES", Align::Left),
        ("MEMORY", Align::Right),
        ("SCORE", Align::Right),
    ]);
    for row in rows {
        let devices = row.chosen.devices.iter().map(|charge| device_name(&charge.device));
        let devices = devices.collect::<Vec<_>>().join(" + ");
        table.row([
            pod(&row.namespace, &row.pod),
            row.node.to_string(),
            if devices.is_empty() { "-".to_string() } else { devices },
            sizes(row.chosen.devices.iter().map(|charge| charge.bytes)),
            row.score.to_string(),
        ]);
    }
    table.print(page, 2);
}

fn pod(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Formats a device, or the range of devices of which the device plugin picks one.
pub(super) fn device_name(device: &ChosenDevice) -> String {
    match (&device.uuid, &device.one_of[..]) {
        (Some(uuid), _) => uuid.clone(),
        (None, [first, .., last]) => format!("one of {first} to {last}"),
        (None, _) => "unknown".to_string(),
    }
}

fn bars(page: &mut Page, devices: &[DeviceRow]) {
    if devices.is_empty() {
        return;
    }
    page.heading("Load");
    let width = devices.iter().map(|device| bar_name(device).chars().count()).max().unwrap_or(0);
    let mut shown = Vec::new();
    for device in devices {
        // Offline nothing starts: what is placed here and what runs are drawn alike.
        let load = Load { starting: Bytes::ZERO, ..Load::new(device) };
        let name = format!("{:width$}  ", bar_name(device));
        load::bar(page, &name, &load, &remarks(device), &mut shown);
    }
    load::legend(page, &shown);
}

fn bar_name(device: &DeviceRow) -> String {
    match device.identity {
        DeviceIdentity::Assumed => device.uuid.clone(),
        DeviceIdentity::Uuid => format!("{}  {}", device.node, device.uuid),
    }
}

/// Formats the state of a device: `, faulty, cordoned`; empty if it is in order.
pub(super) fn remarks(device: &DeviceRow) -> String {
    let health = (device.health != Health::Healthy).then(|| device.health.name());
    let cordoned = device.cordoned.then_some("cordoned");
    // An overcommitted device is closed too, and its bar says so already.
    let closed = (device.closed && !device.is_over()).then_some("closed");
    let remarks = health.into_iter().chain(cordoned).chain(closed);
    remarks.map(|remark| format!(", {remark}")).collect()
}

fn unplaced(
    page: &mut Page,
    heading: &str,
    status: UnplacedStatus,
    rows: &[UnplacedRow],
    names: Names,
) {
    let rows: Vec<&UnplacedRow> = rows.iter().filter(|row| row.status == status).collect();
    if !rows.is_empty() {
        page.heading(heading);
    }
    for alike in rows.chunk_by(|one, other| has_same_answer(one, other)) {
        let shown = if names == Names::All { alike.len() } else { alike.len().min(SAME_ANSWER) };
        for row in &alike[..shown] {
            let name = pod(&row.namespace, &row.pod);
            page.pieces(2, &[(BAD, &name), (PLAIN, ": "), (PLAIN, &row.summary)]);
        }
        if alike.len() > shown {
            let more = alike.len() - shown;
            page.styled(2, FAINT, &format!("and {more} more with the same answer (use --full)"));
        }
        help(page, 4, alike[0].promised.as_ref(), &alike[0].would_fit_if);
    }
}

fn has_same_answer(one: &UnplacedRow, other: &UnplacedRow) -> bool {
    (&one.summary, &one.promised, &one.would_fit_if)
        == (&other.summary, &other.promised, &other.would_fit_if)
}

/// Prints the parts of pods that were not considered, each once with the pods that have it.
fn not_considered(page: &mut Page, rows: &[NotConsideredRow]) {
    let mut pods: BTreeMap<&Name, Vec<String>> = BTreeMap::new();
    for row in rows {
        for what in &row.what {
            pods.entry(what).or_default().push(pod(&row.namespace, &row.pod));
        }
    }
    if !pods.is_empty() {
        page.heading("Not considered");
    }
    for (what, names) in pods {
        page.styled(2, ODD, &format!("{what}: {}", first_names(&names)));
    }
}

/// Lists the first names, and the number of the others.
fn first_names(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn result(page: &mut Page, output: &SimulateOutput) {
    let (placed, unplaced) = (output.placements.len(), output.unplaced.len());
    let impossible =
        output.unplaced.iter().filter(|row| row.status == UnplacedStatus::Impossible).count();
    page.heading("Result");
    let policy = &output.policy;
    let (style, text) = match (placed, unplaced) {
        (0, 0) => (FAINT, "no pods are pending".to_string()),
        (1, 0) => (GOOD, format!("the pod is placed (policy {policy})")),
        (placed, 0) => (GOOD, format!("all {placed} pods are placed (policy {policy})")),
        (placed, unplaced) => {
            let parts = [(unplaced - impossible, "pending"), (impossible, "impossible")];
            let parts = parts.iter().filter(|(number, _)| *number > 0);
            let parts: String =
                parts.map(|(number, status)| format!(", {number} {status}")).collect();
            let pods = count(placed + unplaced, "pod");
            (BAD, format!("{placed} of {pods} placed{parts} (policy {policy})"))
        }
    };
    page.styled(2, style, &text);
}

#[cfg(test)]
mod tests;
