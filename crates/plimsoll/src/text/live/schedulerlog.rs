//! The log of one who asked by name: every node and container, in the shape of HAMi's proposal.

use anstyle::Style;

use crate::client::rows::SchedulerLog;
use crate::text::page::{BAD, GOOD, PLAIN, Page, STRONG};

fn status(status: &str) -> Style {
    if ["passed", "succeeded"].contains(&status) { GOOD } else { BAD }
}

/// How one who asked fared, step by step.
pub(crate) fn steps(page: &mut Page, who: &str, log: &SchedulerLog) {
    page.heading(who);
    page.styled(2, status(&log.status), &log.status);
    for (name, step, summary) in [
        ("filter", &log.filter.status, &log.filter.summary),
        ("bind", &log.bind.status, &log.bind.summary),
    ] {
        let step = if step.is_empty() { "not reached" } else { &**step };
        let summary = if summary.is_empty() { String::new() } else { format!(": {summary}") };
        page.pieces(2, &[(PLAIN, name), (PLAIN, " "), (status(step), step), (PLAIN, &summary)]);
    }
}

/// What every node was judged to be.
pub(crate) fn nodes(page: &mut Page, log: &SchedulerLog) {
    if log.filter.nodes.is_empty() {
        return;
    }
    page.heading("Nodes");
    for node in &log.filter.nodes {
        let score = node.score.as_ref().filter(|_| node.status == "passed");
        let score = score.map_or(String::new(), |score| format!(", score {score}"));
        page.pieces(
            2,
            &[
                (STRONG, &node.name),
                (PLAIN, " "),
                (status(&node.status), &node.status),
                (PLAIN, &score),
            ],
        );
        for container in &node.containers {
            let reason =
                container.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
            page.pieces(
                4,
                &[
                    (PLAIN, &container.name),
                    (PLAIN, " "),
                    (status(&container.status), &container.status),
                    (PLAIN, &reason),
                ],
            );
        }
    }
}
