//! `plimsoll events`: what happened to slots and runners.

use anyhow::Result;
use plimsoll_api::rows::ActivityRow;

use super::look::{self, View};
use crate::cli::EventsArgs;
use crate::client::{Client, Kind};
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::decisions::Grouping;
use crate::text::live::events;

/// The most rows of a server.
const MOST: usize = 5000;

pub(super) fn run(args: &EventsArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    client.check_named(Kind::Runner, args.runner.as_deref())?;
    client.check_named(Kind::Model, args.model.as_deref())?;
    let grouping = if args.all { Grouping::Each } else { Grouping::Alike };
    let lines = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let is_wanted = |row: &ActivityRow| {
        let has = |wanted: &Option<String>, value: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| value.as_ref() == Some(wanted))
        };
        has(&args.runner, &row.runner_id) && has(&args.model, &row.model)
    };
    let view = View {
        rows: &|| {
            let mut rows: Vec<ActivityRow> =
                client.list(&format!("/api/v1/activity?limit={MOST}"), None)?;
            rows.retain(is_wanted);
            Ok(rows)
        },
        print: &|page, rows| events::events(page, rows, now(), (grouping, lines)),
        name: &|row: &ActivityRow| row.id.to_string(),
        outcome: &|_| Outcome::Fine,
    };
    look::show_in_order(&client, &args.show, verbosity, &view)
}
