//! `plimsoll release`: releases a reservation or stops a slot.

use anyhow::Result;

use crate::cli::ReleaseArgs;
use crate::client::{Client, segment};
use crate::output::{self, Outcome};
use crate::progress;

pub(super) fn run(args: &ReleaseArgs, quiet: bool) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let asking = format!("asking {}", client.server());
    let path = format!("/api/v1/scheduler/slots/{}", segment(&args.id));
    progress::meanwhile(quiet, &asking, || client.delete(&path))?;
    let going = args.id.starts_with("slot-");
    output::text(&format!("{} {}\n", args.id, if going { "is stopping" } else { "is released" }))?;
    Ok(Outcome::Fine)
}
