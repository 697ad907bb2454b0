//! The device requests of random pods.

use super::random::Random;

/// A container's request for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Nothing,
    /// `nvidia.com/gpu: n` and nothing else.
    Plain(u64),
    /// HAMi: `nvidia.com/gpu: n` with memory and hundredths of compute.
    Memory {
        cards: u64,
        mib: u64,
        cores: u64,
    },
    /// HAMi: one card with a percentage of its memory.
    Percent(u64),
    /// KAI: `gpu-memory` on this many cards, without tokens of the plugin.
    Share {
        cards: u64,
        mib: u64,
    },
    /// KAI: `gpu-memory` beside `nvidia.com/gpu: n`.
    ShareWithTokens {
        cards: u64,
        mib: u64,
    },
    /// KAI: `gpu-fraction` of one card, in hundredths.
    Fraction(u64),
    /// Instances of `nvidia.com/mig-1g.5gb`.
    Instances(u64),
    /// A share of one Kunlun vXPU, in MiB.
    EqualShare(u64),
}

const SIZES: &[u64] = &[500, 1000, 2500, 4000, 6000, 8000, 12_000, 16_000];

impl Ask {
    pub(super) fn any(random: &mut Random) -> Ask {
        let cards = random.pick(&[1, 1, 1, 2]);
        let mib = random.pick(SIZES);
        match random.between(0, 13) {
            0 => Ask::Nothing,
            1 | 2 => Ask::Plain(cards),
            3..=5 => Ask::hami(random, cards),
            6 => Ask::Percent(random.pick(&[10, 33, 50, 75])),
            7 | 8 => Ask::Share { cards, mib },
            9 => Ask::ShareWithTokens { cards, mib },
            10 => Ask::Fraction(random.pick(&[10, 33, 50, 75])),
            11 => Ask::Instances(random.between(1, 3)),
            _ => Ask::EqualShare(random.pick(&[24_576, 24_576, 49_152])),
        }
    }

    /// Returns a request by HAMi's resources.
    pub(super) fn hami(random: &mut Random, cards: u64) -> Ask {
        let cores = random.pick(&[0, 0, 0, 30, 50, 100]);
        Ask::Memory { cards, mib: random.pick(SIZES), cores }
    }

    /// Returns the number of different cards.
    pub(super) fn cards(self) -> usize {
        let cards = match self {
            Ask::Nothing => 0,
            Ask::Percent(_) | Ask::Fraction(_) | Ask::EqualShare(_) => 1,
            Ask::Plain(cards)
            | Ask::Instances(cards)
            | Ask::Memory { cards, .. }
            | Ask::Share { cards, .. }
            | Ask::ShareWithTokens { cards, .. } => cards,
        };
        usize::try_from(cards).unwrap_or(usize::MAX)
    }

    /// Returns the amount of `nvidia.com/gpu` or `kunlunxin.com/vxpu` in the container's limits.
    pub(super) fn tokens(self) -> u64 {
        match self {
            Ask::Plain(cards) | Ask::Memory { cards, .. } | Ask::ShareWithTokens { cards, .. } => {
                cards
            }
            Ask::Percent(_) | Ask::EqualShare(_) => 1,
            Ask::Nothing | Ask::Share { .. } | Ask::Fraction(_) | Ask::Instances(_) => 0,
        }
    }

    pub(super) fn instances(self) -> u64 {
        if let Ask::Instances(number) = self { number } else { 0 }
    }

    /// Returns true if an annotation of the pod makes the request.
    pub(super) fn is_annotation(self) -> bool {
        matches!(self, Ask::Share { .. } | Ask::ShareWithTokens { .. } | Ask::Fraction(_))
    }
}
