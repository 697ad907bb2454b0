//! The load of one device as a bar with a line at its usable memory.

use anstyle::Style;
use plimsoll_api::device::{ChargeKind, DeviceRow, TenantRow, TenantStage};
use plimsoll_core::units::Bytes;
use plimsoll_core::wording::SizeFormat;

use super::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page, clean};
use super::{count, row_format};

/// The load of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// The line; `None` if it is unknown.
    pub(crate) usable: Option<Bytes>,
    /// In use outside of any charge.
    pub(crate) foreign: Bytes,
    /// Charged on this device.
    pub(crate) held: Bytes,
    /// The part of `held` that does not run yet.
    pub(crate) starting: Bytes,
    pub(crate) releasing: Bytes,
    /// Charged on one of several devices, including this one.
    pub(crate) floating: Bytes,
    /// The excess of what is certainly on this device.
    pub(crate) over_by: Bytes,
    /// The part of the load that has no number.
    pub(crate) unmeasured: Option<Unmeasured>,
    pub(crate) tenants: usize,
}

/// A load that has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmeasured {
    /// The whole device.
    Whole,
    Undeclared,
}

impl Load {
    /// Reads the load of a device. A sum with an unknown part is drawn as its known part.
    pub(crate) fn new(device: &DeviceRow) -> Load {
        let is_held = |tenant: &TenantRow| tenant.stage != TenantStage::Releasing;
        let held = |tenant: &TenantRow| is_held(tenant) && !tenant.floating;
        let starting = known(device, |tenant| held(tenant) && is_starting(tenant));
        Load {
            usable: device.usable,
            foreign: device.foreign,
            held: device.held.unwrap_or_else(|| known(device, held)),
            starting,
            releasing: device.releasing.unwrap_or_else(|| known(device, |tenant| !is_held(tenant))),
            floating: device
                .floating
                .unwrap_or_else(|| known(device, |tenant| is_held(tenant) && tenant.floating)),
            over_by: device.over_by.unwrap_or_default(),
            unmeasured: unmeasured(&device.tenants),
            tenants: device.tenants.len(),
        }
    }

    /// Returns everything that counts against the line.
    pub(crate) fn sum(&self) -> Bytes {
        self.foreign.plus(self.held).plus(self.releasing).plus(self.floating)
    }

    /// Formats load and tenants: `32000 MiB of 32607 MiB, 4 tenants`.
    pub(crate) fn to_text(&self) -> String {
        let tenants = match self.tenants {
            0 => String::new(),
            number => format!(", {}", count(number, "tenant")),
        };
        format!("{}{tenants}", self.sums())
    }

    /// Returns the unit of the sizes in one row.
    fn format(&self) -> SizeFormat {
        row_format(self.usable, &[self.sum()])
    }

    /// Formats the load: `32000 MiB of 32607 MiB`.
    pub(crate) fn sums(&self) -> String {
        let words = self.unmeasured.map(|unmeasured| match unmeasured {
            Unmeasured::Whole => "the whole",
            Unmeasured::Undeclared => "undeclared",
        });
        let (sum, format) = (self.sum(), self.format());
        let load = match (words, sum) {
            (None, Bytes::ZERO) => "0".to_string(),
            (None, load) => format.show(load),
            (Some(words), Bytes::ZERO) => words.to_string(),
            (Some(words), load) => format!("{} + {words}", format.show(load)),
        };
        let of = self.usable.map_or("an unknown amount".to_string(), |usable| format.show(usable));
        format!("{load} of {of}")
    }
}

/// Returns whether a tenant has its devices and does not run yet.
pub(crate) fn is_starting(tenant: &TenantRow) -> bool {
    matches!(tenant.stage, TenantStage::Offered | TenantStage::Sent)
}

fn known(device: &DeviceRow, counts: impl Fn(&TenantRow) -> bool) -> Bytes {
    let tenants = device.tenants.iter().filter(|tenant| counts(tenant));
    tenants.filter_map(|tenant| tenant.bytes).fold(Bytes::ZERO, Bytes::plus)
}

fn unmeasured(tenants: &[TenantRow]) -> Option<Unmeasured> {
    if tenants.iter().any(|tenant| tenant.charge == ChargeKind::Undeclared) {
        return Some(Unmeasured::Undeclared);
    }
    tenants.iter().any(|tenant| tenant.bytes.is_none()).then_some(Unmeasured::Whole)
}

/// The content of a cell of a bar.
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
    /// All cells in the order of the legend.
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

    /// Returns its character.
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

    /// Returns its meaning for the legend.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Cell::Held => "held",
            Cell::Starting => "held, starting",
            Cell::Floating => "held on one of several cards",
            Cell::Releasing => "releasing",
            Cell::Foreign => "foreign",
            Cell::Free => "free",
            Cell::Unknown => "unknown",
            Cell::Over => "over the line",
            Cell::MaybeOver => "over the line if all of it is here",
        }
    }
}

