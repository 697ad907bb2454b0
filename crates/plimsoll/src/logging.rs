//! The log of `serve` and `runner` on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use plimsoll_server::log::LogFormat;

/// Starts to log to standard error, at the levels that RUST_LOG sets, or else at the usual level.
pub(crate) fn start(format: LogFormat, usual: LevelFilter) {
    let levels = levels(std::env::var("RUST_LOG").ok().as_deref(), usual);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(levels)).init();
}

/// Reads directives such as `info,hyper=warn`. The `env-filter` of tracing-subscriber reads more,
/// filters on fields, but needs an engine for regular expressions that nothing else here uses.
fn levels(directives: Option<&str>, usual: LevelFilter) -> Targets {
    let levels = directives.filter(|text| !text.is_empty()).and_then(|text| text.parse().ok());
    levels.unwrap_or_else(|| Targets::new().with_default(usual))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn directives_set_the_level_of_a_target_or_of_all() {
        let usual = levels(None, LevelFilter::INFO);
        assert!(usual.would_enable("plimsoll", &Level::INFO));
        assert!(!usual.would_enable("plimsoll", &Level::DEBUG));
        let set = levels(Some("warn,hyper=debug"), LevelFilter::INFO);
        assert!(!set.would_enable("plimsoll", &Level::INFO));
        assert!(set.would_enable("hyper::proto", &Level::DEBUG));
    }

    #[test]
    fn unreadable_directives_leave_the_usual_level() {
        for text in ["", "plimsoll=loud"] {
            let levels = levels(Some(text), LevelFilter::INFO);
            assert!(levels.would_enable("plimsoll", &Level::INFO), "{text}");
            assert!(!levels.would_enable("plimsoll", &Level::DEBUG), "{text}");
        }
    }
}
