//! `plimsoll kube`: watches a cluster.

mod guard;
mod manifests;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_cluster::guard::{Guard, GuardConfig};
use plimsoll_cluster::holders::{HoldersStore, keep};
use plimsoll_cluster::watch::{self as cluster_watch, Position, Sight};
use plimsoll_cluster::{Access, ClusterReviewer, Connection, Place};
use plimsoll_core::units::Name;
use plimsoll_engine::engine::{Engine, NoAnswer};
use plimsoll_kube::cluster::Reading;
use plimsoll_kube::live::{Observation, RecordKeeping, Watch};
use plimsoll_server::config::http::{Callers, TlsFiles};
use plimsoll_server::config::{self, Loaded, LogConfig, Options};
use plimsoll_server::life::{self, Reloaded};
use plimsoll_server::pods::{self, ClusterServer};
use tokio::runtime::Handle;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{KubeArgs, KubeCommand, LogFormat};
use crate::logging;
use crate::output::{Outcome, Verbosity};

/// The time limit for remaining tasks after the shutdown.
const LEFTOVERS: Duration = Duration::from_millis(200);

/// The time for the guard to answer what is in flight, and to hand its lease over.
const HAND_OVER: Duration = Duration::from_secs(8);

/// The pause before a report is repeated to a busy engine.
const BUSY: Duration = Duration::from_millis(10);

/// Watches until a signal, or runs a command about the installation.
pub(super) fn run(args: &KubeArgs, verbosity: Verbosity) -> Result<Outcome> {
    match &args.command {
        Some(KubeCommand::Manifests(args)) => manifests::run(args),
        Some(KubeCommand::UninstallGuard(args)) => guard::uninstall(args),
        None => watch(args, verbosity),
    }
}

fn watch(args: &KubeArgs, verbosity: Verbosity) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("could not start the threads of the server")?;
    let access = Access { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    let connection = runtime.block_on(Connection::open(&access))?;
    let options = options(args, connection.place());
    let Loaded { config, warnings } = config::load(&options)?;
    begin_log(&config.log, verbosity, &warnings);
    let guard = guard::settings(args, &connection)?;
    let api_server = connection.server();
    match &guard {
        None => tracing::info!(api_server, "watching a cluster; nothing is written to it"),
        Some(_) => tracing::info!(api_server, "watching and guarding a cluster"),
    }
    let guarding = guard.as_ref().map(guard::guarding);
    let (holders, records) = record_of(guard.as_ref(), &connection, config.data.as_deref());
    let guard = guard.map(|settings| {
        let counters = guarding.as_ref().map(|guarding| guarding.counters.clone());
        let prepared = Guard::prepare(connection.clone(), settings, counters.unwrap_or_default());
        runtime.block_on(prepared)
    });
    let guard = guard.transpose()?;
    let (positions, found) = std::sync::mpsc::channel::<Vec<Position>>();
    let list = {
        let (connection, holders) = (connection.clone(), holders.clone());
        let handle = runtime.handle().clone();
        move || list(&handle, &connection, holders.as_deref(), &positions)
    };
    let reviewer = Arc::new(ClusterReviewer::new(connection.clone()));
    let (handed, ending) = std::sync::mpsc::channel();
    let follow = move |engine: Engine<Watch>| {
        let sight = Sight::default();
        let observer = engine.clone();
        let send = move |learnt| report(observer.clone(), learnt);
        let positions: Vec<Position> = found.try_iter().flatten().collect();
        tokio::spawn(cluster_watch::follow_all(connection, positions, sight.clone(), send));
        let keeping = holders.clone().map(|holders| tokio::spawn(keep(engine.clone(), holders)));
        let guarding = guard.zip(holders);
        let guarding = guarding.map(|(guard, holders)| guard.start(engine, sight, holders));
        // The receiver is used after the server has ended.
        let _ = handed.send((guarding, keeping));
    };
    let server = ClusterServer {
        reading: reading(args),
        settings: config.settings.clone(),
        guarding,
        records,
        history: config.data,
        reviewer,
    };
    let service = pods::service(server, list, follow);
    let lived =
        runtime.block_on(life::live(config.http, config.log, None, || reload(&options), service));
    let ending = ending.try_iter().flat_map(|(guarding, keeping)| [guarding, keeping]);
    for task in ending.flatten() {
        let _ = runtime.block_on(async { tokio::time::timeout(HAND_OVER, task).await });
    }
    runtime.shutdown_timeout(LEFTOVERS);
    lived.map(|()| Outcome::Fine)
}

