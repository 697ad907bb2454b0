//! The findings of an audit, one line each.

use plimsoll_api::offline::{FindingRow, Severity};
use plimsoll_sim::simulation::Uncounted;

use super::count;
use super::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use super::table::{Align, Table};

/// Prints the findings in their order, the worst first.
pub(crate) fn findings(page: &mut Page, findings: &[FindingRow]) {
    page.heading("Findings");
    let mut table = Table::new(&[
        ("SEVERITY", Align::Left),
        ("NODE", Align::Left),
        ("DEVICE", Align::Left),
        ("FINDING", Align::Left),
    ]);
    for finding in findings {
        let style = match finding.severity {
            Severity::Error => BAD,
            Severity::Warning => ODD,
            Severity::Note => FAINT,
        };
        let message = finding.message.trim_end_matches('.');
        table.styled_row([
            (style, finding.severity.to_string()),
            (PLAIN, finding.node.as_deref().unwrap_or("-").to_string()),
            (PLAIN, finding.uuid.as_deref().unwrap_or("-").to_string()),
            (PLAIN, format!("{message} [{}]; {}", finding.code, finding.remedy)),
        ]);
    }
    table.print(page, 2);
    let (style, text) = match findings.len() {
        0 => (GOOD, "no findings".to_string()),
        number => (BAD, format!("{}: {}", count(number, "finding"), by_severity(findings))),
    };
    page.styled(2, style, &text);
}

/// Prints the pods that could not be counted: that no finding names them says nothing.
pub(crate) fn uncounted(page: &mut Page, uncounted: &[Uncounted]) {
    if uncounted.is_empty() {
        return;
    }
    page.heading("Not considered");
    for pod in uncounted {
        page.styled(2, ODD, &format!("{} {}", pod.request, pod.why));
    }
}

fn by_severity(findings: &[FindingRow]) -> String {
    let mut parts = Vec::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let number = findings.iter().filter(|finding| finding.severity == severity).count();
        if number > 0 {
            parts.push(count(number, severity.name()));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_remedy() {
        let mut page = Page::default();
        let finding = FindingRow {
            code: "device-over-line".to_string(),
            severity: Severity::Error,
            node: Some("gpu-node".into()),
            uuid: Some("gpu-node/gpu-0".into()),
            message: "holds 40000 MiB of 32607 MiB".to_string(),
            numbers: Default::default(),
            remedy: "move a pod away".to_string(),
        };
        findings(&mut page, &[finding]);
        let text = page.plain();
        let line = "  error     gpu-node  gpu-node/gpu-0  holds 40000 MiB of 32607 MiB [device-over-line]; move a pod away\n";
        assert!(text.contains(line), "{text}");
        assert!(text.ends_with("  1 finding: 1 error\n"), "{text}");
    }
}
