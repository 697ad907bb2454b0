//! `plimsoll slots`: which model is where, what it holds, and whether it may go.

use anyhow::Result;

use super::look::{self, Look};
use crate::cli::SlotsArgs;
use crate::client::rows::{Moment, SlotRow};
use crate::client::{Client, segment};
use crate::output::Outcome;
use crate::text::live::slots;

pub(super) fn run(args: &SlotsArgs, quiet: bool) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let path = format!("/api/v1/scheduler/slots{}", query(&[("runner_id", &args.runner)]));
    let wanted = |row: &SlotRow| args.model.as_ref().is_none_or(|model| *model == row.model);
    look::show(&client, &args.show, quiet, || {
        let mut listed = client.list(&path, None)?;
        let rows = listed.keep(wanted)?;
        Ok(Look::at(listed, args.show.output, Outcome::Fine, |page| {
            slots::slots(page, &rows, Moment::now());
        }))
    })
}

/// `?a=b&c=d` of what was given.
pub(super) fn query(filters: &[(&str, &Option<String>)]) -> String {
    let given = filters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", segment(value.as_ref()?))));
    match given.collect::<Vec<_>>() {
        given if given.is_empty() => String::new(),
        given => format!("?{}", given.join("&")),
    }
}
