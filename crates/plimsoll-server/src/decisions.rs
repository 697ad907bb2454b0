//! Recent decisions in full, for any front end. The oldest are dropped first; of those, the journal
//! has a summary.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_api::explanation::{self, PromisedRow};
use plimsoll_core::decide::Decision;
use plimsoll_core::drive::{Output, Record};
use plimsoll_core::event::{Answer, Effect};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};
use plimsoll_engine::engine::{Decided, Observer};
use plimsoll_engine::store::DecisionId;
use plimsoll_engine::worker::Worker;

use super::schedulerlog::RequestLog;
use super::served::ServedFront;

/// The most decisions that are kept in full.
const DECISIONS_MOST: usize = 1000;
/// The most bytes of all of them, counted as if no decision shared a row with another.
const BYTES_MOST: usize = 128 << 20;
/// The most batches of decisions that wait to be dropped.
const DROPPED_MOST: usize = 64;
/// The estimated size of one verdict on one node.
const VERDICT_BYTES: usize = 1 << 10;

/// A decision in full, with its consequences.
#[derive(Debug)]
pub(crate) struct CachedDecision<D> {
    pub(crate) id: DecisionId,
    pub(crate) at: Millis,
    /// The decision, with references to the rows that it read.
    pub(crate) decision: Decision,
    /// The digest of everything that the decision saw.
    pub(crate) digest: u64,
    /// The answer, if it did not place the request.
    pub(crate) answer: Option<Answer>,
    pub(crate) evictions: Vec<Eviction>,
    /// The placement that is promised to the request.
    pub(crate) promised: Option<PromisedRow>,
    /// The front end's facts at the time of the decision.
    pub(crate) facts: D,
    /// Its estimated size.
    pub(crate) bytes: usize,
}

/// A holder that was stopped to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Eviction {
    pub(crate) victim: RequestId,
    pub(crate) node: Name,
}

/// Returns the decisions of one batch, in order. Rows are shared, so that caching costs little.
fn decisions_of<'a, F: ServedFront>(
    batch: &'a Decided<'_, F>,
) -> impl Iterator<Item = CachedDecision<F::DecisionFacts>> + 'a {
    let pairs = batch.records.iter().zip(batch.outputs);
    pairs.flat_map(move |(record, output)| {
        debug_assert_eq!(record.seq, output.seq, "records and outputs are in the same order");
        let decided = (0_u32..).zip(&output.outcome.decisions);
        decided.map(move |(index, decision)| cached(batch, record, output, index, decision))
    })
}

fn cached<F: ServedFront>(
    batch: &Decided<'_, F>,
    record: &Record,
    output: &Output,
    index: u32,
    decision: &Decision,
) -> CachedDecision<F::DecisionFacts> {
    let ledger = batch.scheduler.ledger();
    let answer = unplaced_answer(output, &decision.request);
    let waits_for = match &answer {
        Some(Answer::Pending { promised, .. }) => promised.clone(),
        _ => Vec::new(),
    };
    let written = record.decisions.get(index as usize);
    let verdicts = decision.shapes.len() * ledger.node_slots();
    CachedDecision {
        id: DecisionId { seq: record.seq, index },
        at: record.now,
        decision: decision.clone(),
        digest: written.map_or(0, |written| written.digest),
        answer,
        evictions: evictions(output, &waits_for),
        promised: promised(ledger, &decision.request, &waits_for),
        facts: batch.front.decision_facts(batch.scheduler, &decision.request),
        bytes: VERDICT_BYTES * (verdicts + 1),
    }
}

/// Returns the promise of a decision. The ledger's promise is a later one if it waits for others.
fn promised(ledger: &Ledger, request: &RequestId, waits_for: &[RequestId]) -> Option<PromisedRow> {
    let promised = explanation::promise_on(ledger, ledger.promise_to(request)?);
    let names: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
    Some(promised).filter(|promised| promised.after == names)
}

/// Returns the last answer of a record that does not place the request.
fn unplaced_answer(output: &Output, request: &RequestId) -> Option<Answer> {
    let answers = output.outcome.answers.iter().rev();
    let mut own = answers.filter(|answer| answer.request() == request);
    let is_unplaced =
        |answer: &&Answer| !matches!(answer, Answer::Offered { .. } | Answer::Placed { .. });
    own.find(is_unplaced).cloned()
}

