//! The shares of accounts by the witness's own arithmetic: which account is below its guarantee,
//! and whether memory was taken back from an account above its own.

use std::collections::BTreeMap;

use plimsoll_core::account::{Quota, Share};
use plimsoll_core::charge::{Activity, Holding, Stage};
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::request::{Amount, Eviction, Request, RequestId, Shape};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::Name;

use super::books::{Books, Held};
use super::checks::BookedAccount;
use super::room;
use super::turns::{Seen, evicted};

/// The shares, and the usage of each account that has one after the last step. Holdings that are
/// being released do not count: they are given back already.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    shares: BTreeMap<Name, Share>,
    used: BTreeMap<Name, BookedAccount>,
}

impl Accounts {
    /// Sums the holdings after a step.
    pub(crate) fn remember(&mut self, books: &Books, after: &Scheduler) {
        self.shares = after.settings().accounts.clone().into();
        let staying = |held: &Held| !held.stage.is_releasing();
        let names = self.shares.keys().cloned();
        self.used = names
            .map(|name| {
                let used = self.usage(&name, books, &staying);
                (name, used)
            })
            .collect();
    }

    fn usage(&self, name: &Name, books: &Books, counts: &dyn Fn(&Held) -> bool) -> BookedAccount {
        let mut sum = BookedAccount::default();
        let own = books.holdings.iter().filter(|(id, _)| self.covers(name, &id.account));
        own.filter(|(_, held)| counts(held)).for_each(|(_, held)| sum.add(held));
        sum
    }

    /// Returns true if a request's account counts as an account, or as a child of it.
    fn covers(&self, name: &Name, account: &Name) -> bool {
        let counts_as =
            |other: &Name, share: &Share| account == other || share.members.contains(account);
        let mut shares = self.shares.iter();
        account == name
            || shares.any(|(other, share)| {
                (other == name || share.parent.as_ref() == Some(name)) && counts_as(other, share)
            })
    }

