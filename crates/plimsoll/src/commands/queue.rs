//! `plimsoll queue`: lists pending slots and reservations.

use anyhow::Result;

use plimsoll_api::rows::QueueRow;

use super::look::{self, View};
use crate::cli::QueueArgs;
use crate::client::Client;
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::queue;

pub(super) fn run(args: &QueueArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let view = View {
        rows: &|| Ok(client.list("/api/v1/scheduler/queue", None)?),
        print: &|page, rows| queue::queue(page, rows, now()),
        name: &|row: &QueueRow| row.id.clone(),
        outcome: &|rows| Outcome::with_open(rows),
    };
    look::show_in_order(&client, &args.show, verbosity, &view)
}
