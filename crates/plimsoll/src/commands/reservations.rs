//! `plimsoll reservations`: lists reservations.

use anyhow::Result;

use plimsoll_api::rows::ReservationRow;

use super::look::{self, View};
use super::slots::query;
use crate::cli::ReservationsArgs;
use crate::client::Client;
use crate::output::{Outcome, Verbosity};
use crate::text::age::now;
use crate::text::live::reservations;

pub(super) fn run(args: &ReservationsArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let status = Some(args.status.to_string());
    let filters = [("model", &args.model), ("namespace", &args.namespace), ("status", &status)];
    let path = format!("/api/v1/scheduler/reservations{}", query(&filters));
    let view = View {
        rows: &|| Ok(client.list(&path, None)?),
        print: &|page, rows| reservations::reservations(page, rows, now()),
        name: &|row: &ReservationRow| row.id.clone(),
        outcome: &|_| Outcome::Fine,
    };
    look::show(&client, &args.show, verbosity, &view)
}
