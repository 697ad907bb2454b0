//! `plimsoll accounts`: lists the accounts with a share.

use anyhow::Result;

use plimsoll_api::forecast::AccountRow;

use super::look::{self, View};
use crate::cli::AccountsArgs;
use crate::client::Client;
use crate::output::{Outcome, Verbosity};
use crate::text::live::accounts;

pub(super) fn run(args: &AccountsArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let view = View {
        rows: &|| Ok(client.get("/api/v1/scheduler/accounts")?),
        print: &|page, rows| accounts::accounts(page, 0, rows),
        name: &|row: &AccountRow| row.account.clone(),
        outcome: &|_| Outcome::Fine,
    };
    look::show_in_order(&client, &args.show, verbosity, &view)
}
