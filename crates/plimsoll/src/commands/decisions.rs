//! `plimsoll decisions`: what a server decided last.

use anyhow::Result;

use super::look::{self, Look};
use super::slots::query;
use crate::cli::DecisionsArgs;
use crate::client::Client;
use crate::client::rows::{DecisionRow, Moment};
use crate::output::Outcome;
use crate::text::live::decisions;

/// The most rows that a server gives at once.
const LARGEST_PAGE: u32 = 5000;

pub(super) fn run(args: &DecisionsArgs, quiet: bool) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let limit = Some(args.limit.min(LARGEST_PAGE).to_string());
    let filters = [("runner_id", &args.runner), ("model", &args.model), ("limit", &limit)];
    let path = format!("/api/v1/scheduler/decisions{}", query(&filters));
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    look::show(&client, &args.show, quiet, || {
        let listed = client.list(&path, Some(most))?;
        let rows: Vec<DecisionRow> = listed.read()?;
        let draw = |page: &mut _| decisions::decisions(page, &rows, Moment::now());
        Ok(Look::at(listed, args.show.output, Outcome::Fine, draw))
    })
}
