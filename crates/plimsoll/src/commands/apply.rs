//! `plimsoll apply`: declares models to a server. All are checked before the first is sent.

use anyhow::{Context, Result};
use plimsoll_slots::model::{Declaration, Model};
use serde::Serialize;
use serde_json::Value;

use crate::cli::{ApplyArgs, Format};
use crate::client::rows::ModelRow;
use crate::client::{Client, ClientError, models, segment};
use crate::output::{self, Outcome};
use crate::progress;

pub(super) fn run(args: &ApplyArgs, quiet: bool) -> Result<Outcome> {
    let models = models::read(&args.files)?;
    let client = Client::new(&args.server)?;
    let asking = format!("declaring models to {}", client.server());
    progress::meanwhile(quiet, &asking, || apply(&client, &models, args))
}

/// What is done about a model.
#[derive(Serialize)]
struct Deed<'a> {
    model: &'a str,
    result: &'static str,
    dry_run: bool,
}

fn apply(client: &Client, models: &[Model], args: &ApplyArgs) -> Result<Outcome> {
    // All are compared before the first is sent, so that a server that cannot be asked is left as it is.
    let compared: Result<Vec<&'static str>, ClientError> =
        models.iter().map(|model| compare(client, model)).collect();
    let mut deeds = Vec::new();
    for (model, result) in models.iter().zip(compared?) {
        if result != "unchanged" && !args.dry_run {
            let sent = client.put(&path(model), model.declared());
            sent.with_context(|| {
                format!("could not declare model {:?}{}", model.name(), so_far(&deeds))
            })?;
        }
        deeds.push(Deed { model: model.name(), result, dry_run: args.dry_run });
    }
    match args.output {
        Format::Json => output::json(&deeds)?,
        Format::Table => {
            let only = if args.dry_run { " (nothing was sent)" } else { "" };
            let line = |deed: &Deed| format!("model {} {}{only}\n", deed.model, deed.result);
            output::text(&deeds.iter().map(line).collect::<String>())?;
        }
    }
    Ok(Outcome::Fine)
}

/// What was done before it went wrong: a server that says no to one model has taken those before it.
fn so_far(deeds: &[Deed]) -> String {
    let done: Vec<&str> =
        deeds.iter().filter(|deed| deed.result != "unchanged").map(|deed| deed.model).collect();
    if done.is_empty() { String::new() } else { format!(" (done before: {})", done.join(", ")) }
}

fn compare(client: &Client, model: &Model) -> Result<&'static str, ClientError> {
    match client.get(&path(model)) {
        Ok(answer) => {
            let there: ModelRow = answer.read()?;
            Ok(if is_same(there.declaration, model) { "unchanged" } else { "changed" })
        }
        Err(error) if error.status() == Some(404) => Ok("created"),
        Err(error) => Err(error),
    }
}

/// Whether both mean the same, however they are written: what is left out is filled in before they are compared.
fn is_same(there: Value, model: &Model) -> bool {
    serde_json::from_value::<Declaration>(there).is_ok_and(|there| there == *model.declared())
}

fn path(model: &Model) -> String {
    format!("/api/v1/models/{}", segment(model.name()))
}
