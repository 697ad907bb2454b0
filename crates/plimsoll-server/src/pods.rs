//! The server of a live cluster: the shared part of the server around the front end of a cluster.
//!
//! The routes have the shapes of the standalone server where they mean the same. Decisions are
//! opinions: other schedulers place the pods.

mod admission;
mod alerts;
mod gauges;
mod guarding;
mod queue;
mod routes;
mod webhook;
mod whatif;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub use admission::REVIEWED;
pub use guarding::{GuardCounters, Leads};
pub use webhook::{BINDINGS, PODS, WebhookCertificate, WebhookServer, WebhookStop};

use anyhow::Result;
use axum::http::StatusCode;
use plimsoll_api::rows::SlotNames;
use plimsoll_core::event::Settings;
use plimsoll_core::front::Host;
use plimsoll_core::request::RequestId;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::steps::Vocabulary;
use plimsoll_core::units::{Millis, Name};
use plimsoll_engine::clock::Clock;
use plimsoll_engine::engine::Engine;
use plimsoll_engine::history::HistoryJournal;
use plimsoll_engine::journal::{Journal, NoJournal};
use plimsoll_kube::cluster::Reading;
use plimsoll_kube::live::{Observation, RecordKeeping, Watch};

use crate::api::{Answer, Problem};
use crate::decisions::Decisions;
use crate::events::Feed;
use crate::guard::reviews::Reviewer;
use crate::life::{Rebuilt, Service};
use crate::schedulerlog::RequestLog;
use crate::served::{FrontGauges, ServedFront};

/// The most objects of the first lists that are observed together. The records of all of them at
/// once would be larger than the ledger.
const TOGETHER: usize = 4096;

/// Splits the first lists. Nothing is known before them, so that nothing can have vanished.
fn in_parts(learnt: Vec<Observation>) -> impl Iterator<Item = Vec<Observation>> {
    let mut single = learnt.into_iter().flat_map(|observation| {
        let (objects, other) = match observation {
            Observation::Listed { objects, .. } => (objects, None),
            other => (Vec::new(), Some(other)),
        };
        objects.into_iter().map(Observation::Applied).chain(other)
    });
    std::iter::from_fn(move || {
        let part: Vec<Observation> = single.by_ref().take(TOGETHER).collect();
        (!part.is_empty()).then_some(part)
    })
}

/// The facts about a pod at the time of a decision.
#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    /// The scheduler that places it.
    scheduler: Option<String>,
    /// The last report of that scheduler.
    reported: Option<String>,
}

impl ServedFront for Watch {
    const VOCABULARY: Vocabulary = Vocabulary::Pods;

    type DecisionFacts = PodFacts;

    fn decision_facts(&self, _: &Scheduler, request: &RequestId) -> PodFacts {
        let pod = self.pending_pod(request);
        PodFacts {
            scheduler: pod.and_then(|pod| pod.scheduler.clone()),
            reported: pod.and_then(|pod| pod.reported.clone()),
        }
    }

    fn slot_names(_: Option<&RequestId>, _: Option<&Name>) -> SlotNames {
        SlotNames::default()
    }

    fn start_failure(&self, _: &Scheduler, _: &RequestId) -> Option<String> {
        None
    }

    fn gauges(&self, scheduler: &Scheduler, now: Millis) -> Box<dyn FrontGauges> {
        Box::new(gauges::PodGauges::copy(self, scheduler, now))
    }
}

/// The state that handlers share.
#[derive(Clone)]
pub(crate) struct PodsState(Arc<Shared>);

struct Shared {
    engine: OnceLock<Engine<Watch>>,
    decisions: Arc<Decisions<PodFacts>>,
    requests: Arc<RequestLog<PodFacts>>,
    feed: Feed,
}

impl PodsState {
    fn engine(&self) -> Answer<&Engine<Watch>> {
        let starting = || {
            let detail = "the cluster is being listed; try again";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", detail)
        };
        self.0.engine.get().ok_or_else(starting)
    }
}

/// The part of a server that only the guard has.
#[derive(Clone, Debug)]
pub struct Guarding {
    /// Plimsoll's own namespace, which cannot be guarded.
    pub namespace: Name,
    pub counters: GuardCounters,
}

/// The choices of a server of a cluster.
pub struct ClusterServer {
    pub reading: Reading,
    pub settings: Settings,
    /// `None` if bindings are not checked.
    pub guarding: Option<Guarding>,
    /// The condition under which the record of holders is kept.
    pub records: RecordKeeping,
    /// The directory with the history; `None` without one.
    pub history: Option<PathBuf>,
    /// Asked about callers.
    pub reviewer: Arc<dyn Reviewer>,
}

/// Returns the server of a cluster. `list` lists everything once, on a blocking thread, while the
/// server answers that it is not ready; `follow` is called with the running engine.
pub fn service(
    server: ClusterServer,
    list: impl FnOnce() -> Result<Vec<Observation>> + Send + 'static,
    follow: impl FnOnce(Engine<Watch>) + Send + 'static,
) -> Service<Watch, Box<dyn Journal>> {
    let ClusterServer { reading, settings, guarding, records, history, reviewer } = server;
    let shared = Shared {
        engine: OnceLock::new(),
        decisions: Arc::default(),
        requests: Arc::default(),
        feed: Feed::default(),
    };
    let state = PodsState(Arc::new(shared));
    let observers = vec![
        state.0.decisions.observer(&state.0.requests),
        state.0.feed.observer(),
        Box::<alerts::AlertLog>::default(),
    ];
    let watch = Watch::new(reading).keeping_records(records);
    let watch = match &guarding {
        Some(guarding) => watch.with_own_namespace(guarding.namespace.clone()),
        None => watch,
    };
    let data = history.clone();
    let rebuild = move || {
        let history = history.as_deref().map(HistoryJournal::open).transpose()?;
        let learnt = list()?;
        let mut clock = Clock::after(history.as_ref().map_or(Millis(0), HistoryJournal::last));
        let mut host = Host::new(watch, settings);
        for part in in_parts(learnt) {
            host.with(clock.now(), |watch, core| watch.load(core, part));
            // The lists are the beginning of the ledger, and nothing waits for their records.
            drop((host.batch(), host.committed()));
        }
        let journal: Box<dyn Journal> = match history {
            Some(mut history) => {
                history.begin(&mut host, clock.now());
                Box::new(history)
            }
            None => Box::new(NoJournal),
        };
        Ok(Rebuilt { host, clock, journal })
    };
    Service {
        rebuild: Box::new(rebuild),
        observers,
        routes: Box::new(move |engine, guard| {
            // Only the first counts; there is one ledger.
            let _ = state.0.engine.set(engine.clone());
            follow(engine);
            Ok(routes::routes(state, guard))
        }),
        counters: Box::new(move |registry| {
            if let Some(guarding) = guarding {
                guarding.counters.register(registry);
            }
        }),
        announce: |_| (),
        data,
        reviewer: Some(reviewer),
    }
}
