//! The accounts of a server: what each holds, and its share.

use plimsoll_api::forecast::{AccountRow, AmountsRow, QuotaRow};

use crate::text::count;
use crate::text::page::{FAINT, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the accounts, one line each.
pub(crate) fn accounts(page: &mut Page, indent: usize, rows: &[AccountRow]) {
    if rows.is_empty() {
        return page.styled(
            indent,
            FAINT,
            "no account has a share; see accounts in the configuration",
        );
    }
    let mut table = Table::new(&[
        ("ACCOUNT", Align::Left),
        ("PARENT", Align::Left),
        ("HELD", Align::Left),
        ("GUARANTEED", Align::Left),
        ("MAXIMUM", Align::Left),
        ("WEIGHT", Align::Right),
        ("OVER", Align::Left),
        ("PENDING", Align::Right),
    ])
    .optional(&["WEIGHT", "PARENT"]);
    for row in rows {
        let over = over_guarantee(row);
        let style = if over.is_some() { ODD } else { PLAIN };
        table.styled_row([
            (PLAIN, row.account.clone()),
            (PLAIN, row.parent.clone().unwrap_or("-".to_string())),
            (PLAIN, held(row.held)),
            (PLAIN, quota(row.guaranteed)),
            (PLAIN, quota(row.maximum)),
            (PLAIN, row.weight.to_string()),
            (style, over.unwrap_or("-".to_string())),
            (PLAIN, row.pending.to_string()),
        ]);
    }
    table.print(page, indent);
}

/// Formats what an account holds beyond its guarantee; `None` if it does not, or has none.
pub(crate) fn over_guarantee(row: &AccountRow) -> Option<String> {
    let AccountRow { guaranteed, borrowed, .. } = row;
    let memory = guaranteed.memory.map(|_| borrowed.memory).filter(|bytes| !bytes.is_zero());
    let devices = guaranteed.devices.map(|_| borrowed.devices).filter(|devices| *devices > 0);
    let over = QuotaRow { memory, devices };
    (over.memory.is_some() || over.devices.is_some()).then(|| quota(over))
}

fn held(amounts: AmountsRow) -> String {
    match amounts.devices {
        0 => "nothing".to_string(),
        devices => format!("{} on {}", amounts.memory, gpus(devices)),
    }
}

fn quota(quota: QuotaRow) -> String {
    match (quota.memory, quota.devices) {
        (Some(memory), Some(devices)) => format!("{memory} on {}", gpus(devices)),
        (Some(memory), None) => memory.to_string(),
        (None, Some(devices)) => gpus(devices),
        (None, None) => "-".to_string(),
    }
}

fn gpus(devices: u32) -> String {
    count(usize::try_from(devices).unwrap_or(usize::MAX), "GPU")
}
