//! `plimsoll release`: releases a reservation or stops a slot.

use anyhow::Result;

use crate::cli::ReleaseArgs;
use crate::client::{Client, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;

pub(super) fn run(args: &ReleaseArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let activity = format!("asking {}", client.server());
    let path = format!("/api/v1/scheduler/slots/{}", segment(&args.id));
    progress::meanwhile(verbosity, &activity, || client.delete(&path))?;
    let done = if args.id.starts_with("reservation-") { "released" } else { "stopping" };
    output::text(&format!("{done} {}\n", args.id))?;
    Ok(Outcome::Fine)
}
