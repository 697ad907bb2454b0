//! Displacement between accounts: which holders of other accounts a request may evict or retire
//! because of the shares.
//!
//! Memory that an account does not use is lent to any request. A request of an account below its
//! guarantee takes it back from accounts that hold more than theirs: it may evict
//! their idle holders before the idle limit, and interrupt active ones if its terms allow that for
//! lower priorities. Among accounts that all borrow, nothing is interrupted; holders are retired
//! where the account of the request would still have less than the account of the holder.
//!
//! Two accounts are compared at the level where they differ: by their parents, or if they have the
//! same parent by themselves. A displaced account had more than its guarantee, or more than the
//! other account, before its last holder went. Two accounts can therefore not take the same memory
//! from each other in turn: after the exchange the first condition does not hold the other way.

use std::collections::BTreeMap;

use super::Scheduler;
use crate::account::{Account, Standing};
use crate::charge::Holding;
use crate::evict::{self, Plan, VictimOrder};
use crate::reason::NotEvictable;
use crate::request::{Eviction, Request, RequestId};
use crate::units::{Bytes, Millis, Name};

/// The way in which holders make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Displacing {
    Evict { now: Millis },
    Retire,
}

/// The usage of an account before and after a placement.
struct Gains<'a> {
    account: &'a Name,
    now: Account,
    after: Account,
}

impl Scheduler {
    /// Checks that a holder can be evicted for a request, by its own terms or because its account
    /// borrows what the account of the request is guaranteed.
    pub fn check_evictable(
        &self,
        holding: &Holding,
        request: &Request,
        now: Millis,
    ) -> Result<(), NotEvictable> {
        let residency = self.settings.residency;
        let by_terms = evict::check_evictable(holding, request, now, residency);
        match by_terms {
            Err(reason) if self.lifts(&reason, request) && self.may_reclaim(holding, request) => {
                Ok(())
            }
            other => other,
        }
    }

    /// Returns true if a share can lift a reason: a holder that is not idle for long enough can be
    /// evicted for any request that evicts, one that is active only for a request that interrupts
    /// work.
    fn lifts(&self, reason: &NotEvictable, request: &Request) -> bool {
        !self.ledger.shares().is_empty()
            && match reason {
                NotEvictable::NotIdleYet { .. } => true,
                NotEvictable::Active { .. } | NotEvictable::ActivityUnknown => {
                    request.terms.eviction == Eviction::LowerPriority
                }
                _ => false,
            }
    }

    /// Returns true if the account of a request is below its guarantee, and that of a holder above.
    /// A holder without an idle limit, such as a pod, ends only by itself.
    fn may_reclaim(&self, holding: &Holding, request: &Request) -> bool {
        let shares = self.ledger.shares();
        let Some((mine, theirs)) = self.rivals(&request.id, &holding.request) else { return false };
        holding.terms.idle_limit.is_some()
            && holding.terms.priority <= request.terms.priority
            && matches!(
                shares.standing(mine, self.committed(mine, &request.id)),
                Standing::Within(_)
            )
            && !shares.is_guaranteed(theirs, self.staying(theirs, &request.id))
    }

    /// Returns the preference among victims: a request within the guarantee of its account takes
    /// idle holders first, any other the lowest priority.
    pub(super) fn victim_order(&self, request: &Request) -> VictimOrder {
        let shares = self.ledger.shares();
        if shares.is_empty() {
            return VictimOrder::LowestPriorityFirst;
        }
        let levels = shares.levels(&request.id.account);
        let is_guaranteed =
            |name: &Name| shares.is_guaranteed(name, self.committed(name, &request.id));
        match is_guaranteed(levels.top) || is_guaranteed(levels.account) {
            true => VictimOrder::IdleFirst,
            false => VictimOrder::LowestPriorityFirst,
        }
    }

    /// Returns true if a plan displaces no more of other accounts than the shares allow. Without
    /// shares every plan is.
    pub(super) fn is_fair(&self, request: &Request, plan: &Plan, how: Displacing) -> bool {
        if self.ledger.shares().is_empty() {
            return true;
        }
        // A promise that waits for holders withholds memory that may be free. It is not made where
        // only the maximum of the request's own account is in the way.
        if how == Displacing::Retire
            && self.ledger.allowance(&request.id).check(&plan.charges).is_err()
        {
            return false;
        }
        let victims = plan.victims.iter().filter_map(|victim| self.ledger.of_request(victim));
        let mut rivals: BTreeMap<&Name, Vec<&Holding>> = BTreeMap::new();
        let mut mine = None;
        for (_, holding) in victims.filter(|(_, held)| !self.leaves_by_terms(held, request, how)) {
            if let Some((own, theirs)) = self.rivals(&request.id, &holding.request) {
                mine = Some(own);
                rivals.entry(theirs).or_default().push(holding);
            }
        }
        let Some(mine) = mine else { return true };
        let id = &request.id;
        let now = self.committed(mine, id);
        let gains =
            Gains { account: mine, now, after: now.plus(Account::of_charges(&plan.charges)) };
        rivals.into_iter().all(|(theirs, victims)| {
            self.may_displace(&gains, theirs, before_last(self.staying(theirs, id), &victims), how)
        })
    }