    /// Returns the account with a share that a request's account counts as, and its parent.
    fn levels<'a>(&'a self, account: &'a Name) -> (&'a Name, &'a Name) {
        let share = self
            .shares
            .iter()
            .find(|(name, share)| *name == account || share.members.contains(account));
        let Some((name, share)) = share else { return (account, account) };
        (share.parent.as_ref().unwrap_or(name), name)
    }

    /// Returns two accounts at the level where they differ.
    fn rivals<'a>(&'a self, one: &'a Name, other: &'a Name) -> Option<(&'a Name, &'a Name)> {
        let (mine, theirs) = (self.levels(one), self.levels(other));
        match mine.0 == theirs.0 {
            true => (mine.1 != theirs.1).then_some((mine.1, theirs.1)),
            false => Some((mine.0, theirs.0)),
        }
    }

    /// Returns the guarantee of an account; a parent without one has that of its children.
    fn guarantee(&self, name: &Name) -> (Option<u128>, Option<u32>) {
        let amounts =
            |quota: Quota| (quota.memory.map(|memory| u128::from(memory.get())), quota.devices);
        let Some(own) = self.shares.get(name) else { return (None, None) };
        if !own.guaranteed.is_empty() {
            return amounts(own.guaranteed);
        }
        let children = self.shares.values().filter(|share| share.parent.as_ref() == Some(name));
        children
            .map(|child| amounts(child.guaranteed))
            .fold((None, None), |sum, one| (add(sum.0, one.0), add(sum.1, one.1)))
    }

    /// Returns true if an account uses less than its guarantee.
    fn is_below(&self, name: &Name, used: &BookedAccount) -> bool {
        let (memory, devices) = self.guarantee(name);
        (memory.is_some() || devices.is_some())
            && used.undeclared == 0
            && memory.is_none_or(|memory| used.bytes < memory)
            && devices.is_none_or(|devices| used.devices < devices)
    }

    /// Returns true if an account uses more than its guarantee, as every account without one does.
    fn is_above(&self, name: &Name, used: &BookedAccount) -> bool {
        let (memory, devices) = self.guarantee(name);
        (memory.is_none() && devices.is_none())
            || memory.is_some_and(|memory| used.bytes > memory || used.undeclared > 0)
            || devices.is_some_and(|devices| used.devices > devices)
    }

    /// Returns true if the guarantee of one request's account comes before another request.
    pub(crate) fn is_due_before(&self, id: &RequestId, other: &RequestId) -> bool {
        let rivals = self.rivals(&id.account, &other.account);
        rivals.is_some_and(|(mine, _)| {
            self.used.get(mine).is_some_and(|used| self.is_below(mine, used))
        })
    }

    /// Work was interrupted, or idle work evicted before its limit, that neither its priority nor a
    /// share allows.
    pub(crate) fn wrong_reclaim(
        &self,
        seen: &Seen<'_>,
        was_retired: &dyn Fn(&RequestId) -> bool,
    ) -> Option<String> {
        if self.shares.is_empty() {
            return None;
        }
        let ledger = seen.after.ledger();
        evicted(seen).find_map(|(victim, _)| {
            let (_, held) = ledger.of_request(victim)?;
            // Several requests can wait for one holder. It was evicted for one of them.
            let takers = ledger.promises().filter(|(_, one)| one.after.contains(victim));
            let mut entries = takers.filter_map(|(taker, _)| seen.after.queue().get(taker));
            let is_retired = ledger.promises().any(|(_, one)| one.retired.contains(victim));
            let is_allowed = is_retired
                || was_retired(victim)
                || entries.any(|taker| {
                    leaves_by_terms(held, &taker.request, seen) || self.reclaims(seen, taker, held)
                });
            (!is_allowed).then(|| {
                format!("{victim} was evicted for an account that may not reclaim its memory")
            })
        })
    }

    /// Returns true if the account of a request is below its guarantee, and that of a victim above:
    /// before the step, or in it.
    fn reclaims(&self, seen: &Seen<'_>, taker: &PendingRequest, held: &Holding) -> bool {
        let rivals = self.rivals(&taker.request.id.account, &held.request.account);
        let Some((mine, theirs)) = rivals else { return false };
        let stays = |held: &Held| !held.stage.is_releasing();
        let stayed = |held: &Held| match held.stage {
            Stage::Releasing { since } => since == seen.now,
            _ => true,
        };
        let is_below = self.is_below(mine, &self.used_before(mine))
            || self.is_below(mine, &self.usage(mine, seen.books, &stays));
        let is_above = self.is_above(theirs, &self.used_before(theirs))
            || self.is_above(theirs, &self.usage(theirs, seen.books, &stayed));
        is_below && is_above
    }

    fn used_before(&self, name: &Name) -> BookedAccount {
        self.used.get(name).cloned().unwrap_or_default()
    }

    /// A request of an account below its guarantee is pending, although one idle holder of an
    /// account above its own has the memory.
    pub(crate) fn not_reclaimed(&self, seen: &Seen<'_>) -> Option<String> {
        let settings = seen.after.settings();
        // Searches of few steps may end before they find it.
        if self.shares.is_empty() || settings.policy.search_steps < room::ENOUGH_STEPS {
            return None;
        }
        let entries = seen.after.queue().iter();
        entries.filter(|entry| room::displaces(seen, entry)).find_map(|entry| {
            let request = &entry.request;
            let holders = seen.after.ledger().holdings().map(|(_, held)| held);
            let mut lent = holders.filter(|held| self.is_lent(seen, held, request));
            let victim = lent.find(|held| {
                let view = seen.after.ledger().view_of(&held.node);
                let leaves = |one: &Holding| one.request == held.request;
                view.is_some_and(|view| room::fits_without(seen, view, request, &leaves))
            })?;
            let (id, victim) = (&request.id, &victim.request);
            Some(format!("{id} is guaranteed memory that {victim} holds idle, and has no promise"))
        })
    }

    /// Returns true if a holder is idle, and is beyond the guarantee of its account while the
    /// request would be within that of its own. Not where promises or maxima have a say.
    fn is_lent(&self, seen: &Seen<'_>, held: &Holding, request: &Request) -> bool {
        let rivals = self.rivals(&request.id.account, &held.request.account);
        let Some((mine, theirs)) = rivals else { return false };
        let residency = seen.after.settings().residency;
        let is_displaceable = matches!(held.activity, Activity::Idle { .. })
            && matches!(held.stage, Stage::Running { since } if since.after(residency) <= seen.now)
            && !held.terms.pinned
            && held.terms.idle_limit.is_some()
            && held.terms.priority <= request.terms.priority
            && (held.terms.model.is_none() || held.terms.model != request.terms.model);
        let (top, account) = self.levels(&request.id.account);
        let maximum = |name: &Name| self.shares.get(name).map(|share| share.maximum);
        let has_maximum = [top, account].into_iter().filter_map(maximum).any(|one| !one.is_empty());
        if !is_displaceable || has_maximum || seen.after.ledger().promises().len() > 0 {
            return false;
        }
        let mut after = self.usage(mine, seen.books, &|_| true);
        if !self.is_below(mine, &after) {
            return false;
        }
        let needs = request.spec.shapes().iter();
        let bytes = needs.filter_map(|shape| {
            let needs = shape.containers.iter().flat_map(|container| &container.needs);
            needs
                .map(|need| match need.amount {
                    Amount::Bytes(bytes) => {
                        Some(u128::from(bytes.get()) * u128::from(need.count.get()))
                    }
                    _ => None,
                })
                .sum::<Option<u128>>()
        });
        after.bytes += bytes.max().unwrap_or(u128::MAX >> 1);
        let most = request.spec.shapes().iter().map(Shape::device_count).max();
        after.devices += most.unwrap_or(0);
        let stays = |held: &Held| !held.stage.is_releasing();
        !self.is_above(mine, &after)
            && self.is_above(theirs, &self.usage(theirs, seen.books, &stays))
    }
}

/// Returns true if a victim can be evicted whatever the shares are: it has been idle for long
/// enough, or the request interrupts lower priorities.
fn leaves_by_terms(held: &Holding, request: &Request, seen: &Seen<'_>) -> bool {
    let is_stronger = request.terms.eviction == Eviction::LowerPriority
        && request.terms.priority > held.terms.priority;
    let is_idle = match held.activity {
        Activity::Idle { since } if held.terms.speculative => since <= seen.now,
        Activity::Idle { since } => {
            held.terms.idle_limit.is_some_and(|limit| since.after(limit) <= seen.now)
        }
        Activity::Unknown => held.terms.speculative,
        Activity::Active { .. } => false,
    };
    is_stronger || is_idle
}

fn add<T: std::ops::Add<Output = T>>(sum: Option<T>, one: Option<T>) -> Option<T> {
    match (sum, one) {
        (Some(sum), Some(one)) => Some(sum + one),
        (sum, one) => sum.or(one),
    }
}
