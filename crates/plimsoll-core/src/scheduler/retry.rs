//! Stage 3: retries the pending requests that a change may help.
//!
//! Requests are tried in turn. One attempt can only take memory away from the requests after it,
//! with one exception: when it withdraws or moves a promise, the memory that the promise blocked
//! becomes open to the requests *before* it. The round then ends and the next one begins with the
//! first request, so that the result does not depend on the order of arrival.
//!
//! The loop terminates because every additional round is paid for by something that happens a
//! limited number of times. A promise is withdrawn or moved only
//!
//! - when a request is placed, its own or one of lower priority that blocks it. A placed request
//!   leaves the queue, and no request enters it during this stage;
//! - when a promise no longer holds because none of its holders is leaving any more. Holders stop
//!   leaving only by events, so that this happens at most once for each promise that existed when
//!   the step began;
//! - when a request gets the only promise of memory that is still in use: from a request behind it,
//!   at most once for each pending request, because the promise only moves forward;
//! - when the holder of that promise finds an eviction instead, at most once for each of them;
//! - when a gang has too few promises, which after its first attempt happens only if the placement
//!   of another request took one.
//!
//! With n pending requests, g gangs and p promises at the beginning these are at most
//! n·(g + 3) + g + p rounds after the first, each with at most n attempts. In practice there are
//! one or two. Retrying only the requests before that promise's request was rejected: equal
//! requests share one attempt per round (`try_one`), which is worth more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::fair::Turns;
use super::placing::News;
use super::{Lifted, Scheduler, Step};
use crate::decide::Decision;
use crate::queue::PendingRequest;
use crate::reason::Change;
use crate::request::{Request, RequestId, Spec, Terms};
use crate::units::Name;

/// The requests that one retry is for.
enum Woken {
    /// Those whose reason one of these changes may lift.
    By(Lifted),
    All,
}

impl Woken {
    fn includes(&self, entry: &PendingRequest) -> bool {
        match self {
            Woken::By(lifted) => entry.wakes_on.iter().any(|change| lifted.contains(change)),
            Woken::All => true,
        }
    }
}

/// The part of a pending request that its answer depends on, if it has neither a promise nor a
/// holding: its account, where accounts have shares, its spec and its terms.
pub(super) type Kind = (Option<Name>, Arc<Spec>, Terms);

/// The requests that were rejected in a round.
type Rejected = BTreeMap<Kind, (PendingRequest, Decision)>;

impl Scheduler {
    /// Returns the kind of a pending request.
    pub(super) fn kind(&self, request: &Request) -> Kind {
        let has_shares = !self.ledger.shares().is_empty();
        let terms = Terms { deadline: None, ..request.terms.clone() };
        (has_shares.then(|| request.id.account.clone()), request.spec.clone(), terms)
    }
}

impl Step<'_> {
    /// Retries the pending requests whose reason one of the changes may lift. Speculative requests
    /// are skipped while real work is pending; when none is left, all of them are tried, because
    /// they have missed the changes in between.
    pub(super) fn retry_pending(&mut self, lifted: Lifted) {
        if !lifted.is_empty() {
            self.retry(Woken::By(lifted));
        }
        if self.had_real_work && !self.scheduler.queue.has_real_work() {
            self.retry(Woken::All);
        }
    }

    fn retry(&mut self, mut woken: Woken) {
        let bound = self.most_rounds();
        for round in 0.. {
            debug_assert!(round <= bound, "{round} rounds, at most {bound} expected");
            if self.withdraw_void_promises()
                && let Woken::By(lifted) = &mut woken
            {
                lifted.insert(Change::LoadFell);
            }
            let pending = self.scheduler.queue.iter();
            let entries =
                pending.filter(|entry| entry.may_try(self.now) && woken.includes(entry)).cloned();
            let turns = Turns::new(self.scheduler, entries);
            if self.try_in_turn(turns).is_continue() {
                return;
            }
            if let Woken::By(lifted) = &mut woken {
                lifted.insert(Change::LoadFell);
            }
        }
    }

    /// Returns the most rounds that can follow the first one; see the module documentation.
    fn most_rounds(&self) -> usize {
        let queue = &self.scheduler.queue;
        let gangs = queue.iter().filter_map(|entry| entry.gang.as_ref());
        let gangs: BTreeSet<&Name> = gangs.map(|gang| &gang.name).collect();
        queue.len() * (gangs.len() + 3) + gangs.len() + self.scheduler.ledger.promises().len()
    }

    /// Tries requests in turn; breaks when a promise was withdrawn or moved.
    fn try_in_turn(&mut self, mut turns: Turns<PendingRequest>) -> ControlFlow<()> {
        let mut rejected = Rejected::default();
        let mut gangs = BTreeSet::new();
        let before = self.promises_withdrawn;
        while let Some(entry) = turns.next(self.scheduler) {
            if entry.request.terms.speculative && self.scheduler.queue.has_real_work() {
                break;
            }
            match &entry.gang {
                Some(gang) if gangs.insert(gang.name.clone()) => self.try_gang(&gang.name),
                Some(_) => {}
                None => self.try_one(&entry, &mut rejected),
            }
            if self.promises_withdrawn != before {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Tries one request, or copies the rejection of an equal one. Placements only take memory, so
    /// that a rejection stays valid for equal requests until the ledger changes in another way.
    fn try_one(&mut self, entry: &PendingRequest, rejected: &mut Rejected) {
        let id = &entry.request.id;
        let kind = self.scheduler.kind(&entry.request);
        let has_state = self.has_own_state(id);
        if let Some((equal, decision)) = rejected.get(&kind).filter(|_| !has_state) {
            let (reason, wakes_on) = (equal.reason.clone(), equal.wakes_on.clone());
            let entry = PendingRequest { reason, wakes_on, ..entry.clone() };
            if self.keep_pending(entry, None) == News::Changed {
                let decision = Decision { request: id.clone(), ..decision.clone() };
                self.outcome.decisions.push(decision);
            }
            return;
        }
        let revision = self.scheduler.ledger.revision();
        let decision = self.try_place(entry.clone());
        match (self.scheduler.queue.get(id), decision) {
            (Some(_), _) if self.scheduler.ledger.revision() != revision => rejected.clear(),
            (Some(still), Some(decision)) if !has_state => {
                rejected.insert(kind, (still.clone(), decision));
            }
            _ => {}
        }
    }

    /// Returns true if a request has a promise or an earlier holding, so that its answer may differ
    /// from that of equal requests.
    fn has_own_state(&self, id: &RequestId) -> bool {
        let ledger = &self.scheduler.ledger;
        ledger.promise_to(id).is_some() || ledger.of_request(id).is_some()
    }
}
