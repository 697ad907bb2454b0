//! The event stream: the records of the journal, live and from where a reader stopped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::drive::Record;
use plimsoll_core::event::Operation;
use plimsoll_core::front::Front;
use plimsoll_core::ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender, WeakSender};
use utoipa::ToSchema;

use super::api::AppState;
use plimsoll_api::rows::{Time, time};
use plimsoll_engine::engine::{Durable, Observer};

/// The records buffered for a slow reader. Beyond it, the reader is notified and reads the journal.
const BUFFERED: usize = 4096;
/// The records read from the journal at once.
const AT_ONCE: usize = 500;

/// Records as they become durable.
pub(crate) struct Feed {
    /// Handed to the observer, so that the feed ends when the thread that decides does.
    sender: Mutex<Option<Sender<Arc<Record>>>>,
    readers: WeakSender<Arc<Record>>,
}

impl Default for Feed {
    fn default() -> Self {
        let (sender, _) = broadcast::channel(BUFFERED);
        Feed { readers: sender.downgrade(), sender: Mutex::new(Some(sender)) }
    }
}

impl Feed {
    /// Returns the observer that fills the feed. Only the first one does.
    pub(crate) fn observer<F: Front>(&self) -> Box<dyn Observer<F>> {
        Box::new(Filler(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take()))
    }

    /// Subscribes to records from now on; `None` once the server shuts down.
    fn subscribe(&self) -> Option<Receiver<Arc<Record>>> {
        self.readers.upgrade().map(|sender| sender.subscribe())
    }
}

struct Filler(Option<Sender<Arc<Record>>>);

impl<F: Front> Observer<F> for Filler {
    fn durable(&mut self, durable: &Durable<'_, F>) {
        let Some(sender) = self.0.as_ref().filter(|sender| sender.receiver_count() > 0) else {
            return;
        };
        for record in durable.records {
            // The last reader may just have gone.
            let _ = sender.send(Arc::new(record.clone()));
        }
    }
}

/// From where on to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// New records only.
    Now,
    /// Everything that the journal has.
    Beginning,
    /// Records after this one.
    After(u64),
}

/// A message to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A record.
    Record(Box<EventRow>),
    /// Something is missing, or was read too slowly.
    Lagged(LaggedRow),
}

/// A reader: first the journal's records, then live ones, without a gap or a duplicate.
pub(crate) struct Reader {
    app: AppState,
    live: Receiver<Arc<Record>>,
    /// The number of the record that comes next; none where it begins with the oldest there is.
    next: Option<u64>,
    catching_up: bool,
    waiting: VecDeque<Message>,
}

impl Reader {
    /// Begins to read; `None` when nothing will come any more.
    pub(crate) async fn start(
        app: AppState,
        from: From,
    ) -> Result<Option<Reader>, super::api::Problem> {
        // Live first and the journal then: what comes between is in both, and told once.
        let Some(live) = app.feed().subscribe() else { return Ok(None) };
        let span = app.history(plimsoll_engine::store::History::span).await?;
        let mut waiting = VecDeque::new();
        let to_come = span.map_or(0, |(_, newest)| newest.saturating_add(1));
        let (next, catching_up) = match from {
            From::Now => (Some(to_come), false),
            From::Beginning => (None, true),
            From::After(after) if after >= to_come => {
                waiting.push_back(Message::Lagged(LaggedRow::ahead(after)));
                (Some(to_come), false)
            }
            From::After(after) => (Some(after.saturating_add(1)), true),
        };
        Ok(Some(Reader { app, live, next, catching_up, waiting }))
    }

    /// Returns the next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(told) = self.waiting.pop_front() {
                return Some(told);
            }
            if self.catching_up {
                let after = self.next.and_then(|next| next.checked_sub(1));
                let records =
                    self.app.history(move |history| history.records(after, AT_ONCE)).await.ok()?;
                self.catching_up = !records.is_empty();
                records.iter().for_each(|record| self.tell(record));
                continue;
            }
            match self.live.recv().await {
                Ok(record) => self.tell(&record),
                Err(RecvError::Lagged(missed)) => {
                    self.waiting.push_back(Message::Lagged(LaggedRow::slow(missed)));
                    self.catching_up = true;
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn tell(&mut self, record: &Record) {
        let Some(missed) = record.seq.checked_sub(self.next.unwrap_or(record.seq)) else { return };
        // The records between were removed from the journal since this reader left, or while it was
        // slow.
        if missed > 0 {
            self.waiting.push_back(Message::Lagged(LaggedRow::pruned(missed)));
        }
        self.next = Some(record.seq.saturating_add(1));
        self.waiting.push_back(Message::Record(Box::new(EventRow::of(record))));
    }
}

/// A record of the journal: what happened, what was decided, and what changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct EventRow {
    /// The record's number, which is the event's id.
    pub(crate) seq: u64,
    /// When it happened.
    pub(crate) created: Time,
    /// The name of the event, such as `submit` or `started`.
    pub(crate) event: String,
    pub(crate) decisions: Vec<DecidedRow>,
    /// Changes, in order.
    pub(crate) changes: Vec<ChangeRow>,
}

