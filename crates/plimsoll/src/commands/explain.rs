//! `plimsoll explain`: one decision, made here from a cluster or files, or made by a server.

mod live;

use anyhow::{Result, bail};
use plimsoll_api::explanation::{Explanation, RemedyRow};
use plimsoll_api::offline::{ExplainOutput, ExplainStatus, InputRow};
use plimsoll_core::decide::Decision;
use plimsoll_core::event::Settings;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{Advising, NOW, Simulation, simulate_with};

use super::simulate::{forecast, promised, settings, status};
use super::{Offline, load, log};
use crate::cli::{ExplainArgs, Format, InputArgs};
use crate::load::Loaded;
use crate::near;
use crate::output::{self, Outcome, Verbosity};
use crate::text;

pub(super) fn run(args: &ExplainArgs, verbosity: Verbosity) -> Result<Outcome> {
    let has_objects = !args.input.files.is_empty() || args.input.cluster.access().is_some();
    match (!has_objects, &args.what) {
        (false, _) if args.server.server.is_some() => {
            bail!(
                "both a server and files or a cluster are given; explain from files with -f, from a cluster \
                 with --kubeconfig, or from a server with --server"
            )
        }
        (false, _) => from_objects(args, verbosity),
        (true, Some(what)) => live::run(args, what, verbosity),
        (true, None) => bail!(
            "nothing to explain; name a decision (1234.0), slot (slot-7), reservation (reservation-12) or \
             NAMESPACE/NAME of a server, or pipe a cluster in:\n\n  {}\n",
            Offline::Explain.pipe()
        ),
    }
}

fn from_objects(args: &ExplainArgs, verbosity: Verbosity) -> Result<Outcome> {
    let (input, wanted) = separate_pod(args)?;
    let Loaded { cluster, namespace, .. } = load(&input, Offline::Explain, verbosity)?;
    let namespace = args.namespace.as_ref().or(namespace.as_ref());
    let pod = find(&cluster, &qualified(wanted, namespace))?;
    let mut number = 0;
    let settings = settings(&args.policy)?;
    let output = explain(&cluster, &pod, &settings, &mut |decision| {
        number += 1;
        if decision.request == pod.id && args.policy.log_decisions {
            log(decision, number);
        }
    })?;
    let outcome = match output.status {
        ExplainStatus::Placed | ExplainStatus::Running => Outcome::Fine,
        _ => Outcome::Wanting,
    };
    match args.output {
        Format::Json | Format::Yaml => {
            let input = Some(InputRow::new(&cluster));
            output::structured(args.output, &ExplainOutput { input, ..output })?;
        }
        Format::Table => {
            let mut page = output::page();
            if verbosity.is_normal() {
                text::input::input(&mut page, &cluster, input.plain.rule());
            }
            text::explain::explain(&mut page, &output, args.detail());
            output::text(page.text())?;
        }
    }
    Ok(outcome)
}

/// A pod that was read.
struct Pod {
    id: RequestId,
    /// The status of a pod that is neither decided nor running, and the reason.
    undecided: Option<(ExplainStatus, &'static str)>,
}

/// Explains a pod. `watch` is shown every decision.
fn explain(
    cluster: &Cluster,
    pod: &Pod,
    settings: &Settings,
    watch: &mut dyn FnMut(&Decision),
) -> Result<ExplainOutput> {
    if let Some((status, why)) = pod.undecided {
        return Ok(ExplainOutput::undecided(&pod.id, status, why.to_string()));
    }
    let mut found = None;
    let mut keep_first = |decision: &Decision| {
        if found.is_none() {
            watch(decision);
        }
        if decision.request == pod.id && found.is_none() {
            found = Some(decision.clone());
        }
    };
    let advising = Advising::only(pod.id.clone(), &settings.policy);
    let simulation = simulate_with(cluster, settings, &advising, &mut keep_first);
    if let Some(decision) = found {
        return Ok(decided(cluster, &simulation, &decision));
    }
    match cluster.running.iter().find(|holding| holding.request == pod.id) {
        Some(holding) => Ok(ExplainOutput::running(holding, simulation.ledger())),
        None => bail!("{} was read, but not decided", pod.id),
    }
}

fn decided(cluster: &Cluster, simulation: &Simulation, decision: &Decision) -> ExplainOutput {
    let pending = cluster.pending.iter().find(|pending| pending.request.id == decision.request);
    let output = ExplainOutput {
        not_considered: pending.map(|pod| pod.not_considered.clone()).unwrap_or_default(),
        ..ExplainOutput::decided(decision)
    };
    let mut rejected = simulation.rejected.iter();
    let mut forecasts = simulation.scheduler.forecasts(NOW);
    match rejected.find(|rejected| rejected.decision.request == decision.request) {
        None => output,
        Some(rejected) => ExplainOutput {
            status: status(rejected).into(),
            explanation: Explanation {
                summary: rejected.decision.summary().to_string(),
                promised: promised(&rejected.advice),
                forecast: forecast(&mut forecasts, &decision.request),
                ..output.explanation
            },
            would_fit_if: rejected.advice.would_fit_if.iter().map(RemedyRow::from).collect(),
            ..output
        },
    }
}

fn find(cluster: &Cluster, wanted: &str) -> Result<Pod> {
    let pending = cluster.pending.iter().map(|pending| pending.request.id.clone());
    let running = cluster.running.iter().map(|holding| holding.request.clone());
    let mut pods: Vec<Pod> = pending.chain(running).map(|id| Pod { id, undecided: None }).collect();
    let read = &cluster.understood;
    let gated = (ExplainStatus::Gated, "held back by scheduling gates");
    let finished = (ExplainStatus::Finished, "it has finished and holds nothing");
    for (names, undecided) in [(&read.gated_pods, gated), (&read.finished_pods, finished)] {
        let ids = names.iter().filter_map(|name: &Name| name.split_once('/'));
        let ids = ids.map(|(namespace, name)| RequestId::new(namespace, name));
        pods.extend(ids.map(|id| Pod { id, undecided: Some(undecided) }));
    }
    let found = near::find(wanted, pods.iter().map(|pod| &pod.id))?;
    Ok(pods.swap_remove(found))
}

/// Adds the namespace to a pod that is named without one.
fn qualified(wanted: String, namespace: Option<&String>) -> String {
    match namespace {
        Some(namespace) if !wanted.contains('/') => format!("{namespace}/{wanted}"),
        _ => wanted,
    }
}

/// Separates the pod from the files: `-f a.yaml b.yaml ns/pod` is parsed as three files. If no pod
/// is given apart from the files, the last of them is the pod, unless it is a file.
fn separate_pod(args: &ExplainArgs) -> Result<(InputArgs, String)> {
    let mut files = args.input.files.clone();
    let pod = match &args.what {
        Some(pod) => Some(pod.clone()),
        None if files.len() > 1 => files
            .pop_if(|last| last.as_os_str() != "-" && !last.exists())
            .map(|path| path.to_string_lossy().into_owned()),
        None => None,
    };
    let Some(pod) = pod else {
        bail!("which pod? Name it as NAMESPACE/POD after the files, or after --");
    };
    Ok((InputArgs { files, ..args.input.clone() }, pod))
}

/// Explains a pod of a cluster under the default policy.
#[cfg(test)]
pub(crate) fn explain_in(cluster: &Cluster, pod: &str) -> Result<ExplainOutput> {
    explain(cluster, &find(cluster, pod)?, &Settings::default(), &mut |_| {})
}
