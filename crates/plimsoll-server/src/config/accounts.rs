//! The shares of accounts in the configuration file.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plimsoll_core::account::{Quota, Share, Shares};
use plimsoll_core::units::{Bytes, Name};
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

/// Amounts as written. They are parsed later, so that an error names the field.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct QuotaEntry {
    memory: Option<Written>,
    devices: Option<Written>,
}

/// An amount: a number, or a text such as `40GiB`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i64),
    Text(String),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Written::Number(number) => number.fmt(f),
            Written::Text(text) => text.fmt(f),
        }
    }
}

/// The part of a configuration file that has the shares. Other keys are not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AccountsFile {
    accounts: Option<BTreeMap<String, ShareEntry>>,
}

/// Reads the shares of accounts from a file, such as the configuration of a server.
pub fn read_accounts(path: &Path) -> Result<Shares> {
    let AccountsFile { accounts } = super::read_yaml(path)?;
    let shown = path.display();
    let accounts = accounts.with_context(|| {
        format!("{shown}: there is no key `accounts`; it maps names of accounts to their shares")
    })?;
    shares(accounts).with_context(|| format!("invalid shares in {shown}"))
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
            guaranteed: quota(&format!("accounts.{name}.guaranteed"), &entry.guaranteed)?,
            maximum: quota(&format!("accounts.{name}.maximum"), &entry.maximum)?,
            weight,
        };
        shares.insert(name.as_str().into(), share);
    }
    Ok(Shares::try_from(shares)?)
}

fn quota(field: &str, entry: &QuotaEntry) -> Result<Quota> {
    let memory = entry.memory.as_ref().map(|written| {
        let size = written.to_string().parse::<Bytes>();
        size.map_err(|error| anyhow!("{field}.memory: {error}"))
    });
    let devices = entry.devices.as_ref().map(|written| {
        let number = written.to_string().parse::<u32>();
        number.map_err(|_| anyhow!("{field}.devices is {written}, and must be a number of GPUs"))
    });
    Ok(Quota { memory: memory.transpose()?, devices: devices.transpose()? })
}
