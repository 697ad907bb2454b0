//! `plimsoll explain`: one decision, made here from files or made by a server.

mod live;

use anyhow::{Result, bail};
use plimsoll_core::decide::Decision;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{Advising, Simulation, simulate};

use super::{load, log};
use crate::cli::{ExplainArgs, Format, InputArgs};
use crate::output::{self, Outcome};
use crate::text::{Page, explain, understood};
use crate::{json, near};

pub(super) fn run(args: &ExplainArgs, quiet: bool) -> Result<Outcome> {
    let files = !args.input.files.is_empty();
    match (files, live::is_meant(args)) {
        (true, _) if args.server.server.is_some() => {
            bail!(
                "files were given, and a server too; explain from files with -f, or ask a server with --server"
            )
        }
        (false, true) => live::run(args, quiet),
        _ => from_files(args, quiet),
    }
}

/// The decision that is made here.
fn from_files(args: &ExplainArgs, quiet: bool) -> Result<Outcome> {
    let (input, wanted) = what_was_meant(args)?;
    let cluster = load(&input, "explain", quiet)?.cluster;
    let (wanted, undecided) = find(&cluster, &wanted)?;
    let mut page = Page::default();
    if !quiet {
        understood::understood(&mut page, &cluster, input.plain.rule());
    }
    if let Some((status, why)) = undecided {
        return nothing_to_decide(args.output, page, &cluster, &wanted, status, why);
    }
    let mut kept = None;
    let mut number = 0;
    let mut watch = |decision: &Decision| {
        number += 1;
        if decision.request == wanted && kept.is_none() {
            kept = Some(decision.clone());
            if args.policy.log_decisions {
                log(decision, number);
            }
        }
    };
    let policy = args.policy.policy();
    let advising = Advising::only(wanted.clone(), &policy);
    let simulation = simulate(&cluster, &policy, &advising, &mut watch);
    let fits = match kept {
        Some(decision) => answered(args.output, &mut page, &cluster, &simulation, &decision)?,
        None => runs(args.output, &mut page, &cluster, &simulation, &wanted)?,
    };
    if args.output == Format::Table {
        output::text(page.text())?;
    }
    Ok(Outcome::wanting(!fits))
}

/// A pod that had its turn; whether it found a place.
fn answered(
    format: Format,
    page: &mut Page,
    cluster: &Cluster,
    simulation: &Simulation,
    decision: &Decision,
) -> Result<bool> {
    let refused =
        simulation.rejected.iter().find(|refused| refused.decision.request == decision.request);
    let pending = cluster.pending.iter().find(|pending| pending.request.id == decision.request);
    let not_considered: &[Name] = pending.map_or(&[], |pending| &pending.not_considered);
    match format {
        Format::Json => output::json(&json::explain(cluster, decision, refused, not_considered))?,
        Format::Table => explain::explain(page, decision, refused, not_considered),
    }
    Ok(decision.chosen().is_some())
}

/// A pod that already has a node.
fn runs(
    format: Format,
    page: &mut Page,
    cluster: &Cluster,
    simulation: &Simulation,
    wanted: &RequestId,
) -> Result<bool> {
    let Some(holding) = cluster.running.iter().find(|holding| holding.request == *wanted) else {
        bail!("{wanted} was read, but had no turn");
    };
    match format {
        Format::Json => output::json(&json::running(cluster, holding, simulation.ledger()))?,
        Format::Table => explain::running(page, holding, simulation.ledger()),
    }
    Ok(true)
}

/// A pod that has no turn and holds nothing.
fn nothing_to_decide(
    format: Format,
    mut page: Page,
    cluster: &Cluster,
    wanted: &RequestId,
    status: &'static str,
    why: &str,
) -> Result<Outcome> {
    match format {
        Format::Json => output::json(&json::undecided(cluster, wanted, status, why.to_string()))?,
        Format::Table => {
            explain::undecided(&mut page, wanted, why);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::Wanting)
}

/// The status of a pod about which there is nothing to decide, and why that is so.
type Undecided = (&'static str, &'static str);

fn find(cluster: &Cluster, wanted: &str) -> Result<(RequestId, Option<Undecided>)> {
    let pending = cluster.pending.iter().map(|pending| pending.request.id.clone());
    let running = cluster.running.iter().map(|holding| holding.request.clone());
    let decided = pending.chain(running).map(|id| (id, None));
    let because = |names: &[Name], why: Undecided| -> Vec<(RequestId, Option<Undecided>)> {
        let named = names.iter().filter_map(|name| name.split_once('/'));
        named.map(|(namespace, name)| (RequestId::new(namespace, name), Some(why))).collect()
    };
    let read = &cluster.understood;
    let gated = because(&read.gated_pods, ("gated", "is held back by scheduling gates"));
    let finished = because(&read.finished_pods, ("finished", "has finished and holds nothing"));
    let pods: Vec<(RequestId, Option<Undecided>)> = decided.chain(gated).chain(finished).collect();
    let found = near::find(wanted, &pods.iter().map(|(id, _)| id).collect::<Vec<_>>())?;
    let undecided = pods.iter().find(|(id, _)| id == found).and_then(|(_, undecided)| *undecided);
    Ok((found.clone(), undecided))
}

/// `-f a.yaml b.yaml ns/pod` is read as three files. Where no pod is named apart from the files, the last of them is it,
/// unless that is a file.
fn what_was_meant(args: &ExplainArgs) -> Result<(InputArgs, String)> {
    let mut files = args.input.files.clone();
    let pod = match &args.what {
        Some(pod) => Some(pod.clone()),
        None if files.len() > 1 => files
            .pop_if(|last| last.as_os_str() != "-" && !last.exists())
            .map(|path| path.to_string_lossy().into_owned()),
        None => None,
    };
    let input = InputArgs {
        files,
        plain: args.input.plain,
        node_pool_key: args.input.node_pool_key.clone(),
    };
    match pod {
        Some(pod) => Ok((input, pod)),
        None if input.files.is_empty() => Ok((input, String::new())),
        None => bail!("which pod? Name it as NAMESPACE/POD after the files, or after --"),
    }
}
