//! Shares of accounts: what each account is guaranteed, what it may hold at most, and which account
//! is served first.
//!
//! ```text
//! Settings::accounts ─▶ Ledger ─▶ allowance(request) ─▶ admit     (maximum)
//! ledger's sum by account ─▶ Standing ─▶ order of the queue       (guarantee, weight)
//!                                    └─▶ eviction and retirement  (reclaim)
//! ```
//!
//! There is no sum in this module. The ledger has one row per account of its requests
//! (`RequestId::account`), and a share is compared with the rows that it covers. An account without
//! a share has no guarantee, no maximum and weight 1. There are two levels: an account may name a
//! parent, whose limits cover all its accounts.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::charge::{Charge, Holding};
use crate::reason::RequestReason;
use crate::units::{Bytes, Name};

mod validate;

pub use validate::SharesError;

/// The holdings of one account over the whole fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Device memory; a floating charge counts once.
    pub bytes: Bytes,
    /// One for each holding and device: parts of the same device count each.
    pub devices: u32,
    pub holdings: u32,
    /// Charges of unknown size, which `bytes` leaves out.
    pub undeclared: u32,
}

impl Account {
    /// Returns the usage of some charges, without a holding.
    pub fn of_charges(charges: &[Charge]) -> Account {
        let mut sum = Account::default();
        for charge in charges {
            sum.devices += 1;
            match charge.bytes() {
                Some(bytes) => sum.bytes = sum.bytes.plus(bytes),
                None => sum.undeclared += 1,
            }
        }
        sum
    }

    /// Returns the usage of one holding.
    pub fn of_holding(holding: &Holding) -> Account {
        Account { holdings: 1, ..Account::of_charges(&holding.charges) }
    }

    /// Adds; the bytes saturate.
    #[must_use]
    pub fn plus(self, other: Account) -> Account {
        Account {
            bytes: self.bytes.plus(other.bytes),
            devices: self.devices.saturating_add(other.devices),
            holdings: self.holdings.saturating_add(other.holdings),
            undeclared: self.undeclared.saturating_add(other.undeclared),
        }
    }

    /// Subtracts, down to zero.
    #[must_use]
    pub fn less(self, other: Account) -> Account {
        Account {
            bytes: self.bytes.less(other.bytes),
            devices: self.devices.saturating_sub(other.devices),
            holdings: self.holdings.saturating_sub(other.holdings),
            undeclared: self.undeclared.saturating_sub(other.undeclared),
        }
    }
}

/// Amounts of memory and devices; `None` where there is no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
}

impl Quota {
    /// Returns true if neither amount is limited.
    pub fn is_empty(&self) -> bool {
        self.memory.is_none() && self.devices.is_none()
    }

    /// Returns true if there is an amount, and the usage is at most each amount.
    fn covers(&self, used: Account) -> bool {
        !self.is_empty()
            && self.memory.is_none_or(|memory| used.bytes <= memory && used.undeclared == 0)
            && self.devices.is_none_or(|devices| used.devices <= devices)
    }
}

/// The share of one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// Accounts of requests that count as this account, such as the models of a team. Its own name
    /// always does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Name>,
    /// Served before work that borrows, and taken back from it.
    #[serde(default)]
    pub guaranteed: Quota,
    /// Never exceeded by a placement.
    #[serde(default)]
    pub maximum: Quota,
    /// The part of the memory beyond all guarantees, relative to other accounts.
    pub weight: NonZeroU32,
}

impl Default for Share {
    fn default() -> Self {
        Share {
            parent: None,
            members: Vec::new(),
            guaranteed: Quota::default(),
            maximum: Quota::default(),
            weight: NonZeroU32::MIN,
        }
    }
}

/// The shares of all accounts. Without any, requests are served by priority and age alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<Name, Share>", into = "BTreeMap<Name, Share>")]
pub struct Shares {
    by_name: BTreeMap<Name, Share>,
    /// The account with a share that a request's account counts as.
    account_of: BTreeMap<Name, Name>,
    /// The requests' accounts that a share covers: its own, and for a parent those of its accounts.
    covered: BTreeMap<Name, Vec<Name>>,
    has_maximum: bool,
}

