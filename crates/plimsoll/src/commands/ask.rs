//! `plimsoll ask`: asks for a place in a model, as a program would.

use std::time::Duration;

use anyhow::Result;
use plimsoll_slots::size::Span;
use serde::Serialize;

use crate::cli::{AskArgs, Format};
use crate::client::rows::{Moment, PlaceRow};
use crate::client::{Answer, Client, ClientError, pretty};
use crate::output::{self, Outcome};
use crate::progress;
use crate::text::Page;
use crate::text::live::place;

/// What is asked.
#[derive(Serialize)]
struct Ask<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Span>,
    wait: Span,
}

pub(super) fn run(args: &AskArgs, quiet: bool) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let ask = Ask {
        model: &args.model,
        namespace: args.who.as_ref().map(|(namespace, _)| &**namespace),
        name: args.who.as_ref().map(|(_, name)| &**name),
        key: args.key.as_deref(),
        deadline: args.deadline,
        wait: args.wait,
    };
    let asking = format!("waiting for a place in {}", args.model);
    let wait = Duration::from_millis(args.wait.0);
    match progress::meanwhile(quiet, &asking, || client.post("/api/v1/scheduler/slots", &ask, wait))
    {
        Ok(answer) => answered(&answer, client.server(), args.output),
        Err(ClientError::Refused(refusal)) if refusal.problem.is_answer() => {
            match args.output {
                Format::Json => output::text(&pretty::pretty(&refusal.text))?,
                Format::Table => output::text(&format!("{}\n", refusal.problem.answer()))?,
            }
            Ok(Outcome::Wanting)
        }
        Err(error) if error.may_be_done() => {
            Err(anyhow::Error::new(error).context(may_be_there(args)))
        }
        Err(error) => Err(error.into()),
    }
}

/// What to do where nobody said whether the place was made.
fn may_be_there(args: &AskArgs) -> String {
    let model = &args.model;
    let again = match &args.key {
        Some(_) => "ask again with the same --key to get that one and no second",
        None => {
            "`plimsoll slots` and `plimsoll queue` show it; with a --key it can be asked for again without getting a second"
        }
    };
    format!(
        "a place in {model} was asked for, and may have been made though no answer came; {again}"
    )
}

fn answered(answer: &Answer, server: &str, format: Format) -> Result<Outcome> {
    let row: PlaceRow = answer.read()?;
    match format {
        Format::Json => output::text(&pretty::pretty(&answer.text))?,
        Format::Table => {
            let mut page = Page::default();
            place::place(&mut page, &row, Moment::now());
            place::what_next(&mut page, &row, server);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::wanting(!row.is_ready()))
}
