//! Checks of shares before they are used.

use std::collections::BTreeMap;

use super::{Quota, Share};
use crate::units::{Bytes, Name};

/// The problem of a set of shares. Each names the field to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharesError {
    #[error("accounts.{account}.parent: there is no account {parent}; add it, or remove the field")]
    NoSuchParent { account: Name, parent: Name },
    #[error(
        "accounts.{account}.parent: {parent} has a parent itself; there are two levels of accounts"
    )]
    ThreeLevels { account: Name, parent: Name },
    #[error("accounts.{account}.parent: the account is its own parent; remove the field")]
    OwnParent { account: Name },
    #[error("accounts.{account}.members: {member} already counts as {other}; list it once")]
    MemberTwice { account: Name, member: Name, other: Name },
    #[error(
        "accounts.{account}.guaranteed.{field} is {guaranteed}, more than the maximum of {maximum}"
    )]
    GuaranteeOverMaximum { account: Name, field: &'static str, guaranteed: String, maximum: String },
    #[error(
        "accounts.{account}.guaranteed.{field} is {guaranteed}, less than the {together} that its \
         accounts are guaranteed together"
    )]
    ChildrenOverParent { account: Name, field: &'static str, guaranteed: String, together: String },
    #[error(
        "accounts.{account}.maximum.{field} is {maximum}, less than the {together} that its \
         accounts are guaranteed together"
    )]
    ChildrenOverMaximum { account: Name, field: &'static str, maximum: String, together: String },
}

pub(super) fn check(by_name: &BTreeMap<Name, Share>) -> Result<(), SharesError> {
    let mut counted: BTreeMap<&Name, &Name> = by_name.keys().map(|name| (name, name)).collect();
    for (account, share) in by_name {
        check_parent(by_name, account, share)?;
        for member in share.members.iter().filter(|member| *member != account) {
            if let Some(other) = counted.insert(member, account) {
                let (account, member) = (account.clone(), member.clone());
                return Err(SharesError::MemberTwice { account, member, other: other.clone() });
            }
        }
        let (low, high) = (share.guaranteed, share.maximum);
        if let Some((field, guaranteed, maximum)) = first_over(low, high) {
            let account = account.clone();
            return Err(SharesError::GuaranteeOverMaximum { account, field, guaranteed, maximum });
        }
        let children = by_name.values().filter(|child| child.parent.as_ref() == Some(account));
        let children = children.map(|child| child.guaranteed);
        let together = children.fold(Quota::default(), |sum, one| Quota {
            memory: super::add(sum.memory, one.memory, Bytes::plus),
            devices: super::add(sum.devices, one.devices, u32::saturating_add),
        });
        if let Some((field, together, guaranteed)) = first_over(together, share.guaranteed) {
            let account = account.clone();
            return Err(SharesError::ChildrenOverParent { account, field, guaranteed, together });
        }
        if let Some((field, together, maximum)) = first_over(together, share.maximum) {
            let account = account.clone();
            return Err(SharesError::ChildrenOverMaximum { account, field, maximum, together });
        }
    }
    Ok(())
}

fn check_parent(
    by_name: &BTreeMap<Name, Share>,
    account: &Name,
    share: &Share,
) -> Result<(), SharesError> {
    let Some(parent) = &share.parent else { return Ok(()) };
    let (account, parent) = (account.clone(), parent.clone());
    match by_name.get(&parent) {
        None => Err(SharesError::NoSuchParent { account, parent }),
        Some(_) if account == parent => Err(SharesError::OwnParent { account }),
        Some(above) if above.parent.is_some() => Err(SharesError::ThreeLevels { account, parent }),
        Some(_) => Ok(()),
    }
}

/// Returns the first amount of `low` that is above that of `high`, with its field.
fn first_over(low: Quota, high: Quota) -> Option<(&'static str, String, String)> {
    let memory = low.memory.zip(high.memory).filter(|(low, high)| low > high);
    let devices = low.devices.zip(high.devices).filter(|(low, high)| low > high);
    memory
        .map(|(low, high)| ("memory", low.to_string(), high.to_string()))
        .or_else(|| devices.map(|(low, high)| ("devices", low.to_string(), high.to_string())))
}
