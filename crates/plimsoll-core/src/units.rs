//! Integers with their unit in the type, and the only parser and printer of sizes.

mod size_format;

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use size_format::SizeFormat;

/// A short, cheaply cloned string: the name of a node, an account, a model, a label.
pub type Name = smol_str::SmolStr;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// An amount of memory. Arithmetic is checked or saturates; it never wraps.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);
    /// The value that sums saturate at.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// An upper bound for one device or one charge. Larger amounts are clamped to it, so that the
    /// sum of 65535 charges still fits 64 bits.
    pub const DEVICE_MAX: Bytes = Bytes(1 << 48);

    /// Creates an amount from a number of bytes.
    pub const fn new(bytes: u64) -> Self {
        Bytes(bytes)
    }

    /// Converts mebibytes; `None` if the number of bytes does not fit 64 bits.
    pub const fn from_mib(mib: u64) -> Option<Self> {
        match mib.checked_mul(MIB) {
            Some(bytes) => Some(Bytes(bytes)),
            None => None,
        }
    }

    /// Converts gibibytes and saturates; for constants and tests.
    pub const fn gib(gib: u64) -> Self {
        Bytes(gib.saturating_mul(GIB))
    }

    /// Converts mebibytes and saturates; for constants and tests.
    pub const fn mib(mib: u64) -> Self {
        Bytes(mib.saturating_mul(MIB))
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns true for zero bytes.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Adds; `None` if the sum does not fit 64 bits.
    pub const fn checked_add(self, other: Bytes) -> Option<Bytes> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Bytes(sum)),
            None => None,
        }
    }

    /// Subtracts; `None` if `other` is larger.
    pub const fn checked_sub(self, other: Bytes) -> Option<Bytes> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Bytes(rest)),
            None => None,
        }
    }

    /// Adds and saturates at [`Bytes::MAX`], so that a sum that is too large never looks small.
    #[must_use]
    pub const fn plus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// Subtracts and saturates at zero, so that an over-full device never looks empty.
    #[must_use]
    pub const fn less(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Rounds down to whole mebibytes.
    #[must_use]
    pub const fn floor_mib(self) -> Bytes {
        Bytes(self.0 / MIB * MIB)
    }

    /// Rounds up to whole mebibytes.
    #[must_use]
    pub const fn ceil_mib(self) -> Bytes {
        Bytes(self.0.saturating_add(MIB - 1)).floor_mib()
    }

    /// Returns an equal part for each of `parts` devices, rounded up so that the parts add up to at
    /// least the whole.
    #[must_use]
    pub fn split_up(self, parts: NonZeroU64) -> Bytes {
        Bytes(self.0.div_ceil(parts.get()))
    }
}

impl fmt::Display for Bytes {
    /// Prints whole units exactly (`32607 MiB`, `80 GiB`) and the rest with three decimals
    /// (`74.490 GiB`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.pad("0"),
            b if b % TIB == 0 => f.pad(&format!("{} TiB", b / TIB)),
            b if b % GIB == 0 => f.pad(&format!("{} GiB", b / GIB)),
            b if b % MIB == 0 => f.pad(&format!("{} MiB", b / MIB)),
            b if b >= GIB => f.pad(&thousandths(b, GIB, "GiB")),
            b if b >= MIB => f.pad(&thousandths(b, MIB, "MiB")),
            b if b % KIB == 0 => f.pad(&format!("{} KiB", b / KIB)),
            b => f.pad(&format!("{b} B")),
        }
    }
}

fn thousandths(bytes: u64, unit: u64, name: &str) -> String {
    let rounded = (u128::from(bytes) * 1000 + u128::from(unit) / 2) / u128::from(unit);
    format!("{}.{:03} {name}", rounded / 1000, rounded % 1000)
}

/// An error of parsing a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error("empty size; write bytes, or a number with KiB, MiB, GiB or TiB")]
    Empty,
    #[error("`{text}` is not a size; write bytes, or a number with a unit: 14.5GiB, 10Gi, 80GB")]
    Malformed { text: String },
    #[error("`{text}` is too large: the number of bytes does not fit 64 bits")]
    TooLarge { text: String },
    #[error("`{text}` is not a whole number of bytes")]
    Fractional { text: String },
}

impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(SizeError::Empty);
        }
        let malformed = || SizeError::Malformed { text: text.to_string() };
        let split =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(split);
        let unit = match suffix.trim_start() {
            "" | "B" => 1,
            "KiB" | "Ki" => KIB,
            "MiB" | "Mi" => MIB,
            "GiB" | "Gi" => GIB,
            "TiB" | "Ti" => TIB,
            // Decimal, as for Kubernetes and for vendors of cards.
            "kB" | "KB" | "k" => 1_000,
            "MB" | "M" => 1_000_000,
            "GB" | "G" => 1_000_000_000,
            "TB" | "T" => 1_000_000_000_000,
            _ => return Err(malformed()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty()
            || number.ends_with('.')
            || fraction.len() > 12
            || fraction.contains('.')
        {
            return Err(malformed());
        }
        let too_large = || SizeError::TooLarge { text: text.to_string() };
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let scale = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| malformed())?);
        let fraction: u128 =
            if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| malformed())? };
        let scaled = fraction * u128::from(unit);
        if !scaled.is_multiple_of(scale) && unit == 1 {
            return Err(SizeError::Fractional { text: text.to_string() });
        }
        let total = u128::from(whole) * u128::from(unit) + scaled / scale;
        u64::try_from(total).map(Bytes).map_err(|_| too_large())
    }
}

