//! The term of this process: from the mandate to the front end, and errands back and forth.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::units::Millis;
use plimsoll_engine::engine::{Engine, NoAnswer};
use plimsoll_kube::live::{Errand, ErrandOutcome, Leadership, Term, Watch};
use plimsoll_server::pods::{GuardCounters, Leads};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::access::Connection;
use crate::errands::carry_out;
use crate::holders::HoldersStore;
use crate::lease::{Mandate, TIMING};
use crate::watch::Sight;

/// The interval at which errands are taken that no answer brought.
const INTERVAL: Duration = Duration::from_millis(100);

/// Errands that are carried out at the same time.
const AT_ONCE: usize = 32;

/// The pause before a call to a busy engine is repeated.
const BUSY: Duration = Duration::from_millis(10);

/// The leader's side of the guard in one process.
pub(super) struct Leader {
    connection: Connection,
    holders: Arc<HoldersStore>,
    engine: Engine<Watch>,
    counters: GuardCounters,
    sight: Sight,
    /// The term in which this process decides; `None` while it does not.
    deciding: watch::Sender<Option<u64>>,
    limit: Arc<Semaphore>,
    errands: JoinSet<Option<Turn>>,
    term: Option<u64>,
    until: Option<Instant>,
}

/// The result of a call to the front end.
struct Turn {
    errands: Vec<Errand>,
    leadership: Leadership,
}

impl Leader {
    pub(super) fn new(
        connection: Connection,
        holders: Arc<HoldersStore>,
        engine: Engine<Watch>,
        counters: GuardCounters,
        sight: Sight,
        deciding: watch::Sender<Option<u64>>,
    ) -> Leader {
        let limit = Arc::new(Semaphore::new(AT_ONCE));
        let errands = JoinSet::new();
        Leader {
            connection,
            holders,
            engine,
            counters,
            sight,
            deciding,
            limit,
            errands,
            term: None,
            until: None,
        }
    }

    /// Follows the mandates until the engine or the lease has ended.
    pub(super) async fn run(mut self, mut mandates: watch::Receiver<Option<Mandate>>) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let turn = tokio::select! {
                changed = mandates.changed() => match changed {
                    Ok(()) => {
                        let mandate = *mandates.borrow_and_update();
                        self.follow(mandate).await
                    }
                    Err(_) => return,
                },
                Some(done) = self.errands.join_next() => done.ok().flatten(),
                _ = interval.tick() => {
                    let over = self.until.is_some_and(|until| until <= Instant::now());
                    if over { self.follow(None).await } else { self.current_turn().await }
                }
            };
            match turn {
                Some(turn) => self.continue_with(turn),
                None if self.engine.is_ending() => return,
                None => {}
            }
        }
    }

    async fn current_turn(&self) -> Option<Turn> {
        call(&self.engine, |_, _| ()).await
    }

    /// Begins, renews or ends the term.
    async fn follow(&mut self, mandate: Option<Mandate>) -> Option<Turn> {
        let mandate = mandate.filter(|mandate| mandate.until > Instant::now());
        let number = mandate.map(|mandate| u64::from(mandate.term.0));
        let known = std::mem::replace(&mut self.term, number);
        self.until = mandate.map(|mandate| mandate.until);
        let Some((mandate, number)) = mandate.zip(number) else {
            if known.is_some() {
                tracing::warn!(term = known, "this replica no longer decides");
                return call(&self.engine, |watch, _| watch.end_term()).await;
            }
            return None;
        };
        // The lease was read and written after `renewed`, so that the API server was reachable.
        let renewed = mandate.until.checked_sub(TIMING.decides_for);
        let renewed = renewed.map(|renewed| renewed.elapsed());
        let seen = renewed.filter(|_| self.sight.is_clear());
        let left = mandate.until.saturating_duration_since(Instant::now());
        let is_new = known != Some(number);
        if is_new {
            tracing::info!(term = number, "this replica has the lease");
        }
        call(&self.engine, move |watch, core| {
            let before = |ago: Duration| Millis(core.now().0.saturating_sub(millis(ago)));
            let until = Millis(core.now().0.saturating_add(millis(left)));
            if is_new {
                watch.begin_term(Term { number, until });
            } else {
                renewed.into_iter().for_each(|ago| watch.confirm_lease(before(ago)));
                watch.renew_term(until);
            }
            seen.into_iter().for_each(|ago| watch.confirm_sight(before(ago)));
        })
        .await
    }

    fn continue_with(&mut self, turn: Turn) {
        let decides = (turn.leadership == Leadership::Leading).then_some(self.term).flatten();
        let is_news = self.deciding.send_if_modified(|known| {
            let is_news = *known != decides;
            *known = decides;
            is_news
        });
        if is_news {
            self.counters.leads(if decides.is_some() { Leads::Yes } else { Leads::No });
            if let Some(term) = decides {
                tracing::info!(term, "this replica decides");
            }
        }
        for errand in turn.errands {
            let (connection, engine) = (self.connection.clone(), self.engine.clone());
            let (limit, counters) = (self.limit.clone(), self.counters.clone());
            let holders = self.holders.clone();
            self.errands.spawn(async move {
                let _permit = limit.acquire_owned().await.ok()?;
                let outcome = carry_out(&connection, &holders, &errand).await;
                counters.errand(kind(&errand), result(&outcome));
                call(&engine, move |watch, core| watch.errand_done(core, errand, outcome)).await
            });
        }
    }
}

/// Calls the front end, and takes what is to be done next.
async fn call(
    engine: &Engine<Watch>,
    work: impl FnOnce(&mut Watch, &mut plimsoll_core::front::Core<'_>) + Send + 'static,
) -> Option<Turn> {
    // The work is done once: a busy engine did not take it.
    let work = Arc::new(std::sync::Mutex::new(Some(work)));
    loop {
        let work = work.clone();
        let turn = engine.write(move |watch, core| {
            let work = work.lock().ok().and_then(|mut work| work.take());
            if let Some(work) = work {
                work(watch, core);
            }
            Turn { errands: watch.take_errands(), leadership: watch.leadership() }
        });
        match turn.await {
            Ok(turn) => return Some(turn),
            Err(NoAnswer::Busy) => tokio::time::sleep(BUSY).await,
            Err(NoAnswer::Stopped) => return None,
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn kind(errand: &Errand) -> &'static str {
    match errand {
        Errand::List { .. } => "list",
        Errand::Touch { .. } => "touch",
        Errand::Read { .. } => "read",
    }
}

fn result(outcome: &ErrandOutcome) -> &'static str {
    match outcome {
        ErrandOutcome::Listed(_) | ErrandOutcome::Object(_) => "done",
        ErrandOutcome::Conflict => "conflict",
        ErrandOutcome::Gone => "gone",
        ErrandOutcome::Unknown => "failed",
    }
}
