//! Arguments of the commands that talk to a server.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use plimsoll_api::rows::StatusFilter;
use plimsoll_slots::lease::Lease;
use plimsoll_slots::size::Span;

use super::operate::{RunnersAction, SlotsAction};
use super::{ClusterArgs, Format};

/// The server's address and credentials.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServerArgs {
    /// The server's address [default: $PLIMSOLL_SERVER, the current context, or
    /// http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, help_heading = "Server")]
    pub(crate) server: Option<String>,
    /// A file with the token [default: $PLIMSOLL_TOKEN]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Server")]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust only the certificates in this file
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, help_heading = "Server")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Send the token unencrypted to another machine
    #[arg(long, help_heading = "Server")]
    pub(crate) insecure: bool,
}

/// The output format of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// Text that fits the terminal
    Table,
    /// Text with every column
    Wide,
    /// JSON, as the server sends it
    Json,
    /// The same as YAML
    Yaml,
    /// One name per line
    Name,
}

/// Output format, order and refresh interval.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The output format
    #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
    pub(crate) output: ListFormat,
    /// Sort by this field, named as in -o json: model, runner_id, created
    #[arg(long, value_name = "FIELD")]
    pub(crate) sort_by: Option<String>,
    /// Refresh at this interval and print changes, until Ctrl-C
    #[arg(short, long, value_name = "EVERY", num_args = 0..=1, default_missing_value = "2s")]
    pub(crate) watch: Option<Span>,
}

pub(super) const SLOTS: &str = "Examples:\n  plimsoll slots\n  plimsoll slots --runner gpu-a --watch\n  \
plimsoll slots --model qwen3-8b -o json --server https://plimsoll.example:8443 --token-file token\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SlotsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<SlotsAction>,
    #[command(flatten)]
    pub(crate) list: SlotListArgs,
}

