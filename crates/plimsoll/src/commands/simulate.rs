//! `plimsoll simulate`: decides every pending pod.

use anyhow::Result;
use plimsoll_api::breach::breach_row;
use plimsoll_api::clause::clauses_of;
use plimsoll_api::device;
use plimsoll_api::explanation::{PromisedRow, RemedyRow, promised_row};
use plimsoll_api::forecast::{AccountRow, ForecastRow};
use plimsoll_api::offline::{
    InputRow, NotConsideredRow, PlacementRow, SCHEMA_VERSION, SimulateOutput, UnplacedRow,
    UnplacedStatus,
};
use plimsoll_api::verdict;
use plimsoll_core::breach;
use plimsoll_core::decide::Decision;
use plimsoll_core::event::Settings;
use plimsoll_core::request::RequestId;
use plimsoll_core::scheduler::Forecasts;
use plimsoll_kube::cluster::Cluster;
use plimsoll_server::config::read_accounts;
use plimsoll_sim::simulation::{
    Advice, Advising, NOW, Outlook, Rejected, Simulation, simulate_with,
};

use super::{Offline, load, log};
use crate::cli::{Format, PolicyArgs, SimulateArgs};
use crate::output::{self, Outcome, Verbosity};
use crate::text;
use crate::text::simulate::Names;

/// The nodes that are shown for a rejection without `--full`.
const NEAREST: usize = 10;

pub(super) fn run(args: &SimulateArgs, verbosity: Verbosity) -> Result<Outcome> {
    let cluster = load(&args.input, Offline::Simulate, verbosity)?.cluster;
    let mut number = 0;
    let mut watch = |decision: &Decision| {
        number += 1;
        if args.policy.log_decisions {
            log(decision, number);
        }
    };
    let settings = settings(&args.policy)?;
    let simulation = simulate_with(&cluster, &settings, &Advising::all(), &mut watch);
    let shown = |candidates| {
        let output = simulate_output(&cluster, &simulation, candidates);
        of_namespace(output, args.namespace.as_deref())
    };
    match args.output {
        Format::Json | Format::Yaml => {
            let candidates = if args.full { Candidates::All } else { Candidates::Nearest };
            output::structured(args.output, &shown(candidates))?;
        }
        Format::Table => {
            let mut page = output::page();
            if verbosity.is_normal() {
                text::input::input(&mut page, &cluster, args.input.plain.rule());
            }
            let output = shown(Candidates::None);
            let names = if args.full { Names::All } else { Names::Some };
            text::simulate::simulate(&mut page, &output, names);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::with_open(shown(Candidates::None).unplaced))
}

/// Returns an output with the pods of one namespace only. Those of others were counted.
fn of_namespace(mut output: SimulateOutput, namespace: Option<&str>) -> SimulateOutput {
    if let Some(namespace) = namespace {
        output.placements.retain(|row| row.namespace == namespace);
        output.unplaced.retain(|row| row.namespace == namespace);
        output.not_considered.retain(|row| row.namespace == namespace);
    }
    output
}

/// The nodes to list for each rejection.
#[derive(Clone, Copy)]
pub(crate) enum Candidates {
    None,
    Nearest,
    All,
}

/// Converts a simulation.
pub(crate) fn simulate_output(
    cluster: &Cluster,
    simulation: &Simulation,
    candidates: Candidates,
) -> SimulateOutput {
    let ledger = simulation.ledger();
    let placed = simulation.placed.iter();
    let rejected = simulation.rejected.iter();
    let mut forecasts = simulation.scheduler.forecasts(NOW);
    SimulateOutput {
        schema_version: SCHEMA_VERSION,
        policy: simulation.policy().name.clone(),
        input: InputRow::new(cluster),
        nodes: device::nodes(cluster, ledger),
        devices: device::devices(cluster, ledger),
        placements: placed
            .map(|placed| (&cluster.pending[placed.pending].request, &placed.found))
            .map(|(request, found)| PlacementRow::new(request, found, ledger))
            .collect(),
        unplaced: rejected
            .map(|rejected| unplaced(cluster, &mut forecasts, rejected, candidates))
            .collect(),
        breaches: breach::audit(ledger).iter().map(|breach| breach_row(ledger, breach)).collect(),
        accounts: simulation.scheduler.account_rows().iter().map(AccountRow::from).collect(),
        not_considered: not_considered(cluster, simulation),
    }
}

fn unplaced(
    cluster: &Cluster,
    forecasts: &mut Forecasts<'_>,
    rejected: &Rejected,
    candidates: Candidates,
) -> UnplacedRow {
    let request = &cluster.pending[rejected.pending].request.id;
    let decision = &rejected.decision;
    let limit = match candidates {
        Candidates::None => Some(0),
        Candidates::Nearest => Some(NEAREST),
        Candidates::All => None,
    };
    UnplacedRow {
        namespace: request.account.clone(),
        pod: request.name.clone(),
        status: status(rejected),
        summary: rejected.decision.summary().to_string(),
        clauses: clauses_of(decision, None),
        promised: promised(&rejected.advice),
        forecast: forecast(forecasts, request),
        nodes_considered: decision.table().map_or(0, |table| table.unordered().count()),
        candidates: verdict::nearest_candidates(decision, limit),
        would_fit_if: rejected.advice.would_fit_if.iter().map(RemedyRow::from).collect(),
    }
}

/// Returns the status of a pod that was rejected.
pub(super) fn status(rejected: &Rejected) -> UnplacedStatus {
    match rejected.outlook {
        Outlook::Pending => UnplacedStatus::Pending,
        Outlook::Impossible => UnplacedStatus::Impossible,
    }
}

/// Returns the prospects of a pod, if it is pending.
pub(super) fn forecast(forecasts: &mut Forecasts<'_>, pod: &RequestId) -> Option<ForecastRow> {
    forecasts.of(pod).map(|forecast| ForecastRow::new(&forecast, NOW))
}

/// Returns the settings of a simulation.
pub(super) fn settings(args: &PolicyArgs) -> Result<Settings> {
    let accounts = args.accounts.as_deref().map(read_accounts).transpose()?.unwrap_or_default();
    Ok(Settings { policy: args.policy(), accounts, ..Settings::default() })
}

/// Returns the placement that was promised to a pod.
pub(super) fn promised(advice: &Advice) -> Option<PromisedRow> {
    let promised = advice.promised.as_ref()?;
    Some(promised_row(&promised.promise, &promised.devices))
}

fn not_considered(cluster: &Cluster, simulation: &Simulation) -> Vec<NotConsideredRow> {
    let pending = cluster.pending.iter().filter(|pending| !pending.not_considered.is_empty());
    let features = pending.map(|pending| NotConsideredRow {
        namespace: pending.request.id.account.clone(),
        pod: pending.request.id.name.clone(),
        what: pending.not_considered.clone(),
    });
    let uncounted = simulation.uncounted.iter().map(|uncounted| NotConsideredRow {
        namespace: uncounted.request.account.clone(),
        pod: uncounted.request.name.clone(),
        what: vec![uncounted.why.to_string().into()],
    });
    features.chain(uncounted).collect()
}

#[cfg(test)]
mod tests;
