//! Asks llama.cpp itself what it books for every golden model, and holds our estimates against it.
//!
//! llama.cpp comes prebuilt inside an npm package, and answers from the header alone: no weight is loaded, and no GPU is needed.
//! What it said is recorded, so that tests compare with it without node and without a network.

mod questions;

mod ask;

mod compare;

mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::goldens;

const PAGE: &str = "docs/estimates-judged.md";

/// Where llama.cpp computes.
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

    fn record(self, workspace: &Path) -> PathBuf {
        workspace.join(format!("crates/plimsoll-goldens/judged/{}.txt", self.name()))
    }
}

/// Asks on the backend, records the answers and writes the table; `table` writes it from what is recorded.
pub(crate) fn run(workspace: &Path, args: &[String]) -> Result<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["cpu"] => record(workspace, Backend::Cpu)?,
        ["vulkan"] => record(workspace, Backend::Vulkan)?,
        ["table"] => {}
        _ => bail!("the judge takes cpu, vulkan or table, not {}", args.join(" ")),
    }
    let path = workspace.join(PAGE);
    fs::write(&path, page(workspace)?)
        .with_context(|| format!("could not write {}", path.display()))?;
    println!("judge: wrote {}", path.display());
    Ok(())
}

fn page(workspace: &Path) -> Result<String> {
    let recorded = |backend: Backend| -> Result<String> {
        let path = backend.record(workspace);
        fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
    };
    table::page(&recorded(Backend::Cpu)?, &recorded(Backend::Vulkan)?)
}

fn record(workspace: &Path, backend: Backend) -> Result<()> {
    let folder = workspace.join("target/judge");
    goldens::run(&folder)?;
    let judge = ask::Judge::ready(workspace, &folder, backend)?;
    let (versions, answers) = judge.ask_all(&questions::all(backend))?;
    let lines: Vec<String> = answers.iter().map(ToString::to_string).collect();
    let text = format!("# {versions}\n{}\n", lines.join("\n"));
    let path = backend.record(workspace);
    fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
    println!("judge: {} answers from {versions}", answers.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_record_and_the_estimates_say() {
        let workspace = crate::workspace();
        let written = fs::read_to_string(workspace.join(PAGE)).expect("the page is there");
        let page = page(&workspace).expect("the records are right");
        assert!(written == page, "{PAGE} is old: cargo run -p xtask -- judge table");
    }
}
