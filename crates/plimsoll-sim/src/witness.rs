//! The witness: an independent second set of books, which compares its own sums with the ledger's
//! after each step.
//!
//! It reads events and outcomes, and takes no sum from the core's `room`, `fit` or `ledger`. It
//! keeps every holding itself and computes the charge of each grant from the request and the
//! placement alone, in 128-bit arithmetic of its own. A difference is an [`Objection`].

mod place;

mod books;

mod charging;

mod checks;

mod scope;

mod room;

mod accounts;

mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plimsoll_core::charge::Stage;
use plimsoll_core::decide::Decision;
use plimsoll_core::event::{Answer, Effect, Event, Outcome};
use plimsoll_core::fit::Placement;
use plimsoll_core::request::RequestId;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};

use books::{Books, Held};
use scope::Scope;
use turns::{Seen, Turns};

/// A difference between the core's behaviour and its promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection(pub String);

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The second set of books.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    books: Books,
    /// Devices that observed work overcommitted, while they are overcommitted.
    excused: BTreeSet<(Name, usize)>,
    /// The promises after the last step, to recognise new ones.
    promised: BTreeMap<RequestId, Vec<RequestId>>,
    /// The requests that were placed in this step.
    granted: BTreeSet<RequestId>,
    turns: Turns,
    /// The position in the ledger's change log up to which nodes were compared.
    seen: u64,
}

impl Witness {
    /// Follows one event and its outcome, and compares all nodes.
    pub fn step(
        &mut self,
        now: Millis,
        event: &Event,
        outcome: &Outcome,
        after: &Scheduler,
    ) -> Vec<Objection> {
        let mut objections = self.follow(now, event, outcome, after);
        (_, self.seen) = after.ledger().changed_since(0);
        objections.extend(self.check(event, after, &Scope::All));
        objections
    }

    /// Follows one event and its outcome, and compares only the nodes that changed according to the
    /// event or the ledger's change log. For long runs, with [`Witness::compare`] from time to time
    /// to find changes that neither mentions.
    pub fn glance(
        &mut self,
        now: Millis,
        event: &Event,
        outcome: &Outcome,
        after: &Scheduler,
    ) -> Vec<Objection> {
        let mut objections = self.follow(now, event, outcome, after);
        let mut touched = self.books.touched(after.ledger());
        let (changed, seen) = after.ledger().changed_since(self.seen);
        let scope = match changed {
            Some(changed) => {
                let names =
                    changed.filter_map(|id| Some(after.ledger().view(id)?.node.name.clone()));
                touched.extend(names);
                Scope::Nodes(touched)
            }
            None => Scope::All,
        };
        self.seen = seen;
        objections.extend(self.check(event, after, &scope));
        objections
    }

    /// Compares all nodes with a scheduler: from time to time, and after a recovery.
    pub fn compare(&mut self, after: &Scheduler) -> Vec<Objection> {
        (_, self.seen) = after.ledger().changed_since(0);
        checks::same_sums(&self.books, after.ledger(), &Scope::All)
    }

    /// Books one event and its outcome. Objects to results that contradict the event.
    fn follow(
        &mut self,
        now: Millis,
        event: &Event,
        outcome: &Outcome,
        after: &Scheduler,
    ) -> Vec<Objection> {
        let mut objections = Vec::new();
        self.granted.clear();
        self.books.begin_step();
        let dropped = self.books.apply(now, event);
        self.follow_answers(event, outcome, after, &mut objections);
        for effect in &outcome.effects {
            if let Effect::Stop { request, .. } = effect {
                self.books.restage(request, Stage::Releasing { since: now });
            }
        }
        if let Some(early) = dropped
            .iter()
            .find(|id| self.books.held(id).is_none() && after.ledger().of_request(id).is_some())
        {
            objections.push(Objection(format!("{early} should have been released")));
        }
        self.books.learn_generations(after);
        let (books, granted) = (&self.books, &self.granted);
        objections.extend(self.turns.step(&Seen { now, event, outcome, books, granted, after }));
        objections
    }

    fn check(&mut self, event: &Event, after: &Scheduler, scope: &Scope) -> Vec<Objection> {
        let mut objections = checks::same_sums(&self.books, after.ledger(), scope);
        objections.extend(self.check_promises(after));
        objections.extend(self.check_lines(event, scope));
        objections.extend(self.check_accounts(after));
        objections
    }

    fn follow_answers(
        &mut self,
        event: &Event,
        outcome: &Outcome,
        after: &Scheduler,
        objections: &mut Vec<Objection>,
    ) {
        for answer in &outcome.answers {
            let (request, stage) = match answer {
                Answer::Offered { request, until, .. } => {
                    (request, Some(Stage::Offered { until: *until }))
                }
                Answer::Placed { request, .. } => {
                    (request, self.stage_after(event, request, outcome))
                }
                Answer::Pending { .. } | Answer::Impossible { .. } | Answer::Rejected { .. } => {
                    continue;
                }
            };
            let Some(stage) = stage else { continue };
            match decided_place(outcome, request) {
                Some((decision, place)) => {
                    self.grant(request, stage, decision, place, after, objections);
                }
                None => self.books.restage(request, stage),
            }
        }
        let is_start = |effect: &&Effect| matches!(effect, Effect::Start { .. });
        let mut started: Vec<&RequestId> =
            outcome.effects.iter().filter(is_start).map(request_of).collect();
        started.sort();
        let starts = started.len();
        started.dedup();
        if started.len() != starts {
            objections.push(Objection("a request was started twice in one step".to_string()));
        }
    }

