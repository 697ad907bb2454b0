//! A deterministic, fast hasher for digests. Not resistant to chosen inputs.

use std::hash::Hasher;

/// Mixes one 64-bit word at a time: rotate, xor, multiply by an odd constant.
///
/// Digests are compared across runs and machines (journal, replay), which rules out the standard
/// library's randomly keyed hasher, and integers are hashed as `u64` whatever their width, so that
/// `usize` hashes the same everywhere. A cryptographic hash was rejected: every changed device is
/// hashed again for every decision that reads it, and a digest only has to detect an accidental
/// difference, not an attack. Each step is a bijection of the state for a given word, so that a
/// difference in one word is never lost by a later equal word; `finish` spreads the high bits,
/// which the multiplication mixes best, over the low ones.
#[derive(Default)]
pub(crate) struct Mixer(u64);

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(ODD);
        mixed ^ (mixed >> 29)
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(ODD);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(
                word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
            );
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            self.write_u64(
                rest.iter()
                    .rev()
                    .fold(rest.len() as u64, |number, byte| number << 8 | u64::from(*byte)),
            );
        }
    }
}
