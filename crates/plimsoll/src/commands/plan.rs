//! `plimsoll plan`: what `apply` would change, and where each model would go.

use std::time::Duration;

use anyhow::Result;
use plimsoll_api::rows::{ModelRow, WhatIf, WhatIfRow};
use plimsoll_slots::model::Model;
use serde::Serialize;
use serde_json::Value;

use super::apply::{Effect, path};
use crate::cli::{Format, PlanArgs};
use crate::client::{Client, ClientError, models};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;
use crate::text::live::plan;

/// The plan for one model.
#[derive(Serialize)]
pub(crate) struct Planned {
    pub(crate) model: String,
    pub(crate) result: Effect,
    /// The fields that change; all fields of a new model.
    pub(crate) changes: Vec<FieldChange>,
    /// The decision for one more slot, as declared now.
    pub(crate) decision: WhatIfRow,
    /// Slots that exist and stay as they were created.
    pub(crate) slots: usize,
}

/// A field of a declaration that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldChange {
    pub(crate) field: String,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

pub(super) fn run(args: &PlanArgs, verbosity: Verbosity) -> Result<Outcome> {
    let models = models::read(&args.files)?;
    let client = Client::new(&args.server)?;
    let activity = format!("asking {}", client.server());
    let planned = progress::meanwhile(verbosity, &activity, || {
        models.iter().map(|model| plan_one(&client, model)).collect::<Result<Vec<_>, _>>()
    })?;
    match args.output {
        Format::Json => output::json(&planned)?,
        Format::Yaml => output::yaml(&planned)?,
        Format::Table => {
            let mut page = output::page();
            plan::plan(&mut page, &planned);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::with_open(planned.iter().filter(|planned| !planned.decision.decision.placed)))
}

/// Compares a model with the server's, and asks where one more slot of it would go.
pub(super) fn plan_one(client: &Client, model: &Model) -> Result<Planned, ClientError> {
    let known: Option<ModelRow> = client.find(&path(model))?;
    let question = WhatIf { model: None, declaration: Some(model.declared().clone()) };
    let decision = client.post("/api/v1/scheduler/whatif", &question, Duration::ZERO)?;
    let value = |declaration| serde_json::to_value(declaration).unwrap_or_default();
    let before = known.as_ref().map(|row| value(&row.declaration));
    let mut changes = Vec::new();
    let after = value(model.declared());
    compare("", before.as_ref(), Some(&after), &mut changes);
    Ok(Planned {
        model: model.name().to_string(),
        result: match (&known, changes.is_empty()) {
            (None, _) => Effect::Created,
            (Some(_), true) => Effect::Unchanged,
            (Some(_), false) => Effect::Changed,
        },
        changes: if known.is_some() { changes } else { Vec::new() },
        decision,
        slots: known.map_or(0, |row| row.slots),
    })
}

/// Adds the fields that differ, each with its path.
fn compare(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<FieldChange>,
) {
    if before == after {
        return;
    }
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) else {
        let (before, after) = (before.cloned(), after.cloned());
        return changes.push(FieldChange { field: path.to_string(), before, after });
    };
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        compare(&path, old.get(name), new.get(name), changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_names_the_innermost_field() {
        let before = json!({"memory": "1GiB", "runtime": {"vllm": {"context": 1, "kv": "f16"}}});
        let after =
            json!({"memory": "1GiB", "runtime": {"vllm": {"context": 2, "kv": "f16"}}, "gpus": 2});
        let mut changes = Vec::new();
        compare("", Some(&before), Some(&after), &mut changes);
        let fields: Vec<&str> = changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(fields, ["gpus", "runtime.vllm.context"]);
        assert_eq!((&changes[1].before, &changes[1].after), (&Some(json!(1)), &Some(json!(2))));
    }
}
