//! Text for people. It says the same with and without colour.

pub(crate) mod age;
pub(crate) mod audit;
mod candidates;
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

pub(crate) use candidates::Detail;
pub(crate) use page::{Page, Width, clean};

/// Formats groups of commands with what each is for.
pub(crate) fn groups(groups: &[(&str, Vec<(String, String)>)]) -> String {
    let mut page = Page::new(match crate::output::width() {
        Width::Columns(columns) => Width::Columns(columns.min(100)),
        Width::Unlimited => Width::Columns(100),
    });
    let names = groups.iter().flat_map(|(_, commands)| commands);
    let wide = names.map(|(name, _)| name.len()).max().unwrap_or(0);
    for (title, commands) in groups {
        page.heading(title);
        for (name, about) in commands {
            page.labelled(2, (name, wide), about);
        }
    }
    page.plain()
}

/// Formats a count with its noun: `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns the one unit of sizes that an answer shows together.
pub(crate) fn common_format(sizes: impl IntoIterator<Item = Option<Bytes>>) -> SizeFormat {
    SizeFormat::for_size(sizes.into_iter().flatten().max().unwrap_or_default())
}

/// Formats sizes on several devices: `2 x 30.0 GiB`, or `30.0 GiB + 20.0 GiB`; `-` without any.
pub(crate) fn sizes(format: SizeFormat, sizes: impl IntoIterator<Item = Option<Bytes>>) -> String {
    let sizes = sizes.into_iter().map(|bytes| bytes.map(|bytes| format.show(bytes)));
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
