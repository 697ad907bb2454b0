//! Arguments of `plimsoll replay`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::Format;
use plimsoll_engine::store::DecisionId;

#[derive(Args)]
#[command(after_help = "Read-only and lock-free: a server may be running on the directory.\n\n\
Examples:\n  plimsoll replay /var/lib/plimsoll\n  plimsoll replay /var/lib/plimsoll --decision 1042.0\n  \
plimsoll replay backup/ -o json | jq '.divergences[].seq'\n\n\
Exit codes: 0 all decisions are the same; 1 some differ; 2 error.")]
pub(crate) struct ReplayArgs {
    /// The data directory of a server
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Show this decision in full: the number of its record, and its index in it
    #[arg(long, value_name = "SEQ.INDEX")]
    pub(crate) decision: Option<DecisionId>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}
