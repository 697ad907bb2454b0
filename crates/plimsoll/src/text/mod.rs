//! Text for people. It says the same with and without colour.

pub(crate) mod age;
pub(crate) mod audit;
pub(crate) mod chaos;
mod decision;
pub(crate) mod devices;
pub(crate) mod estimate;
pub(crate) mod explain;
pub(crate) mod input;
pub(crate) mod live;
pub(crate) mod load;
mod page;
pub(crate) mod replay;
pub(crate) mod simulate;
mod table;

use plimsoll_core::units::Bytes;
use plimsoll_core::wording::SizeFormat;

pub(crate) use page::{Page, clean};

/// Formats a count with its noun: `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Formats sizes on several devices: `2 x 30 GiB`, or `30 GiB + 20 GiB`; `-` without any.
pub(crate) fn sizes(sizes: impl IntoIterator<Item = Option<Bytes>>) -> String {
    let sizes = sizes.into_iter();
    let sizes: Vec<String> = sizes.map(|bytes| or_else(bytes, "undeclared")).collect();
    match &sizes[..] {
        [] => "-".to_string(),
        [one] => one.clone(),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            format!("{} x {first}", sizes.len())
        }
        several => several.join(" + "),
    }
}

/// Returns the one unit of a row about a capacity; of the largest size if the capacity is unknown.
fn row_format(capacity: Option<Bytes>, sizes: &[Bytes]) -> SizeFormat {
    match capacity {
        Some(capacity) => SizeFormat::for_capacity(capacity, sizes),
        None => SizeFormat::for_size(sizes.iter().copied().max().unwrap_or_default()),
    }
}

/// Formats a value, or a word for its absence.
fn or_else(value: Option<impl ToString>, absent: &str) -> String {
    value.map_or(absent.to_string(), |value| value.to_string())
}
