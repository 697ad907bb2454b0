//! The only text that the core renders from its data: reasons, rejections, decisions and answers.
//!
//! Text is for people. No code may parse or compare it; everything that it says is a field of the
//! rendered value. Sizes that one sentence compares have one unit ([`SizeFormat`]), lists are cut
//! after three entries, and the first words carry the message.

pub use crate::units::SizeFormat;

mod account;
mod answer;
mod forecast;
mod reason;
mod rejection;

pub use account::{account_in_queue, over_share};
pub use answer::{answer_reason, cannot_place};
pub use forecast::{expected_start, expected_start_briefly, place_in_queue};
pub use reason::container_reason;
pub use rejection::{Clause, Topic, cannot_bind, describe_needs, held_by};

/// The number of entries after which a list is cut.
const LISTED: usize = 3;

/// Joins the entries of a list; beyond `LISTED` it says how many more there are. `more` entries
/// were already left out of the data.
fn list(entries: &[String], more: u32) -> String {
    let shown = entries.len().min(LISTED);
    let more = more as usize + entries.len() - shown;
    match more {
        0 => entries.join(", "),
        more => format!("{} and {more} more", entries[..shown].join(", ")),
    }
}

fn plural<'t>(count: u32, one: &'t str, many: &'t str) -> &'t str {
    if count == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_three_entries_and_counts_the_rest() {
        let entries: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        assert_eq!(list(&entries[..3], 0), "a, b, c");
        assert_eq!(list(&entries, 0), "a, b, c and 1 more");
        assert_eq!(list(&entries[..2], 5), "a, b and 5 more");
        assert_eq!(list(&[], 0), "");
    }
}
