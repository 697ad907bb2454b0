//! The scheduler log of a named client: every node and container, in the shape of HAMi's proposal.

use plimsoll_api::rows::{BindStatus, DecisionRow, LogStatus, SchedulerLogRow};
use plimsoll_api::verdict::Verdict;

use super::reservation::status_style;
use crate::text::decision::verdict_style;
use crate::text::page::{BAD, FAINT, GOOD, PLAIN, Page, STRONG};

/// Prints the status of each step.
pub(crate) fn steps(
    page: &mut Page,
    client: &str,
    log: &SchedulerLogRow,
    decision: Option<&DecisionRow>,
) {
    page.heading(client);
    let style = match log.status {
        LogStatus::Succeeded => GOOD,
        LogStatus::Failed => BAD,
    };
    page.styled(2, style, log.status.name());
    let filter = (verdict_style(log.filter.status), log.filter.status.name());
    let bind = match log.bind.status {
        BindStatus::NotReached => (FAINT, "not reached"),
        BindStatus::Passed => (GOOD, log.bind.status.name()),
        BindStatus::Failed => (BAD, log.bind.status.name()),
    };
    // The decision below has the details.
    let rejected = decision.filter(|decision| !decision.placed);
    let filtered = rejected.map_or(&log.filter.summary, |decision| &decision.explanation.brief);
    for (step, status, summary) in [
        ("filter (choice of a runner) ", filter, filtered),
        ("bind (start on the runner) ", bind, &log.bind.summary),
    ] {
        let summary = if summary.is_empty() { String::new() } else { format!(": {summary}") };
        page.pieces(2, &[(PLAIN, step), status, (PLAIN, &summary)]);
    }
    let ended = log.reservation.as_ref().and_then(|reservation| reservation.ended.as_ref());
    if let Some(ended) = ended {
        let status = (status_style(ended.status), ended.status.name());
        page.pieces(2, &[(PLAIN, "ended "), status, (PLAIN, ": "), (PLAIN, &ended.reason)]);
    }
}

/// Prints the verdict on every node.
pub(crate) fn nodes(page: &mut Page, log: &SchedulerLogRow) {
    if log.filter.nodes.is_empty() {
        return;
    }
    page.heading("Nodes");
    for node in &log.filter.nodes {
        let status = (verdict_style(node.status), node.status.name());
        let score = match node.status {
            Verdict::Passed => format!(", score {}", node.score),
            Verdict::Failed => String::new(),
        };
        page.pieces(2, &[(STRONG, &node.name), (PLAIN, " "), status, (PLAIN, &score)]);
        for container in &node.containers {
            let status = (verdict_style(container.status), container.status.name());
            let reason = container.reason.as_ref();
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            page.pieces(4, &[(PLAIN, &container.name), (PLAIN, " "), status, (PLAIN, &reason)]);
        }
    }
}
