//! The nodes that a decision judged. Alike nodes and devices share a block; of many nodes only the
//! nearest are shown, one line each after the first.

use anstyle::Style;
use plimsoll_api::explanation::Explanation;
use plimsoll_api::verdict::{CandidateRow, ContainerVerdictRow, DeviceVerdictRow, Verdict};
use plimsoll_core::units::Bytes;
use plimsoll_core::wording::SizeFormat;

use super::decision::{score_text, verdict_style};
use super::page::{BAD, FAINT, GOOD, PLAIN, Page, STRONG};
use super::table::{Align, Table};
use super::{count, or_else};

/// The nodes of an explanation that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The nearest ones.
    Nearest,
    /// All of them, each with every device.
    Full,
}

/// The number of groups of nodes that are shown with every device.
const WITH_DEVICES: usize = 3;

/// The number of groups of nodes that are shown.
const NEAREST: usize = 10;

/// Prints the nodes that were judged, under a heading. `chosen` is the node of the placement.
pub(super) fn candidates(
    page: &mut Page,
    heading: &str,
    explanation: &Explanation,
    chosen: Option<&str>,
    detail: Detail,
) {
    let Some(candidates) = explanation.candidates.as_ref().filter(|rows| !rows.is_empty()) else {
        return;
    };
    page.heading(heading);
    let several = candidates.iter().any(|candidate| candidate.shape != candidates[0].shape);
    let groups = alike(candidates, chosen, detail);
    let in_full = match (detail, groups.len()) {
        (Detail::Full, _) | (_, 0..=WITH_DEVICES) => groups.len(),
        _ => 1,
    };
    let shown = if detail == Detail::Full { groups.len() } else { groups.len().min(NEAREST) };
    for (number, group) in groups[..shown].iter().enumerate() {
        let shape = explanation.shapes.get(group[0].shape).filter(|_| several);
        let is_in_full = number < in_full;
        let nearest = if is_in_full { String::new() } else { nearest_on(group[0]) };
        verdict_on(page, group, shape, &nearest);
        if is_in_full {
            let is_chosen = chosen == Some(&*group[0].verdict.name);
            let picked = if is_chosen { "fits, chosen" } else { "fits, best here" };
            for container in &group[0].verdict.containers {
                container_on(page, container, picked, detail);
            }
        }
    }
    let more: usize = groups[shown..].iter().map(Vec::len).sum();
    if more > 0 {
        page.styled(2, FAINT, &format!("and {} (use --full)", count(more, "more node")));
    }
}

/// Groups the nodes with the same verdict, in the order of their first node. The chosen one is by
/// itself.
fn alike<'a>(
    candidates: &'a [CandidateRow],
    chosen: Option<&str>,
    detail: Detail,
) -> Vec<Vec<&'a CandidateRow>> {
    let mut groups: Vec<Vec<&CandidateRow>> = Vec::new();
    for candidate in candidates {
        let is_alone = detail == Detail::Full || chosen == Some(&*candidate.verdict.name);
        let group = groups.iter_mut().find(|group| {
            !is_alone
                && chosen != Some(&*group[0].verdict.name)
                && has_same_verdict(group[0], candidate)
        });
        match group {
            Some(group) => group.push(candidate),
            None => groups.push(vec![candidate]),
        }
    }
    groups
}

/// Returns whether two nodes differ in nothing but names and holders.
fn has_same_verdict(one: &CandidateRow, other: &CandidateRow) -> bool {
    let (first, second) = (&one.verdict, &other.verdict);
    let has_same_devices = |one: &ContainerVerdictRow, other: &ContainerVerdictRow| {
        one.reason == other.reason
            && one.devices.len() == other.devices.len()
            && one.devices.iter().zip(&other.devices).all(|(a, b)| has_same_numbers(a, b))
    };
    one.shape == other.shape
        && (first.status, first.score) == (second.status, second.score)
        && first.reason == second.reason
        && first.containers.len() == second.containers.len()
        && first.containers.iter().zip(&second.containers).all(|(a, b)| has_same_devices(a, b))
}

fn has_same_numbers(one: &DeviceVerdictRow, other: &DeviceVerdictRow) -> bool {
    (one.need, one.free, one.short_by, &one.reason)
        == (other.need, other.free, other.short_by, &other.reason)
        && one.picked == other.picked
        && (is_short(one) || one.text == other.text)
}

