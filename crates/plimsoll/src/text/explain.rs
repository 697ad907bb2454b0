//! One pod's decision as text: every node, container and device, what was chosen, what lost, and what would help.

use plimsoll_core::charge::Holding;
use plimsoll_core::decide::Decision;
use plimsoll_core::fit::{self, Placement};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::{Container, RequestId, Shape};
use plimsoll_core::score::{Score, Term};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::{DeviceVerdict, NodeVerdict};
use plimsoll_core::wording;
use plimsoll_sim::simulation::Rejected;

use super::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page, STRONG};
use super::placements;
use super::refused::help;
use super::table::{Align, Table};
use plimsoll_api::lost_by::lost_by;
use plimsoll_api::verdict;

/// A pod that had its turn.
pub(crate) fn explain(
    page: &mut Page,
    decision: &Decision,
    refused: Option<&Rejected>,
    not_considered: &[Name],
) {
    page.heading(&decision.request.to_string());
    asked(page, decision);
    match decision.chosen() {
        Some(found) => {
            let text =
                format!("placed on {}, score {}", found.placement.node, score_words(&found.score));
            page.styled(2, GOOD, &text);
            chosen(page, decision);
        }
        None => {
            page.styled(2, BAD, &wording::cannot_place(&decision.request, &decision.summary()));
        }
    }
    for what in not_considered {
        page.styled(2, ODD, &format!("not considered: {what}"));
    }
    lost(page, decision);
    nodes(page, decision);
    if let Some(refused) = refused.filter(|refused| {
        refused.advice.promised.is_some() || !refused.advice.would_fit_if.is_empty()
    }) {
        page.heading("What would help");
        help(page, 2, &refused.advice);
    }
    let revision =
        format!("policy {}, ledger revision {}", decision.policy.name, decision.revision);
    page.heading("Decided by");
    page.styled(2, FAINT, &revision);
}

fn asked(page: &mut Page, decision: &Decision) {
    for shape in decision.spec.shapes() {
        page.line(2, &format!("asks for {}", wording::describe_needs(shape)));
    }
}

/// The devices of the chosen place, with what each is charged.
fn chosen(page: &mut Page, decision: &Decision) {
    let Some(place) = decision.chosen().map(|found| &found.placement) else { return };
    let verdicts = verdict::ordered(decision);
    let Some(verdict) = verdicts.iter().find(|verdict| verdict.view.node.name == place.node) else {
        return;
    };
    let Ok(charges) = fit::admit(verdict.view, &decision.spec, place) else { return };
    holds(page, &verdict.view.node, &charges);
}

fn holds(
    page: &mut Page,
    node: &plimsoll_core::device::Node,
    charges: &[plimsoll_core::charge::Charge],
) {
    let mut table = Table::new(&[
        ("DEVICE", Align::Left),
        ("MEMORY", Align::Right),
        ("CONTAINERS", Align::Left),
    ]);
    for charge in charges {
        let part = |part: &plimsoll_core::charge::Part| {
            let bytes = part.bytes.map_or("undeclared".to_string(), |bytes| bytes.to_string());
            let cores =
                if part.cores.0 == 0 { String::new() } else { format!(", {} cores", part.cores.0) };
            format!("{} ({}, {bytes}{cores})", part.container, part.role)
        };
        let parts: Vec<String> = charge.parts.iter().map(part).collect();
        let one = std::slice::from_ref(charge);
        table.row([placements::devices(node, one), placements::memory(one), parts.join(", ")]);
    }
    table.print(page, 4);
}

/// A pod that already runs.
pub(crate) fn running(page: &mut Page, holding: &Holding, ledger: &Ledger) {
    page.heading(&holding.request.to_string());
    page.styled(2, GOOD, &format!("{} on {}", holding.stage.name(), holding.node));
    let Some(view) = ledger.view_of(&holding.node) else {
        return page.styled(2, ODD, "that node was not read");
    };
    if holding.charges.is_empty() {
        page.line(2, "it holds no device");
    }
    holds(page, &view.node, &holding.charges);
}