impl From<Shares> for BTreeMap<Name, Share> {
    fn from(shares: Shares) -> Self {
        shares.by_name
    }
}

impl TryFrom<BTreeMap<Name, Share>> for Shares {
    type Error = SharesError;

    fn try_from(by_name: BTreeMap<Name, Share>) -> Result<Self, SharesError> {
        validate::check(&by_name)?;
        let mut shares = Shares::default();
        for (name, share) in &by_name {
            shares.has_maximum |= !share.maximum.is_empty();
            for member in share.members.iter().chain([name]) {
                shares.account_of.insert(member.clone(), name.clone());
                for covering in [Some(name), share.parent.as_ref()].into_iter().flatten() {
                    shares.covered.entry(covering.clone()).or_default().push(member.clone());
                }
            }
        }
        for members in shares.covered.values_mut() {
            members.sort();
            members.dedup();
        }
        Ok(Shares { by_name, ..shares })
    }
}

/// The account of a request at both levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels<'a> {
    /// The parent, or the account itself if it has none.
    pub top: &'a Name,
    pub account: &'a Name,
}

impl Shares {
    /// Returns true if no account has a share.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Iterates over the shares by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Share)> {
        self.by_name.iter()
    }

    /// Returns the share of an account, if it has one.
    pub fn get(&self, account: &str) -> Option<&Share> {
        self.by_name.get(account)
    }

    /// Returns the account at both levels that a request's account counts as.
    pub fn levels<'a>(&'a self, account: &'a Name) -> Levels<'a> {
        let account = self.account_of.get(account).unwrap_or(account);
        let top = self.by_name.get(account).and_then(|share| share.parent.as_ref());
        Levels { top: top.unwrap_or(account), account }
    }

    /// Returns the usage of an account with a share, or of any other account, by the ledger's rows.
    pub fn usage(&self, account: &Name, row: impl Fn(&Name) -> Account) -> Account {
        match self.covered.get(account) {
            Some(members) => members.iter().map(row).fold(Account::default(), Account::plus),
            None => row(account),
        }
    }

    /// Returns the guarantee of an account. A parent without one is guaranteed what its accounts
    /// are.
    pub fn guaranteed(&self, account: &str) -> Quota {
        let Some(own) = self.by_name.get(account) else { return Quota::default() };
        if !own.guaranteed.is_empty() {
            return own.guaranteed;
        }
        let children =
            self.by_name.values().filter(|share| share.parent.as_deref() == Some(account));
        children.fold(Quota::default(), |sum, child| Quota {
            memory: add(sum.memory, child.guaranteed.memory, Bytes::plus),
            devices: add(sum.devices, child.guaranteed.devices, u32::saturating_add),
        })
    }

    /// Returns the position of an account with this usage relative to its share.
    pub fn standing(&self, account: &str, used: Account) -> Standing {
        let guaranteed = self.guaranteed(account);
        let parts = [
            guaranteed.memory.map(|all| Part { used: used.bytes.get(), of: all.get() }),
            guaranteed.devices.map(|all| Part { used: used.devices.into(), of: all.into() }),
        ];
        let fullest = parts.into_iter().flatten().max();
        match fullest.filter(|fullest| fullest.used < fullest.of && used.undeclared == 0) {
            Some(fullest) => Standing::Within(fullest),
            None => Standing::Borrowing(Part {
                used: used.bytes.less(guaranteed.memory.unwrap_or(Bytes::ZERO)).get(),
                of: self.by_name.get(account).map_or(1, |share| share.weight.get().into()),
            }),
        }
    }

    /// Returns true if an account with this usage has nothing beyond its guarantee.
    pub fn is_guaranteed(&self, account: &str, used: Account) -> bool {
        self.guaranteed(account).covers(used)
    }

    /// Returns the memory and devices that an account holds beyond its guarantee.
    pub fn borrowed(&self, account: &str, used: Account) -> Account {
        let guaranteed = self.guaranteed(account);
        Account {
            bytes: used.bytes.less(guaranteed.memory.unwrap_or(Bytes::ZERO)),
            devices: used.devices.saturating_sub(guaranteed.devices.unwrap_or(0)),
            ..used
        }
    }

    /// Returns the limits that apply to a request of an account, by the ledger's rows.
    pub fn allowance(&self, account: &Name, row: impl Fn(&Name) -> Account) -> Allowance {
        if !self.has_maximum {
            return Allowance::default();
        }
        let levels = self.levels(account);
        let names = [Some(levels.account), Some(levels.top).filter(|top| *top != levels.account)];
        let limits = names.into_iter().flatten().filter_map(|name| {
            let maximum = self.by_name.get(name)?.maximum;
            let held = || self.usage(name, &row);
            (!maximum.is_empty()).then(|| Limit { account: name.clone(), held: held(), maximum })
        });
        Allowance { limits: limits.collect() }
    }
}

