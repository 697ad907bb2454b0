//! Output of commands in pages: each block shows what the golden file of its command has.
//!
//! A block opens with ` ```console ` and the command, as golden files do. A line `[…]` leaves lines
//! out. Commands without a golden file and errors are not checked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const GOLDEN: &str = "crates/plimsoll/tests/golden";

/// A line of a block for lines that it leaves out.
const GAP: &str = "[…]";

/// The server that pages name.
const SERVER: &str = "--server http://127.0.0.1:8080";

/// The outputs of a command, one for each of its golden files.
type Goldens = BTreeMap<String, Vec<Vec<String>>>;

/// Rewrites the blocks of all pages. Blocks with gaps cannot be rewritten; those that differ are
/// printed, and are an error.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let goldens = read_goldens(&workspace.join(GOLDEN))?;
    let mut differing = Vec::new();
    for page in pages(workspace)? {
        let text = read(&page)?;
        let (rewritten, gaps) = rewrite(&text, &goldens);
        differing.extend(gaps.into_iter().map(|command| format!("{}: {command}", page.display())));
        if rewritten != text {
            fs::write(&page, rewritten)
                .with_context(|| format!("cannot write {}", page.display()))?;
            println!("rewrote {}", page.display());
        }
    }
    if !differing.is_empty() {
        bail!("edit these blocks, which leave lines out:\n{}", differing.join("\n"));
    }
    Ok(())
}

/// Returns the page with up-to-date blocks, and the commands of blocks with gaps that differ.
fn rewrite(text: &str, goldens: &Goldens) -> (String, Vec<String>) {
    let mut rewritten = String::new();
    let mut differing = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        push_line(&mut rewritten, line);
        if line != "```console" {
            continue;
        }
        let mut block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let command = block.first().copied().unwrap_or_default();
        let outputs = goldens.get(command).map(Vec::as_slice).unwrap_or_default();
        let is_error = block.get(1).is_some_and(|line| line.starts_with("error: "));
        let is_shown = is_error || outputs.iter().any(|output| shows(&block[1..], output));
        if let ([output], false) = (outputs, is_shown) {
            if block.contains(&GAP) {
                differing.push(command.to_owned());
            } else {
                block.truncate(1);
                block.extend(output.iter().map(String::as_str));
            }
        }
        for line in block.into_iter().chain(["```"]) {
            push_line(&mut rewritten, line);
        }
    }
    (rewritten, differing)
}

/// Returns true if the lines of a block are those of the output, in order, with lines left out only
/// at gaps.
fn shows(block: &[&str], output: &[String]) -> bool {
    let mut rest = output;
    for (index, part) in block.split(|line| *line == GAP).enumerate() {
        let starts = if index == 0 { 0..=0 } else { 0..=rest.len() };
        let is_at = |start: &usize| {
            rest.get(*start..*start + part.len()).is_some_and(|lines| lines == part)
        };
        let Some(start) = starts.into_iter().find(is_at) else { return false };
        rest = &rest[start + part.len()..];
    }
    rest.is_empty() || block.last() == Some(&GAP)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn read_goldens(folder: &Path) -> Result<Goldens> {
    let mut goldens = Goldens::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Golden files have no port numbers.
            let text = read(&path)?.replace("--server URL", SERVER);
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.last().is_some_and(|line| line.starts_with("exit code ")) {
                lines.pop();
            }
            if lines.first().is_some_and(|line| line.starts_with("$ ")) {
                let command = lines.remove(0);
                goldens.entry(command).or_default().push(lines);
            }
        }
    }
    Ok(goldens)
}

fn pages(workspace: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = entries(&workspace.join("docs"))?;
    pages.push(workspace.join("README.md"));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    // The tutorial shows commands of a server of its own, and a test runs it.
    pages.retain(|page| !page.ends_with("tutorial.md"));
    Ok(pages)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot list {}", folder.display());
    let entries = fs::read_dir(folder).with_context(failed)?;
    entries.map(|entry| Ok(entry.with_context(failed)?.path())).collect()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_show_the_recorded_output() {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
        let goldens = read_goldens(&workspace.join(GOLDEN)).expect("the golden files can be read");
        for page in pages(workspace).expect("the pages can be listed") {
            let text = read(&page).expect("the page can be read");
            let (rewritten, gaps) = rewrite(&text, &goldens);
            let page = page.display();
            assert!(rewritten == text, "{page}: run `cargo run -p xtask -- outputs`");
            assert!(gaps.is_empty(), "{page}: edit the blocks that leave lines out: {gaps:?}");
        }
    }

    #[test]
    fn a_gap_leaves_lines_out_and_keeps_their_order() {
        let output: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert!(shows(&["a", "b", "c", "d"], &output));
        assert!(shows(&["a", GAP, "c", GAP], &output));
        assert!(shows(&[GAP, "c", "d"], &output));
        assert!(!shows(&["a", GAP, "c"], &output));
        assert!(!shows(&["b", GAP], &output));
        assert!(!shows(&["a", GAP, "d", GAP, "c", GAP], &output));
    }

    #[test]
    fn a_block_without_gaps_is_rewritten() {
        let goldens = Goldens::from([("$ x".to_owned(), vec![vec!["new".to_owned()]])]);
        let (rewritten, gaps) =
            rewrite("A\n```console\n$ x\nold\n```\n```sh\n$ x\n```\n", &goldens);
        assert_eq!(rewritten, "A\n```console\n$ x\nnew\n```\n```sh\n$ x\n```\n");
        assert_eq!(gaps, [""; 0]);
        let (_, gaps) = rewrite("```console\n$ x\nold\n[…]\n```\n", &goldens);
        assert_eq!(gaps, ["$ x"]);
        let error = "```console\n$ x\nerror: no server\n```\n";
        assert_eq!(rewrite(error, &goldens), (error.to_owned(), Vec::new()));
    }
}
