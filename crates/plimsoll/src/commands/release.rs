//! `plimsoll release`: releases a reservation or stops a slot.

use anyhow::Result;
use serde::Serialize;

use super::slots::{Force, stop_slot};
use crate::cli::{Format, ReleaseArgs};
use crate::client::{Client, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;

pub(super) fn run(args: &ReleaseArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    if !args.id.starts_with("reservation-") {
        let force = if args.force { Force::Busy } else { Force::IdleOnly };
        return stop_slot(&client, &args.id, force, args.output);
    }
    let activity = format!("asking {}", client.server());
    let path = format!("/api/v1/scheduler/slots/{}", segment(&args.id));
    progress::meanwhile(verbosity, &activity, || client.delete(&path))?;
    done(&args.id, "released", args.output)
}

/// A thing and what happened to it.
#[derive(Serialize)]
struct Done<'a> {
    id: &'a str,
    result: &'a str,
}

/// Prints what happened to a thing: `released reservation-12`.
pub(super) fn done(id: &str, result: &str, format: Format) -> Result<Outcome> {
    match format {
        Format::Table => output::text(&format!("{result} {id}\n"))?,
        Format::Json | Format::Yaml => output::structured(format, &Done { id, result })?,
    }
    Ok(Outcome::Fine)
}
