//! Chance from a seed: the same draws on every machine and in every run.

/// SplitMix64: a counter and a good mix. It has no state but the counter, so that a fork is a seed and nothing more.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The draws of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// Draws of their own, so that one more draw here does not change everything there.
    pub(crate) fn fork(&mut self) -> Chance {
        Chance(self.number())
    }

    /// Any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one; nothing is below one, and there is nothing else to draw then.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// A number of this range, both ends included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Whether the one case in so many happened; never for none.
    pub(crate) fn one_in(&mut self, cases: u64) -> bool {
        cases > 0 && self.below(cases) == 0
    }

    /// Whether something happened that does in so many cases of a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A place in a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below a usize")
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.index(among.len())]
    }

    /// A time around this one, from a tenth of it to twice as long.
    pub(crate) fn around(&mut self, millis: u64) -> u64 {
        self.between(millis / 10, millis * 2)
    }

    /// The same things in another order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.index(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_numbers_for_ever() {
        let mut chance = Chance::new(7);
        let drawn: Vec<u64> = (0..3).map(|_| chance.number()).collect();
        assert_eq!(
            drawn,
            [15_337_404_600_680_133_411, 13_615_431_973_392_968_899, 15_521_589_138_007_341_757]
        );
        assert!((0..1000).all(|_| (3..=5).contains(&chance.between(3, 5))));
    }
}
