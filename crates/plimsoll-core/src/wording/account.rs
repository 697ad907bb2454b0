//! The wording of accounts and their shares.

use std::fmt;

use super::plural;
use crate::account::{Account, AccountRow, Quota};
use crate::units::{Bytes, Name};

impl fmt::Display for AccountRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AccountRow { account, parent, held, guaranteed, maximum, weight, .. } = self;
        write!(f, "{account}")?;
        if let Some(parent) = parent {
            write!(f, " (of {parent})")?;
        }
        write!(f, " holds {}", amounts(held.bytes, held.devices))?;
        if !guaranteed.is_empty() {
            write!(f, ", guaranteed {}", quota(*guaranteed))?;
        }
        if !maximum.is_empty() {
            write!(f, ", at most {}", quota(*maximum))?;
        }
        write!(f, ", weight {weight}")?;
        if let Some(over) = over_share(self.borrowed, *guaranteed) {
            write!(f, ", {over}")?;
        }
        match self.pending {
            0 => Ok(()),
            pending => write!(f, ", {pending} pending"),
        }
    }
}

/// Returns by how much an account is over its guarantee; `None` if it is not, or has none.
pub fn over_share(borrowed: Account, guaranteed: Quota) -> Option<String> {
    let memory = guaranteed.memory.map(|_| borrowed.bytes).filter(|bytes| !bytes.is_zero());
    let devices = guaranteed.devices.map(|_| borrowed.devices).filter(|devices| *devices > 0);
    let over = quota(Quota { memory, devices });
    (!over.is_empty()).then(|| format!("{over} over its guarantee"))
}

/// Returns the account of a pending request in a queue, with what it holds beyond its guarantee.
pub fn account_in_queue(row: &AccountRow) -> String {
    let name: &Name = &row.account;
    match over_share(row.borrowed, row.guaranteed) {
        Some(over) => format!("account {name} is {over}"),
        None if row.guaranteed.is_empty() => {
            format!("account {name} has no guarantee and holds {}", row.held.bytes)
        }
        None => format!(
            "account {name} holds {} of {} guaranteed",
            amounts(row.held.bytes, row.held.devices),
            quota(row.guaranteed)
        ),
    }
}

fn quota(quota: Quota) -> String {
    match (quota.memory, quota.devices) {
        (Some(memory), Some(devices)) => amounts(memory, devices),
        (Some(memory), None) => memory.to_string(),
        (None, Some(devices)) => gpus(devices),
        (None, None) => String::new(),
    }
}

fn amounts(memory: Bytes, devices: u32) -> String {
    if memory.is_zero() && devices == 0 {
        return "nothing".to_string();
    }
    format!("{memory} on {}", gpus(devices))
}

fn gpus(devices: u32) -> String {
    format!("{devices} {}", plural(devices, "GPU", "GPUs"))
}
