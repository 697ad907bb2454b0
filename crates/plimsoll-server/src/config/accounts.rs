//! The shares of accounts in the configuration file.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use anyhow::{Result, anyhow};
use plimsoll_core::account::{Quota, Share, Shares};
use plimsoll_core::units::Name;
use plimsoll_slots::size::Size;
use serde::Deserialize;

/// The share of one account.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ShareEntry {
    parent: Option<String>,
    /// The models that count as this account.
    members: Vec<String>,
    guaranteed: QuotaEntry,
    maximum: QuotaEntry,
    weight: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct QuotaEntry {
    memory: Option<Size>,
    devices: Option<u32>,
}

/// Checks the shares. Errors name the field.
pub(super) fn shares(entries: BTreeMap<String, ShareEntry>) -> Result<Shares> {
    let mut shares: BTreeMap<Name, Share> = BTreeMap::new();
    for (name, entry) in entries {
        let weight = NonZeroU32::new(entry.weight.unwrap_or(1))
            .ok_or_else(|| anyhow!("accounts.{name}.weight is 0, and must be at least 1"))?;
        let share = Share {
            parent: entry.parent.map(|parent| parent.as_str().into()),
            members: entry.members.iter().map(|member| member.as_str().into()).collect(),
            guaranteed: quota(&entry.guaranteed),
            maximum: quota(&entry.maximum),
            weight,
        };
        shares.insert(name.as_str().into(), share);
    }
    Ok(Shares::try_from(shares)?)
}

fn quota(entry: &QuotaEntry) -> Quota {
    Quota { memory: entry.memory.as_ref().map(|size| size.0), devices: entry.devices }
}
