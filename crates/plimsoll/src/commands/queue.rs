//! `plimsoll queue`: who waits, in turn, and why.

use anyhow::Result;

use super::look::{self, Look};
use crate::cli::QueueArgs;
use crate::client::Client;
use crate::client::rows::{Moment, QueueRow};
use crate::output::Outcome;
use crate::text::live::queue;

pub(super) fn run(args: &QueueArgs, quiet: bool) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    look::show(&client, &args.show, quiet, || {
        let listed = client.list("/api/v1/scheduler/queue", None)?;
        let rows: Vec<QueueRow> = listed.read()?;
        let draw = |page: &mut _| queue::queue(page, &rows, Moment::now());
        Ok(Look::at(listed, args.show.output, Outcome::wanting(!rows.is_empty()), draw))
    })
}
