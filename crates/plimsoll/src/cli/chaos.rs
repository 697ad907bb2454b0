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
    /// The number of days to simulate [default: 100, or unlimited with --events]
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<NonZeroU64>,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
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

impl ChaosArgs {
    /// Returns the maximum number of days.
    pub(crate) fn most_days(&self) -> u64 {
        match (self.days, self.events) {
            (Some(days), _) => days.get(),
            (None, Some(_)) => u64::MAX,
            (None, None) => DAYS.get(),
        }
    }

    /// Returns the number of events to stop after.
    pub(crate) fn most_events(&self) -> u64 {
        self.events.map_or(u64::MAX, NonZeroU64::get)
    }
}
