//! The rules of this repository that neither compiler nor linter checks.

mod layers;
mod modules;
mod references;
mod shape;
mod source;
mod wording;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use source::Source;

/// Folders with text that people read; `""` is the root without its folders.
const TEXT: &[&str] =
    &["", "crates", "deploy", "docs", "examples", "fuzz", "scenarios", "testbed", "xtask", ".ci"];

/// Kinds of files with text that people read.
const TEXT_FILES: &[&str] =
    &["json", "md", "mjs", "run", "service", "sh", "toml", "txt", "yaml", "yml"];

/// The file that has to contain the banned phrases.
const PHRASES: &str = "xtask/src/tidy/wording.rs";

/// A place where a rule does not hold, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    file: PathBuf,
    line: usize,
    rule: &'static str,
    what: String,
}

impl Violation {
    fn new(rule: &'static str, file: &Path, line: usize, what: String) -> Self {
        Violation { file: file.to_owned(), line, rule, what }
    }

    fn at(rule: &'static str, source: &Source, offset: usize, what: String) -> Self {
        Violation::new(rule, &source.file, source.line(offset), what)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.rule, self.what)
    }
}

/// Prints the violations, and fails if there is one.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let violations = violations(workspace)?;
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} violations of the rules in CONTRIBUTING.md, Style", violations.len());
    }
    println!("tidy: no violations");
    Ok(())
}

fn violations(workspace: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    let mut sources = Vec::new();
    let mut pages = Vec::new();
    for file in files(workspace)? {
        let text = read(workspace, &file)?;
        if file.extension().is_some_and(|extension| extension == "rs") {
            sources.push(Source::parse(&file, text)?);
            continue;
        }
        if file.starts_with("crates") && file.ends_with("Cargo.toml") {
            found.extend(layers::dependencies(&file, &text)?);
        }
        found.extend(wording::in_text(&file, &text));
        if file.extension().is_some_and(|extension| extension == "md") {
            pages.push((file, text));
        }
    }
    let functions = references::function_names(&sources);
    for (page, text) in &pages {
        found.extend(references::in_page(workspace, page, text, &functions));
    }
    let tests = test_files(&sources);
    let is_test = |source: &Source| tests.iter().any(|test| source.file.starts_with(test));
    for source in &sources {
        found.extend(shape::opening(source));
        found.extend(shape::doc_openings(source));
        found.extend(shape::comment_width(source));
        if source.file != Path::new(PHRASES) {
            found.extend(wording::in_source(source));
        }
    }
    let code: Vec<&Source> = sources.iter().filter(|source| !is_test(source)).collect();
    for source in &code {
        found.extend(shape::file_length(source));
        found.extend(shape::functions(source));
        found.extend(shape::docs(source));
        found.extend(modules::purity(source));
    }
    found.extend(modules::reading_order(&code));
    found.sort();
    Ok(found)
}

/// Returns the files and folders that are tests as a whole.
fn test_files(sources: &[Source]) -> BTreeSet<PathBuf> {
    let mut tests = BTreeSet::new();
    for source in sources {
        let is_test_folder = |folder: &&Path| {
            ["tests", "benches", "examples"].iter().any(|name| folder.ends_with(name))
        };
        if let Some(folder) = source.file.ancestors().find(is_test_folder) {
            tests.insert(folder.to_owned());
        }
        let is_root =
            ["lib.rs", "main.rs", "mod.rs"].iter().any(|root| source.file.ends_with(root));
        let below =
            if is_root { source.file.with_file_name("") } else { source.file.with_extension("") };
        for module in &source.test_modules {
            tests.insert(below.join(module));
            tests.insert(below.join(module).with_extension("rs"));
        }
    }
    tests
}

/// Returns the files that the rules read, relative to the workspace, in order.
fn files(workspace: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = TEXT.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        let path = workspace.join(&folder);
        if !path.is_dir() {
            continue;
        }
        let failed = || format!("cannot list {}", path.display());
        for entry in fs::read_dir(&path).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let file = folder.join(entry.file_name());
            let is_folder = entry.path().is_dir();
            // `TEXT` lists the folders of the root. Generated and recorded files are not checked.
            if is_folder && folder != Path::new("") && !is_generated(&file) {
                folders.push(file);
            } else if !is_folder && is_read(&file) {
                found.push(file);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_generated(folder: &Path) -> bool {
    ["target", "node_modules", "corpus", "artifacts", "cards", "golden", "proptest-regressions"]
        .iter()
        .any(|name| folder.ends_with(name))
}

fn is_read(file: &Path) -> bool {
    let extension = file.extension().or_else(|| file.file_name()).and_then(|name| name.to_str());
    extension.is_some_and(|name| name == "rs" || TEXT_FILES.contains(&name))
}

fn read(workspace: &Path, file: &Path) -> Result<String> {
    fs::read_to_string(workspace.join(file))
        .with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn source(file: &str, text: &str) -> Source {
        Source::parse(Path::new(file), text.to_owned()).expect("the snippet is Rust")
    }

    pub(super) fn lines(violations: impl IntoIterator<Item = Violation>) -> Vec<usize> {
        let mut lines: Vec<usize> = violations.into_iter().map(|found| found.line).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn the_repository_has_no_violations() {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
        let violations = violations(workspace).expect("the workspace can be read");
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(list.is_empty(), "\n{}\n", list.join("\n"));
    }

    #[test]
    fn test_files_are_known() {
        let sources = [
            source("crates/a/tests/more/b.rs", ""),
            source("crates/a/src/c.rs", "#[cfg(test)]\nmod model;\n"),
            source("crates/a/src/lib.rs", "#[cfg(test)]\nmod d;\n"),
        ];
        let tests = test_files(&sources);
        let is_test = |file: &str| tests.iter().any(|test| Path::new(file).starts_with(test));
        assert!(is_test("crates/a/tests/more/b.rs"));
        assert!(is_test("crates/a/src/c/model/e.rs"));
        assert!(is_test("crates/a/src/d.rs"));
        assert!(!is_test("crates/a/src/c.rs"));
    }
}
