//! The outcome of fault-injection simulations.

use plimsoll_api::offline::{ChaosFindingRow, ChaosOutput};
use plimsoll_sim::chaos::Counter;
use plimsoll_sim::guarded::GuardedCounts;

use super::count;
use super::page::{BAD, FAINT, GOOD, PLAIN, Page};

/// Prints the counts, and every violated invariant.
pub(crate) fn chaos(page: &mut Page, output: &ChaosOutput) {
    for (_, name, description) in Counter::ALL {
        let number = output.counts.get(name).copied().unwrap_or_default();
        page.line(0, &format!("{number:>14}  {description}"));
    }
    outcome(page, output);
}

/// Prints the counts of a guarded cluster, and every violated invariant.
pub(crate) fn cluster(page: &mut Page, output: &ChaosOutput, counts: &GuardedCounts) {
    for (name, number) in counts.named() {
        page.line(0, &format!("{number:>14}  {}", name.replace('_', " ")));
    }
    outcome(page, output);
}

fn outcome(page: &mut Page, output: &ChaosOutput) {
    page.styled(0, FAINT, &format!("fingerprint {}", output.fingerprint));
    for finding in &output.findings {
        violation(page, finding);
    }
    let events = output.counts.get("events").copied().unwrap_or_default();
    let ChaosOutput { crashes, faults, findings, .. } = output;
    let total = format!("{events} events, {crashes} crashes, {faults} other faults: ");
    let (style, found) = match findings.len() {
        0 => (GOOD, "no invariant violated".to_string()),
        days => (BAD, format!("invariants violated on {}", count(days, "day"))),
    };
    page.line(0, "");
    page.pieces(0, &[(PLAIN, &total), (style, &found)]);
}

fn violation(page: &mut Page, finding: &ChaosFindingRow) {
    let ChaosFindingRow { seed, event, at_ms, .. } = finding;
    page.heading(&format!("seed {seed}, event {event}, {at_ms} ms into the day"));
    for line in &finding.last_events {
        page.styled(2, FAINT, line);
    }
    for what in &finding.what {
        page.styled(2, BAD, what);
    }
    page.line(2, &format!("reproduce with: {}", finding.again));
}
