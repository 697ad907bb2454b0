//! Lists in messages.

use std::fmt::Display;

/// The number of entries that a message lists; the rest is counted.
const LISTED: usize = 16;

/// Joins the first entries, and counts the others.
pub(super) fn list<T: Display>(entries: &[T]) -> String {
    let shown: Vec<String> = entries.iter().take(LISTED).map(ToString::to_string).collect();
    let shown = shown.join(", ");
    match entries.len().checked_sub(LISTED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
