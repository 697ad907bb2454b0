//! The order between accounts: which pending request is tried next.
//!
//! Speculative work comes last and priorities come first, as without shares. Among equals the
//! account with the least [`Standing`] is next, first by parent, then by account, and of one
//! account the oldest request. Each placement changes a standing, so that the next request is
//! chosen only when the previous one has been tried.

use std::collections::{BTreeMap, VecDeque};

use super::Scheduler;
use crate::account::{AccountRow, Standing};
use crate::queue::PendingRequest;
use crate::units::Name;

impl Scheduler {
    /// Returns the standing of a request's account: that of its parent, then its own.
    pub fn standing(&self, account: &Name) -> (Standing, Standing) {
        let shares = self.ledger.shares();
        let levels = shares.levels(account);
        let of = |name: &Name| shares.standing(name, self.ledger.usage(name));
        (of(levels.top), of(levels.account))
    }

    /// Returns a row for each account with a share, by name.
    pub fn account_rows(&self) -> Vec<AccountRow> {
        let shares = self.ledger.shares();
        shares.iter().map(|(account, _)| self.account_row(account)).collect()
    }

    /// Returns the row of an account, also of one without a share.
    pub fn account_row(&self, account: &Name) -> AccountRow {
        let shares = self.ledger.shares();
        let share = shares.get(account).cloned().unwrap_or_default();
        let held = self.ledger.usage(account);
        let pending = self.queue.iter().filter(|entry| {
            let levels = shares.levels(&entry.request.id.account);
            levels.account == account || levels.top == account
        });
        AccountRow {
            account: account.clone(),
            parent: share.parent,
            held,
            guaranteed: shares.guaranteed(account),
            maximum: share.maximum,
            weight: share.weight,
            borrowed: shares.borrowed(account, held),
            pending: u32::try_from(pending.count()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the pending requests in the order in which they would be tried now. Every placement
    /// changes the order of the rest.
    pub fn pending_in_turn(&self) -> Vec<&PendingRequest> {
        let mut turns = Turns::new(self, self.queue.iter());
        std::iter::from_fn(|| turns.next(self)).collect()
    }
}

/// Pending requests that are taken one at a time, each when it is its turn.
#[derive(Debug)]
pub struct Turns<E> {
    order: Order<E>,
}

#[derive(Debug)]
enum Order<E> {
    /// Without shares.
    ByAge(VecDeque<E>),
    ByStanding(VecDeque<PriorityClass<E>>),
}

/// The requests of one priority by account, each with its position by age.
#[derive(Debug)]
struct PriorityClass<E> {
    speculative: bool,
    priority: i32,
    accounts: BTreeMap<Name, VecDeque<(usize, E)>>,
}

impl<E: AsRef<PendingRequest>> Turns<E> {
    /// Takes requests in the order of a queue: of one priority the oldest first.
    pub fn new(scheduler: &Scheduler, entries: impl Iterator<Item = E>) -> Turns<E> {
        if scheduler.ledger.shares().is_empty() {
            return Turns { order: Order::ByAge(entries.collect()) };
        }
        let mut classes: VecDeque<PriorityClass<E>> = VecDeque::new();
        for (age, entry) in entries.enumerate() {
            let request = &entry.as_ref().request;
            let (speculative, priority) = (request.terms.speculative, request.terms.priority);
            let account = scheduler.ledger.shares().levels(&request.id.account).account.clone();
            let is_same = |class: &PriorityClass<E>| {
                (class.speculative, class.priority) == (speculative, priority)
            };
            if !classes.back().is_some_and(is_same) {
                let accounts = BTreeMap::new();
                classes.push_back(PriorityClass { speculative, priority, accounts });
            }
            let class = classes.back_mut().expect("a class was just added if there was none");
            class.accounts.entry(account).or_default().push_back((age, entry));
        }
        Turns { order: Order::ByStanding(classes) }
    }

    /// Returns the request whose turn it is by the usage now.
    pub fn next(&mut self, scheduler: &Scheduler) -> Option<E> {
        let classes = match &mut self.order {
            Order::ByAge(entries) => return entries.pop_front(),
            Order::ByStanding(classes) => classes,
        };
        while let Some(class) = classes.front_mut() {
            let next = class
                .accounts
                .iter()
                .filter_map(|(account, entries)| Some((account, entries.front()?.0)))
                .min_by_key(|(account, age)| (scheduler.standing(account), *age))
                .map(|(account, _)| account.clone());
            if let Some((_, entry)) =
                next.and_then(|next| class.accounts.get_mut(&next)?.pop_front())
            {
                return Some(entry);
            }
            classes.pop_front();
        }
        None
    }
}