/// Compute in the device's own unit: percent, compute units or cores.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cores(pub u32);

/// CPU of a node in thousandths of a core, as Kubernetes counts it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MilliCpu(pub u64);

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            write!(f, "{}", self.0 / 1000)
        } else {
            write!(f, "{}m", self.0)
        }
    }
}

/// A point in time in milliseconds since an epoch that the caller chooses: 1970 in the servers, 0
/// in scenarios and tests. The core never reads a clock; time is always an argument.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Returns the point `span` later. Saturates at the end of time.
    #[must_use]
    pub const fn after(self, span: Timespan) -> Millis {
        Millis(self.0.saturating_add(span.0))
    }

    /// Returns the point `span` earlier. Saturates at the epoch.
    #[must_use]
    pub const fn before(self, span: Timespan) -> Millis {
        Millis(self.0.saturating_sub(span.0))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is in the future.
    pub const fn since(self, earlier: Millis) -> Timespan {
        Timespan(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in milliseconds. Written `500ms`, `20s`, `3m20s` or `1h`; exact in both directions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timespan(u64);

impl Timespan {
    pub const ZERO: Timespan = Timespan(0);

    /// Creates a duration from milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Timespan(millis)
    }

    /// Creates a duration from seconds. Saturates.
    pub const fn seconds(seconds: u64) -> Self {
        Timespan(seconds.saturating_mul(1000))
    }

    /// Returns the duration in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Adds and saturates.
    #[must_use]
    pub const fn plus(self, other: Timespan) -> Timespan {
        Timespan(self.0.saturating_add(other.0))
    }
}

/// The units of a [`Timespan`] in milliseconds, largest first.
const TIME_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl fmt::Display for Timespan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.pad("0s");
        }
        let mut text = String::new();
        let mut rest = self.0;
        for (name, unit) in TIME_UNITS {
            if rest >= unit {
                text.push_str(&format!("{}{name}", rest / unit));
                rest %= unit;
            }
        }
        f.pad(&text)
    }
}

/// An error of parsing a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration; write 500ms, 20s, 3m20s or 1h")]
pub struct TimespanError {
    text: String,
}

impl FromStr for Timespan {
    type Err = TimespanError;

    fn from_str(text: &str) -> Result<Self, TimespanError> {
        parse_timespan(text).ok_or_else(|| TimespanError { text: text.to_string() })
    }
}

/// Parses numbers with units, each unit smaller than the one before.
fn parse_timespan(text: &str) -> Option<Timespan> {
    let mut units = TIME_UNITS.iter();
    let mut rest = text;
    let mut sum: u64 = 0;
    loop {
        let (number, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let name = &unit[..unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len())];
        let (_, millis) = units.find(|(known, _)| *known == name)?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*millis)?)?;
        rest = &unit[name.len()..];
        if rest.is_empty() {
            return Some(Timespan(sum));
        }
    }
}

const DAY: u64 = 24 * 60 * 60 * 1000;
/// Times below one year cannot be wall-clock times since 1970: the clock belongs to a scenario or a
/// test and started at 0.
const A_YEAR: u64 = 365 * DAY;

impl fmt::Display for Millis {
    /// Prints a wall-clock time as date and time in UTC, and the time of a test clock (below one
    /// year) as the duration since its start.
    ///
    /// The core prints times because reasons carry them, for example `StaleTelemetry { since }`. A
    /// calendar library was rejected: it brings a time-zone database and a clock into a crate that
    /// may have neither, for the fifteen lines below. Code outside the core formats times with
    /// `jiff`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < A_YEAR {
            return Timespan(self.0).fmt(f);
        }
        let (year, month, day) = date(self.0 / DAY);
        let seconds = self.0 % DAY / 1000;
        let hour = seconds / 3600;
        let minute = seconds / 60 % 60;
        let second = seconds % 60;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Converts days since 1 January 1970 to year, month and day of the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last day of its year and month lengths
/// follow one linear formula. All divisions are exact for any `u64` below 2^63 days; there is no
/// loop.
fn date(days: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    let days = days + 719_468;
    let era = days / FOUR_CENTURIES;
    let day = days % FOUR_CENTURIES;
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_after_december = month >= 10;
    let month = if is_after_december { month - 9 } else { month + 3 };
    (era * 400 + year + u64::from(is_after_december), month, day)
}

