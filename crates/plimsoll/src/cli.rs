//! The command line. Help, completions and man pages are generated from these definitions.

mod chaos;
mod client;
mod cluster;
mod estimate;
mod kube;
mod operate;
mod replay;
mod runner;
mod serve;

use std::path::PathBuf;

pub(crate) use replay::ReplayArgs;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use plimsoll_core::policy::Policy;
use plimsoll_core::request::PlainRule;

use crate::text::Detail;
pub(crate) use chaos::ChaosArgs;
pub(crate) use client::{
    AccountsArgs, ApplyArgs, DecisionsArgs, ListFormat, QueueArgs, ReleaseArgs, RenewArgs,
    ReservationsArgs, ReserveArgs, RunnerListArgs, RunnersArgs, ServerArgs, ShowArgs, SlotListArgs,
    SlotsArgs, TopArgs,
};
pub(crate) use cluster::{ClusterArgs, DevicesArgs, Invocation};
pub(crate) use estimate::EstimateArgs;
pub(crate) use kube::{KubeArgs, KubeCommand, ManifestsArgs, UninstallGuardArgs};
pub(crate) use operate::{
    ChangeArgs, ContextAction, ContextArgs, DeleteArgs, DrainArgs, EventsArgs, ListArgs, LogsArgs,
    ModelsAction, ModelsArgs, NamedArgs, PlanArgs, RunnersAction, SlotsAction, StopArgs,
};
pub(crate) use runner::{LogFormat, RunnerArgs};
pub(crate) use serve::ServeArgs;

/// The pipe that reads a cluster without installing anything in it.
pub(crate) const PIPE: &str = "kubectl get nodes,pods -A -o json | plimsoll";

/// A GPU scheduler that places work by memory, never overcommits a physical device, and explains
/// every decision.
#[derive(Parser)]
#[command(name = "plimsoll", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 all placed, it fits, or nothing found; 1 something is pending, impossible or found; 2 error.\n\n\
Examples:\n  kubectl get nodes,pods -A -o json | plimsoll audit -f -\n  plimsoll simulate -f examples/kai-time-slicing.yaml"
)]
pub(crate) struct Cli {
    /// Use colour: auto, always or never; NO_COLOR is honoured
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(help_heading = "Global options", display_order = 900, hide_possible_values = true)]
    pub(crate) color: Color,
    /// Omit the summary of the input, and show no progress
    #[arg(short, long, global = true, help_heading = "Global options", display_order = 901)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The groups of commands in the help of the program.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Offline (no server needed)", &["simulate", "explain", "audit", "devices", "estimate"]),
    ("Server", &["serve", "runner", "kube"]),
    (
        "Operate",
        &[
            "apply",
            "plan",
            "models",
            "slots",
            "runners",
            "reservations",
            "queue",
            "accounts",
            "decisions",
            "events",
            "logs",
            "reserve",
            "renew",
            "release",
            "top",
            "context",
        ],
    ),
    ("Tools", &["scenario", "replay", "chaos", "completions", "man", "help"]),
];

/// Returns the command line with its commands in groups.
pub(crate) fn command() -> clap::Command {
    let mut plain = Cli::command();
    plain.build();
    let about = |name: &&str| {
        let found = plain.find_subcommand(name).and_then(|found| found.get_about());
        (name.to_string(), found.map(ToString::to_string).unwrap_or_default())
    };
    let groups = GROUPS.map(|(title, names)| (title, names.iter().map(about).collect()));
    let option = |arg: &clap::Arg| {
        let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
        let long = arg.get_long().unwrap_or_default();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        (format!("{short}--{long}"), help)
    };
    let options = ("Global options", plain.get_arguments().map(option).collect());
    let groups: Vec<(&str, Vec<(String, String)>)> = groups.into_iter().chain([options]).collect();
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}{{after-help}}",
        crate::text::groups(&groups)
    );
    Cli::command().help_template(template)
}

/// The use of colour.
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
    /// Place every pending pod: show placements, device loads, and why the rest are not placed
    #[command(after_help = "Examples:\n  plimsoll simulate -f examples/kai-time-slicing.yaml\n  \
