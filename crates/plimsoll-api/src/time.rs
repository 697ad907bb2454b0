//! Points in time as the API writes them.

use std::fmt;

use jiff::Timestamp;
use plimsoll_core::units::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

/// A point in time, written as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub struct Time(pub Millis);

impl Time {
    /// Returns the date and time of day in UTC, for people.
    pub fn to_clock(self) -> String {
        self.timestamp().strftime("%Y-%m-%d %H:%M:%SZ").to_string()
    }

    fn timestamp(self) -> Timestamp {
        let millis = i64::try_from(self.0.0).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }
}

/// Converts a point in time of the core.
pub fn time(at: Millis) -> Time {
    Time(at)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.timestamp())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(Time(Millis(u64::try_from(time.as_millisecond()).unwrap_or(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_never_fail() {
        for (millis, text) in [
            (1_753_862_400_007, "2025-07-30T08:00:00.007Z"),
            (0, "1970-01-01T00:00:00.000Z"),
            (u64::MAX, "9999-12-30T22:00:00.999Z"),
        ] {
            assert_eq!(Time(Millis(millis)).to_string(), text);
        }
    }

    #[test]
    fn a_written_time_is_read_back() {
        let at = Time(Millis(1_700_000_000_123));
        let written = serde_json::to_string(&at).expect("a string");
        assert_eq!(written, r#""2023-11-14T22:13:20.123Z""#);
        assert_eq!(serde_json::from_str::<Time>(&written).ok(), Some(at));
        assert!(serde_json::from_str::<Time>(r#""yesterday""#).is_err());
        assert_eq!(at.to_clock(), "2023-11-14 22:13:20Z");
    }
}
