//! The outcome of a replay as text.

use plimsoll_api::offline::{
    DivergenceRow, RecordedDecisionRow, ReplayOutput, ReplayedDecisionOutput, StateMismatchRow,
    StateSource,
};
use plimsoll_api::time::Time;

use super::candidates::Detail;
use super::page::{BAD, FAINT, GOOD, ODD, Page};
use super::{count, explain};

/// Prints the replay of a whole journal.
pub(crate) fn replay(page: &mut Page, output: &ReplayOutput) {
    page.heading("Replayed");
    let span = output.first_seq.zip(output.last_seq);
    let span = span.map_or(String::new(), |(first, last)| format!(", numbers {first} to {last}"));
    page.line(2, &format!("{}{span}", numbered(output.records, "record")));
    page.line(2, &numbered(output.decisions, "decision"));
    if !output.written_by.is_empty() {
        let versions: Vec<&str> = output.written_by.iter().map(String::as_str).collect();
        let versions = versions.join(", ");
        let text = format!("recorded by core {versions}, replayed by core {}", output.core);
        page.styled(2, FAINT, &text);
    }
    for difference in &output.divergences {
        divergence(page, difference);
    }
    if !output.states.is_empty() {
        page.heading("States");
    }
    for state in &output.states {
        page.styled(2, BAD, &state_mismatch(state));
    }
    result(page, output);
}

fn result(page: &mut Page, output: &ReplayOutput) {
    page.heading("Result");
    if output.same {
        return page.styled(2, GOOD, "all decisions are the same");
    }
    if output.records_that_differ > 0 {
        let records = numbered(output.records_that_differ, "record");
        page.styled(2, BAD, &format!("{records} differ from the journal"));
        let shown = output.divergences.len() as u64;
        if shown < output.records_that_differ {
            page.styled(2, FAINT, &format!("the first {shown} are shown"));
        }
    }
    if !output.states.is_empty() {
        let states = count(output.states.len(), "state");
        page.styled(2, BAD, &format!("{states} differ from the recorded operations"));
    }
    if output.written_by.iter().any(|version| *version != output.core) {
        let text = "some records were written by another version of the core, which may decide differently";
        page.styled(2, ODD, text);
    }
}

fn divergence(page: &mut Page, difference: &DivergenceRow) {
    page.heading(&format!("Record {}, written by core {}", difference.seq, difference.core));
    let decisions = difference.recorded.len().max(difference.again.len());
    for index in 0..decisions {
        let (recorded, again) = (difference.recorded.get(index), difference.again.get(index));
        if recorded == again {
            continue;
        }
        page.line(2, &format!("decision {}.{index}", difference.seq));
        page.styled(4, ODD, &format!("journal: {}", decision(recorded)));
        page.styled(4, BAD, &format!("replay:  {}", decision(again)));
    }
    if difference.operations_differ {
        page.styled(2, BAD, "the operations differ");
    }
}

fn decision(decision: Option<&RecordedDecisionRow>) -> String {
    decision.map_or("no decision".to_string(), |decision| {
        let RecordedDecisionRow { account, name, summary, digest, .. } = decision;
        format!("{account}/{name}: {summary} [{digest}]")
    })
}

fn state_mismatch(state: &StateMismatchRow) -> String {
    let source = match state.way {
        StateSource::Snapshot => "the saved snapshot",
        StateSource::Deciding => "the replayed state",
    };
    format!("before record {}, {source} differs from the recorded operations", state.before_seq)
}

/// Prints one decision: its explanation if it is the same, else the difference.
pub(crate) fn decision_in_full(page: &mut Page, output: &ReplayedDecisionOutput) {
    let RecordedDecisionRow { account, name, .. } = &output.recorded;
    match &output.explanation {
        Some(explanation) => explain::explain(page, explanation, Detail::Full),
        None => {
            page.heading(&format!("{account}/{name}"));
            page.styled(2, BAD, "the decision differs from the journal; it cannot be explained");
            page.styled(4, ODD, &format!("journal: {}", output.recorded.summary));
            page.styled(4, BAD, &format!("replay:  {}", output.summary));
            page.heading("Decided by");
        }
    }
    let ReplayedDecisionOutput { decision, recorded_by, digest, core, .. } = output;
    let at = Time(output.now).to_clock();
    page.styled(2, FAINT, &format!("decision {decision}, {at}, core {recorded_by}"));
    let recorded = &output.recorded.digest;
    page.styled(2, FAINT, &format!("digest {recorded}, replayed {digest} by core {core}"));
}

fn numbered(number: u64, noun: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}