/// A decision as a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct DecidedRow {
    /// Its id, for `/api/v1/scheduler/decisions/{id}`.
    pub(crate) id: String,
    /// The model.
    pub(crate) model: String,
    /// The slot.
    pub(crate) slot_id: String,
    /// True if it was placed.
    pub(crate) placed: bool,
    /// The runner chosen, or that of the nearest miss.
    pub(crate) runner_id: Option<String>,
    /// The answer in one sentence.
    pub(crate) summary: String,
}

/// One change of the ledger or of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ChangeRow {
    /// The kind of change: `hold`, `restage`, `drop`, `drop_charges`, `raise`, `act`, `claim`,
    /// `measure`, `promise`, `unpromise`, `put_node`, `drop_node`, `enqueue`, `dequeue`,
    /// `clear_failures` or `configure`.
    pub(crate) op: String,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// The slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slot_id: Option<String>,
    /// The runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runner_id: Option<String>,
    /// The GPU, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u64>,
    /// The amount, if the change is about memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// The stage that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stage: Option<String>,
}

/// That a reader does not get everything, or gets it late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LaggedRow {
    /// The number of missed records.
    pub(crate) missed: u64,
    /// The cause, and what follows.
    pub(crate) reason: String,
}

impl LaggedRow {
    fn slow(missed: u64) -> Self {
        let reason = "these were read too slowly; they follow from the journal".to_string();
        LaggedRow { missed, reason }
    }

    fn pruned(missed: u64) -> Self {
        let reason = "the journal does not go back so far; read the lists again".to_string();
        LaggedRow { missed, reason }
    }

    fn ahead(after: u64) -> Self {
        let reason = format!(
            "record {after} is not here yet, so this is another journal; read the lists again"
        );
        LaggedRow { missed: 0, reason }
    }
}

impl EventRow {
    /// A record as a row; the same whether it comes live or from the journal.
    fn of(record: &Record) -> Self {
        let decided =
            |(index, decision): (usize, &plimsoll_core::drive::DecisionRecord)| DecidedRow {
                id: format!("{}.{index}", record.seq),
                model: decision.request.account.to_string(),
                slot_id: decision.request.name.to_string(),
                placed: decision.summary.is_placed(),
                runner_id: decision.summary.node().map(ToString::to_string),
                summary: decision.summary.to_string(),
            };
        EventRow {
            seq: record.seq,
            created: time(record.now),
            event: record.event.name().to_string(),
            decisions: record.decisions.iter().enumerate().map(decided).collect(),
            changes: record.operations.iter().map(change).collect(),
        }
    }

    /// The name that readers select by.
    pub(crate) fn kind(&self) -> &'static str {
        if self.decisions.is_empty() { "ledger" } else { "decision" }
    }
}

fn change(operation: &Operation) -> ChangeRow {
    match operation {
        Operation::Ledger(operation) => ledger_change(operation),
        Operation::Enqueue(entry) => request_change("enqueue", &entry.request.id),
        Operation::Dequeue(request) => request_change("dequeue", request),
        Operation::ClearFailures(request) => request_change("clear_failures", request),
        Operation::Configure(_) => {
            ChangeRow { op: "configure".to_string(), ..ChangeRow::default() }
        }
    }
}

fn request_change(op: &str, request: &RequestId) -> ChangeRow {
    ChangeRow {
        op: op.to_string(),
        model: Some(request.account.to_string()),
        slot_id: Some(request.name.to_string()),
        ..ChangeRow::default()
    }
}

fn ledger_change(operation: &ledger::Operation) -> ChangeRow {
    let request = operation.request();
    ChangeRow {
        op: operation.kind().name().to_string(),
        model: request.map(|request| request.account.to_string()),
        slot_id: request.map(|request| request.name.to_string()),
        runner_id: operation.node().map(ToString::to_string),
        index: operation.ordinal().map(u64::from),
        bytes: operation.bytes().map(Bytes::get),
        stage: operation.stage().map(|stage| stage.name().to_string()),
    }
}
