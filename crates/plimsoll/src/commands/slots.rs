//! `plimsoll slots`: lists slots.

use anyhow::Result;
use plimsoll_api::rows::SlotRow;

use super::look::{self, View};
use crate::cli::SlotsArgs;
use crate::client::{Client, segment};
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::slots;

pub(super) fn run(args: &SlotsArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let path = format!("/api/v1/scheduler/slots{}", query(&[("runner_id", &args.runner)]));
    let view = View {
        rows: &|| {
            let mut rows: Vec<SlotRow> = client.list(&path, None)?;
            rows.retain(|row| args.model.as_ref().is_none_or(|model| *model == row.model));
            Ok(rows)
        },
        print: &|page, rows| slots::slots(page, rows, now()),
        outcome: &|_| Outcome::Fine,
    };
    look::show(&client, &args.show, verbosity, &view)
}

/// Formats the given filters as a query: `?a=b&c=d`.
pub(super) fn query(filters: &[(&str, &Option<String>)]) -> String {
    let given = filters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", segment(value.as_ref()?))));
    match given.collect::<Vec<_>>() {
        given if given.is_empty() => String::new(),
        given => format!("?{}", given.join("&")),
    }
}
