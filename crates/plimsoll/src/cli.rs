//! What can be typed. Help, completions and man pages are made from these definitions.

mod chaos;
mod client;
mod estimate;
mod replay;
mod runner;
mod serve;

use std::path::PathBuf;

pub(crate) use replay::ReplayArgs;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use plimsoll_core::policy::Policy;
use plimsoll_core::request::PlainRule;

pub(crate) use chaos::ChaosArgs;
pub(crate) use client::{
    ApplyArgs, AskArgs, DecisionsArgs, QueueArgs, ReleaseArgs, RunnersArgs, ServerArgs, ShowArgs,
    SlotsArgs, TopArgs,
};
pub(crate) use estimate::EstimateArgs;
pub(crate) use runner::{LogFormat, RunnerArgs};
pub(crate) use serve::ServeArgs;

/// The pipe that needs nothing installed in the cluster.
pub(crate) const PIPE: &str = "kubectl get nodes,pods -A -o json | plimsoll";

/// The load line for GPU memory: places work on accelerators, never lets a physical device hold more than it has, and
/// can always say why.
#[derive(Parser)]
#[command(name = "plimsoll", version, propagate_version = true, max_term_width = 110)]
#[command(
    after_help = "Exit codes: 0 all placed, it fits, or nothing found; 1 something refused or found; 2 error.\n\n\
Examples:\n  kubectl get nodes,pods -A -o json | plimsoll audit -f -\n  plimsoll simulate -f examples/kai-time-slicing.yaml"
)]
pub(crate) struct Cli {
    /// When to use colour; NO_COLOR is honoured
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Leave out what was understood, and show no progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Place every pending pod, and show who goes where, the load of every device, and who is refused and why
    #[command(after_help = "Examples:\n  plimsoll simulate -f examples/kai-time-slicing.yaml\n  \
plimsoll simulate -f cluster.json new-deployment.yaml --policy spread\n  \
kubectl get nodes,pods -A -o json | plimsoll simulate -f - -f new-pods/ -o json\n\n\
Exit codes: 0 all placed; 1 something was refused; 2 error.")]
    Simulate(SimulateArgs),
    /// Show one decision, from files or of a server: every node and device, what was chosen, what lost, what would help
    #[command(
        after_help = "Examples:\n  plimsoll explain -f examples/hami-pending.yaml default/sample\n  \
kubectl get nodes,pods -A -o json | plimsoll explain -f - team-a/trainer-0\n  \
plimsoll explain --server http://127.0.0.1:8080 1234.0\n  \
plimsoll explain --server http://127.0.0.1:8080 slot-7\n  \
plimsoll explain --server http://127.0.0.1:8080 team-a/trainer-0\n\n\
Exit codes: 0 it fits or runs; 1 it is refused, waits, is gated or finished; 2 error."
    )]
    Explain(ExplainArgs),
    /// Find what is wrong in a cluster that anybody's scheduler filled
    #[command(
        after_help = "Examples:\n  kubectl get nodes,pods -A -o json | plimsoll audit -f -\n  \
plimsoll audit -f cluster.json -o sarif > findings.sarif\n\n\
Exit codes: 0 nothing found; 1 something found; 2 error."
    )]
    Audit(AuditArgs),
    /// Run scenario files, or turn a dump into one that is safe to attach to a bug report
    #[command(after_help = "Examples:\n  plimsoll scenario run scenarios/time-slicing-replicas-are-not-capacity.txt\n  \
