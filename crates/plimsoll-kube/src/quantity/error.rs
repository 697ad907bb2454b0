//! Why a text is not the quantity that was needed.

use super::parse::MAX_POWER;

/// Error messages quote at most this many characters of a value.
const QUOTED: usize = 64;

/// Why a text is not the quantity that was needed. Every variant holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There is no text at all.
    #[error("the quantity is empty; write a number such as 8000 or 16Gi")]
    Empty,
    /// The text does not begin with a number.
    #[error("\"{value}\" is not a number; write one such as 8000, 0.5 or 16Gi")]
    NotANumber {
        /// What was written.
        value: String,
    },
    /// The number is followed by something that Kubernetes does not know.
    #[error(
        "\"{value}\" ends in \"{suffix}\", which Kubernetes does not know; use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, \
         an exponent such as e3, or nothing"
    )]
    UnknownSuffix {
        /// What was written.
        value: String,
        /// The part after the number.
        suffix: String,
    },
    /// The number does not fit the integers it is counted in.
    #[error("\"{value}\" is too large to be counted; no device or node has that much")]
    TooLarge {
        /// What was written.
        value: String,
    },
    /// The number has more decimal places than can be kept exactly.
    #[error("\"{value}\" has more than {MAX_POWER} decimal places; write fewer")]
    TooFine {
        /// What was written.
        value: String,
    },
    /// A negative number stands where an amount is needed.
    #[error("\"{value}\" is negative; an amount cannot be")]
    Negative {
        /// What was written.
        value: String,
    },
    /// A fraction stands where a whole number is needed.
    #[error("\"{value}\" is not a whole number, and this is counted in whole ones")]
    NotWhole {
        /// What was written.
        value: String,
    },
    /// A size with a binary suffix stands where a plain number of units is counted.
    #[error(
        "\"{value}\" has a binary suffix, but this is already counted in {unit}: it would be {counted} {unit}; \
         write {write}"
    )]
    BinarySuffix {
        /// What was written.
        value: String,
        /// What one of the counted things is, such as `MiB` or `units of 256 MiB`.
        unit: String,
        /// The number that Kubernetes would take it for, with separators.
        counted: String,
        /// What to write instead.
        write: String,
    },
}

/// The beginning of a value, short enough for a message.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
