//! The grammar of quantities: a number and a suffix that multiplies it.

use super::error::{QuantityError, quoted};

/// The largest power of ten that fits an `i128`; no more decimal places than that are kept.
pub(super) const MAX_POWER: u32 = 38;

/// Splits before the first character that cannot belong to the number.
pub(super) fn split(text: &str) -> (&str, &str) {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    text.split_at(text.len() - unsigned.len() + digits)
}

/// Sign, digits and decimal places, as written.
pub(super) struct Number<'a> {
    negative: bool,
    before: &'a str,
    after: &'a str,
}

impl<'a> Number<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Number<'a>> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (before, after) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = unsigned != "." && !unsigned.is_empty() && !after.contains('.');
        digits.then_some(Number {
            negative: text.starts_with('-'),
            before,
            after: after.trim_end_matches('0'),
        })
    }

    /// Multiplies the number by its suffix. Returns a whole number and its decimal places.
    pub(super) fn times(&self, suffix: Suffix, text: &str) -> Result<(i128, u32), QuantityError> {
        let too_large = || QuantityError::TooLarge { value: quoted(text) };
        let whole = with_digits(0, self.before).ok_or_else(too_large)?;
        let unsigned = with_digits(whole, self.after)
            .ok_or_else(|| QuantityError::TooFine { value: quoted(text) })?;
        let mut scaled = if self.negative { -unsigned } else { unsigned };
        if scaled == 0 {
            return Ok((0, 0));
        }
        let power = match suffix {
            Suffix::Binary(shift) => {
                scaled = scaled.checked_mul(1 << shift).ok_or_else(too_large)?;
                0
            }
            Suffix::Decimal(power) => power,
        };
        let places = i64::try_from(self.after.len()).unwrap_or(i64::MAX);
        let mut power = i64::from(power).saturating_sub(places);
        while power < 0 && scaled % 10 == 0 {
            scaled /= 10;
            power += 1;
        }
        if power < -i64::from(MAX_POWER) {
            return Err(QuantityError::TooFine { value: quoted(text) });
        }
        let scale = u32::try_from(-power.min(0)).unwrap_or(MAX_POWER);
        let raise = u32::try_from(power.max(0)).map_err(|_| too_large())?;
        let factor = 10i128.checked_pow(raise).ok_or_else(too_large)?;
        Ok((scaled.checked_mul(factor).ok_or_else(too_large)?, scale))
    }
}

/// Appends decimal digits to a number.
fn with_digits(mut value: i128, digits: &str) -> Option<i128> {
    for digit in digits.bytes() {
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    Some(value)
}

/// The factor of a suffix.
#[derive(Clone, Copy)]
pub(super) enum Suffix {
    /// Two to this power.
    Binary(u32),
    /// Ten to this power.
    Decimal(i32),
}

impl Suffix {
    pub(super) fn parse(text: &str) -> Option<Suffix> {
        let suffix = match text {
            "" => Suffix::Decimal(0),
            "n" => Suffix::Decimal(-9),
            "u" => Suffix::Decimal(-6),
            "m" => Suffix::Decimal(-3),
            "k" => Suffix::Decimal(3),
            "M" => Suffix::Decimal(6),
            "G" => Suffix::Decimal(9),
            "T" => Suffix::Decimal(12),
            "P" => Suffix::Decimal(15),
            "E" => Suffix::Decimal(18),
            "Ki" => Suffix::Binary(10),
            "Mi" => Suffix::Binary(20),
            "Gi" => Suffix::Binary(30),
            "Ti" => Suffix::Binary(40),
            "Pi" => Suffix::Binary(50),
            "Ei" => Suffix::Binary(60),
            _ => return Suffix::exponent(text.strip_prefix(['e', 'E'])?),
        };
        Some(suffix)
    }

    /// Parses an exponent. One that does not fit is so large or small that its sign decides.
    fn exponent(text: &str) -> Option<Suffix> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let limit = if text.starts_with('-') { -i32::MAX } else { i32::MAX };
        Some(Suffix::Decimal(text.parse().unwrap_or(limit)))
    }
}
