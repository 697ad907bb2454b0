//! Kubernetes quantities, exactly.
//!
//! A quantity is stored as a whole number over a power of ten, together with its text. Kubernetes
//! itself rounds beyond nine decimal places and caps at 2^63; here both are exact or an error.

mod error;
mod parse;

pub use error::QuantityError;
pub(crate) use error::quoted;

use std::fmt;

use parse::{Number, Suffix, split};

/// A number as Kubernetes writes amounts: `8000`, `8k`, `8e3`, `500m`, `16Gi`.
///
/// Quantities that are the same number are equal, however they are written.
#[derive(Debug, Clone)]
pub struct Quantity {
    text: Box<str>,
    binary: bool,
    /// The number times `10^scale`.
    scaled: i128,
    /// Decimal places. The last one is not zero, so that equal numbers have equal fields.
    scale: u32,
}

impl Quantity {
    /// Parses a quantity by Kubernetes' grammar, exactly and in time linear in its length.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (number, suffix) = split(text);
        let number = Number::parse(number)
            .ok_or_else(|| QuantityError::NotANumber { value: quoted(text) })?;
        let suffix = Suffix::parse(suffix).ok_or_else(|| QuantityError::UnknownSuffix {
            value: quoted(text),
            suffix: quoted(suffix),
        })?;
        let (scaled, scale) = number.times(suffix, text)?;
        Ok(Quantity {
            text: text.into(),
            binary: matches!(suffix, Suffix::Binary(_)),
            scaled,
            scale,
        })
    }

    /// Returns the text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if it was written with a binary suffix (`Ki` to `Ei`).
    pub fn has_binary_suffix(&self) -> bool {
        self.binary
    }

    /// Returns true for zero, however it is written.
    pub fn is_zero(&self) -> bool {
        self.scaled == 0
    }

    /// Returns the number if it is whole and not negative.
    pub fn whole(&self) -> Result<u64, QuantityError> {
        if self.scale > 0 && self.scaled >= 0 {
            return Err(QuantityError::NotWhole { value: quoted(&self.text) });
        }
        self.ceil_of(1)
    }

    /// Returns thousandths, rounded up, as Kubernetes does for CPU.
    pub fn milli_ceil(&self) -> Result<u64, QuantityError> {
        self.ceil_of(1000)
    }

    /// Returns the number rounded up, as Kubernetes does for memory and storage.
    pub fn bytes_ceil(&self) -> Result<u64, QuantityError> {
        self.ceil_of(1)
    }

    /// Returns the number of units of `unit_mib` MiB each, for resources that count units instead
    /// of bytes.
    ///
    /// `3Gi` of a resource counted in MiB would be 3,221,225,472 MiB, which is never intended. A
    /// binary suffix is rejected with the number to write instead.
    pub fn units(&self, unit_mib: u64) -> Result<u64, QuantityError> {
        if self.binary && self.scaled > 0 {
            return Err(self.suffix_on_units(unit_mib.max(1)));
        }
        self.whole()
    }

    fn suffix_on_units(&self, unit_mib: u64) -> QuantityError {
        let bytes = match self.bytes_ceil() {
            Ok(bytes) => u128::from(bytes),
            Err(error) => return error,
        };
        let unit =
            if unit_mib == 1 { "MiB".to_owned() } else { format!("units of {unit_mib} MiB") };
        QuantityError::BinarySuffix {
            value: quoted(&self.text),
            unit,
            counted: grouped(bytes),
            write: bytes.div_ceil(u128::from(unit_mib) << 20).to_string(),
        }
    }

    fn ceil_of(&self, factor: u64) -> Result<u64, QuantityError> {
        let too_large = || QuantityError::TooLarge { value: quoted(&self.text) };
        let scaled = u128::try_from(self.scaled)
            .map_err(|_| QuantityError::Negative { value: quoted(&self.text) })?;
        let power = 10u128.checked_pow(self.scale).ok_or_else(too_large)?;
        // Whole part and remainder are multiplied separately: their product with the factor could
        // overflow where the result does not.
        let factor = u128::from(factor);
        let whole = (scaled / power).checked_mul(factor).ok_or_else(too_large)?;
        let rest = ceil_of_rest(scaled % power, factor, power);
        u64::try_from(whole.checked_add(rest).ok_or_else(too_large)?).map_err(|_| too_large())
    }
}

