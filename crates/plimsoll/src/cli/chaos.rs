//! Arguments of `plimsoll chaos`.

use std::num::{NonZeroU64, NonZeroUsize};

use clap::Args;

use super::Format;

/// The default number of simulated days.
const DAYS: NonZeroU64 = NonZeroU64::new(100).expect("more than none");

#[derive(Args)]
pub(crate) struct ChaosArgs {
    /// The seed of the first day; each following day adds one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulate the guard of a Kubernetes cluster instead of the standalone server
    #[arg(long)]
    pub(crate) cluster: bool,
    /// The number of days to simulate [default: 100, or unlimited with --events]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) days: Option<NonZeroU64>,
    /// Stop after this many events
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) events: Option<NonZeroU64>,
    /// The number of days to simulate in parallel [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// The number of events to show before a violation
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) last: usize,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

fn parse_count(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| "expected a whole number, at least 1".to_string())
}

impl ChaosArgs {
    /// Returns the number of days to stop after; `None` if only events limit the run.
    pub(crate) fn most_days(&self) -> Option<NonZeroU64> {
        match self.events {
            Some(_) => self.days,
            None => Some(self.days.unwrap_or(DAYS)),
        }
    }
}
