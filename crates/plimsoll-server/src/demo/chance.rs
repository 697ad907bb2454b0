//! Reproducible pseudo-random choices, so that every run of the demo shows the same events.

/// A small generator (SplitMix64): good enough for a play, and reproducible.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `from` up to, but not including, `to`.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % to.saturating_sub(from).max(1)
    }

    /// Returns true this many times in a thousand.
    pub(super) fn happens(&mut self, per_mille: u64) -> bool {
        self.between(0, 1000) < per_mille
    }
}