/// Returns the holders, of those that a request waits for, that this record stops.
fn evictions(output: &Output, waits_for: &[RequestId]) -> Vec<Eviction> {
    let wanted: BTreeSet<&RequestId> = waits_for.iter().collect();
    let stops = output.outcome.effects.iter().filter_map(|effect| match effect {
        Effect::Stop { request, node, .. } if wanted.contains(request) => {
            Some(Eviction { victim: request.clone(), node: node.clone() })
        }
        _ => None,
    });
    stops.collect()
}

/// Recent decisions, oldest first.
#[derive(Debug)]
pub(crate) struct Decisions<D> {
    ring: Mutex<Ring<D>>,
}

#[derive(Debug)]
struct Ring<D> {
    decisions: VecDeque<Arc<CachedDecision<D>>>,
    bytes: usize,
}

impl<D> Default for Decisions<D> {
    fn default() -> Self {
        Decisions { ring: Mutex::new(Ring { decisions: VecDeque::new(), bytes: 0 }) }
    }
}

impl<D: Send + Sync + 'static> Decisions<D> {
    /// Returns the observer that fills the history, and the log of requests with the same values.
    pub(crate) fn observer<F: ServedFront<DecisionFacts = D>>(
        self: &Arc<Self>,
        log: &Arc<RequestLog<D>>,
    ) -> Box<dyn Observer<F>> {
        let dropper = Worker::start_low_priority("dropper", DROPPED_MOST, |old: Batch<D>| {
            drop(old);
            ControlFlow::Continue(())
        });
        Box::new(Recorder { decisions: self.clone(), log: log.clone(), dropper: dropper.ok() })
    }

    /// Returns all of them, newest first.
    pub(crate) fn newest_first(&self) -> Vec<Arc<CachedDecision<D>>> {
        self.ring().decisions.iter().rev().cloned().collect()
    }

    pub(crate) fn get(&self, id: DecisionId) -> Option<Arc<CachedDecision<D>>> {
        let ring = self.ring();
        let at = ring.decisions.binary_search_by_key(&id, |cached| cached.id).ok()?;
        Some(ring.decisions[at].clone())
    }

    /// Adds a decision, and returns those that it displaces.
    fn push(&self, cached: Arc<CachedDecision<D>>) -> Batch<D> {
        let mut ring = self.ring();
        ring.bytes += cached.bytes;
        ring.decisions.push_back(cached);
        let mut displaced = Vec::new();
        while ring.is_over_its_limits() {
            let Some(oldest) = ring.decisions.pop_front() else { break };
            ring.bytes -= oldest.bytes;
            displaced.push(oldest);
        }
        displaced
    }

    fn ring(&self) -> MutexGuard<'_, Ring<D>> {
        // A thread that panicked with the lock left whole rows behind.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Ring<D> {
    /// The newest decision is kept, however large it is.
    fn is_over_its_limits(&self) -> bool {
        let count = self.decisions.len();
        count > DECISIONS_MOST || (self.bytes > BYTES_MOST && count > 1)
    }
}

type Batch<D> = Vec<Arc<CachedDecision<D>>>;

struct Recorder<D> {
    decisions: Arc<Decisions<D>>,
    log: Arc<RequestLog<D>>,
    /// Drops the oldest decisions. Each has many rows, and the decision thread must not wait.
    dropper: Option<Worker<Batch<D>>>,
}

impl<F: ServedFront> Observer<F> for Recorder<F::DecisionFacts> {
    fn decided(&mut self, batch: &Decided<'_, F>) {
        let decided: Batch<F::DecisionFacts> = decisions_of(batch).map(Arc::new).collect();
        self.log.record(batch, &decided);
        let displaced: Batch<F::DecisionFacts> =
            decided.into_iter().flat_map(|cached| self.decisions.push(cached)).collect();
        if let Some(dropper) = self.dropper.as_ref().filter(|_| !displaced.is_empty()) {
            // If its queue is full, the decisions are dropped here.
            dropper.hand(displaced);
        }
    }
}
