//! What can be typed after `plimsoll chaos`.

use std::num::{NonZeroU64, NonZeroUsize};

use clap::Args;

use super::Format;

/// Days without an end of events in sight.
const DAYS: NonZeroU64 = NonZeroU64::new(100).expect("more than none");

#[derive(Args)]
pub(crate) struct ChaosArgs {
    /// The seed of the first day; the next day's is one more
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many days to live through; 100 unless --events is given
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<NonZeroU64>,
    /// Go on until so many events have happened
    #[arg(long, value_name = "N")]
    pub(crate) events: Option<NonZeroU64>,
    /// How many days to live through at the same time; as many as there are processors if not said
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// How many events before a breach to show
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) last: usize,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

impl ChaosArgs {
    /// The most days there may be.
    pub(crate) fn most_days(&self) -> u64 {
        match (self.days, self.events) {
            (Some(days), _) => days.get(),
            (None, Some(_)) => u64::MAX,
            (None, None) => DAYS.get(),
        }
    }

    /// The events after which it is enough.
    pub(crate) fn most_events(&self) -> u64 {
        self.events.map_or(u64::MAX, NonZeroU64::get)
    }
}
