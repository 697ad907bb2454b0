//! Placing gangs: enough members together, or none.

use super::Step;
use super::placing::News;
use crate::decide::Decision;
use crate::evict::{self, Plan};
use crate::gang::{Gang, decide_gang};
use crate::queue::{GangMember, PendingReason, PendingRequest};
use crate::reason::Change;
use crate::request::Request;
use crate::units::Name;

impl Step<'_> {
    pub(super) fn submit_gang(&mut self, name: &Name, minimum: u32, members: Vec<Request>) {
        let all = members.len();
        let unplaced: Vec<Request> =
            members.into_iter().filter(|member| !self.is_placed(member)).collect();
        let placed = u32::try_from(all - unplaced.len()).unwrap_or(u32::MAX);
        let minimum = minimum.saturating_sub(placed);
        let possible = unplaced.iter().filter(|member| self.is_possible(member)).count();
        if possible < (minimum as usize).min(unplaced.len()) {
            let gang = Gang { name: name.clone(), minimum: minimum + placed, members: unplaced };
            return self.reject_gang(&gang);
        }
        for mut request in unplaced {
            request.terms.waits = true;
            let wakes_on = vec![
                Change::LoadFell,
                Change::NodeChanged,
                Change::DeviceRepaired,
                Change::DeviceOpened,
            ];
            let gang = Some(GangMember { name: name.clone(), minimum });
            let entry = PendingRequest::new(self.now, request);
            self.enqueue(PendingRequest { gang, wakes_on, ..entry });
        }
        self.try_gang(name);
    }

    fn is_placed(&self, member: &Request) -> bool {
        let holding = self.scheduler.ledger.of_request(&member.id);
        holding.is_some_and(|(_, holding)| !holding.stage.is_releasing())
    }

    /// Answers that a gang is impossible, because too few of its members are possible.
    fn reject_gang(&mut self, gang: &Gang) {
        let scheduler = &*self.scheduler;
        let decided = decide_gang(&scheduler.ledger, &scheduler.settings.policy, gang);
        for decision in decided.decisions {
            self.answer_impossible(decision);
        }
    }

    /// Decides the pending members of a gang: places them together, or none.
    pub(super) fn try_gang(&mut self, name: &Name) {
        let entries = self.pending_members(name);
        let Some(minimum) = entries.first().and_then(|entry| entry.gang.as_ref()) else { return };
        let gang = Gang {
            name: name.clone(),
            minimum: minimum.minimum,
            members: entries.iter().map(|entry| entry.request.clone()).collect(),
        };
        let scheduler = &*self.scheduler;
        let decided = decide_gang(&scheduler.ledger, &scheduler.settings.policy, &gang);
        if decided.placed {
            self.place_gang(entries, decided.decisions);
        } else {
            self.keep_gang_pending(&gang, entries, decided.decisions);
        }
    }

    /// Returns the pending members of a gang. A member whose earlier holding is still being
    /// released cannot be placed yet.
    fn pending_members(&self, name: &Name) -> Vec<PendingRequest> {
        let pending = self.scheduler.queue.iter();
        pending
            .filter(|entry| entry.gang.as_ref().is_some_and(|gang| gang.name == *name))
            .filter(|entry| self.scheduler.ledger.of_request(&entry.request.id).is_none())
            .cloned()
            .collect()
    }

    /// Places the members of a gang that has its minimum. A member that was left out is then tried
    /// alone, beside the others.
    fn place_gang(&mut self, entries: Vec<PendingRequest>, decisions: Vec<Decision>) {
        // The placement of one member may overlap the promise to another, so that all promises end
        // before the first placement is charged.
        for entry in &entries {
            self.withdraw_promise(&entry.request.id);
        }
        let mut left_out = Vec::new();
        for (entry, decision) in entries.into_iter().zip(decisions) {
            match decision.placement().cloned() {
                Some(placement) => {
                    self.outcome.decisions.push(decision);
                    self.place(entry, &placement);
                }
                None => left_out.push(PendingRequest { gang: None, ..entry }),
            }
        }
        for entry in left_out {
            self.try_place(entry);
        }
    }

    /// Keeps a gang pending, with a promise to each member if releases in progress, or retired
    /// holders if it is first in turn, will make room for all.
    fn keep_gang_pending(
        &mut self,
        gang: &Gang,
        entries: Vec<PendingRequest>,
        decisions: Vec<Decision>,
    ) {
        let mut plans = self.plan_gang(gang).unwrap_or_default().into_iter();
        for (entry, decision) in entries.into_iter().zip(decisions) {
            let rejection = decision.rejection().cloned().unwrap_or_default();
            let entry = PendingRequest { reason: PendingReason::Rejected(rejection), ..entry };
            if self.keep_pending(entry, plans.next().flatten()) == News::Changed {
                self.outcome.decisions.push(decision);
            }
        }
    }

    /// Plans promises for a gang, unless enough of its members for the minimum have one that holds.
    /// Promises to fewer are useless and are withdrawn first.
    fn plan_gang(&mut self, gang: &Gang) -> Option<Vec<Option<Plan>>> {
        let promised = gang.members.iter().filter(|member| self.can_keep_promise(member)).count();
        if promised > 0 && promised >= gang.minimum as usize {
            return None;
        }
        for member in &gang.members {
            self.withdraw_promise(&member.id);
        }
        let scheduler = &*self.scheduler;
        let after_releases =
            evict::gang_after_releases(&scheduler.ledger, &scheduler.settings.policy, gang);
        after_releases.or_else(|| scheduler.plan_gang_retirement(gang, self.now))
    }

    /// Returns true if the promise to a member holds and can still be fulfilled.
    fn can_keep_promise(&self, member: &Request) -> bool {
        let promise = self.scheduler.ledger.promise_to(&member.id);
        let promise = promise.filter(|_| self.promise_holds(&member.id));
        promise.is_some_and(|promise| {
            promise.retired.is_empty() || self.scheduler.is_promise_possible(member, promise)
        })
    }
}
