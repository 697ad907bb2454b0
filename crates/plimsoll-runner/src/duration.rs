//! Durations in messages.

use std::fmt;
use std::time::Duration;

/// A duration for people: `400ms`, `12s`, `3m20s`.
pub(crate) struct ShortDuration(pub(crate) Duration);

impl fmt::Display for ShortDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, seconds) = (self.0.as_secs() / 60, self.0.as_secs() % 60);
        match (minutes, seconds) {
            _ if self.0 < Duration::from_secs(1) => write!(f, "{}ms", self.0.as_millis()),
            (0, seconds) => write!(f, "{seconds}s"),
            (minutes, 0) => write!(f, "{minutes}m"),
            (minutes, seconds) => write!(f, "{minutes}m{seconds}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (ms, text) in
            [(400, "400ms"), (1_000, "1s"), (59_900, "59s"), (200_000, "3m20s"), (1_200_000, "20m")]
        {
            assert_eq!(ShortDuration(Duration::from_millis(ms)).to_string(), text);
        }
    }
}
