//! The sections of a decision, from the rows that offline commands and servers share.

use anstyle::Style;
use plimsoll_api::explanation::{Explanation, PromisedRow, RemedyRow};
use plimsoll_api::lost_by::LostBy;
use plimsoll_api::verdict::{
    CandidateRow, ContainerVerdictRow, DeviceVerdictRow, ScorePart, Verdict,
};
use plimsoll_core::units::Bytes;
use plimsoll_core::wording::SizeFormat;

use super::or_else;
use super::page::{BAD, FAINT, GOOD, PLAIN, Page, STRONG};
use super::table::{Align, Table};

/// Prints what was requested, one line for each alternative.
pub(super) fn requested(page: &mut Page, explanation: &Explanation) {
    for (at, shape) in explanation.shapes.iter().enumerate() {
        let alternative = if at == 0 { "requests" } else { "or" };
        page.line(2, &format!("{alternative} {shape}"));
    }
}

/// Formats where a request is placed, with the score of the placement.
pub(super) fn placed_on(node: &str, explanation: &Explanation) -> String {
    let score = explanation.score.map(|score| score_text(score, &explanation.score_parts));
    format!("placed on {node}{}", score.map_or(String::new(), |score| format!(", score {score}")))
}

/// Formats a score and the terms that contribute to it: `12345 (node 10000, device 2345)`.
fn score_text(score: i64, parts: &[ScorePart]) -> String {
    let parts = parts.iter().filter(|part| part.points != 0);
    let parts: Vec<String> = parts.map(|part| format!("{} {}", part.term, part.points)).collect();
    if parts.is_empty() { score.to_string() } else { format!("{score} ({})", parts.join(", ")) }
}

/// Prints the placements that fit and were not chosen.
pub(super) fn not_chosen(page: &mut Page, lost_by: &[LostBy]) {
    if lost_by.is_empty() {
        return;
    }
    page.heading("Not chosen");
    for lost in lost_by {
        let device = lost.device.as_ref().map_or(String::new(), |device| format!("{device} on "));
        page.line(2, &format!("{device}{}: {}", lost.node, lost.text));
    }
}

/// Prints every node that was judged, under a heading. `chosen` is the node of the placement.
pub(super) fn candidates(
    page: &mut Page,
    heading: &str,
    explanation: &Explanation,
    chosen: Option<&str>,
) {
    let Some(candidates) = explanation.candidates.as_ref().filter(|rows| !rows.is_empty()) else {
        return;
    };
    page.heading(heading);
    let several = candidates.iter().any(|candidate| candidate.shape != candidates[0].shape);
    for candidate in candidates {
        let shape = explanation.shapes.get(candidate.shape).filter(|_| several);
        candidate_on(page, candidate, shape, chosen);
    }
}

fn candidate_on(
    page: &mut Page,
    candidate: &CandidateRow,
    shape: Option<&String>,
    chosen: Option<&str>,
) {
    let row = &candidate.verdict;
    let shape = shape.map_or(String::new(), |shape| format!(" for {shape}"));
    let (style, verdict) = match (&row.status, &row.reason) {
        (Verdict::Passed, _) => {
            let parts = row.score_parts.as_deref().unwrap_or_default();
            (GOOD, format!(" passed, score {}", score_text(row.score, parts)))
        }
        (Verdict::Failed, Some(reason)) => {
            (BAD, format!(" failed: {} ({})", reason.code, reason.text))
        }
        (Verdict::Failed, None) => (BAD, " failed".to_string()),
    };
    page.pieces(2, &[(STRONG, &row.name), (STRONG, &shape), (style, &verdict)]);
    let picked = if chosen == Some(&*row.name) { "fits, chosen" } else { "fits, best here" };
    for container in &row.containers {
        container_on(page, container, picked);
    }
}

fn container_on(page: &mut Page, container: &ContainerVerdictRow, picked: &str) {
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
    for device in &container.devices {
        let [need, free, short_by] = comparison(device);
        let verdict = device_verdict(device, picked);
        table.styled_row([
            (PLAIN, device.uuid.clone()),
            (PLAIN, need),
            (PLAIN, free),
            (PLAIN, short_by),
            verdict,
        ]);
    }
    table.print(page, 6);
}

/// Formats need, free memory and shortfall of a device in one unit.
fn comparison(device: &DeviceVerdictRow) -> [String; 3] {
    let DeviceVerdictRow { need, free, short_by, .. } = device;
    let (needed, available) = (need.unwrap_or_default(), free.unwrap_or_default());
    let format = SizeFormat::for_shortfall(needed, available);
    let show = |size: &Option<Bytes>| or_else(size.map(|size| format.show(size)), "?");
    let short_by = match (short_by, need, free) {
        (Some(Bytes::ZERO), ..) => "-".to_string(),
        // As the reason next to it: the difference of the numbers as they are printed.
        (Some(_), Some(need), Some(free)) => format.show_difference(*need, *free),
        (short_by, ..) => show(short_by),
    };
    [show(need), show(free), short_by]
}

fn device_verdict(device: &DeviceVerdictRow, picked: &str) -> (Style, String) {
    let Some(code) = &device.reason else {
        return (GOOD, if device.picked { picked } else { "fits" }.to_string());
    };
    let text = device.text.as_ref().map_or(String::new(), |text| format!(": {text}"));
    let held = device.held_by.as_ref().map_or(String::new(), |held| format!("; held by {held}"));
    (PLAIN, format!("{code}{text}{held}"))
}

/// Returns the style of a verdict.
pub(super) fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Passed => GOOD,
        Verdict::Failed => BAD,
    }
}

/// Prints the promised placement and the changes that would help.
pub(super) fn help(
    page: &mut Page,
    indent: usize,
    promised: Option<&PromisedRow>,
    would_fit_if: &[RemedyRow],
) {
    if let Some(promised) = promised {
        page.line(indent, &promise(promised));
    }
    for remedy in would_fit_if {
        page.line(indent, &format!("would fit if {}", remedy.text));
    }
}

/// Formats a promise: `will fit on GPU-a (runner) when these have stopped: m/slot-1`.
pub(crate) fn promise(promised: &PromisedRow) -> String {
    let PromisedRow { node, devices, devices_wanted, after } = promised;
    let devices = match devices.len() > *devices_wanted {
        true => format!("{devices_wanted} of {}", devices.join(", ")),
        false => devices.join(" and "),
    };
    format!("will fit on {devices} ({node}) when these have stopped: {}", after.join(", "))
}

/// Prints policy, ledger revision and digest.
pub(super) fn decided_by(page: &mut Page, explanation: &Explanation, digest: Option<&str>) {
    let policy = explanation.policy.as_ref().map(|policy| format!("policy {policy}"));
    let revision = explanation.ledger_revision.map(|number| format!("ledger revision {number}"));
    let digest = digest.map(|digest| format!("digest {digest}"));
    let parts: Vec<String> = policy.into_iter().chain(revision).chain(digest).collect();
    if !parts.is_empty() {
        page.heading("Decided by");
        page.styled(2, FAINT, &parts.join(", "));
    }
}