#[derive(Args, Debug)]
pub(crate) struct SlotListArgs {
    /// List the slots that have ended, newest first
    #[arg(long)]
    pub(crate) ended: bool,
    /// Only slots on this runner
    #[arg(long, value_name = "NAME")]
    pub(crate) runner: Option<String>,
    /// Only slots of this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Only slots on runners with these labels: pool=text,zone!=b
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const RESERVATIONS: &str = "Examples:\n  plimsoll reservations\n  plimsoll reservations --namespace team-a --watch\n  \
plimsoll reservations --status lease_expired\n  plimsoll reservations --model qwen3-8b --status all -o json\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct ReservationsArgs {
    /// Only reservations of this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Only reservations of clients in this namespace
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Only reservations with this status; or open, ended, all
    #[arg(long, value_name = "STATUS", default_value_t = StatusFilter::Open)]
    pub(crate) status: StatusFilter,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const RUNNERS: &str = "Examples:\n  plimsoll runners\n  plimsoll runners gpu-a --watch=5s\n  \
plimsoll runners -o json\n\n\
Exit codes: 0 done; 1 a GPU is over its line; 2 error.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunnersArgs {
    #[command(subcommand)]
    pub(crate) action: Option<RunnersAction>,
    /// Only this runner
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) list: RunnerListArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RunnerListArgs {
    /// Only runners with these labels: pool=text,zone!=b
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const DECISIONS: &str = "Examples:\n  plimsoll decisions\n  plimsoll decisions --model qwen3-8b --limit 100\n  \
plimsoll decisions --runner gpu-a --watch\n\n\
`plimsoll explain --server URL ID` shows one of them with every device.\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct DecisionsArgs {
    /// Only decisions that chose this runner, or had their nearest miss there
    #[arg(long, value_name = "NAME")]
    pub(crate) runner: Option<String>,
    /// Only decisions about this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Show every decision by itself, instead of alike ones about a slot with their count
    #[arg(long)]
    pub(crate) all: bool,
    /// The number of lines, newest first
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const QUEUE: &str = "Examples:\n  plimsoll queue\n  plimsoll queue --watch\n\n\
Exit codes: 0 nothing is pending; 1 something is pending; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const ACCOUNTS: &str = "Examples:\n  plimsoll accounts\n  plimsoll accounts -o json\n\n\
The configuration of the server defines the shares; without any the list is empty.\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct AccountsArgs {
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const APPLY: &str = "Examples:\n  plimsoll apply -f models.yaml\n  plimsoll apply -f models.yaml --dry-run\n  \
cat *.yaml | plimsoll apply -f -\n\n\
A file holds one declaration, a list of them, or a list under `models:`; YAML may hold several documents. All are\n\
checked before the first is sent.\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct ApplyArgs {
    /// Model declarations as YAML or JSON: files, directories, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., required = true)]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Check and compare without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const RESERVE: &str = "Examples:\n  plimsoll reserve qwen3-8b --wait 30s\n  \
plimsoll reserve qwen3-8b --deadline 60s --key order-17 --as team-a/trainer-0\n\n\
Exit codes: 0 ready; 1 pending, starting or ended; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct ReserveArgs {
    /// The model to use
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,
    /// Wait this long for the reservation to become ready
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    pub(crate) wait: Span,
    /// Cancel the reservation if it is not ready by then
    #[arg(long, value_name = "SPAN")]
    pub(crate) deadline: Option<Span>,
    /// Idempotency key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// The client's name, for explanations
    #[arg(long = "as", value_name = "NAMESPACE/NAME", value_parser = parse_client)]
    pub(crate) client: Option<(String, String)>,
    /// Release the reservation unless it is renewed within this time; off: never [default: as the
    /// server is configured]
    #[arg(long, value_name = "SPAN")]
    pub(crate) lease: Option<Lease>,
    /// The output format; json is the server's own
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const RENEW: &str = "Examples:\n  plimsoll renew reservation-12\n  \
while plimsoll -q renew reservation-12; do sleep 60; done\n\n\
Exit codes: 0 done; 2 error, also if the reservation has ended.";

#[derive(Args, Debug)]
pub(crate) struct RenewArgs {
    /// The reservation
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The output format; json is the server's own
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const RELEASE: &str = "Examples:\n  plimsoll release reservation-12\n  plimsoll release slot-7\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct ReleaseArgs {
    /// The reservation or slot
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Stop a slot although it is busy; its reservations are lost
    #[arg(long)]
    pub(crate) force: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

pub(super) const TOP: &str = "Examples:\n  plimsoll top\n  plimsoll top --server https://plimsoll.example:8443 --token-file token\n  \
plimsoll top --every 5s\n  plimsoll top --kubeconfig ~/.kube/config\n\n\
Keys: q quits, ? shows help, tab or 1 to 4 change the view, arrows or j and k move, enter shows details, p pauses.\n\
Without a terminal one frame is printed.\n\n\
Exit codes: 0 done; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The refresh interval
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    pub(crate) every: Span,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

fn parse_client(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok((namespace.to_string(), name.to_string()))
        }
        _ => Err("expected NAMESPACE/NAME".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use clap::Parser;

    fn parsed(line: &str) -> Result<Command, String> {
        Cli::try_parse_from(line.split(' '))
            .map(|cli| cli.command)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn watch_has_a_default_interval() {
        let every = |line: &str| match parsed(line) {
            Ok(Command::Slots(args)) => args.list.show.watch.map(|span| span.0),
            _ => panic!("{line}"),
        };
        assert_eq!(every("plimsoll slots"), None);
        assert_eq!(every("plimsoll slots --watch"), Some(2000));
        assert_eq!(every("plimsoll slots --watch=500ms --model m"), Some(500));
        assert!(
            parsed("plimsoll slots --watch=5").is_err_and(|error| error.contains("500ms, 20s"))
        );
    }

    #[test]
    fn a_lease_is_a_time_or_off() {
        let lease = |text: &str| parsed(&format!("plimsoll reserve m --lease {text}"));
        assert!(matches!(lease("off"), Ok(Command::Reserve(args)) if args.lease.is_some()));
        assert!(matches!(lease("90s"), Ok(Command::Reserve(args)) if args.lease.is_some()));
        for (text, part) in [("0s", "at least 1s"), ("never", "10m"), ("", "`off`")] {
            assert!(lease(text).is_err_and(|error| error.contains(part)), "{text}");
        }
    }

    #[test]
    fn an_unknown_status_is_rejected_with_the_known_ones() {
        let error = parsed("plimsoll reservations --status gone").err().unwrap_or_default();
        assert!(error.contains("lease_expired") && error.contains("open"), "{error}");
    }

    #[test]
    fn a_client_has_a_namespace_and_a_name() {
        assert!(
            matches!(parsed("plimsoll reserve m --as a/b"), Ok(Command::Reserve(args)) if args.client.is_some())
        );
        for name in ["b", "a/", "/b", "a/b/c"] {
            assert!(parsed(&format!("plimsoll reserve m --as {name}")).is_err(), "{name}");
        }
    }
}
