//! The sections of a decision, from the rows that offline commands and servers share.

use anstyle::Style;
use plimsoll_api::clause::{ClauseRow, ClauseTopic};
use plimsoll_api::explanation::{Explanation, PromisedRow, RemedyRow};
use plimsoll_api::lost_by::LostBy;
use plimsoll_api::verdict::{ScorePart, Verdict};

use super::page::{BAD, FAINT, GOOD, Page};

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
pub(super) fn score_text(score: i64, parts: &[ScorePart]) -> String {
    let parts = parts.iter().filter(|part| part.points != 0);
    let term = |part: &ScorePart| match part.points {
        // A runner on which starts of the model have failed, or that it prefers to avoid.
        ..0 if part.term == "preferred" => format!("avoided {}", part.points),
        points => format!("{} {points}", part.term),
    };
    let parts: Vec<String> = parts.map(term).collect();
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

/// Prints the lines about a rejection, aligned.
pub(super) fn clauses<'a>(
    page: &mut Page,
    indent: usize,
    rows: impl IntoIterator<Item = &'a ClauseRow>,
) {
    for row in rows {
        page.labelled(indent, (label(row.topic), LABEL), &row.text);
    }
}

/// The width of the labels of lines.
pub(super) const LABEL: usize = "not evictable".len();

/// Returns the lines except what the request needs.
pub(super) fn without_needs(rows: &[ClauseRow]) -> impl Iterator<Item = &ClauseRow> {
    rows.iter().filter(|row| row.topic != ClauseTopic::Needs)
}

fn label(topic: ClauseTopic) -> &'static str {
    match topic {
        ClauseTopic::Reason => "reason",
        ClauseTopic::Needs => "needs",
        ClauseTopic::Nearest => "nearest",
        ClauseTopic::HeldBy => "held by",
        ClauseTopic::Judged => "checked",
        ClauseTopic::NotEvictable => "not evictable",
    }
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
        page.labelled(indent, ("promised", LABEL), &promise(promised));
    }
    for remedy in would_fit_if {
        page.labelled(indent, ("would fit if", LABEL), &remedy.text);
    }
}

/// Formats a promise: `GPU-a (runner) when these have stopped: m/slot-1`.
pub(crate) fn promise(promised: &PromisedRow) -> String {
    let PromisedRow { node, devices, devices_wanted, after } = promised;
    let devices = match devices.len() > *devices_wanted {
        true => format!("{devices_wanted} of {}", devices.join(", ")),
        false => devices.join(" and "),
    };
    format!("{devices} ({node}) when these have stopped: {}", after.join(", "))
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
