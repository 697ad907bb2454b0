//! Points in time as a server writes them, and how long ago that was.

use std::fmt;

use plimsoll_core::units::Millis;
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A point in time, in milliseconds since 1970; written as such a number or as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// This very moment.
    pub(crate) fn now() -> Moment {
        Moment(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
    }

    /// How long ago that was: `12s`, `5m`, `3h`, `2d`.
    pub(crate) fn ago(self, now: Moment) -> String {
        span(Millis(now.0.saturating_sub(self.0)))
    }

    /// How long it is until then.
    pub(crate) fn ahead(self, now: Moment) -> String {
        span(Millis(self.0.saturating_sub(now.0)))
    }

    /// Day and time in UTC.
    pub(crate) fn full(self) -> String {
        let time =
            i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        time.map_or("?".to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
    }
}

/// A length of time in its largest two units, such as nobody has to count: `950ms`, `12s`, `5m30s`, `3h`, `2d`.
pub(crate) fn span(millis: Millis) -> String {
    let seconds = millis.0 / 1000;
    let two = |large: u64, name: &str, small: u64, less: &str| match small {
        0 => format!("{large}{name}"),
        _ => format!("{large}{name}{small}{less}"),
    };
    match seconds {
        0 => format!("{}ms", millis.0),
        1..120 => format!("{seconds}s"),
        120..600 => two(seconds / 60, "m", seconds % 60, "s"),
        600..7200 => format!("{}m", seconds / 60),
        7200..36_000 => two(seconds / 3600, "h", seconds / 60 % 60, "m"),
        36_000..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        from.deserialize_any(MomentVisitor)
    }
}

struct MomentVisitor;

impl Visitor<'_> for MomentVisitor {
    type Value = Moment;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z")
    }

    fn visit_u64<E: de::Error>(self, millis: u64) -> Result<Moment, E> {
        Ok(Moment(millis))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
        let time: jiff::Timestamp = text.parse().map_err(E::custom)?;
        Ok(Moment(u64::try_from(time.as_millisecond()).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_are_the_same_time() {
        let read = |text: &str| serde_json::from_str::<Moment>(text).map(|moment| moment.0).ok();
        assert_eq!(read("1700000000123"), Some(1_700_000_000_123));
        assert_eq!(read(r#""2023-11-14T22:13:20.123Z""#), Some(1_700_000_000_123));
        assert_eq!(read(r#""yesterday""#), None);
        assert_eq!(Moment(1_700_000_000_123).full(), "2023-11-14 22:13:20Z");
    }

    #[test]
    fn a_span_is_as_exact_as_anybody_wants() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (119_000, "119s"),
            (150_000, "2m30s"),
            (300_000, "5m"),
            (3_600_000, "60m"),
            (7_260_000, "2h1m"),
            (90_000_000, "25h"),
            (200_000_000, "2d"),
        ] {
            assert_eq!(span(Millis(millis)), text);
        }
    }
}
