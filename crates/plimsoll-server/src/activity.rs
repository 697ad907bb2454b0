//! Events of slots and runners: one line of the log each, and a bounded list for clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_api::rows::{ActivityKind, ActivityRow, time};
use plimsoll_core::charge::{Charge, Holding};
use plimsoll_core::decide::Decision;
use plimsoll_core::event::{Answer, Effect, Event, Operation};
use plimsoll_core::ledger::OperationKind;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_core::wording::SizeFormat;
use plimsoll_engine::engine::{Decided, Durable, Observer};
use plimsoll_slots::desk::{Desk, DeskView, Intake, Runner};

/// The rows that are kept for clients.
const KEPT: usize = 5000;

/// The latest rows, oldest first.
#[derive(Clone, Default)]
pub(crate) struct Activity(Arc<Mutex<VecDeque<ActivityRow>>>);

impl Activity {
    /// Returns the rows after one, oldest first, the latest `most` of them.
    pub(crate) fn after(&self, after: Option<u64>, most: usize) -> Vec<ActivityRow> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = rows.iter().filter(|row| after.is_none_or(|after| row.id > after));
        let skipped = newer.clone().count().saturating_sub(most);
        newer.skip(skipped).cloned().collect()
    }

    fn extend(&self, new: Vec<ActivityRow>) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.extend(new);
        let excess = rows.len().saturating_sub(KEPT);
        rows.drain(..excess);
    }

    /// Returns an observer that fills the list and writes the log.
    pub(crate) fn watch(&self) -> ActivityWatch {
        ActivityWatch { activity: self.clone(), ..ActivityWatch::default() }
    }
}

/// Derives the rows of each batch.
#[derive(Default)]
pub(crate) struct ActivityWatch {
    activity: Activity,
    next: u64,
    runners: BTreeMap<Name, RunnerSeen>,
    /// Requests that were reported as pending since they last were placed.
    pending: BTreeSet<RequestId>,
    /// The memory of holders. The ledger no longer has it once it is released.
    charged: BTreeMap<RequestId, Bytes>,
    /// The rows of the batch that is not durable yet.
    new: Vec<ActivityRow>,
    /// True once the holders from before the start are known.
    has_begun: bool,
}

/// A runner at the last look.
struct RunnerSeen {
    session: u64,
    is_online: bool,
    intake: Intake,
}

/// The subject of a row.
enum Subject<'a> {
    Slot(&'a RequestId, Option<&'a Name>),
    Runner(&'a Name),
}

impl ActivityWatch {
    fn add(&mut self, at: Millis, kind: ActivityKind, subject: &Subject<'_>, detail: String) {
        let (request, runner) = match subject {
            Subject::Slot(request, runner) => (Some(*request), *runner),
            Subject::Runner(runner) => (None, Some(*runner)),
        };
        self.next += 1;
        self.new.push(ActivityRow {
            id: self.next,
            at: time(at),
            kind,
            model: request.map(|request| request.account.to_string()),
            slot_id: request.map(|request| request.name.to_string()),
            runner_id: runner.map(ToString::to_string),
            detail,
        });
    }

    fn on_event(&mut self, at: Millis, event: &Event, desk: DeskView<'_>) {
        match event {
            Event::Node { node } => {
                if let Some(runner) = desk.runner(&node.name) {
                    self.on_runner(at, runner, desk);
                }
            }
            Event::NodeGone { name } if self.runners.remove(name).is_some() => {
                self.add(at, ActivityKind::RunnerRemoved, &Subject::Runner(name), String::new());
            }
            Event::Started { request, .. } => {
                let runner = runner_of(desk, request);
                let endpoint = desk.slot(&request.name).and_then(|slot| slot.life.endpoint.clone());
                let subject = Subject::Slot(request, runner.as_ref());
                self.add(at, ActivityKind::Ready, &subject, endpoint.unwrap_or_default());
            }
            Event::Failed { request, .. } => {
                let runner = runner_of(desk, request);
                let subject = Subject::Slot(request, runner.as_ref());
                self.add(at, ActivityKind::Failed, &subject, failure(desk, request));
            }
            Event::Freed { request, .. } => {
                let runner = runner_of(desk, request);
                let subject = Subject::Slot(request, runner.as_ref());
                let failure = failure(desk, request);
                if !failure.is_empty() {
                    self.add(at, ActivityKind::Failed, &subject, failure);
                }
                let freed = self.charged.remove(request);
                let freed = freed.filter(|bytes| !bytes.is_zero());
                let freed = freed.map(|bytes| SizeFormat::for_size(bytes).show(bytes));
                self.add(at, ActivityKind::Released, &subject, freed.unwrap_or_default());
            }
            _ => {}
        }
    }