plimsoll simulate -f cluster.json new-deployment.yaml --policy spread\n  \
kubectl get nodes,pods -A -o json | plimsoll simulate -f - -f new-pods/ -o json\n  \
plimsoll simulate --kubeconfig ~/.kube/config -f new-deployment.yaml\n\n\
Exit codes: 0 all placed; 1 at least one pod is not placed; 2 error.")]
    Simulate(SimulateArgs),
    /// Explain one decision, from files or a server: every node and device, and what would help
    #[command(
        after_help = "Examples:\n  plimsoll explain -f examples/hami-pending.yaml default/sample\n  \
kubectl get nodes,pods -A -o json | plimsoll explain -f - team-a/trainer-0\n  \
plimsoll explain --kubeconfig ~/.kube/config team-a/trainer-0\n  \
plimsoll explain --server http://127.0.0.1:8080 1234.0\n  \
plimsoll explain --server http://127.0.0.1:8080 slot-7\n  \
plimsoll explain --server http://127.0.0.1:8080 team-a/trainer-0\n\n\
Exit codes: 0 it fits or runs; 1 it is pending, impossible, gated or finished; 2 error."
    )]
    Explain(ExplainArgs),
    /// Audit a cluster for overcommitted devices and inconsistent accounting
    #[command(
        after_help = "Examples:\n  kubectl get nodes,pods -A -o json | plimsoll audit -f -\n  \
plimsoll audit --kubeconfig ~/.kube/config --context production\n  \
plimsoll audit -f cluster.json -o sarif > findings.sarif\n\n\
Exit codes: 0 nothing found; 1 something found; 2 error."
    )]
    Audit(AuditArgs),
    /// Show every device of a cluster: its line, its holders, and what is free and promised
    #[command(after_help = cluster::DEVICES)]
    Devices(DevicesArgs),
    /// Estimate a model's GPU memory from its file headers, and what fits a given device
    #[command(after_help = estimate::EXAMPLES)]
    Estimate(EstimateArgs),
    /// Run the server that places models on the GPUs of its runners
    #[command(after_help = serve::EXAMPLES)]
    Serve(ServeArgs),
    /// Run the agent on a GPU machine: report devices, start and stop model servers
    #[command(after_help = runner::EXAMPLES)]
    Runner(RunnerArgs),
    /// Watch a Kubernetes cluster: keep its ledger, explain its pods, and serve both
    #[command(after_help = kube::EXAMPLES)]
    Kube(KubeArgs),
    /// Declare models from files; all of them or none
    #[command(after_help = client::APPLY)]
    Apply(ApplyArgs),
    /// Show what `apply` would change, where each model would go, and what can never fit
    #[command(after_help = operate::PLAN)]
    Plan(PlanArgs),
    /// List, show or delete the declared models
    #[command(after_help = operate::MODELS)]
    Models(ModelsArgs),
    /// List, show or stop slots: which model runs where, its memory, and whether it is evictable
    #[command(after_help = client::SLOTS)]
    Slots(SlotsArgs),
    /// List, show, cordon, drain or delete runners, with the load of each GPU
    #[command(after_help = client::RUNNERS)]
    Runners(RunnersArgs),
    /// List reservations: their status, client, slot and lease
    #[command(after_help = client::RESERVATIONS)]
    Reservations(ReservationsArgs),
    /// List pending slots and reservations in order, and why they are pending
    #[command(after_help = client::QUEUE)]
    Queue(QueueArgs),
    /// List the accounts with a share: what each holds, and by how much it is over its guarantee
    #[command(after_help = client::ACCOUNTS)]
    Accounts(AccountsArgs),
    /// List the latest decisions
    #[command(after_help = client::DECISIONS)]
    Decisions(DecisionsArgs),
    /// List what happened to slots and runners
    #[command(after_help = operate::EVENTS)]
    Events(EventsArgs),
    /// Print the output of a slot, also of one that has ended
    #[command(after_help = operate::LOGS)]
    Logs(LogsArgs),
    /// Reserve one request's share of a model, as a client program would
    #[command(after_help = client::RESERVE)]
    Reserve(ReserveArgs),
    /// Renew the lease of a reservation
    #[command(after_help = client::RENEW)]
    Renew(RenewArgs),
    /// Release a reservation or stop a slot
    #[command(after_help = client::RELEASE)]
    Release(ReleaseArgs),
    /// Watch a server live: GPUs and their holders, slots, pending requests, decisions
    #[command(after_help = client::TOP)]
    Top(TopArgs),
    /// Manage named servers
    #[command(after_help = operate::CONTEXT)]
    Context(ContextArgs),
    /// Run scenario files, or convert a dump into one to attach to a bug report
    #[command(
        after_help = "Examples:\n  plimsoll scenario run scenarios/time-slicing-replicas-are-not-capacity.txt\n  \
plimsoll scenario run scenarios/*.txt --update\n  \
plimsoll scenario --from cluster.json --anonymise > report.txt\n\n\
Exit codes: 0 as expected; 1 the outcome differs; 2 error."
    )]
    #[command(args_conflicts_with_subcommands = true)]
    Scenario(ScenarioArgs),
    /// Replay a server's journal and compare the decisions, or show one decision in full
    Replay(ReplayArgs),
    /// Run seeded fault injection (lost, late and repeated messages, crashes) and check invariants
    #[command(after_help = "Examples:\n  plimsoll chaos\n  plimsoll chaos --seed 42 --days 1\n  \
plimsoll chaos --events 100000000 --threads 2 -o json\n\n\
Exit codes: 0 no violation; 1 an invariant was violated, with the command to reproduce it; 2 error.")]
    Chaos(ChaosArgs),
    /// Print shell completions
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

