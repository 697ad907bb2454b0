//! Days of trouble in few lines: what happened, and what was wrong with it.

use plimsoll_sim::chaos::{Count, Finding};

use super::page::{BAD, FAINT, GOOD, PLAIN, Page};
use crate::commands::Lived;

/// What came of days of trouble.
pub(crate) fn chaos(page: &mut Page, lived: &Lived) {
    let tally = &lived.tally;
    for (count, _, words) in Count::ALL {
        page.line(0, &format!("{:>14}  {words}", tally.of(count)));
    }
    page.styled(0, FAINT, &format!("fingerprint {:016x}", lived.fingerprint));
    for (finding, last) in &lived.findings {
        wrong(page, finding, last);
    }
    let verdict = format!(
        "{} events, {} crashes, {} other faults: ",
        tally.of(Count::Events),
        tally.crashes(),
        tally.faults()
    );
    let (style, found) = match lived.findings.len() {
        0 => (GOOD, "nothing found".to_string()),
        1 => (BAD, "1 day broke a promise".to_string()),
        days => (BAD, format!("{days} days broke a promise")),
    };
    page.line(0, "");
    page.pieces(0, &[(PLAIN, &verdict), (style, &found)]);
}

fn wrong(page: &mut Page, finding: &Finding, last: &[String]) {
    page.heading(&format!(
        "seed {}, event {}, {} ms into the day",
        finding.seed, finding.event, finding.at.0
    ));
    for line in last {
        page.styled(2, FAINT, line);
    }
    for what in &finding.what {
        page.styled(2, BAD, what);
    }
    page.line(2, &format!("again: {}", finding.command()));
}
