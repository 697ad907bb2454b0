//! One device's load as cells of a bar with its line, like a hull in the water.

use anstyle::Style;
use plimsoll_core::room::DeviceRoom;
use plimsoll_core::units::Bytes;

use super::count;
use super::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page};

/// What a device holds of what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Where the line is; `None` where that is not known.
    pub(crate) usable: Option<Bytes>,
    /// In use by nobody's booking.
    pub(crate) foreign: Bytes,
    /// Booked on this very device, and there or surely coming.
    pub(crate) held: Bytes,
    /// Of what is held, what does not run yet.
    pub(crate) starting: Bytes,
    /// On its way back.
    pub(crate) releasing: Bytes,
    /// Booked on one of several devices, this among them.
    pub(crate) floating: Bytes,
    /// How far what is surely here exceeds the line.
    pub(crate) over_by: Bytes,
    /// What is held there and is no number.
    pub(crate) unmeasured: Option<Unmeasured>,
    /// How many are there.
    pub(crate) tenants: usize,
}

/// What is held and is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmeasured {
    /// All of it.
    Whole,
    /// Nobody said how much.
    Undeclared,
}

impl Load {
    /// As the ledger has it.
    pub(crate) fn of(room: &DeviceRoom) -> Load {
        let whole =
            room.tenants().iter().any(|tenant| tenant.bytes.is_none()).then_some(Unmeasured::Whole);
        Load {
            usable: room.usable(),
            foreign: room.foreign(),
            held: room.held(),
            starting: Bytes::ZERO,
            releasing: room.releasing(),
            floating: room.floating(),
            over_by: room.over_by(),
            unmeasured: if room.has_undeclared() { Some(Unmeasured::Undeclared) } else { whole },
            tenants: room.tenants().len(),
        }
    }

    /// Everything that counts against the line.
    pub(crate) fn sum(&self) -> Bytes {
        self.foreign.plus(self.held).plus(self.releasing).plus(self.floating)
    }

    /// `32000 MiB of 32607 MiB, 4 tenants`.
    pub(crate) fn words(&self) -> String {
        let tenants = match self.tenants {
            0 => String::new(),
            number => format!(", {}", count(number, "tenant")),
        };
        format!("{}{tenants}", self.sums())
    }

    /// `32000 MiB of 32607 MiB`.
    pub(crate) fn sums(&self) -> String {
        let words = self.unmeasured.map(|unmeasured| match unmeasured {
            Unmeasured::Whole => "the whole",
            Unmeasured::Undeclared => "undeclared",
        });
        let load = match (words, self.sum()) {
            (None, load) => load.to_string(),
            (Some(words), Bytes::ZERO) => words.to_string(),
            (Some(words), load) => format!("{load} + {words}"),
        };
        let of = self.usable.map_or("an unknown amount".to_string(), |usable| usable.to_string());
        format!("{load} of {of}")
    }
}

/// What a cell of a bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Foreign,
    Held,
    Starting,
    Releasing,
    Floating,
    Free,
    Unknown,
    Over,
    MaybeOver,
}

impl Cell {
    /// In the order of the legend.
    const ALL: [Cell; 9] = [
        Cell::Held,
        Cell::Starting,
        Cell::Floating,
        Cell::Releasing,
        Cell::Foreign,
        Cell::Free,
        Cell::Unknown,
        Cell::Over,
        Cell::MaybeOver,
    ];

    /// How it looks without colour.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Cell::Held => "#",
            Cell::Starting => "+",
            Cell::Floating => "~",
            Cell::Releasing => "<",
            Cell::Foreign => "x",
            Cell::Free => "-",
            Cell::Unknown => "?",
            Cell::Over => "!",
            Cell::MaybeOver => "*",
        }
    }

    fn style(self) -> Style {
        match self {
            Cell::Held => GOOD,
            Cell::Starting => NEW,
            Cell::Floating | Cell::Releasing | Cell::Foreign | Cell::Unknown | Cell::MaybeOver => {
                ODD
            }
            Cell::Free => FAINT,
            Cell::Over => BAD,
        }
    }

    /// What it means.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Cell::Held => "held",
            Cell::Starting => "held, starting",
            Cell::Floating => "held on one of several cards",
            Cell::Releasing => "being given back",
            Cell::Foreign => "foreign",
            Cell::Free => "free",
            Cell::Unknown => "unknown",
            Cell::Over => "over the line",
            Cell::MaybeOver => "over the line if all of it is here",
        }
    }
}

/// Cells of a kind, and how many of them, one after another.
pub(crate) type Runs = Vec<(Cell, u64)>;

/// How long a bar is.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Cells from empty to the line.
    pub(crate) hull: u64,
    /// Cells past the line; what is more is cut off.
    pub(crate) over: u64,
}

/// The scale of bars on paper.
const PAPER: Scale = Scale { hull: 32, over: 16 };

