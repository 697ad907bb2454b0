//! `plimsoll models`: lists, shows and deletes declared models.

use anyhow::{Result, bail};
use plimsoll_api::rows::ModelRow;

use super::look::{self, View};
use crate::cli::{DeleteArgs, ListArgs, ModelsAction, ModelsArgs, NamedArgs};
use crate::client::{Client, Kind, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::text::count;
use crate::text::live::models;

pub(super) fn run(args: &ModelsArgs, verbosity: Verbosity) -> Result<Outcome> {
    match &args.action {
        None => list(&args.list, verbosity),
        Some(ModelsAction::List(list_args)) => list(list_args, verbosity),
        Some(ModelsAction::Show(named)) => show(named, verbosity),
        Some(ModelsAction::Delete(named)) => delete(named),
    }
}

fn list(args: &ListArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let view = View {
        rows: &|| Ok(client.list::<ModelRow>("/api/v1/models", None)?),
        print: &|page, rows| models::models(page, rows),
        name: &|row: &ModelRow| row.name.clone(),
        outcome: &|_| Outcome::Fine,
    };
    look::show(&client, &args.show, verbosity, &view)
}

fn show(args: &NamedArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let view = View {
        rows: &|| Ok(vec![client.named::<ModelRow>(Kind::Model, &args.name)?]),
        print: &|page, rows| rows.iter().for_each(|row| models::model(page, row)),
        name: &|row: &ModelRow| row.name.clone(),
        outcome: &|_| Outcome::Fine,
    };
    look::show_one(&client, &args.show, verbosity, &view)
}

fn delete(args: &DeleteArgs) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let row: ModelRow = client.named(Kind::Model, &args.name)?;
    if row.active_requests > 0 && !args.force {
        let lost = count(usize::try_from(row.active_requests).unwrap_or(usize::MAX), "reservation");
        bail!("{} serves {lost}, which would be lost; delete it with --force", args.name);
    }
    client.delete(&format!("/api/v1/models/{}", segment(&args.name)))?;
    let stopped = match row.slots {
        0 => String::new(),
        slots => format!("; {} stopping", count(slots, "slot")),
    };
    output::text(&format!("deleted model {}{stopped}\n", args.name))?;
    Ok(Outcome::Fine)
}
