//! `plimsoll apply`: declares models to a server. All are checked before the first is sent.

use anyhow::{Context, Result};
use plimsoll_slots::model::Model;
use serde::Serialize;

use super::plan::{FieldChange, Planned, plan_one};
use crate::cli::{ApplyArgs, Format};
use crate::client::{Client, ClientError, models, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;
use crate::text::live::plan;

pub(super) fn run(args: &ApplyArgs, verbosity: Verbosity) -> Result<Outcome> {
    let models = models::read(&args.files)?;
    let client = Client::new(&args.server)?;
    let activity = format!("declaring models to {}", client.server());
    progress::meanwhile(verbosity, &activity, || apply(&client, &models, args))
}

/// The effect on one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
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
    /// The reason why a slot of it can not be placed now, however many others are evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    /// The fields that change.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a [FieldChange]>,
}

fn apply(client: &Client, models: &[Model], args: &ApplyArgs) -> Result<Outcome> {
    // All are compared before the first is sent, so that an error on the way changes nothing.
    let planned: Result<Vec<Planned>, ClientError> =
        models.iter().map(|model| plan_one(client, model)).collect();
    let planned = planned?;
    let mut applied = Vec::new();
    for (model, planned) in models.iter().zip(&planned) {
        let result = planned.result;
        if result != Effect::Unchanged && !args.dry_run {
            let sent = client.put(&path(model), model.declared());
            sent.with_context(|| {
                format!("could not declare model {:?}{}", model.name(), so_far(&applied))
            })?;
        }
        let warning = warning(planned);
        let dry_run = args.dry_run;
        let changes = Some(&*planned.changes).filter(|changes| !changes.is_empty());
        applied.push(Applied { model: model.name(), result, dry_run, warning, changes });
    }
    match args.output {
        Format::Json => output::json(&applied)?,
        Format::Yaml => output::yaml(&applied)?,
        Format::Table => {
            let dry_run = if args.dry_run { " (dry run)" } else { "" };
            for Applied { model, result, warning, changes, .. } in &applied {
                let mut page = output::page();
                page.note(&format!("model {model} {}{dry_run}", result.name()));
                if args.dry_run {
                    let changes = changes.iter().copied().flatten();
                    changes.for_each(|change| plan::change(&mut page, change));
                }
                output::text(page.text())?;
                if let Some(warning) = warning {
                    output::note(&format!("warning: {model} cannot be placed now: {warning}"));
                }
            }
        }
    }
    Ok(Outcome::Fine)
}

/// Returns why a slot of a model cannot be placed, unless memory for it is only in use.
fn warning(planned: &Planned) -> Option<String> {
    let decision = &planned.decision.decision;
    let is_possible = decision.placed
        || !decision.evictions.is_empty()
        || decision.explanation.promised.is_some();
    (!is_possible).then(|| decision.explanation.brief.clone())
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

pub(super) fn path(model: &Model) -> String {
    format!("/api/v1/models/{}", segment(model.name()))
}
