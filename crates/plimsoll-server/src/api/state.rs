//! The state that handlers share: the engine, the journal, and recent decisions.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::http::StatusCode;

use super::logs::LogRelay;
use super::problem::{Answer, Problem};
use crate::SlotEngine as Engine;
use crate::activity::Activity;
use crate::decisions::Decisions;
use crate::events::Feed;
use crate::metrics::slots::RejectionCounter;
use crate::schedulerlog::clients::ClientLog;
use crate::schedulerlog::{RequestLog, Settings};
use plimsoll_engine::engine::Observer;
use plimsoll_engine::store::{History, StoreError};
use plimsoll_slots::desk::Desk;
use plimsoll_slots::memory::Need;

/// The state that handlers share. It exists before the ledger is rebuilt; until it is opened, every
/// request gets 503.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Shared>);

struct Shared {
    opened: OnceLock<Opened>,
    decisions: Arc<Decisions<Vec<Need>>>,
    requests: Arc<RequestLog<Vec<Need>>>,
    log: Arc<ClientLog>,
    feed: Feed,
    rejections: RejectionCounter,
    activity: Activity,
    logs: LogRelay,
}

struct Opened {
    engine: Engine,
    history: Arc<Mutex<History>>,
}

impl AppState {
    /// Creates the state of a server whose ledger is not rebuilt yet.
    pub(crate) fn new(log: Settings) -> Self {
        let requests: Arc<RequestLog<_>> = Arc::default();
        AppState(Arc::new(Shared {
            opened: OnceLock::new(),
            decisions: Arc::default(),
            log: Arc::new(ClientLog::new(log, requests.clone())),
            requests,
            feed: Feed::default(),
            rejections: RejectionCounter::default(),
            activity: Activity::default(),
            logs: LogRelay::default(),
        }))
    }

    /// Returns the observers of durable batches, for [`Engine::start`].
    pub(crate) fn observers(&self) -> Vec<Box<dyn Observer<Desk>>> {
        let shared = &self.0;
        vec![
            shared.decisions.observer(&shared.requests),
            shared.log.observer(),
            shared.feed.observer(),
            Box::new(shared.activity.watch()),
        ]
    }

    /// Opens the state once the ledger is rebuilt; requests are served from here on.
    pub(crate) fn open(&self, engine: Engine, history: History) {
        let history = Arc::new(Mutex::new(history));
        // Only the first counts; there is one ledger.
        let _ = self.0.opened.set(Opened { engine, history });
    }

    /// Returns the engine, or 503 while the ledger is rebuilt.
    pub(crate) fn engine(&self) -> Answer<&Engine> {
        self.opened().map(|opened| &opened.engine)
    }

    /// Reads recent decisions and scheduler logs. The decision thread fills both, so the read runs
    /// there, and its answer waits until everything it saw is durable.
    pub(crate) async fn recent<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Decisions<Vec<Need>>, &ClientLog) -> T + Send + 'static,
    ) -> Answer<T> {
        let shared = self.0.clone();
        Ok(self.engine()?.read(move |_, _| look(&shared.decisions, &shared.log)).await?)
    }

    /// Returns the settings of the scheduler log.
    pub(crate) fn log_settings(&self) -> Settings {
        self.0.log.settings()
    }

    /// Returns the feed of durable records.
    pub(crate) fn feed(&self) -> &Feed {
        &self.0.feed
    }

    /// Returns the requests for output on their way to runners.
    pub(crate) fn logs(&self) -> &LogRelay {
        &self.0.logs
    }

    /// Returns what happened to slots and runners.
    pub(crate) fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Returns the counter of rejected requests.
    pub(crate) fn rejections(&self) -> &RejectionCounter {
        &self.0.rejections
    }

    /// Queries the journal on a blocking thread, because a disk may be slow.
    pub(crate) async fn history<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&History) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        let history = self.opened()?.history.clone();
        let asked = tokio::task::spawn_blocking(move || {
            // A question that panicked left the connection as it was: it only reads.
            ask(&history.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let failed = |detail: String| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "journal_unreadable", detail)
        };
        asked
            .await
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))
    }

    fn opened(&self) -> Answer<&Opened> {
        let detail = "the ledger is being rebuilt from the journal; try again";
        self.0
            .opened
            .get()
            .ok_or_else(|| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", detail))
    }
}
