//! `plimsoll release`: releases a reservation or stops a slot.

use anyhow::Result;

use super::slots::{Force, stop_slot};
use crate::cli::ReleaseArgs;
use crate::client::{Client, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;

pub(super) fn run(args: &ReleaseArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    if !args.id.starts_with("reservation-") {
        let force = if args.force { Force::Busy } else { Force::IdleOnly };
        return stop_slot(&client, &args.id, force);
    }
    let activity = format!("asking {}", client.server());
    let path = format!("/api/v1/scheduler/slots/{}", segment(&args.id));
    progress::meanwhile(verbosity, &activity, || client.delete(&path))?;
    output::text(&format!("released {}\n", args.id))?;
    Ok(Outcome::Fine)
}
