//! Checksums of stored text.

/// Returns FNV-1a over the parts, each with its length, so that nothing can move from one part to
/// the next unnoticed. It detects accidents such as flipped bits, not tampering.
pub fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut sum = Sum(0xcbf2_9ce4_8422_2325);
    for part in parts {
        sum.add(&part.len().to_le_bytes());
        sum.add(part);
    }
    format!("{:016x}", sum.0)
}

struct Sum(u64);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_shows() {
        let of = |parts: &[&str]| checksum(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(of(&["12", "{}"]), of(&["12", "{}"]));
        assert_ne!(of(&["12", "{}"]), of(&["1", "2{}"]));
        assert_ne!(of(&["12", "{}"]), of(&["13", "{}"]));
        assert_ne!(of(&["12", ""]), of(&["12"]));
    }
}
