//! How many bytes a block of numbers takes, by the type's name.

/// A type of numbers, as a tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype {
    /// The name on a card.
    pub name: &'static str,
    /// The number that stands for it in a GGUF file; safetensors write the name.
    pub code: u32,
    /// So many numbers are stored together.
    pub block: u64,
    /// So many bytes they take.
    pub bytes: u64,
}

impl Dtype {
    /// The type with this name.
    pub fn named(name: &str) -> Option<Dtype> {
        TYPES.iter().find(|dtype| dtype.name == name).copied()
    }

    /// What a tensor of this shape takes; its first side is cut into blocks. Nothing if that does not divide.
    pub fn size(self, shape: &[u64]) -> Option<u64> {
        let first = shape.first().copied().unwrap_or(1);
        let count = shape.iter().try_fold(1u64, |count, side| count.checked_mul(*side))?;
        let whole = first.is_multiple_of(self.block);
        whole.then(|| (count / self.block).checked_mul(self.bytes)).flatten()
    }
}

const fn row(name: &'static str, code: u32, block: u64, bytes: u64) -> Dtype {
    Dtype { name, code, block, bytes }
}

/// Only what a card uses. The reader has a table of its own, so that one checks the other.
const TYPES: &[Dtype] = &[
    row("f32", 0, 1, 4),
    row("f16", 1, 1, 2),
    row("bf16", 30, 1, 2),
    row("q4_0", 2, 32, 18),
    row("q5_0", 6, 32, 22),
    row("q5_1", 7, 32, 24),
    row("q8_0", 8, 32, 34),
    row("q2_K", 10, 256, 84),
    row("q3_K", 11, 256, 110),
    row("q4_K", 12, 256, 144),
    row("q5_K", 13, 256, 176),
    row("q6_K", 14, 256, 210),
    row("iq4_nl", 20, 32, 18),
    row("iq4_xs", 23, 256, 136),
    row("mxfp4", 39, 32, 17),
    row("BF16", 0, 1, 2),
    row("F16", 0, 1, 2),
    row("F32", 0, 1, 4),
    row("F8_E4M3", 0, 1, 1),
    row("U8", 0, 1, 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_does_not_fill_its_blocks_has_no_size() {
        let q4 = Dtype::named("q4_K").expect("it is in the table");
        assert_eq!(q4.size(&[512, 3]), Some(2 * 144 * 3));
        assert_eq!(q4.size(&[500, 3]), None);
        assert_eq!(q4.size(&[256, u64::MAX]), None);
    }
}