/// A share of a device as an exact ratio. A float would make two halves exceed the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Portion {
    parts: u64,
    of: NonZeroU64,
}

impl Portion {
    /// Creates the ratio `parts / of`; `None` unless it is above 0 and at most 1.
    pub fn new(parts: u64, of: u64) -> Option<Self> {
        let of = NonZeroU64::new(of)?;
        (parts > 0 && parts <= of.get()).then_some(Portion { parts, of })
    }

    /// Returns the numerator and the denominator.
    pub const fn parts(self) -> (u64, u64) {
        (self.parts, self.of.get())
    }

    /// Returns this share of `usable`, rounded down to whole MiB so that two halves always fit;
    /// `None` if that leaves nothing.
    pub fn share_of(self, usable: Bytes) -> Option<Bytes> {
        let exact = u128::from(usable.get()) * u128::from(self.parts) / u128::from(self.of.get());
        let floored = Bytes(u64::try_from(exact).ok()?).floor_mib();
        (!floored.is_zero()).then_some(floored)
    }
}

impl fmt::Display for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = u128::from(self.of.get());
        let hundredfold = u128::from(self.parts) * 100;
        if hundredfold.is_multiple_of(of) {
            write!(f, "{}%", hundredfold / of)
        } else {
            write!(f, "{}/{of}", self.parts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_times_print_as_dates_and_test_clock_times_as_durations() {
        for (ms, shown) in [
            (5_000, "5s"),
            (951_782_400_000, "2000-02-29 00:00:00"),
            (1_709_251_199_999, "2024-02-29 23:59:59"),
            (1_709_251_200_000, "2024-03-01 00:00:00"),
            (1_735_689_599_000, "2024-12-31 23:59:59"),
            (1_794_799_994_515, "2026-11-16 03:33:14"),
            (4_107_542_400_000, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(Millis(ms).to_string(), shown);
        }
    }

    #[test]
    fn a_duration_reads_back_as_it_prints() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("1s500ms", 1500),
            ("12s", 12_000),
            ("3m20s", 200_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("26h1ms", 93_600_001),
        ] {
            assert_eq!(text.parse(), Ok(Timespan::millis(millis)), "{text}");
            assert_eq!(Timespan::millis(millis).to_string(), text);
        }
        assert_eq!("90s".parse(), Ok(Timespan::millis(90_000)));
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5 m",
            "1s1s",
            "1s1m",
            "1s5",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert!(
                text.parse::<Timespan>().is_err_and(|e| e.to_string().contains(text)),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_print_in_the_largest_unit_that_is_exact() {
        for (bytes, text) in [
            (Bytes::ZERO, "0"),
            (Bytes::gib(80), "80 GiB"),
            (Bytes::mib(32_607), "32607 MiB"),
            (Bytes::new(79_982_566_400), "74.490 GiB"),
            (Bytes::new(15_767_897_088), "14.685 GiB"),
            (Bytes::new(1_500_000), "1.431 MiB"),
            (Bytes::new(2048), "2 KiB"),
            (Bytes::new(7), "7 B"),
        ] {
            assert_eq!(bytes.to_string(), text);
        }
    }

    #[test]
    fn sizes_parse_exactly_or_fail() {
        for (text, bytes) in [
            ("8388608", Bytes::mib(8)),
            ("80GiB", Bytes::gib(80)),
            ("80 GiB", Bytes::gib(80)),
            ("0.5GiB", Bytes::mib(512)),
            ("1.5 KiB", Bytes::new(1536)),
            ("12B", Bytes::new(12)),
            ("10Gi", Bytes::gib(10)),
            ("80GB", Bytes::new(80_000_000_000)),
            ("1500M", Bytes::new(1_500_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(bytes), "{text}");
        }
        for text in [
            "", " ", "GiB", "-1", "1e9", "80 gigs", "1.", ".5GiB", "1..2", "1.2.3", "0x10", "NaN",
            "1 2",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert!(matches!("0.5".parse::<Bytes>(), Err(SizeError::Fractional { .. })));
        assert!(matches!("99999999999TiB".parse::<Bytes>(), Err(SizeError::TooLarge { .. })));
    }

    #[test]
    fn two_halves_fit_and_the_parts_of_a_split_cover_the_whole() {
        for mib in 1..2000 {
            let usable = Bytes::new(mib * MIB + mib * 37);
            let half = Portion::new(1, 2).expect("a half").share_of(usable);
            assert!(half.unwrap_or(Bytes::ZERO).plus(half.unwrap_or(Bytes::ZERO)) <= usable);
            let three = NonZeroU64::new(3).expect("three");
            assert!(usable.split_up(three).get() * 3 >= usable.get());
        }
    }

    #[test]
    fn a_portion_is_above_zero_and_at_most_one() {
        assert!(Portion::new(0, 100).is_none());
        assert!(Portion::new(101, 100).is_none());
        assert!(Portion::new(1, 0).is_none());
        assert!(Portion::new(100, 100).is_some());
    }
}
