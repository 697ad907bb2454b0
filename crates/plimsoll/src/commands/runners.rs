//! `plimsoll runners`: every runner, and every GPU with its load and its line.

use anyhow::Result;

use super::look::{self, Look};
use crate::cli::RunnersArgs;
use crate::client::rows::{GpuRow, Moment, RunnerRow};
use crate::client::{Answer, Client, ClientError, Listed, segment};
use crate::output::Outcome;
use crate::text::live::runners;

pub(super) fn run(args: &RunnersArgs, quiet: bool) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    look::show(&client, &args.show, quiet, || {
        let listed = match &args.name {
            Some(name) => status(&client, name)?.alone(),
            None => all(&client)?,
        };
        let rows: Vec<RunnerRow> = listed.read()?;
        let over = rows.iter().flat_map(|row| &row.gpus).any(GpuRow::is_over);
        let draw = |page: &mut _| runners::runners(page, &rows, Moment::now());
        Ok(Look::at(listed, args.show.output, Outcome::wanting(over), draw))
    })
}

fn status(client: &Client, name: &str) -> Result<Answer, ClientError> {
    client.get(&format!("/api/v1/runners/{}/status", segment(name)))
}

/// The list names the runners; each by itself says how its GPUs are.
fn all(client: &Client) -> Result<Listed, ClientError> {
    let mut listed = client.list("/api/v1/runners", None)?;
    let rows: Vec<RunnerRow> = listed.read()?;
    listed.rows.clear();
    for row in rows {
        match status(client, &row.runner_id) {
            Ok(status) => listed.rows.push(status.text),
            // It went between the two questions.
            Err(error) if error.status() == Some(404) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}
