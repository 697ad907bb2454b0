//! `plimsoll slots`: lists, shows and stops slots.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use plimsoll_api::rows::{RunnerRow, SlotRow};

use super::look::{self, View};
use super::release::done;
use super::runners::has_labels;
use crate::cli::{Format, NamedArgs, SlotListArgs, SlotsAction, SlotsArgs, StopArgs};
use crate::client::{Client, Kind, segment};
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::{reservation, slots};

pub(super) fn run(args: &SlotsArgs, verbosity: Verbosity) -> Result<Outcome> {
    match &args.action {
        None => list(&args.list, verbosity),
        Some(SlotsAction::List(list_args)) => list(list_args, verbosity),
        Some(SlotsAction::Show(named)) => show(named, verbosity),
        Some(SlotsAction::Stop(stop_args)) => stop(stop_args),
    }
}

fn list(args: &SlotListArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    client.check_named(Kind::Runner, args.runner.as_deref())?;
    client.check_named(Kind::Model, args.model.as_deref())?;
    let ended = args.ended.then(|| "true".to_string());
    let filters = [("runner_id", &args.runner), ("ended", &ended)];
    let path = format!("/api/v1/scheduler/slots{}", query(&filters));
    let view = View {
        rows: &|| {
            let mut rows: Vec<SlotRow> = client.list(&path, None)?;
            rows.retain(|row| args.model.as_ref().is_none_or(|model| *model == row.model));
            if let Some(selector) = &args.selector {
                let runners: Vec<RunnerRow> = client.list("/api/v1/runners", None)?;
                let wanted = runners.iter().filter(|row| has_labels(row, Some(selector)));
                let names: BTreeSet<&str> = wanted.map(|row| &*row.runner_id).collect();
                rows.retain(|row| row.runner_id.as_ref().is_some_and(|id| names.contains(&**id)));
            }
            Ok(rows)
        },
        print: &|page, rows| match args.ended {
            true => slots::ended(page, rows, now()),
            false => slots::slots(page, rows, now()),
        },
        name: &|row: &SlotRow| row.id.clone(),
        outcome: &|_| Outcome::Fine,
    };
    look::show(&client, &args.show, verbosity, &view)
}

fn show(args: &NamedArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let view = View {
        rows: &|| Ok(vec![client.named::<SlotRow>(Kind::Slot, &args.name)?]),
        print: &|page, rows| {
            let lines = reservation::Lines::All;
            rows.iter().for_each(|row| reservation::slot(page, row, now(), lines));
        },
        name: &|row: &SlotRow| row.id.clone(),
        outcome: &|_| Outcome::Fine,
    };
    look::show_one(&client, &args.show, verbosity, &view)
}

fn stop(args: &StopArgs) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let force = if args.force { Force::Busy } else { Force::IdleOnly };
    stop_slot(&client, &args.id, force, args.output)
}

/// The slots that may be stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    IdleOnly,
    /// Also busy ones: their reservations are lost.
    Busy,
}

/// Stops a slot.
pub(super) fn stop_slot(
    client: &Client,
    id: &str,
    force: Force,
    format: Format,
) -> Result<Outcome> {
    let only_idle = if force == Force::IdleOnly { "?if_idle=true" } else { "" };
    let path = format!("/api/v1/scheduler/slots/{}{only_idle}", segment(id));
    if let Err(error) = client.delete(&path) {
        if error.code() == Some("slot_busy") {
            bail!("{}; stop it with --force", error.detail());
        }
        return Err(client.with_suggestion(error, Kind::Slot, id));
    }
    done(id, "stopping", format)
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
