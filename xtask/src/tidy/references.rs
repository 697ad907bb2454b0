//! References of pages: links and files exist, and so do the tests that `ARCHITECTURE.md` names.

use std::collections::BTreeSet;
use std::path::Path;

use super::Violation;
use super::source::Source;

/// Folders of the root; code spans that begin with one of them are file names.
const FOLDERS: &[&str] =
    &["crates/", "deploy/", "docs/", "examples/", "fuzz/", "scenarios/", "testbed/", "xtask/"];

/// The page whose names of tests are checked.
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Returns the names of all functions, tests included.
pub(super) fn function_names(sources: &[Source]) -> BTreeSet<&str> {
    let tokens = sources.iter().flat_map(|source| source.tokens.windows(2));
    tokens.filter(|pair| pair[0].text == "fn").map(|pair| pair[1].text.as_str()).collect()
}

/// Checks the references of one page.
pub(super) fn in_page(
    workspace: &Path,
    page: &Path,
    text: &str,
    functions: &BTreeSet<&str>,
) -> Vec<Violation> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for (index, line) in lines_outside_blocks(text) {
        for span in line.split('`').skip(1).step_by(2) {
            if is_file_name(span) && !workspace.join(span).exists() {
                found.push(missing(page, index, span));
            }
            let is_test = page == Path::new(ARCHITECTURE) && is_sentence(span);
            if is_test && !functions.contains(span) {
                found.push(missing(page, index, span));
            }
        }
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_local = !file.is_empty() && !link.contains("://");
            if is_local && !workspace.join(folder).join(file).exists() {
                found.push(missing(page, index, link));
            }
        }
    }
    found
}

fn missing(page: &Path, index: usize, what: &str) -> Violation {
    Violation::new("references", page, index + 1, format!("there is no `{what}`"))
}

/// Returns the lines outside fenced blocks, with their index.
fn lines_outside_blocks(text: &str) -> Vec<(usize, &str)> {
    let mut in_block = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            lines.push((index, line));
        }
    }
    lines
}

/// Returns true for a file name without placeholders and patterns.
fn is_file_name(span: &str) -> bool {
    FOLDERS.iter().any(|folder| span.starts_with(folder))
        && !span.contains(['<', '*', '{', ' ', ':', '…'])
}

/// Returns true for an identifier of several words, as tests have.
fn is_sentence(span: &str) -> bool {
    span.matches('_').count() > 2
        && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, source};
    use super::*;

    #[test]
    fn files_links_and_tests_of_a_page_exist() {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
        let sources = [source("a.rs", "//! A.\n\nfn it_is_a_test() {}\n")];
        let text = "`xtask/src`, `xtask/gone`, `xtask/<name>`\n[a](LICENSE#try) [b](gone.md)\n\
                    `it_is_a_test` `it_was_a_test`\n```\n`xtask/gone`\n```\n";
        let functions = function_names(&sources);
        let check = |page: &str| lines(in_page(workspace, Path::new(page), text, &functions));
        assert_eq!(check("ARCHITECTURE.md"), [1, 2, 3]);
        assert_eq!(check("docs/api.md"), [1, 2, 2]);
    }
}
