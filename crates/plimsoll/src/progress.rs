//! A spinner on standard error for work that takes long.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Verbosity;

/// The time after which the spinner is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does the work; on a terminal, shows a spinner with its description if it takes long.
pub(crate) fn meanwhile<T>(verbosity: Verbosity, what: &str, work: impl FnOnce() -> T) -> T {
    if !verbosity.is_normal() || !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, waiting) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let spinner = spinner(what);
                // The channel closes when the work ends.
                let _ = waiting.recv();
                spinner.finish_and_clear();
            }
        });
        // Dropped when the closure ends, also by a panic.
        let _done = done;
        work()
    })
}

fn spinner(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
        .expect("the template is a constant");
    let spinner = ProgressBar::new_spinner().with_style(style).with_message(what.to_string());
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}