/// The runs of cells up to the line, and those past it.
pub(crate) fn cells(load: &Load, scale: Scale) -> (Runs, Runs) {
    let Some(usable) = load.usable.filter(|usable| !usable.is_zero()) else {
        return (vec![(Cell::Unknown, scale.hull)], Vec::new());
    };
    let parts = [
        (Cell::Foreign, load.foreign),
        (Cell::Held, load.held.less(load.starting)),
        (Cell::Starting, load.starting),
        (Cell::Releasing, load.releasing),
        (Cell::Floating, load.floating),
    ];
    let scaled = |bytes: Bytes| {
        let cells = u128::from(bytes.get()) * u128::from(scale.hull) / u128::from(usable.get());
        u64::try_from(cells).unwrap_or(u64::MAX)
    };
    let mut left = scale.hull;
    let mut hull = Vec::new();
    for (cell, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_zero()) {
        // What is there shows, however little it is.
        let cells = scaled(bytes).max(1).min(left);
        left -= cells;
        hull.push((cell, cells));
    }
    let free = usable.less(load.sum());
    let undeclared = load.unmeasured == Some(Unmeasured::Undeclared);
    let rest = if undeclared { Cell::Unknown } else { Cell::Free };
    if !free.is_zero() || undeclared {
        if left == 0
            && let Some(widest) = hull.iter_mut().max_by_key(|(_, cells)| *cells)
        {
            (widest.1, left) = (widest.1 - 1, 1);
        }
        hull.push((rest, left));
    } else if let Some(last) = hull.last_mut() {
        last.1 += left;
    }
    let past = load.sum().less(usable);
    let cell = if load.over_by.is_zero() { Cell::MaybeOver } else { Cell::Over };
    let over = (!past.is_zero()).then(|| (cell, scaled(past).clamp(1, scale.over)));
    (hull, over.into_iter().collect())
}

/// Draws a bar with its name before it and remarks behind it, and remembers what it shows.
pub(super) fn bar(page: &mut Page, name: &str, load: &Load, remarks: &str, shown: &mut Vec<Cell>) {
    let (hull, over) = cells(load, PAPER);
    for cell in hull.iter().chain(&over).map(|(cell, _)| *cell) {
        if !shown.contains(&cell) {
            shown.push(cell);
        }
    }
    let runs = |runs: &[(Cell, u64)]| -> Vec<(Style, String)> {
        let run = |(cell, number): &(Cell, u64)| {
            (cell.style(), cell.mark().repeat(usize::try_from(*number).unwrap_or(0)))
        };
        runs.iter().map(run).collect()
    };
    let mut pieces = vec![(PLAIN, name.to_string()), (PLAIN, "[".to_string())];
    pieces.extend(runs(&hull));
    pieces.push((PLAIN, "|".to_string()));
    pieces.extend(runs(&over));
    pieces.push((PLAIN, format!("]  {}", load.words())));
    if !load.over_by.is_zero() {
        pieces.push((BAD, format!(", OVER by {}", load.over_by)));
    }
    pieces.push((ODD, remarks.to_string()));
    let pieces: Vec<(Style, &str)> =
        pieces.iter().map(|(style, piece)| (*style, &**piece)).collect();
    page.pieces(2, &pieces);
}

/// What the cells that were shown mean.
pub(super) fn legend(page: &mut Page, shown: &[Cell]) {
    page.styled(2, FAINT, &legend_words(shown));
}

/// The same as a line.
pub(crate) fn legend_words(shown: &[Cell]) -> String {
    let words: Vec<String> = Cell::ALL
        .into_iter()
        .filter(|cell| shown.contains(cell))
        .map(|cell| format!("{} {}", cell.mark(), cell.words()))
        .collect();
    format!("{}, | the line", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(load: &Load, scale: Scale) -> String {
        let (hull, over) = cells(load, scale);
        let run = |(cell, number): &(Cell, u64)| {
            cell.mark().repeat(usize::try_from(*number).expect("few"))
        };
        let of = |runs: &Runs| runs.iter().map(run).collect::<String>();
        format!("{}|{}", of(&hull), of(&over))
    }

    #[test]
    fn every_kind_shows_however_little_it_is() {
        let load = Load {
            usable: Some(Bytes::gib(80)),
            foreign: Bytes::new(1),
            held: Bytes::gib(40),
            starting: Bytes::gib(20),
            releasing: Bytes::gib(10),
            ..Load::default()
        };
        assert_eq!(drawn(&load, Scale { hull: 16, over: 4 }), "x####++++<<-----|");
    }

    #[test]
    fn what_is_past_the_line_is_cut_to_the_scale() {
        let over = Bytes::gib(800);
        let load = Load {
            usable: Some(Bytes::gib(80)),
            held: Bytes::gib(880),
            over_by: over,
            ..Load::default()
        };
        assert_eq!(drawn(&load, Scale { hull: 8, over: 4 }), "########|!!!!");
        let none = Load { usable: None, held: Bytes::gib(1), ..Load::default() };
        assert_eq!(drawn(&none, Scale { hull: 8, over: 4 }), "????????|");
    }
}
