//! A simulated cluster as text: placements, the load of every device, pods that are not placed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::device::{DeviceIdentity, DeviceRow, Health};
use plimsoll_api::forecast::AccountRow;
use plimsoll_api::offline::{
    ChosenDevice, NotConsideredRow, PlacementRow, SimulateOutput, UnplacedRow, UnplacedStatus,
};
use plimsoll_core::units::{Bytes, Name};

use super::decision::{LABEL, clauses, help};
use super::load::{self, Load};
use super::page::{BAD, FAINT, GOOD, ODD, Page};
use super::table::{Align, Table};
use super::{common_format, count, sizes};

/// The pods with the same answer that are listed; the rest are counted unless all are wanted.
const SAME_ANSWER: usize = 8;

/// The different answers that are listed unless all are wanted.
const ANSWERS: usize = 4;

/// The selection of pods that are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Some of the pods with the same answer.
    Some,
    All,
}

/// Prints the outcome of a simulation.
pub(crate) fn simulate(page: &mut Page, output: &SimulateOutput, names: Names) {
    placements(page, &output.placements, names);
    bars(page, &output.devices, names);
    if !output.breaches.is_empty() {
        page.heading("Overcommitted");
    }
    for breach in &output.breaches {
        page.styled(2, BAD, &breach.text);
    }
    pending(page, output, names);
    accounts(page, &output.accounts);
    not_considered(page, &output.not_considered);
    result(page, output);
}

/// Prints the accounts with a share.
fn accounts(page: &mut Page, rows: &[AccountRow]) {
    if !rows.is_empty() {
        page.heading("Accounts");
        super::live::accounts::accounts(page, 2, rows);
    }
}

/// Prints the pods that are not placed.
pub(crate) fn pending(page: &mut Page, output: &SimulateOutput, names: Names) {
    unplaced(page, "Pending", UnplacedStatus::Pending, output, names);
    unplaced(page, "Impossible", UnplacedStatus::Impossible, output, names);
}

/// The rows of a list that are shown unless all are wanted.
const SHOWN: usize = 12;

fn placements(page: &mut Page, rows: &[PlacementRow], names: Names) {
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
    ])
    .optional(&["SCORE"]);
    let bytes = |row: &PlacementRow| -> Vec<Option<Bytes>> {
        row.chosen.devices.iter().map(|charge| charge.bytes).collect()
    };
    let format = common_format(rows.iter().flat_map(bytes));
    let groups = alike_placements(rows, names);
    let shown = if names == Names::All { groups.len() } else { groups.len().min(SHOWN) };
    for group in &groups[..shown] {
        let first = group[0];
        let devices = first.chosen.devices.iter().map(|charge| device_name(&charge.device));
        let devices = devices.collect::<Vec<_>>().join(" + ");
        let nodes: BTreeSet<&Name> = group.iter().map(|row| &row.node).collect();
        let [pods, node, devices, score] = match group.len() {
            1 => [
                pod(&first.namespace, &first.pod),
                first.node.to_string(),
                if devices.is_empty() { "-".to_string() } else { devices },
                first.score.to_string(),
            ],
            more => [
                format!("{} and {} like it", pod(&first.namespace, &first.pod), more - 1),
                count(nodes.len(), "node"),
                format!("{} each", count(first.chosen.devices.len(), "device")),
                "-".to_string(),
            ],
        };
        table.row([pods, node, devices, sizes(format, bytes(first)), score]);
    }
    table.print(page, 2);
    let more: usize = groups[shown..].iter().map(Vec::len).sum();
    and_more(page, more, "pod");
}

/// Says how many more there are.
fn and_more(page: &mut Page, more: usize, noun: &str) {
    if more > 0 {
        page.styled(
            2,
            FAINT,
            &format!("and {} (use --full)", count(more, &format!("more {noun}"))),
        );
    }
}

