//! What people read: plain text that says the same with and without colour.

pub(crate) mod bars;
pub(crate) mod breaches;
pub(crate) mod chaos;
pub(crate) mod estimate;
pub(crate) mod explain;
pub(crate) mod findings;
pub(crate) mod live;
pub(crate) mod load;
mod page;
pub(crate) mod placements;
pub(crate) mod refused;
pub(crate) mod replay;
mod table;
pub(crate) mod understood;

pub(crate) use page::{Page, clean};

/// A count with its noun: `1 node`, `2 nodes`.
fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
