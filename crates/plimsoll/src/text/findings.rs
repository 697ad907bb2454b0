//! What an audit found, one line a finding.

use plimsoll_kube::finding::{Finding, Severity};
use plimsoll_sim::simulation::Uncounted;

use super::count;
use super::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use super::table::{Align, Table};

/// The findings, worst first as they come.
pub(crate) fn findings(page: &mut Page, findings: &[Finding]) {
    page.heading("Findings");
    let mut table = Table::new(&[
        ("SEVERITY", Align::Left),
        ("NODE", Align::Left),
        ("DEVICE", Align::Left),
        ("FINDING", Align::Left),
    ]);
    for finding in findings {
        let style = match finding.severity() {
            Severity::Error => BAD,
            Severity::Warning => ODD,
            Severity::Note => FAINT,
        };
        let name =
            |name: &Option<plimsoll_core::units::Name>| name.as_deref().unwrap_or("-").to_string();
        let message = finding.message();
        table.styled_row([
            (style, finding.severity().as_str().to_string()),
            (PLAIN, name(&finding.node)),
            (PLAIN, name(&finding.device)),
            (PLAIN, format!("{message} [{}]; {}", finding.code(), finding.remedy())),
        ]);
    }
    table.print(page, 2);
    let (style, words) = match findings.len() {
        0 => (GOOD, "nothing is wrong".to_string()),
        number => (BAD, format!("{}: {}", count(number, "finding"), by_severity(findings))),
    };
    page.styled(2, style, &words);
}

/// Pods that could not be counted, so that their absence from the findings says nothing.
pub(crate) fn uncounted(page: &mut Page, uncounted: &[Uncounted]) {
    if uncounted.is_empty() {
        return;
    }
    page.heading("Not considered");
    for pod in uncounted {
        page.styled(2, ODD, &format!("{} {}", pod.request, pod.why));
    }
}

fn by_severity(findings: &[Finding]) -> String {
    let kinds =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let number =
        |severity| findings.iter().filter(|finding| finding.severity() == severity).count();
    let words = kinds
        .into_iter()
        .filter(|(severity, _)| number(*severity) > 0)
        .map(|(s, noun)| count(number(s), noun));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use plimsoll_kube::finding::{LedgerProblem, Problem};

    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_remedy() {
        let mut page = Page::default();
        let finding = Finding {
            node: Some("gpu-node".into()),
            device: Some("gpu-node/gpu-0".into()),
            problem: Problem::Ledger(LedgerProblem::SlicesOverlap {
                holders: vec!["a/b".into(), "a/c".into()],
            }),
        };
        findings(&mut page, &[finding]);
        let text = page.plain();
        let line = "  error     gpu-node  gpu-node/gpu-0  tenants are booked to slices that overlap: a/b, a/c \
                    [slices-overlap]; restart one of them, so that it gets a slice of its own\n";
        assert!(text.contains(line), "{text}");
        assert!(text.ends_with("  1 finding: 1 error\n"), "{text}");
    }
}