/// A pod about which there was nothing to decide.
pub(crate) fn undecided(page: &mut Page, request: &RequestId, why: &str) {
    page.heading(&request.to_string());
    page.styled(2, ODD, &format!("{request} {why}"));
}

fn lost(page: &mut Page, decision: &Decision) {
    let rows = lost_by(decision);
    if rows.is_empty() {
        return;
    }
    page.heading("What lost, and by which term");
    for row in rows {
        let name =
            row.device.map_or(row.node.to_string(), |device| format!("{device} on {}", row.node));
        page.line(2, &format!("{name}: {}", row.text));
    }
}

fn nodes(page: &mut Page, decision: &Decision) {
    let verdicts = verdict::ordered(decision);
    let shape =
        decision.shapes.len().checked_sub(1).and_then(|last| decision.spec.shapes().get(last));
    let Some(shape) = shape.filter(|_| !verdicts.is_empty()) else { return };
    page.heading("Nodes");
    for verdict in verdicts {
        let place = decision.chosen().map(|found| &found.placement);
        let chosen = place.filter(|place| place.node == verdict.view.node.name);
        node(page, verdict, shape, chosen);
    }
}

fn node(page: &mut Page, verdict: NodeVerdict, shape: &Shape, chosen: Option<&Placement>) {
    let name = &*verdict.view.node.name;
    match (&verdict.best, &verdict.reason) {
        (Some(best), _) => {
            let words = format!(" passed, score {}", score_words(&best.score));
            page.pieces(2, &[(STRONG, name), (GOOD, &words)]);
        }
        (None, Some(reason)) => {
            let words = format!(" failed: {} ({reason})", reason.code());
            page.pieces(2, &[(STRONG, name), (BAD, &words)]);
        }
        (None, None) => page.pieces(2, &[(STRONG, name), (BAD, " failed")]),
    }
    for (index, container) in shape.containers.iter().enumerate() {
        container_on(page, verdict, index, container, chosen);
    }
}

fn container_on(
    page: &mut Page,
    verdict: NodeVerdict,
    index: usize,
    container: &Container,
    chosen: Option<&Placement>,
) {
    let needs: Vec<_> = verdict
        .needs
        .iter()
        .enumerate()
        .filter(|(_, need)| usize::from(need.container) == index)
        .collect();
    let head = format!("{} ({})", container.name, container.role);
    match wording::container_reason(verdict, index) {
        Some(reason) => page.pieces(4, &[(PLAIN, &head), (BAD, " failed: "), (PLAIN, &reason)]),
        None if needs.is_empty() => {
            page.pieces(4, &[(PLAIN, &head), (FAINT, " passed: wants no device")]);
        }
        None => page.pieces(4, &[(PLAIN, &head), (GOOD, " passed")]),
    }
    let mut table = Table::new(&[
        ("DEVICE", Align::Left),
        ("NEED", Align::Right),
        ("FREE", Align::Right),
        ("SHORT BY", Align::Right),
        ("VERDICT", Align::Left),
    ]);
    for (at, need) in needs {
        for device in &need.devices {
            device_row(&mut table, verdict, at, device, chosen);
        }
    }
    table.print(page, 6);
}

/// What a device said to the need at this place among all needs.
fn device_row(
    table: &mut Table,
    verdict: NodeVerdict,
    need: usize,
    device: &DeviceVerdict,
    chosen: Option<&Placement>,
) {
    let numbers = verdict::numbers(verdict, device);
    let size = |bytes: Option<Bytes>| bytes.map_or("?".to_string(), |bytes| bytes.to_string());
    let short_by = match numbers.short_by {
        Some(Bytes::ZERO) => "-".to_string(),
        short_by => size(short_by),
    };
    let said = match &device.reason {
        Some(reason) => {
            (PLAIN, format!("{}: {reason}{}", reason.code(), holders(verdict, device.ordinal)))
        }
        None if chosen.is_some_and(|place| picks(place, need, device.ordinal)) => {
            (GOOD, "fits, chosen".to_string())
        }
        None if chosen.is_none() && best(verdict, need, device.ordinal) => {
            (GOOD, "fits, best here".to_string())
        }
        None => (GOOD, "fits".to_string()),
    };
    let label = verdict.view.node.device_label(usize::from(device.ordinal));
    table.styled_row([
        (PLAIN, label),
        (PLAIN, size(numbers.need)),
        (PLAIN, size(numbers.free)),
        (PLAIN, short_by),
        said,
    ]);
}

