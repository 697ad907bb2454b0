//! Decisions of late, in full: so many and so large together, the oldest go first. What is older the journal has in few words.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::decide::Decision;
use plimsoll_core::drive::{Output, Record};
use plimsoll_core::event::{Answer, Effect};
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Desk, DeskView};
use plimsoll_slots::memory::Need;

use super::api::promised;
use super::schedulerlog::SchedulerLog;
use plimsoll_api::explanation::PromisedRow;
use plimsoll_api::rows::EvictionRow;
use plimsoll_engine::engine::{Decided, Observer};
use plimsoll_engine::store::DecisionId;
use plimsoll_engine::worker::Worker;

/// So many decisions are kept in full at most.
const KEPT_MOST: usize = 1000;
/// So many bytes are kept at most, counted as if no decision shared a row with another.
const BYTES_MOST: usize = 128 << 20;
/// So many batches of decisions may wait to be let go.
const SWEPT_MOST: usize = 64;
/// What one verdict on one node is taken to weigh.
const VERDICT_BYTES: usize = 1 << 10;

/// A decision in full, with what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Which one.
    pub(crate) id: DecisionId,
    /// When it was made.
    pub(crate) at: Millis,
    /// All that it was made from.
    pub(crate) decision: Decision,
    /// The digest of all that was seen.
    pub(crate) digest: u64,
    /// The answer that did not place the request.
    pub(crate) answer: Option<Answer>,
    /// Who was asked to go for it.
    pub(crate) evictions: Vec<EvictionRow>,
    /// The place that will be there for it.
    pub(crate) promised: Option<PromisedRow>,
    /// What the model needed then, and who said so.
    pub(crate) needs: Vec<Need>,
    /// What it is taken to weigh.
    pub(crate) bytes: usize,
}

/// The decisions of one batch, in order. What a decision saw is shared, so that keeping it costs little.
pub(crate) fn of_batch<'a>(batch: &'a Decided<'_, Desk>) -> impl Iterator<Item = Kept> + 'a {
    let pairs = batch.records.iter().zip(batch.outputs);
    pairs.flat_map(move |(record, output)| {
        debug_assert_eq!(
            record.seq, output.seq,
            "a record and what came of it stand at the same place"
        );
        let decided = (0_u32..).zip(&output.outcome.decisions);
        decided.map(move |(index, decision)| {
            kept(batch.front.view(batch.scheduler), record, output, index, decision)
        })
    })
}

fn kept(
    desk: DeskView<'_>,
    record: &Record,
    output: &Output,
    index: u32,
    decision: &Decision,
) -> Kept {
    let answer = answer_to(output, &decision.request);
    let waits_for = match &answer {
        Some(Answer::Pending { promised, .. }) => promised.clone(),
        _ => Vec::new(),
    };
    let written = record.decisions.get(index as usize);
    let verdicts = decision.shapes.len() * desk.scheduler().ledger().node_slots();
    // What the ledger promises now was promised by this decision, unless another one came between.
    let names: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
    let promised = promised(desk, &decision.request).filter(|promised| promised.after == names);
    Kept {
        id: DecisionId { seq: record.seq, index },
        at: record.now,
        decision: decision.clone(),
        digest: written.map_or(0, |written| written.digest),
        answer,
        evictions: evictions(output, &waits_for),
        promised,
        needs: needs(desk, &decision.request),
        bytes: VERDICT_BYTES * (verdicts + 1),
    }
}

/// What the model of a slot needs, as it was declared when the slot was made; as it is declared now, where the slot was refused at
/// once and is not there any more.
fn needs(desk: DeskView<'_>, request: &RequestId) -> Vec<Need> {
    let made_from = desk.slot(&request.name).and_then(|slot| slot.made_from.as_ref());
    made_from
        .or_else(|| desk.model(&request.account))
        .map(|model| desk.needs(model))
        .unwrap_or_default()
}

/// Returns the last answer of a record that does not place the request.
fn answer_to(output: &Output, request: &RequestId) -> Option<Answer> {
    let answers = output.outcome.answers.iter().rev();
    let mut own = answers.filter(|answer| answer.request() == request);
    let is_unplaced =
        |answer: &&Answer| !matches!(answer, Answer::Offered { .. } | Answer::Placed { .. });
    own.find(is_unplaced).cloned()
}

/// Those among whom somebody waits for who were asked to go by this very record.
fn evictions(output: &Output, waits_for: &[RequestId]) -> Vec<EvictionRow> {
    let wanted: BTreeSet<&RequestId> = waits_for.iter().collect();
    let stops = output.outcome.effects.iter().filter_map(|effect| match effect {
        Effect::Stop { request, node, .. } if wanted.contains(request) => Some((request, node)),
        _ => None,
    });
    let row = |(request, node): (&RequestId, &plimsoll_core::units::Name)| EvictionRow {
        slot_id: request.name.to_string(),
        model: request.account.to_string(),
        runner_id: Some(node.to_string()),
    };
    stops.map(row).collect()
}

/// Decisions of late, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Arc<Kept>>,
    bytes: usize,
}

impl Decisions {
    /// Somebody who fills it, and the scheduler log with the same rows.
    pub(crate) fn observer(self: &Arc<Self>, log: &Arc<SchedulerLog>) -> Box<dyn Observer<Desk>> {
        let sweeper = Worker::start_low_priority("sweeper", SWEPT_MOST, |gone: Vec<Arc<Kept>>| {
            drop(gone);
            ControlFlow::Continue(())
        });
        Box::new(Filler { decisions: self.clone(), log: log.clone(), sweeper: sweeper.ok() })
    }

    /// All of them, newest first.
    pub(crate) fn newest_first(&self) -> Vec<Arc<Kept>> {
        self.ring().kept.iter().rev().cloned().collect()
    }

    /// One of them.
    pub(crate) fn get(&self, id: DecisionId) -> Option<Arc<Kept>> {
        let ring = self.ring();
        let at = ring.kept.binary_search_by_key(&id, |kept| kept.id).ok()?;
        Some(ring.kept[at].clone())
    }

    /// Keeps one more, and gives back those that make room for it.
    fn push(&self, kept: Arc<Kept>) -> Vec<Arc<Kept>> {
        let mut ring = self.ring();
        ring.bytes += kept.bytes;
        ring.kept.push_back(kept);
        let mut gone = Vec::new();
        while ring.kept.len() > KEPT_MOST || (ring.bytes > BYTES_MOST && ring.kept.len() > 1) {
            let Some(oldest) = ring.kept.pop_front() else { break };
            ring.bytes -= oldest.bytes;
            gone.push(oldest);
        }
        gone
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // One who panicked while it was locked left whole rows behind.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Filler {
    decisions: Arc<Decisions>,
    log: Arc<SchedulerLog>,
    /// Lets the oldest decisions go: each is made of many rows, and the thread that decides has better things to do.
    sweeper: Option<Worker<Vec<Arc<Kept>>>>,
}

impl Observer<Desk> for Filler {
    fn decided(&mut self, batch: &Decided<'_, Desk>) {
        let decided: Vec<Arc<Kept>> = of_batch(batch).map(Arc::new).collect();
        self.log.see(batch, &decided);
        let gone: Vec<Arc<Kept>> =
            decided.into_iter().flat_map(|kept| self.decisions.push(kept)).collect();
        if let Some(sweeper) = self.sweeper.as_ref().filter(|_| !gone.is_empty()) {
            // Where too much waits to be swept, it is done here.
            sweeper.hand(gone);
        }
    }
}
