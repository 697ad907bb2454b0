//! `plimsoll renew`: renews the lease of a reservation.

use std::time::Duration;

use anyhow::Result;
use plimsoll_api::rows::ReservationRow;

use crate::cli::{Format, RenewArgs};
use crate::client::{Client, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;
use crate::text::age::now;
use crate::text::live::reservation;

pub(super) fn run(args: &RenewArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let activity = format!("asking {}", client.server());
    let path = format!("/api/v1/scheduler/reservations/{}/renew", segment(&args.id));
    let row: ReservationRow = progress::meanwhile(verbosity, &activity, || {
        client.post(&path, &serde_json::Value::Null, Duration::ZERO)
    })?;
    match args.output {
        Format::Json => output::json(&row)?,
        Format::Yaml => output::yaml(&row)?,
        Format::Table => {
            let lease = reservation::lease(&row, now());
            output::text(&format!("renewed {}: {lease}\n", args.id))?;
        }
    }
    Ok(Outcome::Fine)
}
