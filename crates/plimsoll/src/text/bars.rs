//! The load of every device as a bar with its line, like a hull in the water.

use anstyle::Style;
use plimsoll_core::device::{Health, Identity};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::room::{DeviceRoom, NodeView};
use plimsoll_core::units::Bytes;
use plimsoll_kube::cluster::Cluster;

use super::count;
use super::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};

/// Cells from empty to the line.
const CELLS: u64 = 32;
/// Cells past the line; more than that is cut off with a `+`.
const OVER_CELLS: u64 = 16;

/// What a cell of a bar shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Held,
    Floating,
    Releasing,
    Foreign,
    Free,
    Unknown,
    Over,
    MaybeOver,
}

impl Cell {
    const ALL: [Cell; 8] = [
        Cell::Held,
        Cell::Floating,
        Cell::Releasing,
        Cell::Foreign,
        Cell::Free,
        Cell::Unknown,
        Cell::Over,
        Cell::MaybeOver,
    ];

    fn mark(self) -> &'static str {
        match self {
            Cell::Held => "#",
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
            Cell::Floating | Cell::Releasing | Cell::Foreign | Cell::Unknown | Cell::MaybeOver => ODD,
            Cell::Free => FAINT,
            Cell::Over => BAD,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Cell::Held => "held",
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

/// The load of every device.
pub(crate) fn bars(page: &mut Page, cluster: &Cluster, ledger: &Ledger) {
    let views: Vec<&NodeView> =
        cluster.nodes.iter().filter_map(|facts| ledger.view(ledger.node_id(&facts.node.name)?)).collect();
    if views.iter().all(|view| view.node.devices.is_empty()) {
        return;
    }
    page.heading("Load");
    let mut shown = Vec::new();
    let label = |view: &NodeView, at: usize| {
        let label = view.node.device_label(at);
        match view.node.devices[at].identity {
            Identity::Ordinal => label,
            Identity::Uuid(_) => format!("{}  {label}", view.node.name),
        }
    };
    let width =
        views.iter().flat_map(|view| (0..view.node.devices.len()).map(|at| label(view, at).chars().count()));
    let width = width.max().unwrap_or(0);
    for view in views {
        for (at, room) in view.room.devices().iter().enumerate() {
            bar(page, &format!("{:width$}  ", label(view, at)), room, &remarks(view, at), &mut shown);
        }
    }
    let legend: Vec<String> = Cell::ALL
        .into_iter()
        .filter(|cell| shown.contains(cell))
        .map(|cell| format!("{} {}", cell.mark(), cell.words()))
        .collect();
    page.styled(2, FAINT, &format!("{}, | the line", legend.join(", ")));
}

fn bar(page: &mut Page, name: &str, room: &DeviceRoom, remarks: &str, shown: &mut Vec<Cell>) {
    let (hull, over) = cells(room);
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
    pieces.push((PLAIN, format!("]  {}", sums(room))));
    if !room.over_by().is_zero() {
        pieces.push((BAD, format!(", OVER by {}", room.over_by())));
    }
    pieces.push((ODD, remarks.to_string()));
    let pieces: Vec<(Style, &str)> = pieces.iter().map(|(style, piece)| (*style, &**piece)).collect();
    page.pieces(2, &pieces);
}

/// Cells of a kind, and how many of them, one after another.
type Runs = Vec<(Cell, u64)>;

/// The runs of cells up to the line, and those past it.
fn cells(room: &DeviceRoom) -> (Runs, Runs) {
    let Some(usable) = room.usable().filter(|usable| !usable.is_zero()) else {
        return (vec![(Cell::Unknown, CELLS)], Vec::new());
    };
    let parts = [
        (Cell::Foreign, room.foreign()),
        (Cell::Held, room.held()),
        (Cell::Releasing, room.releasing()),
        (Cell::Floating, room.floating()),
    ];
    let mut left = CELLS;
    let mut hull = Vec::new();
    for (cell, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_zero()) {
        // What is there shows, however little it is.
        let cells = scaled(bytes, usable).max(1).min(left);
        left -= cells;
        hull.push((cell, cells));
    }
    let free = usable.less(room.load());
    let rest = if room.has_undeclared() { Cell::Unknown } else { Cell::Free };
    if !free.is_zero() || room.has_undeclared() {
        if left == 0
            && let Some(widest) = hull.iter_mut().max_by_key(|(_, cells)| *cells)
        {
            (widest.1, left) = (widest.1 - 1, 1);
        }
        hull.push((rest, left));
    } else if let Some(last) = hull.last_mut() {
        last.1 += left;
    }
    let past = room.load().less(usable);
    let cell = if room.over_by().is_zero() { Cell::MaybeOver } else { Cell::Over };
    let over = (!past.is_zero()).then(|| (cell, scaled(past, usable).clamp(1, OVER_CELLS)));
    (hull, over.into_iter().collect())
}

fn scaled(bytes: Bytes, usable: Bytes) -> u64 {
    let cells = u128::from(bytes.get()) * u128::from(CELLS) / u128::from(usable.get().max(1));
    u64::try_from(cells).unwrap_or(u64::MAX)
}

/// `32000 MiB of 32607 MiB, 4 tenants`.
fn sums(room: &DeviceRoom) -> String {
    let load = match (unmeasured(room), room.load()) {
        (None, load) => load.to_string(),
        (Some(words), Bytes::ZERO) => words.to_string(),
        (Some(words), load) => format!("{load} + {words}"),
    };
    let of = room.usable().map_or("an unknown amount".to_string(), |usable| usable.to_string());
    let tenants = match room.tenants().len() {
        0 => String::new(),
        number => format!(", {}", count(number, "tenant")),
    };
    format!("{load} of {of}{tenants}")
}

/// What is held there and is no number.
fn unmeasured(room: &DeviceRoom) -> Option<&'static str> {
    let whole = room.tenants().iter().any(|tenant| tenant.bytes.is_none()).then_some("the whole");
    if room.has_undeclared() { Some("undeclared") } else { whole }
}

fn remarks(view: &NodeView, at: usize) -> String {
    let device = &view.node.devices[at];
    let health = match device.health {
        Health::Healthy => "",
        Health::Faulty => ", faulty",
        Health::Gone => ", gone",
    };
    let cordoned = if device.cordoned { ", cordoned" } else { "" };
    let closed = if view.room.devices()[at].closed() { ", closed" } else { "" };
    format!("{health}{cordoned}{closed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn drawn(cluster: &Cluster) -> String {
        let mut page = Page::default();
        bars(&mut page, cluster, &fixture::run(cluster).ledger);
        page.plain()
    }

    #[test]
    fn a_bar_shows_what_is_held_and_what_is_free() {
        let text = drawn(&fixture::time_sliced(5));
        let bar = format!("  gpu-node/gpu-0  [{}-|]  32000 MiB of 32607 MiB, 4 tenants\n", "#".repeat(31));
        assert!(text.contains(&bar), "{text}");
        assert!(text.contains("# held, - free, | the line"), "{text}");
    }

    #[test]
    fn what_is_over_the_line_stands_behind_it() {
        let text = drawn(&fixture::too_late());
        let bar =
            format!("[{}|!!!!!!!]  40000 MiB of 32607 MiB, 5 tenants, OVER by 7393 MiB", "#".repeat(32));
        assert!(text.contains(&bar), "{text}");
    }

    #[test]
    fn what_is_being_given_back_is_not_drawn_as_free() {
        let text = drawn(&fixture::releasing());
        assert!(
            text.contains(&format!("[{}{}|]  60 GiB of 80 GiB, 1 tenant", "<".repeat(24), "-".repeat(8))),
            "{text}"
        );
        assert!(text.contains("< being given back"), "{text}");
    }

    #[test]
    fn tenants_that_declare_no_memory_leave_the_rest_unknown() {
        let mut cluster = fixture::too_late();
        cluster.running.truncate(1);
        cluster.running[0].charges[0].amount = plimsoll_core::charge::Booked::Undeclared;
        let text = drawn(&cluster);
        assert!(
            text.contains(&format!("[{}|]  undeclared of 32607 MiB, 1 tenant\n", "?".repeat(32))),
            "{text}"
        );
        let mut cluster = fixture::too_late();
        cluster.running.truncate(2);
        cluster.running[0].charges[0].amount = plimsoll_core::charge::Booked::Undeclared;
        let text = drawn(&cluster);
        assert!(text.contains("]  8000 MiB + undeclared of 32607 MiB, 2 tenants\n"), "{text}");
    }

    #[test]
    fn without_devices_nothing_is_drawn() {
        let mut cluster = fixture::time_sliced(0);
        cluster.nodes[0].node.devices.clear();
        assert_eq!(drawn(&cluster), "");
    }
}