/// The input of the offline commands.
#[derive(Args, Clone)]
pub(crate) struct InputArgs {
    /// Kubernetes objects as YAML or JSON: files, directories of *.yaml, *.yml and *.json, or -
    /// (stdin)
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Count a device request without declared memory on a shared card as
    #[arg(long, value_name = "RULE", value_enum, default_value_t = Plain::Whole)]
    pub(crate) plain: Plain,
    /// The node label of KAI's node pools
    #[arg(long, value_name = "KEY", default_value = "kai.scheduler/node-pool")]
    pub(crate) node_pool_key: String,
    /// Place without regard to how much nodes advertise of this resource
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(crate) ignore_resource: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

impl ExplainArgs {
    /// Returns the nodes that are shown.
    pub(crate) fn detail(&self) -> Detail {
        if self.full { Detail::Full } else { Detail::Nearest }
    }
}

/// The placement policy.
#[derive(Args)]
pub(crate) struct PolicyArgs {
    /// Choose among placements that fit by this policy
    #[arg(long, value_name = "NAME", default_value = "pack", value_parser = policy_parser())]
    pub(crate) policy: String,
    /// Shares of accounts (YAML): the key accounts, as in the configuration of a server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) accounts: Option<PathBuf>,
    /// Log the steps of every decision to standard error
    #[arg(long)]
    pub(crate) log_decisions: bool,
}

fn policy_parser() -> clap::builder::PossibleValuesParser {
    // The parser needs `'static` names; leaking these few is bounded.
    clap::builder::PossibleValuesParser::new(
        Policy::all().map(|policy| &*policy.name.to_string().leak()),
    )
}

impl PolicyArgs {
    /// Returns the policy of that name.
    pub(crate) fn policy(&self) -> Policy {
        Policy::called(&self.policy).expect("the parser admits only names of policies")
    }
}

/// The rule for device requests without declared memory on a shared card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// The whole card: the only amount that is surely enough
    Whole,
    /// An equal share of the card for each of its tokens
    EqualShare,
    /// Nothing: the request is rejected
    Refuse,
}

impl Plain {
    /// Converts to the core's rule.
    pub(crate) fn rule(self) -> PlainRule {
        match self {
            Plain::Whole => PlainRule::Whole,
            Plain::EqualShare => PlainRule::EqualShare,
            Plain::Refuse => PlainRule::Refuse,
        }
    }
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Table,
    /// JSON with stable names
    Json,
    /// The same as YAML
    Yaml,
}

/// The output format of `audit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// Text for people
    Table,
    /// JSON with stable names
    Json,
    /// The same as YAML
    Yaml,
    /// SARIF 2.1.0
    Sarif,
}

#[derive(Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Show every pod, device and node instead of a summary
    #[arg(long)]
    pub(crate) full: bool,
    /// Show only pods of this namespace; those of others count, too
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

#[derive(Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Show every node with every device, instead of the nearest
    #[arg(long)]
    pub(crate) full: bool,
    /// From files: a pod, as NAMESPACE/POD or its unique name. From a server: a decision (1234.0),
    /// a slot (slot-7), a reservation (reservation-12), or a client as NAMESPACE/NAME
    #[arg(value_name = "WHAT")]
    pub(crate) what: Option<String>,
    /// The namespace of a pod that is named without one [default: that of the context]
    #[arg(short, long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = AuditFormat::Table)]
    pub(crate) output: AuditFormat,
}

#[derive(Args)]
pub(crate) struct ScenarioArgs {
    #[command(subcommand)]
    pub(crate) run: Option<ScenarioCommand>,
    #[command(flatten)]
    pub(crate) files: ScenarioFiles,
    /// Convert these Kubernetes objects to a scenario and print it
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath, conflicts_with_all = ["files", "update"])]
    pub(crate) from: Vec<PathBuf>,
    /// Replace every name
    #[arg(long, requires = "from")]
    pub(crate) anonymise: bool,
}

#[derive(Subcommand)]
pub(crate) enum ScenarioCommand {
    /// Run scenario files and compare with their expectations
    Run(ScenarioFiles),
}

#[derive(Args)]
pub(crate) struct ScenarioFiles {
    /// Scenario files
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Write the actual outcome into the files as the expectation
    #[arg(long)]
    pub(crate) update: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let mut plain = Cli::command();
        plain.build();
        let mut all: Vec<&str> = plain.get_subcommands().map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        all.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, all);
        let help = command().render_help().to_string();
        let at = |part: &str| help.find(part).unwrap_or_else(|| panic!("{part}: {help}"));
        assert!(at("Operate") < at("  logs") && at("  logs") < at("Tools"), "{help}");
        assert!(at("Tools") < at("Global options"), "{help}");
    }

    #[test]
    fn scenario_accepts_files_with_and_without_run() {
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
    fn files_follow_one_flag_or_several() {
        let parsed = Cli::try_parse_from("plimsoll audit -f a b -f - -o json".split(' '))
            .expect("it parses");
        assert!(matches!(parsed.command, Command::Audit(args) if args.input.files.len() == 3));
    }

    #[test]
    fn an_unknown_policy_is_answered_with_the_known_ones() {
        let error = Cli::try_parse_from("plimsoll simulate -f a --policy best".split(' '))
            .map(|_| ())
            .expect_err("no such");
        assert!(error.to_string().contains("pack, spread, pack-nodes, spread-nodes"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