/// Prints the verdict on a group of nodes in one line, and the nearest device if it is not listed.
fn verdict_on(page: &mut Page, group: &[&CandidateRow], shape: Option<&String>, nearest: &str) {
    let row = &group[0].verdict;
    let shape = shape.map_or(String::new(), |shape| format!(" for {shape}"));
    let (style, verdict) = match (&row.status, &row.reason) {
        (Verdict::Passed, _) => {
            let parts = row.score_parts.as_deref().unwrap_or_default();
            (GOOD, format!(" passed, score {}", score_text(row.score, parts)))
        }
        (Verdict::Failed, Some(reason)) => {
            (BAD, format!(" failed: {} ({})", reason.code, reason.text))
        }
        (Verdict::Failed, None) => (BAD, format!(" failed{nearest}")),
    };
    let others = match group.len() - 1 {
        0 => String::new(),
        more => format!(" and {} like it", count(more, "node")),
    };
    page.pieces(2, &[(STRONG, &row.name), (STRONG, &shape), (PLAIN, &others), (style, &verdict)]);
}

/// Formats the device of a node that lacks the least memory: `: 12.7 GiB short on gpu-0`.
fn nearest_on(candidate: &CandidateRow) -> String {
    let failed = candidate.verdict.containers.iter().filter(|one| one.status == Verdict::Failed);
    let short = failed.flat_map(|container| &container.devices).filter(|device| is_short(device));
    let nearest = short.min_by_key(|device| device.short_by);
    nearest.map_or(String::new(), |device| {
        let [_, free, short_by] = comparison(device);
        format!(": {short_by} short on {} ({free} free)", device.uuid)
    })
}

fn container_on(page: &mut Page, container: &ContainerVerdictRow, picked: &str, detail: Detail) {
    match &container.reason {
        Some(reason) => {
            page.pieces(4, &[(PLAIN, &container.name), (BAD, " failed: "), (PLAIN, reason)]);
        }
        None if container.devices.is_empty() && container.status == Verdict::Passed => {
            page.pieces(4, &[(PLAIN, &container.name), (FAINT, " passed: needs no device")]);
        }
        None => {
            let style = verdict_style(container.status);
            page.pieces(4, &[(PLAIN, &container.name), (style, &format!(" {}", container.status))]);
        }
    }
    let mut table = Table::new(&[
        ("DEVICE", Align::Left),
        ("NEED", Align::Right),
        ("FREE", Align::Right),
        ("SHORT BY", Align::Right),
        ("VERDICT", Align::Left),
    ]);
    let is_same = |one: &DeviceVerdictRow, other: &DeviceVerdictRow| {
        detail == Detail::Nearest && has_same_numbers(one, other)
    };
    for devices in container.devices.chunk_by(is_same) {
        let [need, free, short_by] = comparison(&devices[0]);
        let name = match devices.len() - 1 {
            0 => devices[0].uuid.clone(),
            more => format!("{} and {more} more", devices[0].uuid),
        };
        let verdict = device_verdict(devices, picked);
        table.styled_row([(PLAIN, name), (PLAIN, need), (PLAIN, free), (PLAIN, short_by), verdict]);
    }
    table.print(page, 6);
}

fn is_short(device: &DeviceVerdictRow) -> bool {
    device.short_by.is_some_and(|short_by| !short_by.is_zero())
}

/// Formats need, free memory and shortfall of a device in one unit.
fn comparison(device: &DeviceVerdictRow) -> [String; 3] {
    let DeviceVerdictRow { need, free, short_by, .. } = device;
    let (needed, available) = (need.unwrap_or_default(), free.unwrap_or_default());
    let format = match needed > available {
        true => SizeFormat::for_shortfall(needed, available),
        false => SizeFormat::for_capacity(available, &[needed]),
    };
    let show = |size: &Option<Bytes>| or_else(size.map(|size| format.show(size)), "?");
    let short_by = match (short_by, need, free) {
        (Some(Bytes::ZERO), ..) => "-".to_string(),
        // As the reason next to it: the difference of the numbers as they are printed.
        (Some(_), Some(need), Some(free)) => format.show_difference(*need, *free),
        (short_by, ..) => show(short_by),
    };
    [show(need), show(free), short_by]
}

/// Formats the verdict on devices with the same numbers. Where memory is short, the columns have
/// the numbers.
fn device_verdict(devices: &[DeviceVerdictRow], picked: &str) -> (Style, String) {
    let device = &devices[0];
    let Some(code) = &device.reason else {
        return (GOOD, if device.picked { picked } else { "fits" }.to_string());
    };
    let text = device.text.as_ref().filter(|_| !is_short(device));
    let text = text.map_or(String::new(), |text| format!(": {text}"));
    let others = match devices.iter().all(|other| other.held_by == device.held_by) {
        true => "",
        false => " and others",
    };
    let held = device.held_by.as_ref();
    let held = held.map_or(String::new(), |held| format!("; held by {held}{others}"));
    (PLAIN, format!("{code}{text}{held}"))
}
