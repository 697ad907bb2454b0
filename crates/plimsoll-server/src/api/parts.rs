//! What the handlers share: the way to the thread that decides, the journal, and what was seen lately.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::http::StatusCode;

use super::problem::{Answer, Problem};
use crate::decisions::Decisions;
use crate::events::Feed;
use crate::schedulerlog::{SchedulerLog, Settings};
use crate::{BoxedObserver, Engine};
use plimsoll_engine::store::{History, StoreError};

/// What the handlers share. Made before the ledger is rebuilt, and opened once it is: until then everything is 503.
#[derive(Clone)]
pub(crate) struct Parts(Arc<Shared>);

struct Shared {
    opened: OnceLock<Opened>,
    decisions: Arc<Decisions>,
    log: Arc<SchedulerLog>,
    feed: Feed,
}

struct Opened {
    engine: Engine,
    history: Arc<Mutex<History>>,
}

impl Parts {
    /// Nothing is known yet, and nobody is let in.
    pub(crate) fn new(log: Settings) -> Self {
        Parts(Arc::new(Shared {
            opened: OnceLock::new(),
            decisions: Arc::default(),
            log: Arc::new(SchedulerLog::new(log)),
            feed: Feed::default(),
        }))
    }

    /// Those who must watch what is made durable, for [`Engine::start`].
    pub(crate) fn observers(&self) -> Vec<BoxedObserver> {
        vec![self.0.decisions.observer(&self.0.log), self.0.feed.observer()]
    }

    /// The ledger is rebuilt: requests are served from here on.
    pub(crate) fn open(&self, engine: Engine, history: History) {
        let history = Arc::new(Mutex::new(history));
        // Only the first counts; there is one ledger.
        let _ = self.0.opened.set(Opened { engine, history });
    }

    /// The way to the thread that decides.
    pub(crate) fn engine(&self) -> Answer<&Engine> {
        self.opened().map(|opened| &opened.engine)
    }

    /// Looks at decisions of late, and at why named work is where it is. The thread that decides fills both, and so it looks: the
    /// answer waits until all that was seen is durable.
    pub(crate) async fn kept<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Decisions, &SchedulerLog) -> T + Send + 'static,
    ) -> Answer<T> {
        let shared = self.0.clone();
        Ok(self.engine()?.read(move |_, _| look(&shared.decisions, &shared.log)).await?)
    }

    /// How logs of named work are kept.
    pub(crate) fn log_settings(&self) -> Settings {
        self.0.log.settings()
    }

    /// What is made durable, as it happens.
    pub(crate) fn feed(&self) -> &Feed {
        &self.0.feed
    }

    /// Asks the journal, beside the threads that serve: a disk may take its time.
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
