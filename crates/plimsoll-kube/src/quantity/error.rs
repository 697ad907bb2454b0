//! Errors of quantities.

use super::parse::MAX_POWER;

/// The number of characters of a value that an error message quotes.
const QUOTED: usize = 64;

/// The reason why a text is not the expected quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("the quantity is empty; write a number such as 8000 or 16Gi")]
    Empty,
    #[error("\"{value}\" is not a number; write one such as 8000, 0.5 or 16Gi")]
    NotANumber { value: String },
    #[error(
        "\"{value}\" ends in \"{suffix}\", which Kubernetes does not know; use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, \
         an exponent such as e3, or nothing"
    )]
    UnknownSuffix { value: String, suffix: String },
    #[error("\"{value}\" is too large to be counted; no device or node has that much")]
    TooLarge { value: String },
    #[error("\"{value}\" has more than {MAX_POWER} decimal places; write fewer")]
    TooFine { value: String },
    #[error("\"{value}\" is negative; an amount cannot be")]
    Negative { value: String },
    #[error("\"{value}\" is not a whole number, and this is counted in whole ones")]
    NotWhole { value: String },
    #[error(
        "\"{value}\" has a binary suffix, but this is already counted in {unit}: it would be {counted} {unit}; \
         write {write}"
    )]
    BinarySuffix {
        value: String,
        /// The unit that is counted, such as `MiB` or `units of 256 MiB`.
        unit: String,
        /// The number of units that Kubernetes would read, with separators.
        counted: String,
        /// The number to write instead.
        write: String,
    },
}

/// Shortens a value for a message.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