fn best(verdict: NodeVerdict, need: usize, ordinal: u16) -> bool {
    verdict.best.as_ref().is_some_and(|best| picks(&best.placement, need, ordinal))
}

/// Whether a place gives this device to this need.
fn picks(place: &Placement, need: usize, ordinal: u16) -> bool {
    place.picks.get(need).is_some_and(|picked| picked.contains(&ordinal))
}

fn holders(verdict: NodeVerdict, ordinal: u16) -> String {
    verdict::held_by(verdict, ordinal)
        .map_or(String::new(), |holders| format!("; held by {holders}"))
}

/// `12345 (node 10000, device 2345)`: the sum and the terms that add something to it.
fn score_words(score: &Score) -> String {
    let parts = Term::ALL.into_iter().filter(|term| score.points(*term) != 0);
    let parts: Vec<String> =
        parts.map(|term| format!("{} {}", term.name(), score.points(term))).collect();
    if parts.is_empty() {
        score.total().to_string()
    } else {
        format!("{} ({})", score.total(), parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::policy::Policy;
    use plimsoll_kube::cluster::Cluster;
    use plimsoll_sim::fixture;
    use plimsoll_sim::simulation::{Advising, simulate};

    fn explained(cluster: &Cluster, pod: &str) -> String {
        let mut kept = None;
        let mut watch = |decision: &Decision| {
            if &*decision.request.name == pod {
                kept = Some(decision.clone());
            }
        };
        let simulation = simulate(cluster, &Policy::default(), &Advising::all(), &mut watch);
        let refused =
            simulation.rejected.iter().find(|refused| &*refused.decision.request.name == pod);
        let mut page = Page::default();
        explain(&mut page, &kept.expect("it had its turn"), refused, &[]);
        page.plain()
    }

    #[test]
    fn a_refusal_shows_every_device_with_its_numbers_and_holders() {
        let text = explained(&fixture::time_sliced(5), "test-4");
        assert!(text.contains("DEVICE              NEED     FREE  SHORT BY  VERDICT"), "{text}");
        assert!(
            text.contains("gpu-node/gpu-0  8000 MiB  607 MiB  7393 MiB  CardInsufficientMemory"),
            "{text}"
        );
        assert!(
            text.contains("held by default/test-0 (8000 MiB), default/test-1 (8000 MiB)"),
            "{text}"
        );
        assert!(text.contains("main (app) failed: 1/1 CardInsufficientMemory"), "{text}");
        assert!(text.contains("would fit if it asked for at most 607 MiB"), "{text}");
    }

    #[test]
    fn a_placement_shows_what_lost_and_by_which_term() {
        let mut cluster = fixture::gang();
        cluster.gangs.clear();
        cluster.pending.truncate(1);
        cluster.pending[0].gang = None;
        let text = explained(&cluster, "worker-0");
        assert!(text.contains("placed on node-a, score"), "{text}");
        assert!(text.contains("node-b: node, 5000 points behind (5000 in all)"), "{text}");
    }

    #[test]
    fn equal_places_are_decided_by_name() {
        let mut cluster = fixture::gang();
        cluster.gangs.clear();
        cluster.running.clear();
        cluster.pending.truncate(1);
        cluster.pending[0].gang = None;
        let text = explained(&cluster, "worker-0");
        assert!(text.contains("node-b: tie, by name"), "{text}");
        assert!(text.contains("GPU-node-a-1 on node-a: tie, by place on the node"), "{text}");
    }

    #[test]
    fn a_running_pod_shows_what_it_holds() {
        let cluster = fixture::gang();
        let simulation = fixture::run(&cluster);
        let mut page = Page::default();
        running(&mut page, &cluster.running[0], simulation.ledger());
        assert!(page.plain().contains("running on node-a"));
        assert!(
            page.plain().contains("GPU-node-a-0  80 GiB  main (app, 80 GiB)"),
            "{}",
            page.plain()
        );
    }
}