/// Runs of equal cells.
pub(crate) type Runs = Vec<(Cell, u64)>;

/// The length of a bar.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Cells from empty to the line.
    pub(crate) hull: u64,
    /// Cells past the line; the rest is cut off.
    pub(crate) over: u64,
}

/// The scale of printed bars on a page without a width.
const PRINTED: Scale = Scale { hull: 32, over: 16 };

/// The shortest and the longest bar that fits a page with a width, from empty to the line.
const SHORTEST: u64 = 8;
const LONGEST: u64 = 64;

/// Returns the runs of cells up to the line, and those past it.
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
    let mut left = scale.hull;
    let mut hull = Vec::new();
    for (cell, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_zero()) {
        // Every part gets at least one cell.
        let cells = scaled(bytes, usable, scale).max(1).min(left);
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
    let over = (!past.is_zero()).then(|| (cell, scaled(past, usable, scale).clamp(1, scale.over)));
    (hull, over.into_iter().collect())
}

fn scaled(bytes: Bytes, usable: Bytes, scale: Scale) -> u64 {
    let cells = u128::from(bytes.get()) * u128::from(scale.hull) / u128::from(usable.get());
    u64::try_from(cells).unwrap_or(u64::MAX)
}

/// A bar with its name, and what follows it.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) load: Load,
    pub(super) remarks: String,
}

impl Bar {
    fn text(&self) -> Vec<(Style, String)> {
        let mut pieces = vec![(PLAIN, self.load.to_text())];
        let over_by = self.load.over_by;
        if !over_by.is_zero() {
            pieces.push((BAD, format!(", OVER by {}", self.load.format().show(over_by))));
        }
        pieces.push((ODD, self.remarks.clone()));
        pieces
    }

    fn text_length(&self) -> usize {
        self.text().iter().map(|(_, piece)| piece.chars().count()).sum()
    }
}

/// Draws bars of one scale, and their legend. All fit the width of the page, if it has one.
pub(super) fn bars(page: &mut Page, bars: &[Bar]) {
    const INDENT: usize = 2;
    let names = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let texts = bars.iter().map(Bar::text_length).max().unwrap_or(0);
    let scale = match page.width().after(INDENT) {
        None => PRINTED,
        Some(columns) => {
            let is_over =
                bars.iter().any(|bar| bar.load.sum() > bar.load.usable.unwrap_or_default());
            let frame = "  [|]  ".len();
            let left = u64::try_from(columns.saturating_sub(names + frame + texts)).unwrap_or(0);
            let hull = if is_over { left * 3 / 4 } else { left };
            let hull = hull.clamp(SHORTEST, LONGEST);
            Scale { hull, over: left.saturating_sub(hull).clamp(2, PRINTED.over) }
        }
    };
    let mut shown = Vec::new();
    for bar in bars {
        let (hull, over) = cells(&bar.load, scale);
        for cell in hull.iter().chain(&over).map(|(cell, _)| *cell) {
            if !shown.contains(&cell) {
                shown.push(cell);
            }
        }
        let drawn = |runs: &Runs| runs.iter().map(piece).collect::<Vec<_>>();
        let mut pieces = vec![(PLAIN, format!("{:names$}  [", clean(&bar.name)))];
        pieces.extend(drawn(&hull));
        pieces.push((PLAIN, "|".to_string()));
        pieces.extend(drawn(&over));
        pieces.push((PLAIN, "]".to_string()));
        let drawn: usize = pieces.iter().map(|(_, piece)| piece.chars().count()).sum();
        let fits = page
            .width()
            .after(INDENT)
            .is_none_or(|columns| drawn + 2 + bar.text_length() <= columns);
        if fits {
            pieces.push((PLAIN, "  ".to_string()));
            pieces.extend(bar.text());
            page.raw(INDENT, &pieces);
        } else {
            page.raw(INDENT, &pieces);
            let text = bar.text();
            let text: Vec<(Style, &str)> =
                text.iter().map(|(style, piece)| (*style, &**piece)).collect();
            page.pieces(INDENT + 2, &text);
        }
    }
    page.styled(INDENT, FAINT, &legend_text(&shown));
}

fn piece((cell, number): &(Cell, u64)) -> (Style, String) {
    (cell.style(), cell.mark().repeat(usize::try_from(*number).unwrap_or(0)))
}

/// Formats the legend of some cells.
fn legend_text(shown: &[Cell]) -> String {
    let words: Vec<String> = Cell::ALL
        .into_iter()
        .filter(|cell| shown.contains(cell))
        .map(|cell| format!("{} {}", cell.mark(), cell.meaning()))
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
    fn every_part_is_shown_however_small() {
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
