//! Breaches of the ledger as findings: the core finds them, and here they get their words.

use plimsoll_core::breach::Breach;
use plimsoll_core::charge::Charge;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::room::NodeView;
use plimsoll_core::units::{Bytes, Name};

use crate::finding::{Finding, Severity};

use super::{Holder, named};

/// What a breach means to whoever runs the cluster.
pub(super) fn finding(ledger: &Ledger, breach: &Breach) -> Finding {
    let view = ledger.view_of(breach.node());
    let device =
        |ordinal: u16| view.map(|view| Name::from(view.node.device_label(usize::from(ordinal))));
    let finding = match breach {
        Breach::OverLine { ordinal, usable, held, over_by, .. } => Finding {
            uuid: device(*ordinal),
            numbers: [("usable", usable.get()), ("held", held.get()), ("over_by", over_by.get())]
                .into(),
            ..over_line(
                *usable,
                *held,
                *over_by,
                &view.map_or_else(Vec::new, |view| tenants(ledger, view, *ordinal)),
            )
        },
        Breach::NoAssignment { usable, held, holders, .. } => Finding {
            numbers: [("usable", usable.get()), ("held", held.get())].into(),
            ..no_assignment(*usable, *held, view.map_or(0, |view| view.node.devices.len()), holders)
        },
        Breach::SlicesOverlap { ordinal, holders, .. } => {
            Finding { uuid: device(*ordinal), ..slices_overlap(holders) }
        }
        Breach::SumsDiffer { ordinal, sum, holdings, .. } => Finding {
            uuid: device(*ordinal),
            numbers: [("sum", sum.get()), ("holdings", holdings.get())].into(),
            ..sums_differ(*sum, *holdings)
        },
    };
    Finding { node: Some(breach.node().clone()), ..finding }
}

fn over_line(usable: Bytes, held: Bytes, over_by: Bytes, tenants: &[String]) -> Finding {
    error(
        "device-over-line",
        format!("{held} of {usable}, over by {over_by}: {}", named(tenants)),
        format!(
            "stop or move tenants that hold {over_by} or more; nothing new is placed here until then"
        ),
    )
}

fn no_assignment(usable: Bytes, held: Bytes, cards: usize, holders: &[Name]) -> Finding {
    let names: Vec<String> = holders.iter().map(ToString::to_string).collect();
    error(
        "node-over-line",
        format!(
            "{held} on {cards} cards of {usable} in all: however the device plugin spread them, some card is over its \
             line: {}",
            named(&names)
        ),
        "stop or move tenants until the rest fits the cards one by one",
    )
}

fn slices_overlap(holders: &[Name]) -> Finding {
    let names: Vec<String> = holders.iter().map(ToString::to_string).collect();
    error(
        "slices-overlap",
        format!("tenants are booked to slices of this card that overlap: {}", named(&names)),
        "restart one of them, so that it gets a slice of its own",
    )
}

fn sums_differ(sum: Bytes, holdings: Bytes) -> Finding {
    error(
        "ledger-sums-differ",
        format!(
            "the ledger's sum is {sum} where its holdings are {holdings}: a fault in this program"
        ),
        "report it, with the output of `plimsoll scenario --from FILE --anonymise`",
    )
}

fn error(code: &'static str, message: String, remedy: impl Into<String>) -> Finding {
    Finding {
        code,
        severity: Severity::Error,
        node: None,
        uuid: None,
        message,
        numbers: Default::default(),
        remedy: remedy.into(),
    }
}

/// Whoever is on this very card, with what each holds there; memory that nobody booked comes last.
fn tenants(ledger: &Ledger, view: &NodeView, ordinal: u16) -> Vec<String> {
    let id = ledger.node_id(&view.node.name);
    let holdings = id.into_iter().flat_map(|id| ledger.holdings_on(id)).map(|(_, holding)| holding);
    let here = |charge: &&Charge| charge.on == [ordinal];
    let charges = holdings.flat_map(|holding| {
        holding.charges.iter().filter(here).map(move |charge| (holding, charge))
    });
    let mut words: Vec<String> =
        charges.map(|(holding, charge)| Holder::of(holding, charge).words()).collect();
    let foreign =
        view.room.devices().get(usize::from(ordinal)).map_or(Bytes::ZERO, |room| room.foreign());
    if !foreign.is_zero() {
        words.push(format!("in use by nobody's booking ({foreign})"));
    }
    words
}
