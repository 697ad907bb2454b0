//! Tensor types and their block sizes, by name.

/// A tensor type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype {
    /// The name on a card.
    pub name: &'static str,
    /// The number of the type in a GGUF file. Safetensors files use the name.
    pub code: u32,
    /// Elements in one block.
    pub block: u64,
    /// Bytes of one block.
    pub bytes: u64,
}

impl Dtype {
    /// Finds a type by its name.
    pub fn named(name: &str) -> Option<Dtype> {
        TYPES.iter().find(|dtype| dtype.name == name).copied()
    }

    /// Returns the bytes of a tensor of this shape; `None` if the first dimension is not a whole
    /// number of blocks, or on overflow.
    pub fn size(self, shape: &[u64]) -> Option<u64> {
        let first = shape.first().copied().unwrap_or(1);
        let elements = shape.iter().try_fold(1u64, |product, side| product.checked_mul(*side))?;
        if !first.is_multiple_of(self.block) {
            return None;
        }
        (elements / self.block).checked_mul(self.bytes)
    }
}

const fn row(name: &'static str, code: u32, block: u64, bytes: u64) -> Dtype {
    Dtype { name, code, block, bytes }
}

/// The types that the cards use. The reader has its own table, so that each checks the other.
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
    row("i32", 26, 1, 4),
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
    fn a_partial_block_has_no_size() {
        let q4 = Dtype::named("q4_K").expect("q4_K is in the table");
        assert_eq!(q4.size(&[512, 3]), Some(2 * 144 * 3));
        assert_eq!(q4.size(&[500, 3]), None);
        assert_eq!(q4.size(&[256, u64::MAX]), None);
    }
}
