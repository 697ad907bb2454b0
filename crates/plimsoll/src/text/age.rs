//! Ages and remaining times, as people read them.

use plimsoll_api::time::Time;
use plimsoll_core::units::Millis;

/// Returns the current time.
pub(crate) fn now() -> Time {
    Time(Millis(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)))
}

/// Formats the time since `at`: `12s`, `5m30s`, `3h`, `2d`.
pub(crate) fn ago(at: Time, now: Time) -> String {
    span(now.0.since(at.0).as_millis())
}

/// Formats the time from one point to another.
pub(crate) fn between(from: Time, to: Time) -> String {
    span(to.0.since(from.0).as_millis())
}

/// Formats the time until `at`.
pub(crate) fn ahead(at: Time, now: Time) -> String {
    span(at.0.since(now.0).as_millis())
}

/// Formats a duration in its largest two units. Fractions of a second only flicker in a table.
fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two_units(seconds / 60, "m", seconds % 60, "s"),
        600..7200 => format!("{}m", seconds / 60),
        7200..36_000 => two_units(seconds / 3600, "h", seconds / 60 % 60, "m"),
        36_000..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn two_units(large: u64, name: &str, small: u64, less: &str) -> String {
    if small == 0 { format!("{large}{name}") } else { format!("{large}{name}{small}{less}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_at_most_two_units() {
        for (millis, text) in [
            (0, "0s"),
            (999, "0s"),
            (119_000, "119s"),
            (150_000, "2m30s"),
            (300_000, "5m"),
            (3_600_000, "60m"),
            (7_260_000, "2h1m"),
            (90_000_000, "25h"),
            (200_000_000, "2d"),
        ] {
            assert_eq!(span(millis), text);
        }
    }
}
