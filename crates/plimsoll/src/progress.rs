//! A sign of life on standard error while something takes longer than one would wait for.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// What takes no longer than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does the work. On a terminal it is said what takes so long, once it does.
pub(crate) fn meanwhile<T>(quiet: bool, what: &str, work: impl FnOnce() -> T) -> T {
    if quiet || !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, waiting) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let spinner = spinner(what);
                // An error is the work's end as well: the other side is gone.
                let _ = waiting.recv();
                spinner.finish_and_clear();
            }
        });
        // The sender goes with this closure, however it ends.
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
