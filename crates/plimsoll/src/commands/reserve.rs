//! `plimsoll reserve`: creates a reservation, as a client program would.

use std::time::Duration;

use anyhow::Result;
use plimsoll_api::rows::ReserveBody;

use crate::cli::{Format, ReserveArgs};
use crate::client::rows::{Moment, ReservationRow};
use crate::client::{Answer, Client, ClientError, pretty};
use crate::output::{self, Outcome};
use crate::progress;
use crate::text::Page;
use crate::text::live::reservation;

pub(super) fn run(args: &ReserveArgs, quiet: bool) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let (namespace, name) = args.client.clone().unzip();
    let body = ReserveBody {
        model: args.model.clone(),
        namespace,
        name,
        key: args.key.clone(),
        deadline: args.deadline,
        wait: Some(args.wait),
    };
    let activity = format!("waiting for a reservation of {}", args.model);
    let wait = Duration::from_millis(args.wait.0);
    let answer = progress::meanwhile(quiet, &activity, || {
        client.post("/api/v1/scheduler/slots", &body, wait)
    });
    match answer {
        Ok(answer) => print(&answer, client.server(), args.output),
        Err(ClientError::Refused(refusal)) if refusal.problem.is_answer() => {
            match args.output {
                Format::Json => output::text(&pretty::pretty(&refusal.text))?,
                Format::Table => output::text(&format!("{}\n", refusal.problem.answer()))?,
            }
            Ok(Outcome::Wanting)
        }
        Err(error) if error.may_be_done() => {
            Err(anyhow::Error::new(error).context(outcome_unknown(args)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the advice for a lost connection, after which the reservation may or may not exist.
fn outcome_unknown(args: &ReserveArgs) -> String {
    let model = &args.model;
    let advice = match &args.key {
        Some(_) => "repeat the command with the same --key to get the same reservation",
        None => {
            "`plimsoll slots` and `plimsoll queue` show it; with a --key the command can be repeated safely"
        }
    };
    format!("the reservation of {model} may have been created, but no answer came; {advice}")
}

fn print(answer: &Answer, server: &str, format: Format) -> Result<Outcome> {
    let row: ReservationRow = answer.read()?;
    match format {
        Format::Json => output::text(&pretty::pretty(&answer.text))?,
        Format::Table => {
            let mut page = Page::default();
            reservation::reservation(&mut page, &row, Moment::now());
            reservation::next_steps(&mut page, &row, server);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::wanting(!row.is_ready()))
}
