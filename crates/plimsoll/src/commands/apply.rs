//! `plimsoll apply`: declares models to a server. All are checked before the first is sent.

use anyhow::{Context, Result};
use plimsoll_api::rows::ModelRow;
use plimsoll_slots::model::Model;
use serde::Serialize;

use crate::cli::{ApplyArgs, Format};
use crate::client::{Client, ClientError, models, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;

pub(super) fn run(args: &ApplyArgs, verbosity: Verbosity) -> Result<Outcome> {
    let models = models::read(&args.files)?;
    let client = Client::new(&args.server)?;
    let activity = format!("declaring models to {}", client.server());
    progress::meanwhile(verbosity, &activity, || apply(&client, &models, args))
}

/// The effect on one model.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    Created,
    Changed,
    Unchanged,
}

impl Effect {
    fn name(self) -> &'static str {
        match self {
            Effect::Created => "created",
            Effect::Changed => "changed",
            Effect::Unchanged => "unchanged",
        }
    }
}

/// A model and the effect of its declaration.
#[derive(Serialize)]
struct Applied<'a> {
    model: &'a str,
    result: Effect,
    dry_run: bool,
}

fn apply(client: &Client, models: &[Model], args: &ApplyArgs) -> Result<Outcome> {
    // All are compared before the first is sent, so that an error on the way changes nothing.
    let effects: Result<Vec<Effect>, ClientError> =
        models.iter().map(|model| compare(client, model)).collect();
    let mut applied = Vec::new();
    for (model, result) in models.iter().zip(effects?) {
        if result != Effect::Unchanged && !args.dry_run {
            let sent = client.put(&path(model), model.declared());
            sent.with_context(|| {
                format!("could not declare model {:?}{}", model.name(), so_far(&applied))
            })?;
        }
        applied.push(Applied { model: model.name(), result, dry_run: args.dry_run });
    }
    match args.output {
        Format::Json => output::json(&applied)?,
        Format::Table => {
            let dry_run = if args.dry_run { " (dry run)" } else { "" };
            for Applied { model, result, .. } in &applied {
                output::text(&format!("model {model} {}{dry_run}\n", result.name()))?;
            }
        }
    }
    Ok(Outcome::Fine)
}

/// Lists the models that were declared before an error.
fn so_far(applied: &[Applied]) -> String {
    let done = applied.iter().filter(|row| row.result != Effect::Unchanged);
    let done: Vec<&str> = done.map(|row| row.model).collect();
    if done.is_empty() {
        String::new()
    } else {
        format!(" (already declared: {})", done.join(", "))
    }
}

/// Compares a declaration with the server's, both with their defaults filled in.
fn compare(client: &Client, model: &Model) -> Result<Effect, ClientError> {
    let known: Option<ModelRow> = client.find(&path(model))?;
    Ok(match known {
        None => Effect::Created,
        Some(row) if row.declaration == *model.declared() => Effect::Unchanged,
        Some(_) => Effect::Changed,
    })
}

fn path(model: &Model) -> String {
    format!("/api/v1/models/{}", segment(model.name()))
}
