//! What came of deciding a journal again, as text.

use plimsoll_core::drive::{self, DecisionRecord, Divergence};

use super::explain;
use super::page::{BAD, FAINT, GOOD, ODD, Page};
use plimsoll_engine::replay::{Replayed, Report, Way};

/// All of a journal.
pub(crate) fn report(page: &mut Page, report: &Report) {
    page.heading("Decided again");
    let span =
        report.span.map_or(String::new(), |(first, last)| format!(", numbers {first} to {last}"));
    page.line(2, &format!("{}{span}", numbered(report.records, "record")));
    page.line(2, &numbered(report.decisions, "decision"));
    let versions: Vec<&str> = report.written_by.iter().map(String::as_str).collect();
    if !versions.is_empty() {
        let line =
            format!("decided by core {}, again by core {}", versions.join(", "), drive::VERSION);
        page.styled(2, FAINT, &line);
    }
    for difference in &report.divergences {
        divergence(page, difference);
    }
    states(page, report);
    page.heading("Result");
    if report.holds() {
        return page.styled(2, GOOD, "everything came out the same");
    }
    if report.differ > 0 {
        page.styled(2, BAD, &format!("{} came out differently", numbered(report.differ, "record")));
        let shown = report.divergences.len() as u64;
        if shown < report.differ {
            page.styled(2, FAINT, &format!("the first {shown} are shown"));
        }
    }
    if !report.states.is_empty() {
        let number = report.states.len() as u64;
        page.styled(2, BAD, &format!("{} to a state led elsewhere", numbered(number, "way")));
    }
    if report.crosses_versions() {
        page.styled(
            2,
            ODD,
            "another version of the core wrote some of it; versions may decide differently",
        );
    }
}

fn divergence(page: &mut Page, difference: &Divergence) {
    page.heading(&format!("Record {}, decided by core {}", difference.seq, difference.core));
    let most = difference.recorded.len().max(difference.again.len());
    for index in 0..most {
        let (recorded, again) = (difference.recorded.get(index), difference.again.get(index));
        if recorded == again {
            continue;
        }
        page.line(2, &format!("decision {}.{index}", difference.seq));
        page.styled(4, ODD, &format!("journal: {}", said(recorded)));
        page.styled(4, BAD, &format!("again:   {}", said(again)));
    }
    if difference.operations_differ {
        page.styled(2, BAD, "what it changed is not the same");
    }
}

fn said(decision: Option<&DecisionRecord>) -> String {
    decision.map_or("no decision".to_string(), |decision| {
        format!("{}: {} [{:016x}]", decision.request, decision.summary, decision.digest)
    })
}

fn states(page: &mut Page, report: &Report) {
    if report.states.is_empty() {
        return;
    }
    page.heading("States");
    for state in &report.states {
        let way = match state.way {
            Way::Snapshot => "the snapshot that was saved there",
            Way::Deciding => "the state that deciding again leads to",
        };
        let line = format!(
            "before record {}, {way} is not the one that the journal leads to",
            state.before
        );
        page.styled(2, BAD, &line);
    }
}

/// One decision: its explanation if it is the one that was made, else what differs.
pub(crate) fn one(page: &mut Page, replayed: &Replayed) {
    if replayed.is_same() {
        explain::explain(page, &replayed.decision, None, &[]);
    } else {
        page.heading(&replayed.decision.request.to_string());
        page.styled(2, BAD, "it came out differently, so that its explanation cannot be shown");
        page.styled(4, ODD, &format!("journal: {}", replayed.recorded.summary));
        let again = replayed.decision.summary();
        page.styled(4, BAD, &format!("again:   {again}"));
        page.heading("Decided by");
    }
    let made = format!("decision {}, {}, core {}", replayed.id, replayed.now, replayed.core);
    page.styled(2, FAINT, &made);
    let digest = format!(
        "digest {:016x}, again {:016x} by core {}",
        replayed.recorded.digest,
        replayed.digest,
        drive::VERSION
    );
    page.styled(2, FAINT, &digest);
}

fn numbered(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