/// Lists everything, and recalls the record of holders. Blocks.
fn list(
    runtime: &Handle,
    connection: &Connection,
    holders: Option<&HoldersStore>,
    positions: &Sender<Vec<Position>>,
) -> Result<Vec<Observation>> {
    let (mut learnt, from) = runtime.block_on(cluster_watch::start_when_reachable(connection))?;
    if let Some(holders) = holders {
        learnt.push(Observation::Recalled(runtime.block_on(holders.recall_when_reachable())?));
    }
    // The receiver is used once the engine runs, which is after this.
    let _ = positions.send(from);
    Ok(learnt)
}

fn begin_log(log: &LogConfig, verbosity: Verbosity, warnings: &[String]) {
    let level = match verbosity {
        Verbosity::Quiet => LevelFilter::WARN,
        Verbosity::Normal => LevelFilter::INFO,
    };
    logging::start(log.format, level);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// Returns the record of holders, and who keeps it: a guard in the cluster, a watch in its data
/// directory, if it has one.
fn record_of(
    guard: Option<&GuardConfig>,
    connection: &Connection,
    data: Option<&Path>,
) -> (Option<Arc<HoldersStore>>, RecordKeeping) {
    let (store, keeping) = match (guard, data) {
        (Some(guard), _) => {
            let store = HoldersStore::in_config_maps(connection.clone(), &guard.namespace);
            (store, RecordKeeping::WhileLeading)
        }
        (None, Some(data)) => (HoldersStore::in_directory(data), RecordKeeping::Always),
        (None, None) => {
            tracing::info!(
                "no record of holders is kept without --data: a pod that vanishes while this \
                 process does not run is unknown after a restart"
            );
            return (None, RecordKeeping::Never);
        }
    };
    (Some(Arc::new(store)), keeping)
}

/// Hands observations to the engine, and returns once they are in its ledger.
async fn report(engine: Engine<Watch>, learnt: Vec<Observation>) -> Result<(), NoAnswer> {
    loop {
        let batch = learnt.clone();
        match engine.write(move |watch, core| watch.observe(core, batch)).await {
            Err(NoAnswer::Busy) => tokio::time::sleep(BUSY).await,
            other => return other,
        }
    }
}

fn reading(args: &KubeArgs) -> Reading {
    Reading {
        plain: args.plain.rule(),
        node_pool_key: args.node_pool_key.as_str().into(),
        ignored_resources: args.ignore_resource.iter().map(Name::from).collect(),
    }
}

fn reload(options: &Options) -> Result<Reloaded> {
    let Loaded { config, warnings } = config::load(options)?;
    Ok(Reloaded { http: config.http, warnings })
}

fn options(args: &KubeArgs, place: Place) -> Options {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    Options {
        listen: args.listen.clone(),
        data: args.data.clone(),
        config: args.config.clone(),
        tls: tls.map(|(cert, key)| TlsFiles { cert, key }),
        token_file: args.token_file.clone(),
        callers: callers(args, place),
        log: args.log.map(LogFormat::into),
        log_decisions: args.log_decisions,
    }
}

/// Returns who may call. On a machine of one's own, its user is trusted.
fn callers(args: &KubeArgs, place: Place) -> Callers {
    match place {
        Place::Pod => Callers::ClusterUsersOfPod,
        Place::Outside if args.cluster_users => Callers::ClusterUsers,
        Place::Outside => Callers::ClusterUsersIfExposed,
    }
}
