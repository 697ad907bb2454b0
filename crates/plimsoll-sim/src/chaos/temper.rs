//! What kind of day it is: how often things go wrong, and how much is asked.

use super::chance::Chance;
use super::wire::Weather;

/// What kind of day it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Temper {
    pub weather: Weather,
    /// Whether nothing bad happens any more.
    pub calm: bool,
    /// Whether it is calm for a while in the middle of it.
    pub pauses: bool,
    /// Whether devices are measured.
    pub measured: bool,
    /// Whether far more is asked than there is.
    pub crowded: bool,
    /// Whether caps move in the day; what a card can hold is then what it physically has.
    pub caps_move: bool,
    pub tick: u64,
    /// Between two reports, and between two lists of orders.
    pub sync: u64,
    /// Between two things that an asker does.
    pub act: u64,
    /// Between two troubles of a machine.
    pub trouble: u64,
    /// Between two things that happen on a machine.
    pub stir: u64,
    /// Between two crashes of the machine under test, in commits.
    pub crash_one_in: u64,
}

impl Temper {
    /// Draws a day.
    pub(super) fn drawn(chance: &mut Chance) -> Self {
        let wild = chance.percent(30);
        let most = if wild { 25 } else { 8 };
        Temper {
            weather: Weather {
                late: chance.below(most),
                lost: chance.below(most),
                doubled: chance.below(most),
                failed: chance.below(most),
            },
            calm: false,
            pauses: chance.percent(40),
            measured: chance.percent(50),
            crowded: chance.percent(25),
            caps_move: chance.percent(20),
            tick: *chance.pick(&[20_000, 60_000, 120_000]),
            sync: *chance.pick(&[60_000, 180_000, 600_000]),
            act: *chance.pick(&[300_000, 600_000, 1_200_000]),
            trouble: if wild { 7_200_000 } else { 28_800_000 },
            stir: *chance.pick(&[120_000, 300_000]),
            crash_one_in: if wild { 60 } else { 250 },
        }
    }
}