    fn on_runner(&mut self, at: Millis, runner: &Runner, desk: DeskView<'_>) {
        let seen = RunnerSeen {
            session: runner.registration.session,
            is_online: !desk.is_silent(&runner.id),
            intake: runner.intake,
        };
        let before = self.runners.get(&runner.id);
        let was_online = before.is_some_and(|before| before.is_online);
        // An agent that has just registered is silent until its first heartbeat.
        let session = before.filter(|before| before.session == seen.session);
        let is_overdue = desk.silent_since(&runner.id).is_some_and(|since| since < at);
        let connection = match (was_online, seen.is_online, session) {
            (_, true, None) => Some(ActivityKind::RunnerJoined),
            (false, true, Some(_)) => Some(ActivityKind::RunnerBack),
            (true, false, Some(_)) => Some(ActivityKind::RunnerSilent),
            // After a restart of the server nothing is known of it but its registration.
            (false, false, None) if is_overdue && before.is_none() => {
                Some(ActivityKind::RunnerSilent)
            }
            _ => None,
        };
        let intake = match before.map_or(Intake::Open, |before| before.intake) {
            before if before == seen.intake => None,
            _ => Some(match seen.intake {
                Intake::Open => ActivityKind::RunnerUncordoned,
                Intake::Cordoned => ActivityKind::RunnerCordoned,
                Intake::Draining { .. } => ActivityKind::RunnerDraining,
            }),
        };
        // The session counts as seen once it was online.
        let is_new_session = session.is_none() && !seen.is_online;
        let kept = before.map(|before| before.session).filter(|_| is_new_session);
        let seen = RunnerSeen { session: kept.unwrap_or(seen.session), ..seen };
        let seen = match is_new_session && before.is_none() && !is_overdue {
            true => None,
            false => Some(seen),
        };
        if let Some(seen) = seen {
            self.runners.insert(runner.id.clone(), seen);
        }
        for kind in connection.into_iter().chain(intake) {
            let gpus = runner.registration.devices.len();
            let detail = match kind {
                ActivityKind::RunnerJoined if gpus == 1 => "1 GPU".to_string(),
                ActivityKind::RunnerJoined => format!("{gpus} GPUs"),
                ActivityKind::RunnerSilent => "its slots stay charged".to_string(),
                _ => String::new(),
            };
            self.add(at, kind, &Subject::Runner(&runner.id), detail);
        }
    }

    fn on_decision(&mut self, at: Millis, decision: &Decision, answers: &[Answer]) {
        let request = &decision.request;
        if let Some(found) = decision.chosen() {
            self.pending.remove(request);
            let subject = Subject::Slot(request, Some(&found.placement.node));
            return self.add(at, ActivityKind::Placed, &subject, String::new());
        }
        let brief = decision.rejection().map(|rejection| rejection.brief()).unwrap_or_default();
        let subject = Subject::Slot(request, None);
        let is_impossible = answers.iter().any(|answer| {
            matches!(answer, Answer::Impossible { .. }) && answer.request() == request
        });
        if is_impossible {
            self.pending.remove(request);
            self.add(at, ActivityKind::Impossible, &subject, brief);
        } else if self.pending.insert(request.clone()) {
            self.add(at, ActivityKind::Pending, &subject, brief);
        }
    }

    fn on_effect(&mut self, at: Millis, effect: &Effect, event: &Event) {
        match effect {
            Effect::Start { request, node, .. } => {
                let subject = Subject::Slot(request, Some(node));
                self.add(at, ActivityKind::Started, &subject, String::new());
            }
            Effect::Stop { request, node, .. } => {
                let is_withdrawn =
                    matches!(event, Event::Withdraw { request: withdrawn } if withdrawn == request);
                let kind = if is_withdrawn { ActivityKind::Stopped } else { ActivityKind::Evicted };
                self.add(at, kind, &Subject::Slot(request, Some(node)), String::new());
            }
        }
    }

