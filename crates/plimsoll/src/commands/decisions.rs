//! `plimsoll decisions`: lists the latest decisions.

use anyhow::Result;

use plimsoll_api::rows::DecisionRow;

use super::look::{self, View};
use super::slots::query;
use crate::cli::{DecisionsArgs, ListFormat};
use crate::client::{Client, Kind};
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::decisions::{self, Grouping};

/// The largest page of a server.
const LARGEST_PAGE: u32 = 5000;

/// The decisions that are read for each line of alike ones.
const READ_PER_LINE: u32 = 20;

pub(super) fn run(args: &DecisionsArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    client.check_named(Kind::Runner, args.runner.as_deref())?;
    client.check_named(Kind::Model, args.model.as_deref())?;
    let is_table = matches!(args.show.output, ListFormat::Table | ListFormat::Wide);
    let grouping = if args.all || !is_table { Grouping::Each } else { Grouping::Alike };
    // Alike decisions share a line, so that more of them are read than lines are printed.
    let read = match grouping {
        Grouping::Alike => args.limit.saturating_mul(READ_PER_LINE),
        Grouping::Each => args.limit,
    };
    let limit = Some(read.min(LARGEST_PAGE).to_string());
    let filters = [("runner_id", &args.runner), ("model", &args.model), ("limit", &limit)];
    let path = format!("/api/v1/scheduler/decisions{}", query(&filters));
    let most = usize::try_from(read).unwrap_or(usize::MAX);
    let lines = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let view = View {
        rows: &|| Ok(client.list(&path, Some(most))?),
        print: &|page, rows| decisions::decisions(page, rows, now(), (grouping, lines)),
        name: &|row: &DecisionRow| row.id.clone().unwrap_or_default(),
        outcome: &|_| Outcome::Fine,
    };
    look::show_in_order(&client, &args.show, verbosity, &view)
}
