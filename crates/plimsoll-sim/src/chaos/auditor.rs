//! Follows the journal record by record with two independent states: the witness's accounts, and a
//! scheduler that is built from the recorded operations alone.

use std::collections::BTreeSet;

use plimsoll_core::breach::Breach;
use plimsoll_core::charge::{Activity, Stage};
use plimsoll_core::drive::Record;
use plimsoll_core::event::{Answer, Effect, Event, Outcome, Settings};
use plimsoll_core::ledger::{Ledger, Promise};
use plimsoll_core::request::{Eviction, RequestId};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::Name;

use super::Sabotage;
use super::counters::{Counter, Counters};
use crate::witness::Witness;

/// Records between two comparisons of all accounts.
const COMPARE_EVERY: u64 = 64;
/// The record that a blind witness does not see.
const UNSEEN_RECORD: u64 = 500;

/// The witness and the scheduler as the journal describes them.
#[derive(Debug)]
pub(crate) struct Auditor {
    witness: Witness,
    /// The front end makes several events of one call. This scheduler has the state after each.
    recorded: Scheduler,
    sabotage: Option<Sabotage>,
}

impl Auditor {
    pub(crate) fn new(settings: Settings, sabotage: Option<Sabotage>) -> Self {
        let (witness, recorded) = (Witness::default(), Scheduler::new(settings));
        Auditor { witness, recorded, sabotage }
    }

    /// Follows a durable record; returns what is wrong with it.
    pub(crate) fn follow(
        &mut self,
        record: &Record,
        outcome: &Outcome,
        counters: &mut Counters,
    ) -> Vec<String> {
        count(counters, &record.event, outcome);
        for operation in &record.operations {
            self.recorded.recover_next(operation);
        }
        let mut objections = Vec::new();
        let is_unseen =
            self.sabotage == Some(Sabotage::BlindWitness) && record.seq >= UNSEEN_RECORD;
        if !is_unseen || outcome.effects.is_empty() {
            let (now, after) = (record.now, &self.recorded);
            objections.extend(self.witness.glance(now, &record.event, outcome, after));
        }
        if record.seq.is_multiple_of(COMPARE_EVERY) {
            counters.increment(Counter::Comparisons);
            objections.extend(self.witness.compare(&self.recorded));
        }
        let mut found: Vec<String> = objections.into_iter().map(|found| found.0).collect();
        found.extend(step_problems(&record.event, outcome, &self.recorded));
        if outcome.breaches.iter().any(|breach| matches!(breach, Breach::SumsDiffer { .. })) {
            found.push(format!("the scheduler's own audit found {:?}", outcome.breaches));
        }
        found
    }

    /// Compares everything with a scheduler that has nothing staged.
    pub(crate) fn compare(&mut self, live: &Scheduler) -> Vec<String> {
        let mut found: Vec<String> =
            self.witness.compare(live).into_iter().map(|found| found.0).collect();
        if self.recorded.snapshot() != live.snapshot() {
            let what = "the scheduler differs from the operations in its journal";
            found.push(format!("{what}: {}", first_difference(&self.recorded, live)));
        }
        found
    }
}

fn count(counters: &mut Counters, event: &Event, outcome: &Outcome) {
    counters.increment(Counter::Records);
    counters.add(Counter::Decisions, outcome.decisions.len());
    for answer in &outcome.answers {
        counters.increment(match answer {
            Answer::Offered { .. } | Answer::Placed { .. } => Counter::Placed,
            Answer::Pending { .. } => Counter::Pending,
            Answer::Impossible { .. } | Answer::Rejected { .. } => Counter::Rejected,
        });
    }
    for effect in &outcome.effects {
        match effect {
            Effect::Start { .. } => counters.increment(Counter::Starts),
            Effect::Stop { request, .. } => {
                counters.increment(Counter::Stops);
                counters.add(Counter::Evictions, usize::from(!is_withdrawn(event, request)));
            }
        }
    }
    counters.add(Counter::OverLine, usize::from(!outcome.breaches.is_empty()));
}

fn is_withdrawn(event: &Event, request: &RequestId) -> bool {
    matches!(event, Event::Withdraw { request: own } if own == request)
}

