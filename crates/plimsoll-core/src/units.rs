//! Sizes and times as integers with their unit in the type, and the one parser and the one printer of sizes.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that many records share: of a node, a tenant, a model, a label.
pub type Name = smol_str::SmolStr;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// An amount of memory. Sums are checked, and nothing wraps.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// No memory at all.
    pub const ZERO: Bytes = Bytes(0);
    /// More than any device has; what a sum saturates at.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// More than any device will have. Amounts above it are cut to it, so that no sum of tenants can overflow.
    pub const DEVICE_MAX: Bytes = Bytes(1 << 48);

    /// So many bytes.
    pub const fn new(bytes: u64) -> Self {
        Bytes(bytes)
    }

    /// So many mebibytes; `None` when that is more than a `u64` of bytes.
    pub const fn from_mib(mib: u64) -> Option<Self> {
        match mib.checked_mul(MIB) {
            Some(bytes) => Some(Bytes(bytes)),
            None => None,
        }
    }

    /// So many gibibytes; saturates, for constants and tests.
    pub const fn gib(gib: u64) -> Self {
        Bytes(gib.saturating_mul(GIB))
    }

    /// So many mebibytes; saturates, for constants and tests.
    pub const fn mib(mib: u64) -> Self {
        Bytes(mib.saturating_mul(MIB))
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` when it does not fit 64 bits.
    pub const fn checked_add(self, other: Bytes) -> Option<Bytes> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Bytes(sum)),
            None => None,
        }
    }

    /// The difference, or `None` when `other` is more.
    pub const fn checked_sub(self, other: Bytes) -> Option<Bytes> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Bytes(rest)),
            None => None,
        }
    }

    /// The sum, at most [`Bytes::MAX`]: more than everything is still too much, never a small number.
    #[must_use]
    pub const fn plus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// What is left after `other` is taken away; nothing when `other` is more, never a wrapped number.
    #[must_use]
    pub const fn less(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// The same, rounded down to whole mebibytes.
    #[must_use]
    pub const fn floor_mib(self) -> Bytes {
        Bytes(self.0 / MIB * MIB)
    }

    /// The same, rounded up to whole mebibytes.
    #[must_use]
    pub const fn ceil_mib(self) -> Bytes {
        Bytes(self.0.saturating_add(MIB - 1)).floor_mib()
    }

    /// An equal part for each of `parts` devices, rounded up so that the parts hold the whole.
    #[must_use]
    pub fn split_up(self, parts: NonZeroU64) -> Bytes {
        Bytes(self.0.div_ceil(parts.get()))
    }
}

impl fmt::Display for Bytes {
    /// Whole units exactly (`32607 MiB`, `80 GiB`), the rest to three places (`74.490 GiB`).
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

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Nothing was written.
    #[error("a size is empty; write bytes, or a number with KiB, MiB, GiB or TiB")]
    Empty,
    /// The number or its suffix could not be read.
    #[error("`{text}` is not a size; write bytes, or a number with KiB, MiB, GiB or TiB")]
    Malformed {
        /// What was written.
        text: String,
    },
    /// More than 64 bits of bytes.
    #[error("`{text}` is more memory than can be counted")]
    TooLarge {
        /// What was written.
        text: String,
    },
    /// A part of a byte.
    #[error("`{text}` is not a whole number of bytes")]
    Fractional {
        /// What was written.
        text: String,
    },
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
            "KiB" => KIB,
            "MiB" => MIB,
            "GiB" => GIB,
            "TiB" => TIB,
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

/// Compute of a device in the device's own unit: percent, compute units, cores.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cores(pub u32);

/// Processor time of a node in thousandths of a core.
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

/// A point in time in milliseconds since an epoch that the caller chooses. Always an argument, never read here.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The point so many milliseconds later.
    #[must_use]
    pub const fn after(self, span: u64) -> Millis {
        Millis(self.0.saturating_add(span))
    }

    /// How many milliseconds have passed since `earlier`; none when that is still to come.
    pub const fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A clock that shows less was started for the occasion, and counts from then.
const A_YEAR: u64 = 365 * DAY;
const DAY: u64 = 24 * 60 * 60 * 1000;

impl fmt::Display for Millis {
    /// As a date in UTC (RFC 3339) on a clock that counts from 1970, as milliseconds on one that was just started.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < A_YEAR {
            return write!(f, "{} ms", self.0);
        }
        let (year, month, day) = date(self.0 / DAY);
        let (ms, seconds) = (self.0 % 1000, self.0 % DAY / 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Year, month and day of the Gregorian calendar, so many days after the first of January 1970. Counted in years that begin
/// with March, so that the leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days / FOUR_CENTURIES, days % FOUR_CENTURIES);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (is_after_december, day) = (month >= 10, day - (153 * month + 2) / 5 + 1);
    let month = if is_after_december { month - 9 } else { month + 3 };
    (era * 400 + year + u64::from(is_after_december), month, day)
}

/// A share of a device as an exact ratio: a percentage, a decimal fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Portion {
    parts: u64,
    of: NonZeroU64,
}

impl Portion {
    /// `parts` of `of`; `None` unless it is more than nothing and at most everything.
    pub fn new(parts: u64, of: u64) -> Option<Self> {
        let of = NonZeroU64::new(of)?;
        (parts > 0 && parts <= of.get()).then_some(Portion { parts, of })
    }

    /// The parts, and of how many.
    pub const fn parts(self) -> (u64, u64) {
        (self.parts, self.of.get())
    }

    /// The share of `usable`, floored to whole MiB so that two halves always fit; `None` when that is nothing.
    pub fn of(self, usable: Bytes) -> Option<Bytes> {
        let exact = u128::from(usable.get()) * u128::from(self.parts) / u128::from(self.of.get());
        let floored = Bytes(u64::try_from(exact).ok()?).floor_mib();
        (!floored.is_zero()).then_some(floored)
    }
}

impl fmt::Display for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hundredfold, of) = (u128::from(self.parts) * 100, u128::from(self.of.get()));
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
    fn a_time_is_shown_as_a_date_on_a_clock_that_counts_from_1970() {
        for (ms, shown) in [
            (5_000, "5000 ms"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_794_799_994_515, "2026-11-16T03:33:14.515Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Millis(ms).to_string(), shown);
        }
    }

    #[test]
    fn sizes_are_printed_in_the_unit_that_says_them_exactly() {
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
    fn sizes_are_read_exactly_or_refused_with_the_value() {
        for (text, bytes) in [
            ("8388608", Bytes::mib(8)),
            ("80GiB", Bytes::gib(80)),
            ("80 GiB", Bytes::gib(80)),
            ("0.5GiB", Bytes::mib(512)),
            ("1.5 KiB", Bytes::new(1536)),
            ("12B", Bytes::new(12)),
        ] {
            assert_eq!(text.parse(), Ok(bytes), "{text}");
        }
        for text in [
            "", " ", "GiB", "-1", "1e9", "80GB", "1.", ".5GiB", "1..2", "1.2.3", "0x10", "NaN",
            "1 2",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert!(matches!("0.5".parse::<Bytes>(), Err(SizeError::Fractional { .. })));
        assert!(matches!("99999999999TiB".parse::<Bytes>(), Err(SizeError::TooLarge { .. })));
    }

    #[test]
    fn two_halves_always_fit_and_a_split_holds_the_whole() {
        for mib in 1..2000 {
            let usable = Bytes::new(mib * MIB + mib * 37);
            let half = Portion::new(1, 2).expect("a half").of(usable);
            assert!(half.unwrap_or(Bytes::ZERO).plus(half.unwrap_or(Bytes::ZERO)) <= usable);
            let three = NonZeroU64::new(3).expect("three");
            assert!(usable.split_up(three).get() * 3 >= usable.get());
        }
    }

    #[test]
    fn a_portion_is_more_than_nothing_and_at_most_everything() {
        assert!(Portion::new(0, 100).is_none());
        assert!(Portion::new(101, 100).is_none());
        assert!(Portion::new(1, 0).is_none());
        assert!(Portion::new(100, 100).is_some());
    }
}
