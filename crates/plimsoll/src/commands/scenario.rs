//! `plimsoll scenario`: golden cases as text, run and compared, or made from a dump.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll_core::request::{PlainRule, Request};
use plimsoll_kube::cluster::{Cluster, Reading};
use plimsoll_sim::scenario::{self, Report, State};
use plimsoll_sim::simulation;

use crate::cli::{ScenarioArgs, ScenarioCommand, ScenarioFiles};
use crate::load;
use crate::output::{self, Outcome};

pub(super) fn run(args: &ScenarioArgs, quiet: bool) -> Result<Outcome> {
    match &args.run {
        Some(ScenarioCommand::Run(files)) => run_all(files, quiet),
        None if !args.from.is_empty() => from(&args.from, args.anonymise, quiet),
        None => run_all(&args.files, quiet),
    }
}

/// Prints the scenario that yields the state of a cluster.
fn from(files: &[PathBuf], anonymise: bool, quiet: bool) -> Result<Outcome> {
    let pool = Reading::default().node_pool_key;
    let cluster = load::load(files, PlainRule::default(), &pool, quiet)?.cluster;
    let state = state(&cluster);
    let state = if anonymise { scenario::anonymise(&state) } else { state };
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

fn run_all(files: &ScenarioFiles, quiet: bool) -> Result<Outcome> {
    if files.files.is_empty() {
        bail!(
            "which scenario? Name the files to run, or make one with plimsoll scenario --from FILE…"
        );
    }
    let (mut differs, mut unchecked) = (0, 0);
    for file in &files.files {
        match if files.update { update(file)? } else { show(file, files.files.len() == 1, quiet)? }
        {
            Came::AsExpected => {}
            Came::Unchecked => unchecked += 1,
            Came::Differently => differs += 1,
        }
    }
    if files.files.len() > 1 && !quiet {
        let (all, held) = (files.files.len(), files.files.len() - differs - unchecked);
        let unchecked = if unchecked > 0 {
            format!("; nothing is checked in {unchecked}")
        } else {
            String::new()
        };
        output::text(&format!("{held} of {all} scenarios came out as expected{unchecked}\n"))?;
    }
    Ok(Outcome::wanting(differs > 0))
}

/// How a scenario came out.
enum Came {
    AsExpected,
    /// It expects nothing, and the witness had no objection.
    Unchecked,
    Differently,
}

impl Came {
    fn of(report: &Report, text: &str) -> Came {
        let checked = text.lines().any(|line| line.trim_start().starts_with('>'));
        match report.holds() {
            true if checked => Came::AsExpected,
            true => Came::Unchecked,
            false => Came::Differently,
        }
    }
}

/// Runs a scenario and says what came of it: all that was said for a single one, a line for one of several.
fn show(file: &Path, single: bool, quiet: bool) -> Result<Came> {
    let text = read(file)?;
    let report = play(file, &text)?;
    if single && !quiet {
        output::text(&report.demo())?;
    }
    let (came, name) = (Came::of(&report, &text), file.display());
    match came {
        Came::Differently => {
            output::text(&format!("{name} came out differently:\n{}", report.diff()))?;
        }
        Came::AsExpected if !quiet => output::text(&format!("{name} came out as expected\n"))?,
        Came::Unchecked if !quiet => {
            output::text(&format!("{name} was run; nothing is checked in it\n"))?;
        }
        Came::AsExpected | Came::Unchecked => {}
    }
    Ok(came)
}

/// Writes what came out as what is expected. What the witness objects to stays wrong.
fn update(file: &Path) -> Result<Came> {
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
    Ok(Came::of(&report, &updated))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))
}

fn play(file: &Path, text: &str) -> Result<Report> {
    // Its message names its cause already.
    scenario::run(text)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("{} cannot be run", file.display()))
}