/// Returns what one step did wrong, besides what the witness sees.
fn step_problems(event: &Event, outcome: &Outcome, after: &Scheduler) -> Vec<String> {
    let mut found = Vec::new();
    let stopped: BTreeSet<&RequestId> = outcome.effects.iter().filter_map(stopped).collect();
    for effect in &outcome.effects {
        match effect {
            Effect::Stop { request, .. } if !is_withdrawn(event, request) => {
                found.extend(wrong_eviction(after, request));
            }
            Effect::Stop { .. } => {}
            Effect::Start { request, node, .. } if after.settings().serial_starts => {
                found.extend(start_beside_busy(after.ledger(), request, node, &stopped));
            }
            Effect::Start { .. } => {}
        }
    }
    let promised = after.ledger().promises().map(|(id, _)| id);
    let not_pending = promised.filter(|id| after.queue().get(id).is_none());
    found.extend(not_pending.map(|id| format!("{id} has a promise and is not pending")));
    found
}

fn stopped(effect: &Effect) -> Option<&RequestId> {
    match effect {
        Effect::Stop { request, .. } => Some(request),
        Effect::Start { .. } => None,
    }
}

/// Returns why an eviction is wrong: no pending request that may evict the victim was promised its
/// place.
fn wrong_eviction(after: &Scheduler, victim: &RequestId) -> Option<String> {
    let (_, holding) = after.ledger().of_request(victim)?;
    if holding.terms.pinned {
        return Some(format!("{victim} is pinned and was evicted"));
    }
    let mut promised =
        after.ledger().promises().filter(|(_, promise)| promise.after.contains(victim));
    let is_active = matches!(holding.activity, Activity::Active { .. });
    // The witness knows which work an account may take back.
    let has_shares = !after.settings().accounts.is_empty();
    let may_evict = |(id, _): (&RequestId, &Promise)| {
        let Some(pending) = after.queue().get(id) else { return false };
        let terms = &pending.request.terms;
        let is_stronger =
            terms.eviction == Eviction::LowerPriority && terms.priority > holding.terms.priority;
        let is_same_model = terms.model.is_some() && terms.model == holding.terms.model;
        !terms.speculative
            && terms.eviction != Eviction::Never
            && !is_same_model
            && (!is_active || is_stronger || has_shares)
    };
    let is_wrong = !promised.any(may_evict);
    is_wrong.then(|| format!("{victim} was evicted for no request that may evict it"))
}

/// With serial starts, returns the holding beside which a request was started and that is itself
/// starting or releasing. One that was stopped in the same step may have been stopped afterwards.
fn start_beside_busy(
    ledger: &Ledger,
    request: &RequestId,
    node: &Name,
    stopped: &BTreeSet<&RequestId>,
) -> Option<String> {
    let (_, own) = ledger.of_request(request)?;
    let devices: BTreeSet<u16> =
        own.charges.iter().flat_map(|charge| charge.on.iter().copied()).collect();
    let others = ledger.holdings_on(ledger.node_id(node)?).map(|(_, holding)| holding);
    let busy = others.filter(|other| other.request != *request).find(|other| {
        let is_busy = match other.stage {
            Stage::Sent => true,
            Stage::Releasing { .. } => !stopped.contains(&other.request),
            Stage::Offered { .. } | Stage::Queued | Stage::Running { .. } => false,
        };
        let mut on = other.charges.iter().flat_map(|charge| &charge.on);
        is_busy && on.any(|on| devices.contains(on))
    })?;
    Some(format!("{request} was started beside {}, which is {}", busy.request, busy.stage.name()))
}

/// Returns the text around the first difference of two values.
pub(crate) fn first_difference(one: &impl std::fmt::Debug, other: &impl std::fmt::Debug) -> String {
    let (one, other) = (format!("{one:?}"), format!("{other:?}"));
    let at = one.bytes().zip(other.bytes()).position(|(a, b)| a != b);
    let at = at.unwrap_or(one.len().min(other.len()));
    let around =
        |text: &str| text.chars().skip(at.saturating_sub(120)).take(240).collect::<String>();
    format!("`…{}…` and `…{}…`", around(&one), around(&other))
}
