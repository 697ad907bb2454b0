//! The event stream: the records of the journal, live and from where a reader stopped, and the
//! ends of reservations, live only.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::drive::{DecisionRecord, Record};
use plimsoll_core::event::Operation;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Bytes, Name};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender, WeakSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::api::AppState;
use super::served::ServedFront;
use plimsoll_api::rows::{
    ChangeRow, DecidedRow, EventRow, LaggedRow, RequestRow, ReservationEndedRow, time,
};
use plimsoll_engine::engine::{Decided, Durable, Observer};
use plimsoll_engine::store::DecisionId;
use plimsoll_slots::desk::Desk;

/// The records buffered for a slow reader. Beyond it, the reader is notified and reads the journal.
const BUFFERED: usize = 4096;
/// The records read from the journal at once. Each reader that catches up holds this many.
const AT_ONCE: usize = 50;
/// The most readers. One that does not read holds what is ready for it, up to [`AT_ONCE`] records
/// and the buffers of its connection.
pub(crate) const READERS: usize = 256;

/// Something that has become durable.
#[derive(Clone, Debug)]
enum Published {
    Record(Arc<Record>),
    Ended(Arc<ReservationEndedRow>),
}

/// Records and ends of reservations as they become durable.
pub(crate) struct Feed {
    /// Handed to the observer, so that the feed ends when the thread that decides does.
    sender: Mutex<Option<Sender<Published>>>,
    readers: WeakSender<Published>,
    seats: Arc<Semaphore>,
}

/// The reason why there is no further reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReader {
    /// The server shuts down.
    Ending,
    TooMany,
}

/// A subscription, which counts as a reader until it is dropped.
struct Subscription {
    live: Receiver<Published>,
    _seat: OwnedSemaphorePermit,
}

impl Default for Feed {
    fn default() -> Self {
        let (sender, _) = broadcast::channel(BUFFERED);
        let seats = Arc::new(Semaphore::new(READERS));
        Feed { readers: sender.downgrade(), sender: Mutex::new(Some(sender)), seats }
    }
}

impl Feed {
    /// Returns the observer that fills the feed. Only the first one does.
    pub(crate) fn observer<F: ServedFront>(&self) -> Box<dyn Observer<F>> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::new(Filler { sender, ended: Vec::new() })
    }

    /// Returns a reader of live records only, for a front end whose journal is not kept.
    pub(crate) fn live<F: ServedFront>(&self) -> Result<LiveReader<F>, NoReader> {
        Ok(LiveReader { subscribed: self.subscribe()?, front: std::marker::PhantomData })
    }

    /// Subscribes to what is published from now on.
    fn subscribe(&self) -> Result<Subscription, NoReader> {
        let seat = self.seats.clone().try_acquire_owned().map_err(|_| NoReader::TooMany)?;
        let sender = self.readers.upgrade().ok_or(NoReader::Ending)?;
        Ok(Subscription { live: sender.subscribe(), _seat: seat })
    }
}

/// A reader of live records.
pub(crate) struct LiveReader<F> {
    subscribed: Subscription,
    front: std::marker::PhantomData<fn() -> F>,
}

impl<F: ServedFront> LiveReader<F> {
    /// Returns the next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        match self.subscribed.live.recv().await {
            Ok(Published::Record(record)) => {
                Some(Message::Record(Box::new(event_row::<F>(&record))))
            }
            Ok(Published::Ended(row)) => Some(Message::Ended(row)),
            Err(RecvError::Lagged(missed)) => Some(Message::Lagged(pruned(missed))),
            Err(RecvError::Closed) => None,
        }
    }
}

struct Filler {
    sender: Option<Sender<Published>>,
    /// The reservations that end with the batch that is not durable yet.
    ended: Vec<ReservationEndedRow>,
}

impl Filler {
    /// Returns the sender if there are readers.
    fn wanted(&self) -> Option<&Sender<Published>> {
        self.sender.as_ref().filter(|sender| sender.receiver_count() > 0)
    }
}

impl<F: ServedFront> Observer<F> for Filler {
    fn decided(&mut self, decided: &Decided<'_, F>) {
        self.ended = match self.wanted() {
            Some(_) => decided.front.ended_reservations(decided.scheduler, decided.topics),
            None => Vec::new(),
        };
    }