    /// Remembers the memory of new holders, and forgets requests that are pending no more. It costs
    /// what the batch changed, except for the first one.
    fn follow_ledger(&mut self, decided: &Decided<'_, Desk>) {
        let (ledger, queue) = (decided.scheduler.ledger(), decided.scheduler.queue());
        if !std::mem::replace(&mut self.has_begun, true) {
            ledger.holdings().for_each(|(_, holding)| self.on_held(holding));
        }
        for operation in decided.records.iter().flat_map(|record| &record.operations) {
            match operation {
                Operation::Dequeue(request) if queue.get(request).is_none() => {
                    self.pending.remove(request);
                }
                Operation::Ledger(operation) if operation.kind() == OperationKind::Hold => {
                    let held = operation.request().and_then(|request| ledger.of_request(request));
                    held.into_iter().for_each(|(_, holding)| self.on_held(holding));
                }
                Operation::Ledger(operation) if operation.kind() == OperationKind::Drop => {
                    operation.request().map(|request| self.charged.remove(request));
                }
                _ => {}
            }
        }
    }

    fn on_held(&mut self, holding: &Holding) {
        if !self.charged.contains_key(&holding.request) {
            let charges = holding.charges.iter().filter_map(Charge::bytes);
            let bytes = charges.fold(Bytes::ZERO, Bytes::plus);
            self.charged.insert(holding.request.clone(), bytes);
        }
    }
}

impl Observer<Desk> for ActivityWatch {
    fn decided(&mut self, decided: &Decided<'_, Desk>) {
        let desk = decided.front.view(decided.scheduler);
        for (record, output) in decided.records.iter().zip(decided.outputs) {
            // The event is the cause of the decisions: memory is released before it is given away.
            self.on_event(record.now, &record.event, desk);
            for decision in &output.outcome.decisions {
                self.on_decision(record.now, decision, &output.outcome.answers);
            }
            for effect in &output.outcome.effects {
                self.on_effect(record.now, effect, &record.event);
            }
        }
        self.follow_ledger(decided);
    }

    fn durable(&mut self, _: &Durable<'_, Desk>) {
        let rows = std::mem::take(&mut self.new);
        rows.iter().for_each(log);
        self.activity.extend(rows);
    }
}

/// Writes a row as one line: a constant message with fields.
fn log(row: &ActivityRow) {
    let (model, slot, runner) = (&row.model, &row.slot_id, &row.runner_id);
    let (model, slot) = (model.as_deref(), slot.as_deref());
    let runner = runner.as_deref();
    let detail = Some(row.detail.as_str()).filter(|detail| !detail.is_empty());
    let message = match row.kind {
        ActivityKind::RunnerJoined => "runner joined",
        ActivityKind::RunnerSilent => "runner silent",
        ActivityKind::RunnerBack => "runner back",
        ActivityKind::RunnerRemoved => "runner removed",
        ActivityKind::RunnerCordoned => "runner cordoned",
        ActivityKind::RunnerDraining => "runner draining",
        ActivityKind::RunnerUncordoned => "runner uncordoned",
        ActivityKind::Pending => "slot pending",
        ActivityKind::Impossible => "slot impossible",
        ActivityKind::Placed => "slot placed",
        ActivityKind::Started => "slot started",
        ActivityKind::Ready => "slot ready",
        ActivityKind::Failed => "slot failed",
        ActivityKind::Evicted => "slot evicted",
        ActivityKind::Stopped => "slot stopped",
        ActivityKind::Released => "slot released",
    };
    if row.kind.is_warning() {
        tracing::warn!(model, slot, runner, detail, "{message}");
    } else {
        tracing::info!(model, slot, runner, detail, "{message}");
    }
}

fn runner_of(desk: DeskView<'_>, request: &RequestId) -> Option<Name> {
    let slot = desk.slot(&request.name);
    let holding = slot.and_then(|slot| desk.holding(slot));
    let life =
        slot.map(|slot| &slot.life).or_else(|| Some(&desk.ended_slot(&request.name)?.slot.life));
    holding.map(|(_, holding)| holding.node.clone()).or_else(|| life?.runner.clone())
}

/// Returns why a slot failed in one line, which ends with the last line of its output; empty if it
/// did not.
fn failure(desk: DeskView<'_>, request: &RequestId) -> String {
    let slot = desk.slot(&request.name);
    let life =
        slot.map(|slot| &slot.life).or_else(|| Some(&desk.ended_slot(&request.name)?.slot.life));
    let failure = life.and_then(|life| life.failure.as_ref()).map(ToString::to_string);
    let Some(text) = failure else { return String::new() };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    lines.next_back().map_or(first.to_string(), |last| format!("{first} {}", last.trim()))
}
