//! Breaches as rows.

use plimsoll_core::breach::Breach;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::units::{Bytes, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing that is wrong with what is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BreachRow {
    /// `over_line`, `no_assignment`, `slices_overlap` or `sums_differ`.
    pub kind: String,
    /// The node.
    #[schema(value_type = String)]
    pub node: Name,
    /// The device.
    pub uuid: Option<String>,
    /// What may be used there.
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// What is held there for certain, foreign memory included.
    #[schema(value_type = Option<u64>)]
    pub held: Option<Bytes>,
    /// By how much that is too much.
    #[schema(value_type = Option<u64>)]
    pub over_by: Option<Bytes>,
    /// What the holdings sum up to, where that is not what the ledger says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub holdings: Option<Bytes>,
    /// Who holds it, as `namespace/pod`.
    #[schema(value_type = Vec<String>)]
    pub holders: Vec<Name>,
}

/// A breach, with the devices called as people call them.
pub fn breach_row(ledger: &Ledger, breach: Breach) -> BreachRow {
    let row = |kind: &str, node: Name, ordinal: Option<u16>, holders| BreachRow {
        kind: kind.to_string(),
        uuid: ordinal.and_then(|ordinal| ledger.device_labels(&node, [ordinal]).pop()),
        node,
        usable: None,
        held: None,
        over_by: None,
        holdings: None,
        holders,
    };
    match breach {
        Breach::OverLine { node, ordinal, usable, held, over_by, holders } => BreachRow {
            usable: Some(usable),
            held: Some(held),
            over_by: Some(over_by),
            ..row("over_line", node, Some(ordinal), holders)
        },
        Breach::NoAssignment { node, usable, held, holders } => BreachRow {
            usable: Some(usable),
            held: Some(held),
            ..row("no_assignment", node, None, holders)
        },
        Breach::SumsDiffer { node, ordinal, sum, holdings } => BreachRow {
            held: Some(sum),
            holdings: Some(holdings),
            ..row("sums_differ", node, Some(ordinal), Vec::new())
        },
        Breach::SlicesOverlap { node, ordinal, holders } => {
            row("slices_overlap", node, Some(ordinal), holders)
        }
    }
}

/// One thing that is wrong, in a sentence.
pub fn sentence(ledger: &Ledger, breach: &Breach) -> String {
    let device =
        |ordinal: &u16| ledger.device_labels(breach.node(), [*ordinal]).pop().unwrap_or_default();
    let by = |holders: &[Name]| holders.join(", ");
    match breach {
        Breach::OverLine { node, ordinal, usable, held, over_by, holders } => {
            let device = device(ordinal);
            format!(
                "{device} on {node} holds {held} of {usable}, over by {over_by}: {}",
                by(holders)
            )
        }
        Breach::NoAssignment { node, usable, held, holders } => {
            format!(
                "however they are spread over the cards of {node}, {held} do not fit {usable}: {}",
                by(holders)
            )
        }
        Breach::SumsDiffer { node, ordinal, sum, holdings } => {
            let device = device(ordinal);
            format!(
                "{device} on {node} is booked with {sum}, its holders have {holdings}: a fault in plimsoll, please report it"
            )
        }
        Breach::SlicesOverlap { node, ordinal, holders } => {
            format!(
                "two tenants sit in one slice of {} on {node}: {}",
                device(ordinal),
                by(holders)
            )
        }
    }
}