/// Groups pods of one workload with the same needs if there are too many to list.
fn alike_placements(rows: &[PlacementRow], names: Names) -> Vec<Vec<&PlacementRow>> {
    if names == Names::All || rows.len() <= LISTED {
        return rows.iter().map(|row| vec![row]).collect();
    }
    let mut groups: Vec<Vec<&PlacementRow>> = Vec::new();
    let mut known: BTreeMap<(&Name, &str, Vec<Option<Bytes>>), usize> = BTreeMap::new();
    for row in rows {
        let bytes = row.chosen.devices.iter().map(|charge| charge.bytes).collect();
        let workload = row.pod.trim_end_matches(|c: char| c.is_ascii_digit());
        let at = *known.entry((&row.namespace, workload, bytes)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(row);
    }
    groups
}

/// The pods and devices that are listed one by one.
const LISTED: usize = 24;

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

fn bars(page: &mut Page, devices: &[DeviceRow], names: Names) {
    if devices.is_empty() {
        return;
    }
    page.heading("Load");
    let mut groups: Vec<(Load, String, Vec<&DeviceRow>)> = Vec::new();
    for device in devices {
        // Offline nothing starts: what is placed here and what runs are drawn alike.
        let load = Load { starting: Bytes::ZERO, ..Load::new(device) };
        let remarks = remarks(device);
        let is_alike = |group: &&mut (Load, String, Vec<&DeviceRow>)| {
            names == Names::Some
                && devices.len() > LISTED
                && (&group.0, &group.1) == (&load, &remarks)
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.2.push(device),
            None => groups.push((load, remarks, vec![device])),
        }
    }
    let shown = match names {
        Names::Some if groups.len() > LISTED => SHOWN,
        _ => groups.len(),
    };
    // The fullest come first where not all are shown.
    if shown < groups.len() {
        groups.sort_by_key(|(load, ..)| Reverse((load.over_by, load.sum())));
    }
    let bar = |(load, remarks, devices): &(Load, String, Vec<&DeviceRow>)| load::Bar {
        name: match devices.len() {
            1 => bar_name(devices[0]),
            more => format!("{} and {} like it", bar_name(devices[0]), more - 1),
        },
        load: load.clone(),
        remarks: remarks.clone(),
    };
    let drawn: Vec<load::Bar> = groups[..shown].iter().map(bar).collect();
    load::bars(page, &drawn);
    let more: usize = groups[shown..].iter().map(|(.., devices)| devices.len()).sum();
    and_more(page, more, "device");
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
    output: &SimulateOutput,
    names: Names,
) {
    let rows = output.unplaced.iter().filter(|row| row.status == status);
    let rows: Vec<&UnplacedRow> = rows.collect();
    let has_shares = !output.accounts.is_empty();
    if !rows.is_empty() {
        page.heading(heading);
    }
    let groups: Vec<&[&UnplacedRow]> = rows
        .chunk_by(|one, other| {
            has_same_answer(one, other) && (!has_shares || one.namespace == other.namespace)
        })
        .collect();
    let listed = if names == Names::All { groups.len() } else { groups.len().min(ANSWERS) };
    for alike in &groups[..listed] {
        let shown = if names == Names::All { alike.len() } else { alike.len().min(SAME_ANSWER) };
        let pods: Vec<String> =
            alike[..shown].iter().map(|row| pod(&row.namespace, &row.pod)).collect();
        let more = match alike.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more with the same answer (use --full)"),
        };
        page.pieces(2, &[(BAD, &pods.join(", ")), (FAINT, &more)]);
        clauses(page, 4, &alike[0].clauses);
        if let Some(forecast) = alike[0].forecast.as_ref().filter(|_| has_shares) {
            page.labelled(4, ("account", LABEL), &forecast.account.text);
            page.labelled(4, ("starts", LABEL), &forecast.start.text);
        }
        help(page, 4, alike[0].promised.as_ref(), &alike[0].would_fit_if);
    }
    let more: usize = groups[listed..].iter().map(|alike| alike.len()).sum();
    and_more(page, more, "pod");
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