    /// Compares an account that gains with one that loses a holder, just before it does. The last
    /// request of an account may cross its guarantee: otherwise an account whose requests are large
    /// would stay below it by up to one request, beside an account that is as much above.
    fn may_displace(&self, gains: &Gains, theirs: &Name, held: Account, how: Displacing) -> bool {
        let shares = self.ledger.shares();
        let Gains { account, now, after } = *gains;
        let has_less = shares.standing(account, after) < shares.standing(theirs, held);
        let is_below = matches!(shares.standing(account, now), Standing::Within(_));
        let reclaims = is_below
            && !shares.is_guaranteed(theirs, held)
            && (shares.is_guaranteed(account, after) || has_less);
        reclaims || (how == Displacing::Retire && has_less)
    }

    /// Returns true if a holder can be displaced whatever the shares are: it is idle, or has lower
    /// priority.
    fn leaves_by_terms(&self, holding: &Holding, request: &Request, how: Displacing) -> bool {
        match how {
            Displacing::Evict { now } => {
                let residency = self.settings.residency;
                evict::check_evictable(holding, request, now, residency).is_ok()
            }
            Displacing::Retire => holding.terms.priority < request.terms.priority,
        }
    }

    /// Returns the accounts of a request and of a holder at the level where they differ; `None` if
    /// they have the same account.
    fn rivals<'a>(
        &'a self,
        request: &'a RequestId,
        holder: &'a RequestId,
    ) -> Option<(&'a Name, &'a Name)> {
        let shares = self.ledger.shares();
        let (mine, theirs) = (shares.levels(&request.account), shares.levels(&holder.account));
        match mine.top == theirs.top {
            true => (mine.account != theirs.account).then_some((mine.account, theirs.account)),
            false => Some((mine.top, theirs.top)),
        }
    }

    /// Returns true if the account of a request is below its guarantee, and that of another pending
    /// request is not. Only then does the promise of retired holders move between equal priorities:
    /// the order by standing changes with every placement, and a promise that followed it would
    /// never be kept. Within one step an account only comes nearer to its guarantee, so that each
    /// request gets the promise at most once.
    pub(super) fn outranks_by_guarantee(&self, request: &Request, other: &RequestId) -> bool {
        let shares = self.ledger.shares();
        let is_below = |account: &Name| {
            matches!(shares.standing(account, self.ledger.usage(account)), Standing::Within(_))
        };
        let rivals = self.rivals(&request.id, other);
        rivals.is_some_and(|(mine, theirs)| is_below(mine) && !is_below(theirs))
    }

    /// Returns what an account holds or is promised, beside one request.
    fn committed(&self, account: &Name, request: &RequestId) -> Account {
        let none = std::collections::BTreeSet::new();
        let ledger = &self.ledger;
        ledger.shares().usage(account, |row| ledger.committed(row, request, &none))
    }

    /// Returns the amounts that an account holds without the holders that are leaving, or retired
    /// for another request. They are already taken back, and must not be a reason to take more.
    /// Holders that are retired for a request of their own account are replaced by it, and count.
    fn staying(&self, account: &Name, request: &RequestId) -> Account {
        let ledger = &self.ledger;
        let is_own = |id: &RequestId| {
            let levels = ledger.shares().levels(&id.account);
            levels.account == account || levels.top == account
        };
        let others = ledger.promises().filter(|(id, _)| *id != request && !is_own(id));
        let retired = others.flat_map(|(_, promise)| &promise.retired);
        let retired = retired.filter_map(|holder| Some(ledger.of_request(holder)?.1));
        let releasing = ledger.releasing();
        let leaving = releasing.chain(retired.filter(|held| !held.stage.is_releasing()));
        let leaving: Vec<&Holding> = leaving.collect();
        ledger.shares().usage(account, |row| {
            let gone = leaving.iter().filter(|held| held.request.account == *row);
            gone.fold(ledger.account(row), |sum, held| sum.less(Account::of_holding(held)))
        })
    }
}

/// Returns the usage of an account just before the largest of these holders goes as the last one.
fn before_last(held: Account, victims: &[&Holding]) -> Account {
    let of = |holding: &&Holding| Account::of_holding(holding);
    let largest = victims.iter().max_by_key(|holding| holding.bytes().unwrap_or(Bytes::ZERO));
    let all = victims.iter().map(of).fold(Account::default(), Account::plus);
    held.less(all).plus(largest.map(of).unwrap_or_default())
}
