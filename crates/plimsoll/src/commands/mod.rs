//! One file a command: what was asked, done and printed.

mod audit;
mod chaos;
mod explain;
mod scenario;
mod setup;
mod simulate;

pub(crate) use chaos::Lived;

use anyhow::{Result, bail};
use plimsoll_core::decide::Decision;
use plimsoll_core::steps::{self, Vocabulary};

use crate::cli::{Cli, Command, InputArgs, PIPE};
use crate::load::{self, Loaded};
use crate::output::{self, Outcome};

/// Does what was asked.
pub(crate) fn run(cli: &Cli) -> Result<Outcome> {
    match &cli.command {
        Command::Simulate(args) => simulate::run(args, cli.quiet),
        Command::Explain(args) => explain::run(args, cli.quiet),
        Command::Audit(args) => audit::run(args, cli.quiet),
        Command::Scenario(args) => scenario::run(args, cli.quiet),
        Command::Chaos(args) => chaos::run(args, cli.quiet),
        Command::Completions { shell } => setup::completions(*shell),
        Command::Man { out } => setup::man(out.as_deref()),
    }
}

/// Reads what was named; without a name, says what to type.
fn load(input: &InputArgs, command: &str, quiet: bool) -> Result<Loaded> {
    if input.files.is_empty() {
        let pod = if command == "explain" { " NAMESPACE/POD" } else { "" };
        bail!(
            "there is nothing to read; give files with -f, or pipe the cluster in:\n\n  {PIPE} {command} -f -{pod}\n"
        );
    }
    load::load(&input.files, input.plain.rule(), &input.node_pool_key, quiet)
}

/// Prints the steps of a decision on standard error.
fn log(decision: &Decision, number: usize) {
    for step in steps::steps(decision, &number.to_string(), Vocabulary::Pods) {
        output::note(&step.to_string());
    }
}
