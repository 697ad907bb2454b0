//! Who goes where, one line a pod.

use std::collections::BTreeMap;

use plimsoll_core::charge::Charge;
use plimsoll_core::device::Node;
use plimsoll_core::units::{Bytes, Name};
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::Simulation;

use super::count;
use super::page::{BAD, FAINT, GOOD, ODD, Page};
use super::table::{Align, Table};

/// The table of placements.
pub(crate) fn placements(page: &mut Page, cluster: &Cluster, simulation: &Simulation) {
    if simulation.placed.is_empty() {
        return;
    }
    page.heading("Placed");
    let mut table = Table::new(&[
        ("POD", Align::Left),
        ("NODE", Align::Left),
        ("DEVICES", Align::Left),
        ("MEMORY", Align::Right),
        ("SCORE", Align::Right),
    ]);
    for placed in &simulation.placed {
        let request = &cluster.pending[placed.pending].request;
        let ledger = simulation.ledger();
        let view = ledger.view_of(&placed.found.placement.node);
        let charges =
            ledger.of_request(&request.id).map_or(&[][..], |(_, holding)| &holding.charges);
        table.row([
            request.id.to_string(),
            placed.found.placement.node.to_string(),
            view.map(|view| devices(&view.node, charges)).unwrap_or_default(),
            memory(charges),
            placed.found.score.total().to_string(),
        ]);
    }
    table.print(page, 2);
}

/// The devices of some charges: by name, or as one of several where the plugin picks.
pub(super) fn devices(node: &Node, charges: &[Charge]) -> String {
    if charges.is_empty() {
        return "none".to_string();
    }
    let name = |charge: &Charge| {
        let labels: Vec<String> =
            charge.on.iter().map(|ordinal| node.device_label(usize::from(*ordinal))).collect();
        match &labels[..] {
            [only] => only.clone(),
            [first, .., last] => format!("one of {first} to {last}"),
            [] => "unknown".to_string(),
        }
    };
    charges.iter().map(name).collect::<Vec<_>>().join(" + ")
}

/// What some charges book, each device by itself.
pub(super) fn memory(charges: &[Charge]) -> String {
    let amount = |charge: &Charge| {
        charge.bytes().map_or("undeclared".to_string(), |bytes: Bytes| bytes.to_string())
    };
    let amounts: Vec<String> = charges.iter().map(amount).collect();
    match &amounts[..] {
        [] => "0".to_string(),
        [one] => one.clone(),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            format!("{} x {first}", amounts.len())
        }
        several => several.join(" + "),
    }
}

/// What about pods was not understood and did not count.
pub(crate) fn not_considered(page: &mut Page, cluster: &Cluster, simulation: &Simulation) {
    let mut pods: BTreeMap<&Name, Vec<String>> = BTreeMap::new();
    for pending in &cluster.pending {
        for what in &pending.not_considered {
            pods.entry(what).or_default().push(pending.request.id.to_string());
        }
    }
    if pods.is_empty() && simulation.uncounted.is_empty() {
        return;
    }
    page.heading("Not considered");
    for (what, names) in pods {
        page.styled(2, ODD, &format!("{what}: {}", some(&names)));
    }
    for uncounted in &simulation.uncounted {
        page.styled(2, ODD, &format!("{} {}", uncounted.request, uncounted.why));
    }
}

/// A few names, and how many more.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// The last line: how many found a place.
pub(crate) fn tally(page: &mut Page, simulation: &Simulation) {
    let (placed, refused) = (simulation.placed.len(), simulation.rejected.len());
    page.heading("Result");
    let words = match (placed, refused) {
        (0, 0) => (FAINT, "nothing is waiting for a place".to_string()),
        (1, 0) => (GOOD, format!("the pod is placed (policy {})", simulation.policy().name)),
        (placed, 0) => {
            (GOOD, format!("all {placed} pods placed (policy {})", simulation.policy().name))
        }
        (placed, refused) => {
            let all = count(placed + refused, "pod");
            (
                BAD,
                format!(
                    "placed {placed} of {all}, refused {refused} (policy {})",
                    simulation.policy().name
                ),
            )
        }
    };
    page.styled(2, words.0, &words.1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_sim::fixture;

    #[test]
    fn a_placement_says_where_and_how_much() {
        let cluster = fixture::time_sliced(5);
        let simulation = fixture::run(&cluster);
        let mut page = Page::default();
        placements(&mut page, &cluster, &simulation);
        tally(&mut page, &simulation);
        let text = page.plain();
        assert!(text.contains("default/test-0  gpu-node  gpu-node/gpu-0  8000 MiB"), "{text}");
        assert!(text.ends_with("placed 4 of 5 pods, refused 1 (policy pack)\n"), "{text}");
    }

    #[test]
    fn what_was_not_understood_is_said_once_for_all() {
        let mut cluster = fixture::time_sliced(6);
        for pending in &mut cluster.pending {
            pending.not_considered = vec!["pod affinity".into()];
        }
        let mut page = Page::default();
        not_considered(&mut page, &cluster, &fixture::run(&cluster));
        assert!(page.plain().contains(
            "pod affinity: default/test-0, default/test-1, default/test-2, default/test-3 and 2 more"
        ));
    }
}
