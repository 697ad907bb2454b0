//! `plimsoll reserve`: creates a reservation, as a client program would.

use std::time::Duration;

use anyhow::{Result, bail};
use plimsoll_api::rows::{ProblemRow, ReservationRow, ReservationStatus, ReserveBody};

use crate::cli::{Format, ReserveArgs};
use crate::client::{Client, Kind, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;
use crate::text::age::now;
use crate::text::live::reservation;

pub(super) fn run(args: &ReserveArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let (namespace, name) = args.client.clone().unzip();
    let body = ReserveBody {
        model: args.model.clone(),
        namespace,
        name,
        key: args.key.clone(),
        deadline: args.deadline,
        wait: Some(args.wait),
        lease: args.lease,
    };
    let activity = format!("waiting for a reservation of {}", args.model);
    let wait = Duration::from_millis(args.wait.0);
    let answer = progress::meanwhile(verbosity, &activity, || {
        client.post("/api/v1/scheduler/slots", &body, wait)
    });
    match answer {
        Ok(row) => print(&row, client.server(), args.output),
        Err(error) => match error.reservation_outcome() {
            Some(problem) => print_ended(&client, problem, args.output),
            None if error.may_be_done() => {
                Err(anyhow::Error::new(error).context(outcome_unknown(args)))
            }
            None if error.status() == Some(404) => {
                bail!(client.not_found(Kind::Model, &args.model))
            }
            None => Err(error.into()),
        },
    }
}

/// Returns the advice for a lost connection, after which the reservation may or may not exist.
fn outcome_unknown(args: &ReserveArgs) -> String {
    let model = &args.model;
    let advice = match &args.key {
        Some(_) => "repeat the command with the same --key to get the same reservation",
        None => "`plimsoll reservations` shows it; with a --key the command can be repeated safely",
    };
    format!("the reservation of {model} may have been created, but no answer came; {advice}")
}

fn print(row: &ReservationRow, server: &str, format: Format) -> Result<Outcome> {
    match format {
        Format::Json => output::json(row)?,
        Format::Yaml => output::yaml(row)?,
        Format::Table => {
            let mut page = output::page();
            reservation::reservation(&mut page, row, now());
            reservation::next_steps(&mut page, row, server);
            output::text(page.text())?;
        }
    }
    Ok(match row.status {
        ReservationStatus::Ready => Outcome::Fine,
        _ => Outcome::Wanting,
    })
}

/// Prints the outcome of a reservation that ended before it was ready.
fn print_ended(client: &Client, problem: &ProblemRow, format: Format) -> Result<Outcome> {
    if format != Format::Table {
        output::structured(format, problem)?;
        return Ok(Outcome::Wanting);
    }
    let id = problem.reservation.as_deref().unwrap_or_default();
    let path = format!("/api/v1/scheduler/slots/{}", segment(id));
    let mut page = output::page();
    match client.find::<ReservationRow>(&path)? {
        Some(row) => reservation::reservation(&mut page, &row, now()),
        None => {
            let detail = problem.detail.trim_end_matches('.');
            page.note(&format!("{id}: {}, {detail}", problem.title.to_lowercase()));
        }
    }
    output::text(page.text())?;
    Ok(Outcome::Wanting)
}
