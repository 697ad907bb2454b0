//! One file a command: what was asked, done and printed.

mod apply;
mod audit;
mod chaos;
mod decisions;
mod estimate;
mod explain;
mod look;
mod queue;
mod release;
mod replay;
mod reserve;
mod runner;
mod runners;
mod scenario;
mod serve;
mod setup;
mod simulate;
mod slots;
mod top;

pub(crate) use chaos::Lived;
pub(crate) use estimate::{Asked, Room};

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
        Command::Replay(args) => replay::run(args, cli.quiet),
        Command::Runner(args) => runner::run(args),
        Command::Serve(args) => serve::run(args, cli.quiet),
        Command::Slots(args) => slots::run(args, cli.quiet),
        Command::Runners(args) => runners::run(args, cli.quiet),
        Command::Decisions(args) => decisions::run(args, cli.quiet),
        Command::Queue(args) => queue::run(args, cli.quiet),
        Command::Apply(args) => apply::run(args, cli.quiet),
        Command::Reserve(args) => reserve::run(args, cli.quiet),
        Command::Release(args) => release::run(args, cli.quiet),
        Command::Top(args) => top::run(args, cli.color),
        Command::Chaos(args) => chaos::run(args, cli.quiet),
        Command::Estimate(args) => estimate::run(args),
        Command::Completions { shell } => setup::completions(*shell),
        Command::Man { out } => setup::man(out.as_deref()),
    }
}

/// Reads what was named; without a name, says what to type.
fn load(input: &InputArgs, command: &str, quiet: bool) -> Result<Loaded> {
    if input.files.is_empty() {
        let pod = if command == "explain" { " NAMESPACE/POD" } else { "" };
        let server = if command == "explain" {
            "\nor ask a server:\n\n  plimsoll explain --server http://127.0.0.1:8080 1234.0\n"
        } else {
            ""
        };
        bail!(
            "there is nothing to read; give files with -f, or pipe the cluster in:\n\n  {PIPE} {command} -f -{pod}\n{server}"
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
