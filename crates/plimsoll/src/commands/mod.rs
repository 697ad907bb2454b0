//! The commands, one file each.

mod accounts;
mod apply;
mod audit;
mod chaos;
mod chaos_cluster;
mod context;
mod decisions;
mod devices;
mod estimate;
mod events;
mod explain;
mod kube;
mod logs;
mod look;
mod models;
mod plan;
mod queue;
mod release;
mod renew;
mod replay;
mod reservations;
mod reserve;
mod runner;
mod runners;
mod scenario;
mod serve;
mod setup;
mod simulate;
mod slots;
mod top;

pub(crate) use apply::Effect;
#[cfg(test)]
pub(crate) use explain::explain_in;
pub(crate) use plan::{FieldChange, Planned};
#[cfg(test)]
pub(crate) use simulate::{Candidates, simulate_output};

use anyhow::{Result, bail};
use plimsoll_core::decide::Decision;
use plimsoll_core::steps::{self, Vocabulary};
use plimsoll_core::units::Name;
use plimsoll_kube::cluster::Reading;

use crate::cli::{Cli, Command, InputArgs, PIPE};
use crate::load::{self, Inputs, Loaded};
use crate::output::{self, Outcome, Verbosity};

/// Runs the command.
pub(crate) fn run(cli: &Cli) -> Result<Outcome> {
    let verbosity = if cli.quiet { Verbosity::Quiet } else { Verbosity::Normal };
    match &cli.command {
        Command::Simulate(args) => simulate::run(args, verbosity),
        Command::Explain(args) => explain::run(args, verbosity),
        Command::Audit(args) => audit::run(args, verbosity),
        Command::Devices(args) => devices::run(args, verbosity),
        Command::Scenario(args) => scenario::run(args, verbosity),
        Command::Replay(args) => replay::run(args, verbosity),
        Command::Runner(args) => runner::run(args),
        Command::Serve(args) => serve::run(args, verbosity),
        Command::Kube(args) => kube::run(args, verbosity),
        Command::Models(args) => models::run(args, verbosity),
        Command::Logs(args) => logs::run(args),
        Command::Events(args) => events::run(args, verbosity),
        Command::Plan(args) => plan::run(args, verbosity),
        Command::Context(args) => context::run(args),
        Command::Slots(args) => slots::run(args, verbosity),
        Command::Reservations(args) => reservations::run(args, verbosity),
        Command::Runners(args) => runners::run(args, verbosity),
        Command::Decisions(args) => decisions::run(args, verbosity),
        Command::Queue(args) => queue::run(args, verbosity),
        Command::Accounts(args) => accounts::run(args, verbosity),
        Command::Apply(args) => apply::run(args, verbosity),
        Command::Reserve(args) => reserve::run(args, verbosity),
        Command::Renew(args) => renew::run(args, verbosity),
        Command::Release(args) => release::run(args, verbosity),
        Command::Top(args) => top::run(args, cli.color, verbosity),
        Command::Chaos(args) if args.cluster => chaos_cluster::run(args, verbosity),
        Command::Chaos(args) => chaos::run(args, verbosity),
        Command::Estimate(args) => estimate::run(args),
        Command::Completions { shell } => setup::completions(*shell),
        Command::Man { out } => setup::man(out.as_deref()),
    }
}

/// A command that reads Kubernetes objects.
#[derive(Clone, Copy)]
enum Offline {
    Simulate,
    Explain,
    Audit,
    Devices,
}

impl Offline {
    /// Returns the pipe that feeds a cluster to the command.
    fn pipe(self) -> String {
        match self {
            Offline::Simulate => format!("{PIPE} simulate -f -"),
            Offline::Explain => format!("{PIPE} explain -f - NAMESPACE/POD"),
            Offline::Audit => format!("{PIPE} audit -f -"),
            Offline::Devices => format!("{PIPE} devices -f -"),
        }
    }
}

/// Reads the input of a command; without files, the error says what to type.
fn load(input: &InputArgs, command: Offline, verbosity: Verbosity) -> Result<Loaded> {
    let access = input.cluster.access();
    if input.files.is_empty() && access.is_none() {
        let pipe = command.pipe();
        bail!(
            "no input; give files with -f, a cluster with --kubeconfig, or pipe the cluster in:\n\n  {pipe}\n"
        );
    }
    let reading = Reading {
        plain: input.plain.rule(),
        node_pool_key: input.node_pool_key.as_str().into(),
        ignored_resources: input.ignore_resource.iter().map(Name::from).collect(),
    };
    let inputs = Inputs { files: &input.files, cluster: access.as_ref() };
    load::load(&inputs, &reading, verbosity)
}

/// Logs the steps of a decision to standard error.
fn log(decision: &Decision, number: usize) {
    for step in steps::steps(decision, &number.to_string(), Vocabulary::Pods) {
        output::note(&step.to_string());
    }
}
