//! A number that tells a text that was written from one that has changed since.

/// FNV-1a over parts, each with its length, so that nothing can move from one part into the next. It finds accidents, such as
/// a bit that has turned; it does not stop anybody who wants to deceive.
pub(super) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
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
