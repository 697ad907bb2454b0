//! `plimsoll decisions`: lists the latest decisions.

use anyhow::Result;

use super::look::{self, View};
use super::slots::query;
use crate::cli::DecisionsArgs;
use crate::client::Client;
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::decisions;

/// The largest page of a server.
const LARGEST_PAGE: u32 = 5000;

pub(super) fn run(args: &DecisionsArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let limit = Some(args.limit.min(LARGEST_PAGE).to_string());
    let filters = [("runner_id", &args.runner), ("model", &args.model), ("limit", &limit)];
    let path = format!("/api/v1/scheduler/decisions{}", query(&filters));
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let view = View {
        rows: &|| Ok(client.list(&path, Some(most))?),
        print: &|page, rows| decisions::decisions(page, rows, now()),
        outcome: &|_| Outcome::Fine,
    };
    look::show(&client, &args.show, verbosity, &view)
}
