//! `plimsoll scenario`: runs scenario files, or converts a dump into one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use plimsoll_core::request::Request;
use plimsoll_kube::cluster::{Cluster, Reading};
use plimsoll_sim::scenario::{self, Report, State};
use plimsoll_sim::simulation;

use crate::cli::{ScenarioArgs, ScenarioCommand, ScenarioFiles};
use crate::load::{self, Inputs};
use crate::output::{self, Outcome, Verbosity};

pub(super) fn run(args: &ScenarioArgs, verbosity: Verbosity) -> Result<Outcome> {
    match &args.run {
        Some(ScenarioCommand::Run(files)) => run_all(files, verbosity),
        None if !args.from.is_empty() => from(args, verbosity),
        None => run_all(&args.files, verbosity),
    }
}

/// Prints the scenario that creates the state of a cluster.
fn from(args: &ScenarioArgs, verbosity: Verbosity) -> Result<Outcome> {
    let inputs = Inputs { files: &args.from, cluster: None };
    let cluster = load::load(&inputs, &Reading::default(), verbosity)?.cluster;
    let state = state(&cluster);
    let state = if args.anonymise { scenario::anonymise(&state) } else { state };
    output::text(&scenario::from_state(&state))?;
    Ok(Outcome::Fine)
}

fn state(cluster: &Cluster) -> State {
    let members = |gang: usize| -> Vec<Request> {
        let pending = cluster.pending.iter().filter(|pending| pending.gang == Some(gang));
        pending.map(|pending| pending.request.clone()).collect()
    };
    let gang = |(index, facts): (usize, &plimsoll_kube::cluster::GangFacts)| {
        (facts.name.clone(), facts.minimum.saturating_sub(facts.running), members(index))
    };
    let alone = cluster.pending.iter().filter(|pending| pending.gang.is_none());
    State {
        nodes: cluster.nodes.iter().map(|facts| facts.node.clone()).collect(),
        measured: cluster.nodes.iter().flat_map(simulation::foreign).collect(),
        holdings: cluster.running.clone(),
        pending: alone.map(|pending| pending.request.clone()).collect(),
        gangs: cluster
            .gangs
            .iter()
            .enumerate()
            .map(gang)
            .filter(|(_, _, members)| !members.is_empty())
            .collect(),
    }
}

fn run_all(files: &ScenarioFiles, verbosity: Verbosity) -> Result<Outcome> {
    if files.files.is_empty() {
        bail!(
            "no scenario files; name the files to run, or make one with plimsoll scenario --from FILE"
        );
    }
    let detail = if files.files.len() == 1 { Detail::Demo } else { Detail::Line };
    let (mut differs, mut unchecked) = (0, 0);
    for file in &files.files {
        match if files.update { update(file)? } else { show(file, detail, verbosity)? } {
            Verdict::AsExpected => {}
            Verdict::Unchecked => unchecked += 1,
            Verdict::Differs => differs += 1,
        }
    }
    if files.files.len() > 1 && verbosity.is_normal() {
        let (all, held) = (files.files.len(), files.files.len() - differs - unchecked);
        let unchecked = if unchecked > 0 {
            format!("; {unchecked} without expectations")
        } else {
            String::new()
        };
        output::text(&format!("{held} of {all} scenarios as expected{unchecked}\n"))?;
    }
    Ok(if differs > 0 { Outcome::Wanting } else { Outcome::Fine })
}

/// The result of a scenario.
enum Verdict {
    AsExpected,
    /// It has no expectations, and the witness found nothing.
    Unchecked,
    Differs,
}

impl Verdict {
    fn new(report: &Report, text: &str) -> Verdict {
        let checked = text.lines().any(|line| line.trim_start().starts_with('>'));
        match report.holds() {
            true if checked => Verdict::AsExpected,
            true => Verdict::Unchecked,
            false => Verdict::Differs,
        }
    }
}

/// The printed part of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Every command with its output, for a single scenario.
    Demo,
    /// The result, for one of several.
    Line,
}

/// Runs a scenario and prints the result.
fn show(file: &Path, detail: Detail, verbosity: Verbosity) -> Result<Verdict> {
    let text = read(file)?;
    let report = play(file, &text)?;
    if detail == Detail::Demo && verbosity.is_normal() {
        output::text(&report.demo())?;
    }
    let (verdict, name) = (Verdict::new(&report, &text), file.display());
    match verdict {
        Verdict::Differs => {
            output::text(&format!("{name} differs from its expectations:\n{}", report.diff()))?;
        }
        Verdict::AsExpected if verbosity.is_normal() => {
            output::text(&format!("{name} as expected\n"))?;
        }
        Verdict::Unchecked if verbosity.is_normal() => {
            output::text(&format!("{name} has no expectations\n"))?;
        }
        Verdict::AsExpected | Verdict::Unchecked => {}
    }
    Ok(verdict)
}

/// Writes the outcome as the expectation. Findings of the witness remain errors.
fn update(file: &Path) -> Result<Verdict> {
    let text = read(file)?;
    let updated = play(file, &text)?.updated();
    if updated != text {
        fs::write(file, &updated).with_context(|| format!("could not write {}", file.display()))?;
        output::text(&format!("updated {}\n", file.display()))?;
    }
    let report = play(file, &updated)?;
    if !report.holds() {
        output::text(&report.diff())?;
    }
    Ok(Verdict::new(&report, &updated))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))
}

fn play(file: &Path, text: &str) -> Result<Report> {
    // The message includes its cause.
    scenario::run(text)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("could not run {}", file.display()))
}
