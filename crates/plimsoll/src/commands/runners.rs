//! `plimsoll runners`: lists runners and the load of their GPUs.

use anyhow::Result;
use plimsoll_api::rows::{RunnerRow, RunnerStatus};

use super::look::{self, View};
use crate::cli::RunnersArgs;
use crate::client::{Client, ClientError, segment};
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::runners;

pub(super) fn run(args: &RunnersArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let view = View {
        rows: &|| match &args.name {
            Some(name) => Ok(vec![client.get(&status_path(name))?]),
            None => Ok(all(&client)?),
        },
        print: &|page, rows| runners::runners(page, rows, now()),
        outcome: &|rows: &[RunnerStatus]| {
            let mut gpus = rows.iter().flat_map(|row| &row.gpus);
            Outcome::wanting(gpus.any(|gpu| gpu.device.is_over()))
        },
    };
    look::show(&client, &args.show, verbosity, &view)
}

/// Returns the path of one runner with its GPUs.
fn status_path(name: &str) -> String {
    format!("/api/v1/runners/{}/status", segment(name))
}

/// Reads the list of runners, and then the GPUs of each. A runner that is removed in between is
/// left out.
fn all(client: &Client) -> Result<Vec<RunnerStatus>, ClientError> {
    let runners: Vec<RunnerRow> = client.list("/api/v1/runners", None)?;
    let mut rows = Vec::new();
    for runner in runners {
        rows.extend(client.find(&status_path(&runner.runner_id))?);
    }
    Ok(rows)
}