/// Computes `ceil(rest * factor / power)` for `rest < power <= 10^38` without overflow: digits too
/// fine to matter are rounded up first.
fn ceil_of_rest(mut rest: u128, factor: u128, mut power: u128) -> u128 {
    while rest.checked_mul(factor).is_none() {
        rest = rest.div_ceil(10);
        power /= 10;
    }
    (rest * factor).div_ceil(power)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        (self.scaled, self.scale) == (other.scaled, other.scale)
    }
}

impl Eq for Quantity {}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        Quantity::parse(text)
    }
}

/// Formats a number with a comma before every third digit.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_same_number_is_equal_however_it_is_written() {
        for texts in [
            &[
                "8000", "8k", "8e3", "8E3", "+8000", "8000.000", "8000000m", "0.8e4", "80e2",
                "008000",
            ][..],
            &["1Gi", "1024Mi", "1073741824", "1048576Ki", "1.0Gi"],
            &["0.5", "500m", "5e-1", ".5", "500000u", "500000000n"],
            &["0", "-0", "0Gi", "0e99999", "0.000", "0n"],
            &["1E", "1e18", "1000P"],
            &["0.5Gi", "512Mi"],
            &["1.", "1"],
        ] {
            for text in texts {
                assert_eq!(quantity(texts[0]), quantity(text), "{} and {text}", texts[0]);
            }
        }
        assert_ne!(quantity("8M"), quantity("8Mi"));
        assert_ne!(quantity("1"), quantity("-1"));
    }

    #[test]
    fn the_text_and_the_kind_of_suffix_are_kept() {
        assert_eq!(quantity("16.0Gi").text(), "16.0Gi");
        assert!(quantity("16.0Gi").has_binary_suffix());
        assert!(!quantity("16G").has_binary_suffix());
        assert_eq!(quantity("1e3").to_string(), "1e3");
    }

    #[test]
    fn whole_numbers_are_exact_or_rejected() {
        for (text, expected) in [
            ("8k", 8000),
            ("1e3", 1000),
            ("1000m", 1),
            ("0.5k", 500),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(quantity(text).whole(), Ok(expected), "{text}");
        }
        let value = |text: &str| text.to_owned();
        assert_eq!(
            quantity("1500m").whole(),
            Err(QuantityError::NotWhole { value: value("1500m") })
        );
        assert_eq!(quantity("-1").whole(), Err(QuantityError::Negative { value: value("-1") }));
        assert_eq!(
            quantity("-1500m").whole(),
            Err(QuantityError::Negative { value: value("-1500m") })
        );
        assert_eq!(quantity("16Ei").whole(), Err(QuantityError::TooLarge { value: value("16Ei") }));
    }

    #[test]
    fn cpu_is_rounded_up_to_thousandths_and_memory_to_bytes() {
        for (text, milli) in [
            ("1", 1000),
            ("0.1", 100),
            ("100m", 100),
            ("1u", 1),
            ("1500u", 2),
            ("2.0005", 2001),
            ("1n", 1),
        ] {
            assert_eq!(quantity(text).milli_ceil(), Ok(milli), "{text}");
        }
        for (text, bytes) in
            [("128Mi", 134_217_728), ("1.5Ki", 1536), ("1m", 1), ("100.1", 101), ("0", 0)]
        {
            assert_eq!(quantity(text).bytes_ceil(), Ok(bytes), "{text}");
        }
        assert!(matches!(quantity("-1m").milli_ceil(), Err(QuantityError::Negative { .. })));
        assert_eq!(quantity("0.00000000000000000000000000000000000001").milli_ceil(), Ok(1));
        assert_eq!(quantity("0.99999999999999999999999999999999999999").milli_ceil(), Ok(1000));
    }

    #[test]
    fn what_is_no_quantity_is_rejected_with_its_value() {
        assert_eq!(Quantity::parse(""), Err(QuantityError::Empty));
        for text in
            ["NaN", "inf", "-", "+", ".", "abc", " 1", "--1", "-+1", "1.2.3", "Gi", "e3", "½"]
        {
            assert_eq!(
                Quantity::parse(text),
                Err(QuantityError::NotANumber { value: text.to_owned() }),
                "{text}"
            );
        }
        for (text, suffix) in [
            ("8000MB", "MB"),
            ("1e", "e"),
            ("1e+", "e+"),
            ("1K", "K"),
            ("1mi", "mi"),
            ("1 ", " "),
            ("1e3.5", "e3.5"),
            ("1Gi2", "Gi2"),
        ] {
            let expected =
                QuantityError::UnknownSuffix { value: text.to_owned(), suffix: suffix.to_owned() };
            assert_eq!(Quantity::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_rejected_without_building_them() {
        let long = "9".repeat(10_000);
        for text in [
            "1e9999",
            "1e99999999999999999999",
            "-1e9999",
            "1e39",
            "99999999999999999999999999999999999999999",
            &long,
        ] {
            assert!(matches!(Quantity::parse(text), Err(QuantityError::TooLarge { .. })), "{text}");
        }
        for text in
            ["1e-9999", "1e-99999999999999999999", "0.000000000000000000000000000000000000001"]
        {
            assert!(matches!(Quantity::parse(text), Err(QuantityError::TooFine { .. })), "{text}");
        }
        let message = Quantity::parse(&long).unwrap_err().to_string();
        assert!(message.len() < 200, "{message}");
    }

    #[test]
    fn a_binary_suffix_on_a_number_of_mib_is_rejected_with_what_to_write() {
        let error = quantity("3Gi").units(1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"3Gi\" has a binary suffix, but this is already counted in MiB: it would be 3,221,225,472 MiB; write 3072"
        );
        let error = quantity("1Gi").units(256).unwrap_err();
        assert!(
            error.to_string().ends_with("it would be 1,073,741,824 units of 256 MiB; write 4"),
            "{error}"
        );
        assert_eq!(quantity("8k").units(1), Ok(8000));
        assert!(matches!(quantity("1500m").units(1), Err(QuantityError::NotWhole { .. })));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = (quantity.whole(), quantity.milli_ceil(), quantity.bytes_ceil(), quantity.units(1), quantity.units(0));
            }
        }

        #[test]
        fn nothing_that_looks_like_a_quantity_makes_it_panic(text in "[+-]?[0-9]{0,45}\\.?[0-9]{0,45}([eE][+-]?[0-9]{0,12}|[KMGTPE]i|[numkMGTPE])?") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = (quantity.whole(), quantity.milli_ceil(), quantity.bytes_ceil(), quantity.units(256));
            }
        }

        #[test]
        fn a_whole_number_survives_being_written_and_read(number: u64) {
            prop_assert_eq!(quantity(&number.to_string()).whole(), Ok(number));
            prop_assert_eq!(quantity(&format!("{number}000m")).whole(), Ok(number));
        }

        #[test]
        fn milli_and_bytes_agree_with_integer_arithmetic(number in 0u64..1 << 40, places in 0u32..9) {
            let text = format!("{number}e-{places}");
            let power = 10u64.pow(places);
            prop_assert_eq!(quantity(&text).bytes_ceil(), Ok(number.div_ceil(power)));
            prop_assert_eq!(quantity(&text).milli_ceil(), Ok((number * 1000).div_ceil(power)));
        }
    }
}