    /// Returns the stage of a request that received a placement; `None` if the answer only repeats
    /// an earlier one.
    fn stage_after(&self, event: &Event, request: &RequestId, outcome: &Outcome) -> Option<Stage> {
        let starts =
            |effect: &Effect| matches!(effect, Effect::Start { request: r, .. } if r == request);
        if outcome.effects.iter().any(starts) {
            return Some(Stage::Sent);
        }
        let again = matches!(event, Event::Submit { .. } | Event::Ask { .. })
            && self.books.held(request).is_some();
        (!again).then_some(Stage::Queued)
    }

    fn grant(
        &mut self,
        request: &RequestId,
        stage: Stage,
        decision: &Decision,
        place: &Placement,
        after: &Scheduler,
        objections: &mut Vec<Objection>,
    ) {
        let Some((_, holding)) = after.ledger().of_request(request) else {
            return objections.push(Objection(format!("{request} was placed and holds nothing")));
        };
        let held = Held::new(holding, stage);
        match charging::expected(&self.books, decision, place) {
            Ok(Some(expected)) if expected != held.bookings => objections.push(Objection(format!(
                "{request} should be charged {expected:?} and is charged {:?}",
                held.bookings
            ))),
            Ok(_) => {}
            Err(problem) => objections.push(Objection(format!("{request}: {problem}"))),
        }
        self.books.hold(request.clone(), held);
        self.granted.insert(request.clone());
    }

    /// Checks that new promises fit beside the holdings that stay and the earlier promises.
    fn check_promises(&mut self, after: &Scheduler) -> Vec<Objection> {
        if self.promised.is_empty() && after.ledger().promises().next().is_none() {
            return Vec::new();
        }
        let now: BTreeMap<RequestId, Vec<RequestId>> = after
            .ledger()
            .promises()
            .map(|(id, promise)| (id.clone(), promise.after.clone()))
            .collect();
        let is_new = |id: &RequestId| self.promised.get(id) != now.get(id);
        let objections = checks::promised_once(&self.books, after.ledger(), is_new);
        self.promised = now;
        objections
    }

    /// Checks that nothing was granted beyond the maximum of an account.
    fn check_accounts(&self, after: &Scheduler) -> Vec<Objection> {
        if self.granted.is_empty() || after.settings().accounts.is_empty() {
            return Vec::new();
        }
        let granted: BTreeSet<&RequestId> = self.granted.iter().collect();
        checks::account_maxima(&self.books, after.settings(), &granted)
    }

    /// Checks that only observed work overcommits a device, and that nothing is placed on one that
    /// is overcommitted.
    fn check_lines(&mut self, event: &Event, scope: &Scope) -> Vec<Objection> {
        let mut objections = Vec::new();
        let observed = observed_nodes(event, &self.books);
        let granted: BTreeSet<&RequestId> = self.granted.iter().collect();
        let over_line = self.books.over_line(scope);
        for (node, ordinal, over) in over_line.clone() {
            let key = (node.clone(), ordinal);
            let newly = self.books.on_device(&node, ordinal).find(|(id, _)| granted.contains(id));
            if let Some((id, _)) = newly {
                objections.push(Objection(format!(
                    "{id} was granted {node}/{ordinal}, which is {over} over its line"
                )));
            } else if observed.contains(&node) {
                self.excused.insert(key);
            } else if !self.excused.contains(&key) {
                objections.push(Objection(format!(
                    "{node}/{ordinal} is {over} over its line, and no event explains it"
                )));
            }
        }
        let over: BTreeSet<(Name, usize)> =
            over_line.into_iter().map(|(node, at, _)| (node, at)).collect();
        self.excused.retain(|key| !scope.covers(&key.0) || over.contains(key));
        if !granted.is_empty() {
            objections.extend(checks::no_shared_slices(&self.books, &granted));
            objections.extend(checks::node_lines(&self.books, &granted));
            objections.extend(checks::floating_lines(&self.books, &granted));
        }
        objections
    }
}

fn request_of(effect: &Effect) -> &RequestId {
    match effect {
        Effect::Start { request, .. } | Effect::Stop { request, .. } => request,
    }
}

fn decided_place<'a>(
    outcome: &'a Outcome,
    request: &RequestId,
) -> Option<(&'a Decision, &'a Placement)> {
    let mut decisions = outcome.decisions.iter().rev();
    let decision = decisions.find(|decision| decision.request == *request)?;
    Some((decision, decision.placement()?))
}

/// Returns the nodes that an event observes or measures.
fn observed_nodes(event: &Event, books: &Books) -> BTreeSet<Name> {
    match event {
        Event::Node { node } => BTreeSet::from([node.name.clone()]),
        Event::NodeGone { name } => BTreeSet::from([name.clone()]),
        Event::Observed { holding } => BTreeSet::from([holding.node.clone()]),
        Event::Measured { node, .. } => BTreeSet::from([node.clone()]),
        Event::Grew { request, .. } => {
            books.held(request).map(|held| held.node.clone()).into_iter().collect()
        }
        _ => BTreeSet::new(),
    }
}