    fn durable(&mut self, durable: &Durable<'_, F>) {
        let ended = std::mem::take(&mut self.ended);
        let Some(sender) = self.wanted() else { return };
        // The last reader may disconnect meanwhile.
        for record in durable.records {
            let _ = sender.send(Published::Record(Arc::new(record.clone())));
        }
        for row in ended {
            let _ = sender.send(Published::Ended(Arc::new(row)));
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
    /// A reservation that has ended.
    Ended(Arc<ReservationEndedRow>),
    /// Something is missing, or was read too slowly.
    Lagged(LaggedRow),
}

/// A reader: first the journal's records, then live ones, without a gap or a duplicate.
pub(crate) struct Reader {
    app: AppState,
    subscribed: Subscription,
    /// The number of the record that comes next; none where it begins with the oldest there is.
    next: Option<u64>,
    catching_up: bool,
    waiting: VecDeque<Message>,
}

impl Reader {
    /// Begins to read.
    pub(crate) async fn start(app: AppState, from: From) -> Result<Reader, super::api::Problem> {
        // Subscribes before it reads the journal: records in between are in both, and `push` drops
        // the second copy.
        let subscribed = app.feed().subscribe()?;
        let span = app.history(plimsoll_engine::store::History::span).await?;
        let mut waiting = VecDeque::new();
        let to_come = span.map_or(0, |(_, newest)| newest.saturating_add(1));
        let (next, catching_up) = match from {
            From::Now => (Some(to_come), false),
            From::Beginning => (None, true),
            From::After(after) if after >= to_come => {
                waiting.push_back(Message::Lagged(ahead(after)));
                (Some(to_come), false)
            }
            From::After(after) => (Some(after.saturating_add(1)), true),
        };
        Ok(Reader { app, subscribed, next, catching_up, waiting })
    }

    /// Returns the next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            if self.catching_up {
                let after = self.next.and_then(|next| next.checked_sub(1));
                let records =
                    self.app.history(move |history| history.records(after, AT_ONCE)).await.ok()?;
                self.catching_up = !records.is_empty();
                records.iter().for_each(|record| self.push(record));
                continue;
            }
            match self.subscribed.live.recv().await {
                Ok(Published::Record(record)) => self.push(&record),
                Ok(Published::Ended(row)) => return Some(Message::Ended(row)),
                Err(RecvError::Lagged(missed)) => {
                    self.waiting.push_back(Message::Lagged(slow(missed)));
                    self.catching_up = true;
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn push(&mut self, record: &Record) {
        let Some(missed) = record.seq.checked_sub(self.next.unwrap_or(record.seq)) else { return };
        // The records between were removed from the journal since this reader left, or while it was
        // slow.
        if missed > 0 {
            self.waiting.push_back(Message::Lagged(pruned(missed)));
        }
        self.next = Some(record.seq.saturating_add(1));
        self.waiting.push_back(Message::Record(Box::new(event_row::<Desk>(record))));
    }
}

fn slow(missed: u64) -> LaggedRow {
    let reason =
        "the reader is too slow; these events follow from the journal, except ends of reservations";
    let reason = reason.to_string();
    LaggedRow { missed, reason }
}

fn pruned(missed: u64) -> LaggedRow {
    let reason = "these events are no longer in the journal; read the lists again".to_string();
    LaggedRow { missed, reason }
}

fn ahead(after: u64) -> LaggedRow {
    let reason = format!(
        "record {after} does not exist, so the id is of another journal; read the lists again"
    );
    LaggedRow { missed: 0, reason }
}

/// Converts a record; the result is the same whether it comes live or from the journal.
fn event_row<F: ServedFront>(record: &Record) -> EventRow {
    let decisions = (0..).zip(&record.decisions);
    EventRow {
        seq: record.seq,
        created: time(record.now),
        event: record.event.name().to_string(),
        decisions: decisions
            .map(|(index, decision)| {
                decided_row::<F>(DecisionId { seq: record.seq, index }, decision)
            })
            .collect(),
        changes: record.operations.iter().map(change_row::<F>).collect(),
    }
}

fn decided_row<F: ServedFront>(id: DecisionId, decision: &DecisionRecord) -> DecidedRow {
    let node = decision.summary.node();
    DecidedRow {
        id: id.to_string(),
        request: (&decision.request).into(),
        placed: decision.summary.is_placed(),
        node: node.map(ToString::to_string),
        slot: F::slot_names(Some(&decision.request), node),
        summary: decision.summary.to_string(),
    }
}

fn change_row<F: ServedFront>(operation: &Operation) -> ChangeRow {
    let about = |op: &str, request: Option<&RequestId>, node: Option<&Name>| ChangeRow {
        op: op.to_string(),
        request: request.map(RequestRow::from),
        node: node.map(ToString::to_string),
        slot: F::slot_names(request, node),
        ..ChangeRow::default()
    };
    match operation {
        Operation::Ledger(operation) => ChangeRow {
            index: operation.ordinal().map(u64::from),
            bytes: operation.bytes().map(Bytes::get),
            stage: operation.stage().map(|stage| stage.name().to_string()),
            ..about(operation.kind().name(), operation.request(), operation.node())
        },
        Operation::Enqueue(entry) => about("enqueue", Some(&entry.request.id), None),
        Operation::Dequeue(request) => about("dequeue", Some(request), None),
        Operation::ClearFailures(request) => about("clear_failures", Some(request), None),
        Operation::Evicted { .. } => about("evicted", None, None),
        Operation::Configure(_) => about("configure", None, None),
    }
}
