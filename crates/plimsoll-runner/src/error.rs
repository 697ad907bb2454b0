//! Rendering of an error together with its causes.

use std::error::Error;

/// Returns the message of an error and of its causes, separated by colons.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
