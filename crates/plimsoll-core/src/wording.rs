//! The only text that the core renders from its data: reasons, rejections, decisions and answers.
//!
//! Text is for people. No code may parse or compare it; everything that it says is a field of the
//! rendered value. Sizes that one sentence compares have one unit ([`SizeFormat`]), lists are cut
//! after three entries, and the first words carry the message.

use std::fmt::{self, Display};

use crate::units::Bytes;

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

/// The unit in which one sentence prints all its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeFormat {
    /// GiB with one decimal.
    Gib,
    /// Whole MiB.
    Mib,
    Bytes,
}

const MIB: u64 = 1 << 20;
const TENTH_OF_GIB: u64 = (1 << 30) / 10;

impl SizeFormat {
    /// Returns the format for sizes of about this magnitude: GiB from 10 GiB on, MiB below.
    pub fn for_size(size: Bytes) -> SizeFormat {
        if size >= Bytes::gib(10) { SizeFormat::Gib } else { SizeFormat::Mib }
    }

    /// Returns the format for a comparison: the coarsest one in which the difference is visible.
    pub fn for_shortfall(need: Bytes, free: Bytes) -> SizeFormat {
        let preferred = SizeFormat::for_size(need);
        let formats = [preferred, SizeFormat::Mib, SizeFormat::Bytes];
        let differs = |format: &SizeFormat| format.units(need) > format.units(free);
        formats.into_iter().find(differs).unwrap_or(preferred)
    }

    /// Returns the format of a row that compares sizes with a capacity. A capacity in MiB, such as
    /// 32607, is printed in MiB with everything that is compared with it, so that a reader can add
    /// the numbers up. An excess is visible.
    pub fn for_capacity(capacity: Bytes, sizes: &[Bytes]) -> SizeFormat {
        let is_in_mib = sizes.iter().chain([&capacity]).all(|size| size.get().is_multiple_of(MIB));
        let preferred = match is_in_mib && !capacity.get().is_multiple_of(MIB << 10) {
            true => SizeFormat::Mib,
            false => SizeFormat::for_size(capacity),
        };
        let is_visible = |format: &SizeFormat| {
            let mut excessive = sizes.iter().filter(|size| **size > capacity);
            excessive.all(|size| format.units(*size) > format.units(capacity))
        };
        let formats = [preferred, SizeFormat::Mib, SizeFormat::Bytes];
        formats.into_iter().find(is_visible).unwrap_or(preferred)
    }

    /// Prints a size.
    pub fn show(self, size: Bytes) -> String {
        self.show_units(self.units(size))
    }

    /// Prints the difference of two sizes as they are printed, so that the sentence adds up.
    pub fn show_difference(self, larger: Bytes, smaller: Bytes) -> String {
        self.show_units(self.units(larger).saturating_sub(self.units(smaller)))
    }

    /// Rounds a size to the printed precision.
    fn units(self, size: Bytes) -> u64 {
        match self {
            SizeFormat::Gib => rounded(size, TENTH_OF_GIB),
            SizeFormat::Mib => rounded(size, MIB),
            SizeFormat::Bytes => size.get(),
        }
    }

    fn show_units(self, units: u64) -> String {
        match self {
            SizeFormat::Gib => format!("{}.{} GiB", units / 10, units % 10),
            SizeFormat::Mib => format!("{units} MiB"),
            SizeFormat::Bytes => format!("{units} B"),
        }
    }
}

fn rounded(size: Bytes, unit: u64) -> u64 {
    size.get().saturating_add(unit / 2) / unit
}

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

/// Writes parts with a separator between them.
fn write_joined(
    f: &mut fmt::Formatter<'_>,
    parts: impl IntoIterator<Item = impl Display>,
    separator: &str,
) -> fmt::Result {
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        part.fmt(f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortfall_prints_in_the_coarsest_unit_that_shows_it() {
        let gib = Bytes::gib(60);
        for (need, free, format) in [
            (gib, Bytes::gib(10), SizeFormat::Gib),
            (gib, gib.less(Bytes::mib(2)), SizeFormat::Mib),
            (gib, gib.less(Bytes::new(1)), SizeFormat::Bytes),
            (Bytes::mib(8000), Bytes::mib(607), SizeFormat::Mib),
            (gib, gib, SizeFormat::Gib),
        ] {
            assert_eq!(SizeFormat::for_shortfall(need, free), format, "{need} {free}");
        }
    }

    #[test]
    fn a_row_has_the_unit_of_its_capacity_and_shows_an_excess() {
        let gib = Bytes::gib(80);
        for (capacity, size, format) in [
            (gib, Bytes::mib(72_192), SizeFormat::Gib),
            (gib, Bytes::mib(131_252), SizeFormat::Gib),
            (gib, gib.plus(Bytes::mib(2)), SizeFormat::Mib),
            (Bytes::mib(32_607), Bytes::mib(32_000), SizeFormat::Mib),
            (Bytes::mib(32_607), Bytes::new(7), SizeFormat::Gib),
            (Bytes::gib(8), Bytes::gib(2), SizeFormat::Mib),
        ] {
            assert_eq!(SizeFormat::for_capacity(capacity, &[size]), format, "{size} of {capacity}");
        }
    }

    #[test]
    fn the_printed_difference_is_that_of_the_printed_sizes() {
        let (need, free) = (Bytes::mib(76_278), Bytes::mib(66_883));
        let format = SizeFormat::for_shortfall(need, free);
        assert_eq!(format.show(need), "74.5 GiB");
        assert_eq!(format.show(free), "65.3 GiB");
        assert_eq!(format.show_difference(need, free), "9.2 GiB");
    }

    #[test]
    fn a_list_names_three_entries_and_counts_the_rest() {
        let entries: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        assert_eq!(list(&entries[..3], 0), "a, b, c");
        assert_eq!(list(&entries, 0), "a, b, c and 1 more");
        assert_eq!(list(&entries[..2], 5), "a, b and 5 more");
        assert_eq!(list(&[], 0), "");
    }
}
