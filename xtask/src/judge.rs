//! Compares the estimates with the memory that llama.cpp itself reports for the golden models.
//!
//! llama.cpp comes prebuilt in an npm package and answers from the header alone: no weights are
//! loaded, and no GPU is needed. The answers are recorded, so that tests compare with them without
//! node and without a network.

mod questions;

mod ask;

mod compare;

mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::goldens;

const PAGE: &str = "docs/estimates-judged.md";

/// The llama.cpp backend that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Cpu,
    Vulkan,
}

impl Backend {
    const fn name(self) -> &'static str {
        match self {
            Backend::Cpu => "cpu",
            Backend::Vulkan => "vulkan",
        }
    }

    fn record_path(self, workspace: &Path) -> PathBuf {
        workspace.join(format!("crates/plimsoll-goldens/judged/{}.txt", self.name()))
    }
}

/// Records the answers of a backend and writes the page; `table` only writes the page.
pub(crate) fn run(workspace: &Path, args: &[String]) -> Result<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["cpu"] => record_answers(workspace, Backend::Cpu)?,
        ["vulkan"] => record_answers(workspace, Backend::Vulkan)?,
        ["table"] => {}
        _ => bail!("unknown arguments `{}`; use cpu, vulkan or table", args.join(" ")),
    }
    let path = workspace.join(PAGE);
    fs::write(&path, page(workspace)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("judge: wrote {}", path.display());
    Ok(())
}

fn page(workspace: &Path) -> Result<String> {
    table::page(&read_record(workspace, Backend::Cpu)?, &read_record(workspace, Backend::Vulkan)?)
}

fn read_record(workspace: &Path, backend: Backend) -> Result<String> {
    let path = backend.record_path(workspace);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn record_answers(workspace: &Path, backend: Backend) -> Result<()> {
    let directory = workspace.join("target/judge");
    goldens::run(&directory)?;
    let judge = ask::Judge::install(workspace, &directory, backend)?;
    let ask::Answers { versions, judged } = judge.ask_all(&questions::all(backend))?;
    let lines: Vec<String> = judged.iter().map(ToString::to_string).collect();
    let text = format!("# {versions}\n{}\n", lines.join("\n"));
    let path = backend.record_path(workspace);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("judge: {} answers from {versions}", judged.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let workspace = crate::workspace();
        let written = fs::read_to_string(workspace.join(PAGE)).expect("the page exists");
        let page = page(&workspace).expect("the records are valid");
        assert!(written == page, "{PAGE} is out of date; run: cargo run -p xtask -- judge table");
    }
}
