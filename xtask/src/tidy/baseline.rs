//! The violations that are tolerated until their text is rewritten: counts by part and rule, which
//! may only shrink.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Violation;

/// The file with the tolerated counts, one `PART RULE COUNT` a line.
const FILE: &str = "xtask/tidy-baseline.txt";

/// Violations by part of the repository and rule.
pub(super) type Counts = BTreeMap<(String, String), usize>;

/// Counts violations by part and rule.
pub(super) fn counts(violations: &[Violation]) -> Counts {
    let mut counts = Counts::new();
    for violation in violations {
        *counts.entry((part(violation), violation.rule.to_string())).or_default() += 1;
    }
    counts
}

/// Returns the violations of every part and rule that has more of them than the baseline. All of a
/// group are returned, because a count cannot tell which of them is new.
pub(super) fn excess<'a>(violations: &'a [Violation], baseline: &Counts) -> Vec<&'a Violation> {
    let counts = counts(violations);
    let is_over = |violation: &&Violation| {
        let group = (part(violation), violation.rule.to_string());
        counts[&group] > baseline.get(&group).copied().unwrap_or(0)
    };
    violations.iter().filter(is_over).collect()
}

/// Reads the tolerated counts; none without a file.
pub(super) fn read(workspace: &Path) -> Result<Counts> {
    let path = workspace.join(FILE);
    if !path.exists() {
        return Ok(Counts::new());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    text.lines().map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<((String, String), usize)> {
    let invalid = || format!("{FILE}: expected PART RULE COUNT, not {line:?}");
    let mut words = line.split_whitespace();
    let part = words.next().with_context(invalid)?;
    let rule = words.next().with_context(invalid)?;
    let count = words.next().and_then(|count| count.parse().ok()).with_context(invalid)?;
    Ok(((part.to_string(), rule.to_string()), count))
}

/// Writes the counts of today as the tolerated ones.
pub(super) fn write(workspace: &Path, counts: &Counts) -> Result<()> {
    let lines = counts.iter().map(|((part, rule), count)| format!("{part} {rule} {count}\n"));
    fs::write(workspace.join(FILE), lines.collect::<String>())
        .with_context(|| format!("cannot write {FILE}"))
}

fn part(violation: &Violation) -> String {
    let parts: Vec<_> = violation.file.iter().map(|part| part.to_string_lossy()).collect();
    match parts.as_slice() {
        [folder, name, _, ..] if folder == "crates" => name.to_string(),
        [folder, _, ..] => folder.to_string(),
        _ => "root".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(file: &str, rule: &'static str) -> Violation {
        Violation::new(rule, Path::new(file), 1, String::new())
    }

    #[test]
    fn a_group_over_its_baseline_is_reported_whole_and_one_below_is_not() {
        let found = [
            violation("crates/a/src/lib.rs", "wording"),
            violation("crates/a/src/b.rs", "wording"),
            violation("crates/a/src/b.rs", "width"),
            violation("README.md", "wording"),
        ];
        let group = |part: &str, rule: &str| (part.to_string(), rule.to_string());
        let mut baseline = counts(&found);
        assert!(excess(&found, &baseline).is_empty());
        baseline.insert(group("a", "wording"), 1);
        assert_eq!(excess(&found, &baseline).len(), 2);
        baseline.remove(&group("root", "wording"));
        assert_eq!(excess(&found, &baseline).len(), 3);
    }
}
