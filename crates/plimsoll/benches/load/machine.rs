//! Other activity on the machine, as far as the system reports it.

use std::fmt;
use std::fs;

/// Returns the load averages of 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The ticks of all processors since boot; zero where the system does not report them.
pub(crate) struct Processors {
    idle: f64,
    stolen: f64,
    all: f64,
}

impl Processors {
    pub(crate) fn now() -> Processors {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks = text.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let ticks: Vec<f64> = ticks.filter_map(|ticks| ticks.parse().ok()).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or_default();
        // user, nice, system, idle, waiting for a disk, interrupts (two kinds), and stolen by the
        // host.
        Processors { idle: at(3) + at(4), stolen: at(7), all: ticks.iter().sum() }
    }

    pub(crate) fn since(&self, before: &Processors) -> Shares {
        let all = (self.all - before.all).max(1.0);
        let share = |of: fn(&Processors) -> f64| (of(self) - of(before)) / all * 100.0;
        Shares { idle: share(|now| now.idle), stolen: share(|now| now.stolen) }
    }
}

/// In a hundred.
pub(crate) struct Shares {
    idle: f64,
    stolen: f64,
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shares { idle, stolen } = self;
        write!(f, "{idle:.0} % idle, {stolen:.1} % taken by the host for other machines")
    }
}
