//! A hasher that gives the same number everywhere and is quick: for digests that are compared, never for keeping strangers out.

use std::hash::Hasher;

/// Rotate, add, multiply, a word at a time: the same on every machine and in every run, which the standard hasher is not, and quick,
/// since every node that changed is read again for every request that looks at it.
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
