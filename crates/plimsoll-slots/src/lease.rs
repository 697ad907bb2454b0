//! The lease of a reservation as people write it: `10m`, or `off`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use crate::size::Span;

/// The time that a reservation lasts without a sign of life from its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// The reservation lasts until it is released; written `off`.
    Off,
    /// The reservation ends this long after its last renewal.
    For(Span),
}

impl Lease {
    /// The shortest lease: the scheduler notices an expired one within a second.
    pub const SHORTEST: Span = Span::seconds(1);
    /// The lease of a server that configures none.
    pub const DEFAULT: Lease = Lease::For(Span::seconds(600));

    /// Returns the lease of reservations that were journalled before there were leases: their
    /// clients do not know that they have to renew.
    pub(crate) fn before_leases() -> Lease {
        Lease::Off
    }
}

/// An error of parsing a [`Lease`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    #[error("`{text}` is not a lease; write a duration such as 30s or 10m, or `off`")]
    Unreadable { text: String },
    #[error("the lease is {span}; it must be at least {shortest}, or `off`", shortest = Lease::SHORTEST)]
    TooShort { span: Span },
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lease::Off => f.pad("off"),
            Lease::For(span) => span.fmt(f),
        }
    }
}

impl FromStr for Lease {
    type Err = LeaseError;

    fn from_str(text: &str) -> Result<Self, LeaseError> {
        if text == "off" {
            return Ok(Lease::Off);
        }
        let span: Span =
            text.parse().map_err(|_| LeaseError::Unreadable { text: text.to_string() })?;
        match span < Lease::SHORTEST {
            true => Err(LeaseError::TooShort { span }),
            false => Ok(Lease::For(span)),
        }
    }
}

impl Serialize for Lease {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Lease, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_a_duration_or_off_and_is_read_as_it_is_written() {
        for (text, lease) in [
            ("off", Lease::Off),
            ("1s", Lease::For(Span::seconds(1))),
            ("10m", Lease::DEFAULT),
            ("1h1ms", Lease::For(Span(3_600_001))),
        ] {
            assert_eq!((text.parse(), lease.to_string().as_str()), (Ok(lease), text));
        }
    }

    #[test]
    fn anything_else_is_rejected_with_what_to_write() {
        for (text, part) in [
            ("", "`off`"),
            ("Off", "`Off` is not a lease"),
            ("10", "10m"),
            ("-1s", "`-1s`"),
            ("0s", "must be at least 1s"),
            ("999ms", "the lease is 999ms"),
            ("99999999999999999999h", "is not a lease"),
        ] {
            let error = text.parse::<Lease>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