plimsoll scenario run scenarios/*.txt --update\n  \
plimsoll scenario --from cluster.json --anonymise > report.txt\n\n\
Exit codes: 0 as expected; 1 something came out differently; 2 error.")]
    #[command(args_conflicts_with_subcommands = true)]
    Scenario(ScenarioArgs),
    /// Decide everything in a server's journal again, and compare; or show one decision of it in full
    Replay(ReplayArgs),
    /// Report this machine's devices to a server, and start and stop the model servers that it orders
    #[command(after_help = runner::EXAMPLES)]
    Runner(RunnerArgs),
    /// Run the server that places models on the GPUs of its runners
    #[command(after_help = serve::EXAMPLES)]
    Serve(ServeArgs),
    /// List the slots of a server: which model is where, what it holds, and whether it may go
    #[command(after_help = client::SLOTS)]
    Slots(SlotsArgs),
    /// List the runners of a server, each GPU with its load and its line
    #[command(after_help = client::RUNNERS)]
    Runners(RunnersArgs),
    /// List the last decisions of a server
    #[command(after_help = client::DECISIONS)]
    Decisions(DecisionsArgs),
    /// List who waits at a server, in turn, and why
    #[command(after_help = client::QUEUE)]
    Queue(QueueArgs),
    /// Declare models to a server, all or none
    #[command(after_help = client::APPLY)]
    Apply(ApplyArgs),
    /// Ask a server for a place in a model, as a program would
    #[command(after_help = client::ASK)]
    Ask(AskArgs),
    /// Give back a place, or let a slot go
    #[command(after_help = client::RELEASE)]
    Release(ReleaseArgs),
    /// Watch a server live: every GPU with its line, who holds it, who waits and why
    #[command(after_help = client::TOP)]
    Top(TopArgs),
    /// Live through days of trouble from a seed: effects late, lost and doubled, crashes at every step, and judges who look on
    #[command(after_help = "Examples:\n  plimsoll chaos\n  plimsoll chaos --seed 42 --days 1\n  \
plimsoll chaos --events 100000000 --threads 2 -o json\n\n\
Exit codes: 0 nothing found; 1 a promise was broken, and what to type to see it again; 2 error.")]
    Chaos(ChaosArgs),
    /// Say what a model takes on its GPUs, from the headers of its files, and what would fit a device
    #[command(after_help = estimate::EXAMPLES)]
    Estimate(EstimateArgs),
    /// Print the completions of a shell
    #[command(
        after_help = "Example:\n  plimsoll completions bash > /etc/bash_completion.d/plimsoll"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write the pages of all commands
    #[command(
        after_help = "Examples:\n  plimsoll man | man -l -\n  plimsoll man --out /usr/local/share/man/man1"
    )]
    Man {
        /// Write the page of every command into this directory
        #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

/// What to read, and how.
#[derive(Args)]
pub(crate) struct InputArgs {
    /// Kubernetes objects as YAML or JSON: files, directories (*.yaml, *.yml, *.json below them), or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// What a device request without declared memory counts as on a shared card
    #[arg(long, value_name = "RULE", value_enum, default_value_t = Plain::Whole)]
    pub(crate) plain: Plain,
    /// The node label that divides the cluster into KAI's node pools
    #[arg(long, value_name = "KEY", default_value = "kai.scheduler/node-pool")]
    pub(crate) node_pool_key: String,
}

/// How to choose among places that fit.
#[derive(Args)]
pub(crate) struct PolicyArgs {
    /// How to choose among places that fit
    #[arg(long, value_name = "NAME", default_value = "pack", value_parser = policy_parser())]
    pub(crate) policy: String,
    /// Print the steps of every decision to standard error, one a line
    #[arg(long)]
    pub(crate) log_decisions: bool,
}

fn policy_parser() -> clap::builder::PossibleValuesParser {
    // The parser wants names that live as long as the program, which these few do.
    clap::builder::PossibleValuesParser::new(
        Policy::all().map(|policy| &*policy.name.to_string().leak()),
    )
}

impl PolicyArgs {
    /// The policy of that name.
    pub(crate) fn policy(&self) -> Policy {
        Policy::called(&self.policy).expect("the parser admits only names of policies")
    }
}

/// What a device request without declared memory counts as on a shared card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// The whole card: the only amount that is surely enough
    Whole,
    /// An equal share of the card for each of its tokens
    EqualShare,
    /// Nothing: it is refused
    Refuse,
}

impl Plain {
    /// The same in the core's words.
    pub(crate) fn rule(self) -> PlainRule {
        match self {
            Plain::Whole => PlainRule::Whole,
            Plain::EqualShare => PlainRule::EqualShare,
            Plain::Refuse => PlainRule::Refuse,
        }
    }
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Table,
    /// JSON with stable names
    Json,
}

/// For people, for programs, or for code hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// Text for people
    Table,
    /// JSON with stable names
    Json,
    /// SARIF 2.1.0
    Sarif,
}

#[derive(Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Show every node of every refusal instead of the nearest ten, and every refused pod by name
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// From files: a pod, as NAMESPACE/POD or its name where it is the only one. Of a server: a decision (1234.0), a slot
    /// (slot-7), a place (place-12), or who asked, as NAMESPACE/NAME
    #[arg(value_name = "WHAT")]
    pub(crate) what: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = AuditFormat::Table)]
    pub(crate) output: AuditFormat,
}

#[derive(Args)]
pub(crate) struct ScenarioArgs {
    #[command(subcommand)]
    pub(crate) run: Option<ScenarioCommand>,
    #[command(flatten)]
    pub(crate) files: ScenarioFiles,
    /// Make a scenario of these Kubernetes objects and print it
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath, conflicts_with_all = ["files", "update"])]
    pub(crate) from: Vec<PathBuf>,
    /// Replace every name in it
    #[arg(long, requires = "from")]
    pub(crate) anonymise: bool,
}

#[derive(Subcommand)]
pub(crate) enum ScenarioCommand {
    /// Run scenario files and compare with what they expect
    Run(ScenarioFiles),
}

#[derive(Args)]
pub(crate) struct ScenarioFiles {
    /// Scenario files
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Write what came out into the files as what is expected
    #[arg(long)]
    pub(crate) update: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn both_spellings_of_scenario_are_understood() {
        let of = |line: &str| match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
            Ok(Command::Scenario(args)) => args,
            Ok(_) => panic!("not a scenario: {line}"),
            Err(error) => panic!("{line}: {error}"),
        };
        assert!(
            matches!(of("plimsoll scenario run a.txt --update").run, Some(ScenarioCommand::Run(f)) if f.update)
        );
        assert_eq!(of("plimsoll scenario a.txt b.txt").files.files.len(), 2);
        assert!(of("plimsoll scenario --from a.yaml b.yaml --anonymise").anonymise);
    }

    #[test]
    fn files_can_follow_one_flag_or_several() {
        let parsed = Cli::try_parse_from("plimsoll audit -f a b -f - -o json".split(' '))
            .expect("it parses");
        assert!(matches!(parsed.command, Command::Audit(args) if args.input.files.len() == 3));
    }

    #[test]
    fn an_unknown_policy_is_answered_with_those_there_are() {
        let error = Cli::try_parse_from("plimsoll simulate -f a --policy best".split(' '))
            .map(|_| ())
            .expect_err("no such");
        assert!(error.to_string().contains("pack, spread, pack-nodes, spread-nodes"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
