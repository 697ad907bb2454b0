//! Breaches as rows: devices over their line, and inconsistent accounts.

use plimsoll_core::breach::Breach;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::wording::SizeFormat;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::named;

named! {
    /// The kind of a breach.
    BreachKind {
        /// A device is overcommitted.
        OverLine = "over_line",
        /// No assignment of cards by the device plugin fits all tenants.
        NoAssignment = "no_assignment",
        /// Two tenants occupy one hardware slice.
        SlicesOverlap = "slices_overlap",
        /// The account of a device differs from its holdings: a bug in this program.
        SumsDiffer = "sums_differ",
    }
}

/// A breach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BreachRow {
    pub kind: BreachKind,
    #[schema(value_type = String)]
    pub node: Name,
    /// The device; null for `no_assignment`.
    pub uuid: Option<String>,
    /// The usable memory; for `no_assignment` of all cards together.
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// The memory that is certainly held there, including foreign memory.
    #[schema(value_type = Option<u64>)]
    pub held: Option<Bytes>,
    /// The excess memory.
    #[schema(value_type = Option<u64>)]
    pub over_by: Option<Bytes>,
    /// The sum of the holdings, for `sums_differ`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub holdings: Option<Bytes>,
    /// The holders, as `namespace/pod`.
    #[schema(value_type = Vec<String>)]
    pub holders: Vec<Name>,
    /// The breach in one sentence.
    pub text: String,
}

/// Converts a breach, with the device names of a ledger.
pub fn breach_row(ledger: &Ledger, breach: &Breach) -> BreachRow {
    let empty = |kind: BreachKind, ordinal: Option<u16>, holders: &[Name]| BreachRow {
        kind,
        uuid: ordinal.and_then(|ordinal| ledger.device_labels(breach.node(), [ordinal]).pop()),
        node: breach.node().clone(),
        usable: None,
        held: None,
        over_by: None,
        holdings: None,
        holders: holders.to_vec(),
        text: sentence(ledger, breach),
    };
    match breach {
        Breach::OverLine { ordinal, usable, held, over_by, holders, .. } => BreachRow {
            usable: Some(*usable),
            held: Some(*held),
            over_by: Some(*over_by),
            ..empty(BreachKind::OverLine, Some(*ordinal), holders)
        },
        Breach::NoAssignment { usable, held, holders, .. } => BreachRow {
            usable: Some(*usable),
            held: Some(*held),
            ..empty(BreachKind::NoAssignment, None, holders)
        },
        Breach::SumsDiffer { ordinal, sum, holdings, .. } => BreachRow {
            held: Some(*sum),
            holdings: Some(*holdings),
            ..empty(BreachKind::SumsDiffer, Some(*ordinal), &[])
        },
        Breach::SlicesOverlap { ordinal, holders, .. } => {
            empty(BreachKind::SlicesOverlap, Some(*ordinal), holders)
        }
    }
}

/// Renders a breach in one sentence.
pub fn sentence(ledger: &Ledger, breach: &Breach) -> String {
    let device =
        |ordinal: &u16| ledger.device_labels(breach.node(), [*ordinal]).pop().unwrap_or_default();
    match breach {
        Breach::OverLine { node, ordinal, usable, held, holders, .. } => {
            let format = SizeFormat::for_capacity(*usable, &[*held]);
            format!(
                "{} on {node} holds {} of {}, over by {}: {}",
                device(ordinal),
                format.show(*held),
                format.show(*usable),
                format.show_difference(*held, *usable),
                holders.join(", ")
            )
        }
        Breach::NoAssignment { node, usable, held, holders } => {
            let format = SizeFormat::for_capacity(*usable, &[*held]);
            format!(
                "the cards of {node} hold {} of {}, and no assignment of tenants to cards fits: {}",
                format.show(*held),
                format.show(*usable),
                holders.join(", ")
            )
        }
        Breach::SumsDiffer { node, ordinal, sum, holdings } => format!(
            "the account of {} on {node} says {sum}, its holdings say {holdings}: this is a bug in \
             plimsoll, please report it",
            device(ordinal)
        ),
        Breach::SlicesOverlap { node, ordinal, holders } => format!(
            "several tenants occupy one slice of {} on {node}: {}",
            device(ordinal),
            holders.join(", ")
        ),
    }
}
