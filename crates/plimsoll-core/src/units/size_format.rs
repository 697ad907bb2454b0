//! Sizes as people read them: one unit for everything that one sentence compares.

use super::Bytes;

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

    /// Prints a limit, rounded down, so that the printed size does not exceed it.
    pub fn show_limit(self, size: Bytes) -> String {
        self.show_units(match self {
            SizeFormat::Gib => size.get() / TENTH_OF_GIB,
            SizeFormat::Mib => size.get() / MIB,
            SizeFormat::Bytes => size.get(),
        })
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
    fn a_printed_limit_is_not_above_the_limit() {
        let limit = Bytes::mib(66_983);
        assert_eq!(SizeFormat::Gib.show(limit), "65.4 GiB");
        assert_eq!(SizeFormat::Gib.show_limit(Bytes::mib(66_950)), "65.3 GiB");
        assert_eq!(SizeFormat::Mib.show_limit(Bytes::new((8 << 20) - 1)), "7 MiB");
    }
}
