//! Arguments of the commands that operate models, runners and slots.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use plimsoll_slots::size::Span;

use super::{Format, ListFormat, RunnerListArgs, ServerArgs, ShowArgs};

pub(super) const MODELS: &str = "Examples:\n  plimsoll models\n  plimsoll models show qwen3-8b -o yaml\n  \
plimsoll models delete qwen3-8b\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ModelsAction>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// A list without filters.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ModelsAction {
    /// List the declared models (the default)
    List(ListArgs),
    /// Show a model: its declaration, memory and slots
    Show(NamedArgs),
    /// Delete a model: its slots are stopped and its reservations end
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// One thing to show.
#[derive(Args, Debug)]
pub(crate) struct NamedArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// One thing to delete.
#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Delete it although reservations are lost
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RunnersAction {
    /// List the runners (the default)
    List(RunnerListArgs),
    /// Show a runner, its GPUs and their holders
    Show(NamedArgs),
    /// Give a runner no new slots; those that it has stay
    Cordon(ChangeArgs),
    /// Give a runner new slots again
    Uncordon(ChangeArgs),
    /// Cordon a runner and stop its slots: idle ones at once, busy ones when they are idle
    Drain(DrainArgs),
    /// Remove a runner that is gone for good; its memory is released without evidence
    #[command(visible_alias = "rm")]
    Delete(ChangeArgs),
}

/// A runner to change.
#[derive(Args, Debug)]
pub(crate) struct ChangeArgs {
    /// The runner
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// The runner
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Stop the slots that are still busy after this time; without it, wait until they are idle
    #[arg(long, value_name = "SPAN")]
    pub(crate) deadline: Option<Span>,
    /// Do not wait for the end of the drain
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SlotsAction {
    /// List the slots (the default)
    List(super::client::SlotListArgs),
    /// Show a slot, also one that has ended
    Show(NamedArgs),
    /// Stop a slot
    Stop(StopArgs),
}

/// A slot to stop.
#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    /// The slot
    #[arg(value_name = "SLOT")]
    pub(crate) id: String,
    /// Stop it although it is busy; its reservations are lost
    #[arg(long)]
    pub(crate) force: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const LOGS: &str = "Examples:\n  plimsoll logs slot-7\n  plimsoll logs -f slot-7\n  \
plimsoll logs --tail 1000 slot-3\n\n\
The runner keeps the output of ended slots for a limited number of them.\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// The slot, also one that has ended
    #[arg(value_name = "SLOT")]
    pub(crate) slot: String,
    /// Print new output as it is written, until the slot ends or Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// The number of last lines to begin with
    #[arg(long, value_name = "LINES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tail: u32,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const EVENTS: &str = "Examples:\n  plimsoll events\n  plimsoll events --model qwen3-8b --all\n  \
plimsoll events --runner gpu-a --watch\n\n\
Alike events share a line with their count and the time that they span. The server keeps the latest 5000.\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// Only events of this runner and of slots on it
    #[arg(long, value_name = "NAME")]
    pub(crate) runner: Option<String>,
    /// Only events of slots of this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Show every event by itself
    #[arg(long)]
    pub(crate) all: bool,
    /// The number of lines, the latest ones
    #[arg(long, value_name = "NUMBER", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const PLAN: &str = "Examples:\n  plimsoll plan -f models.yaml\n  plimsoll plan -f models/ -o json\n\n\
Exit codes: 0 every model could be placed now; 1 one is pending or impossible; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Model declarations as YAML or JSON: files, directories, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., required = true)]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const CONTEXT: &str = "Examples:\n  plimsoll context set home --server http://127.0.0.1:8080\n  \
plimsoll context set lab --server https://lab.example:8443 --token-file ~/lab.token\n  plimsoll context use lab\n  \
plimsoll context\n\n\
They are kept in $XDG_CONFIG_HOME/plimsoll/config.yaml. --server and PLIMSOLL_SERVER override the current one.\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ContextAction>,
    #[command(flatten)]
    pub(crate) list: ContextListArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ContextListArgs {
    /// The output format
    #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
    pub(crate) output: ListFormat,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ContextAction {
    /// List the named servers (the default)
    List(ContextListArgs),
    /// Use a named server from now on
    Use {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Add a named server, or change it
    Set {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Remove a named server
    #[command(visible_alias = "rm")]
    Delete {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}
