//! Renders a decision line by line, and the remedies of a rejected request.
//!
//! All sentences (summaries, reasons, needs, container counts) come from `wording` in the core, as
//! in the CLI and the server. Only the layout is separate: the CLI renders the rows of
//! `plimsoll-api`, which depends on this crate, while a scenario prints one line for each fact, so
//! that a difference names the fact that changed.

use std::collections::BTreeSet;

use plimsoll_core::decide::{Decision, decide};
use plimsoll_core::digest::digest;
use plimsoll_core::remedy;
use plimsoll_core::request::Request;
use plimsoll_core::score::{Score, Term};
use plimsoll_core::verdict::{NeedVerdict, NodeVerdict};
use plimsoll_core::wording;

use super::words::Problem;
use super::world::World;

/// Decides a request on the current state and renders every node, container and device.
pub(crate) fn explain(world: &World, request: &Request) -> Vec<String> {
    lines(&decided(world, request))
}

fn decided(world: &World, request: &Request) -> Decision {
    let scheduler = world.scheduler();
    decide(scheduler.ledger(), &scheduler.settings().policy, request)
}

fn lines(decision: &Decision) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", decision.request, decision.summary())];
    let several = decision.spec.shapes().len() > 1;
    for (table, shape) in decision.tables().zip(decision.spec.shapes()) {
        if several {
            lines.push(format!("as {}:", wording::describe_needs(shape)));
        }
        let best = decision.chosen().map(|found| found.score);
        for verdict in table.by_name() {
            lines.extend(node(decision, verdict, best));
        }
    }
    lines
}

fn node(decision: &Decision, verdict: NodeVerdict, best: Option<Score>) -> Vec<String> {
    let name = &verdict.view.node.name;
    let chosen = decision.chosen().filter(|found| found.placement.node == *name).is_some();
    let mut lines = vec![match (&verdict.best, &verdict.reason) {
        (Some(found), _) if chosen => format!("{name} is chosen, score {}", points(&found.score)),
        (Some(found), _) => {
            let by = best.and_then(|best| found.score.loses_by(&best)).map_or("name", Term::name);
            format!("{name} fits, score {}, loses by {by}", points(&found.score))
        }
        (None, Some(reason)) => format!("{name} {reason}"),
        (None, None) => format!("{name} fails"),
    }];
    for need in &verdict.needs {
        lines.extend(devices(verdict, need));
    }
    lines
}

fn points(score: &Score) -> String {
    let parts: Vec<String> = Term::ALL
        .into_iter()
        .filter(|term| score.points(*term) != 0)
        .map(|term| format!("{} {}", term.name(), score.points(term)))
        .collect();
    format!("{} ({})", score.total(), parts.join(", "))
}

fn devices(verdict: NodeVerdict, need: &NeedVerdict) -> Vec<String> {
    let container = usize::from(need.container);
    let counts = wording::container_reason(verdict, container);
    let mut lines = vec![match counts {
        Some(counts) if !need.passed => format!("  container {container} fails: {counts}"),
        _ => format!("  container {container} passes"),
    }];
    for device in &need.devices {
        let label = verdict.view.node.device_label(usize::from(device.ordinal));
        let room = &verdict.view.room.devices()[usize::from(device.ordinal)];
        let free = room.open().map_or("unknown".to_string(), |free| free.to_string());
        lines.push(match (&device.reason, device.need) {
            (Some(reason), _) => format!("    {label} {reason}"),
            (None, Some(need)) => format!("    {label} fits, {need} of {free} free"),
            (None, None) => format!("    {label} fits"),
        });
    }
    lines
}

/// Renders the smallest changes that would make a rejected request fit.
pub(crate) fn remedies(world: &World, request: &Request) -> Vec<String> {
    let decision = decided(world, request);
    if decision.chosen().is_some() {
        return vec![format!("{} fits as it is", request.id)];
    }
    let scheduler = world.scheduler();
    let found =
        remedy::remedies(scheduler.ledger(), &scheduler.settings().policy, request, &decision);
    let lines: Vec<String> =
        found.iter().map(|remedy| format!("it would fit if {}", remedy.text)).collect();
    if lines.is_empty() { vec!["no remedy was found".to_string()] } else { lines }
}

/// Decides the last request several times, with and without the memo, and compares the answers.
pub(crate) fn again(world: &World, times: u32) -> Result<Vec<String>, Problem> {
    let request =
        world.last.clone().ok_or(Problem::Missing { what: "a request to decide again" })?;
    let mut answers = BTreeSet::new();
    let mut machine = world.scheduler().clone();
    for _ in 0..times {
        let decision = decided(world, &request);
        answers.insert((digest(&decision), lines(&decision)));
        let memoized = machine.what_if(&request);
        answers.insert((digest(&memoized), lines(&memoized)));
    }
    Ok(vec![match answers.len() {
        1 => format!("{times} times the same answer"),
        answers => format!("{answers} DIFFERENT answers in {times} times"),
    }])
}