fn add<T>(sum: Option<T>, one: Option<T>, plus: impl Fn(T, T) -> T) -> Option<T> {
    match (sum, one) {
        (Some(sum), Some(one)) => Some(plus(sum, one)),
        (sum, one) => sum.or(one),
    }
}

/// The position of an account relative to its share; the least is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Below its guarantee: the part of the guarantee that it uses.
    Within(Part),
    /// At or above its guarantee: the bytes beyond it, for each unit of weight.
    Borrowing(Part),
}

/// A fraction, compared without rounding.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub used: u64,
    /// Zero counts as an empty guarantee, which is always used up.
    pub of: u64,
}

impl Ord for Part {
    fn cmp(&self, other: &Part) -> Ordering {
        let left = u128::from(self.used) * u128::from(other.of);
        let right = u128::from(other.used) * u128::from(self.of);
        // Only a guarantee of zero has a zero denominator; it is full, and full is one.
        match (self.of, other.of) {
            (0, 0) => Ordering::Equal,
            (0, _) => other.of.cmp(&other.used),
            (_, 0) => self.used.cmp(&self.of),
            _ => left.cmp(&right),
        }
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Part) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Part {}

/// One account with everything that its requests are ordered and limited by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    pub account: Name,
    pub parent: Option<Name>,
    pub held: Account,
    pub guaranteed: Quota,
    pub maximum: Quota,
    pub weight: NonZeroU32,
    /// Held beyond the guarantee.
    pub borrowed: Account,
    /// Pending requests.
    pub pending: u32,
}

/// The maxima that apply to one request, with what is held or promised beside it. `admit` checks
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    limits: Vec<Limit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    account: Name,
    held: Account,
    maximum: Quota,
}

impl Allowance {
    /// Returns true if no maximum applies.
    pub fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }

    /// Checks that an account, and its parent, stay within their maxima with these charges.
    pub(crate) fn check(&self, charges: &[Charge]) -> Result<(), RequestReason> {
        self.limits.iter().try_for_each(|limit| limit.check(Account::of_charges(charges)))
    }
}

impl Limit {
    fn check(&self, need: Account) -> Result<(), RequestReason> {
        let Limit { account, held, maximum } = self;
        let account = account.clone();
        if let Some(maximum) = maximum.memory {
            let unknown = held.undeclared + need.undeclared;
            if unknown > 0 {
                return Err(RequestReason::AccountMemoryUnknown { account, unknown });
            }
            let (held, need) = (held.bytes, need.bytes);
            if held.plus(need) > maximum {
                return Err(RequestReason::AccountOverMemory { account, need, held, maximum });
            }
        }
        if let Some(maximum) = maximum.devices {
            let (held, need) = (held.devices, need.devices);
            if held.saturating_add(need) > maximum {
                return Err(RequestReason::AccountOverDevices { account, need, held, maximum });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
