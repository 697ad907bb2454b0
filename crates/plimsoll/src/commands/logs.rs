//! `plimsoll logs`: prints the output of a slot.

use std::time::Duration;

use anyhow::Result;
use plimsoll_api::rows::LogRow;

use crate::cli::LogsArgs;
use crate::client::{Client, Kind, segment};
use crate::output::{self, Outcome};

/// The interval at which new output is asked for.
const EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(args: &LogsArgs) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let path = format!("/api/v1/scheduler/slots/{}/log", segment(&args.slot));
    let mut part: LogRow = client
        .get(&format!("{path}?lines={}", args.tail))
        .map_err(|error| client.with_suggestion(error, Kind::Slot, &args.slot))?;
    loop {
        // Output is printed as it is, except that it cannot control the terminal.
        let is_read = output::is_read(&printable(&part.text))?;
        let is_at_end = part.text.is_empty();
        if !args.follow || !is_read || (part.has_ended && is_at_end) {
            return Ok(Outcome::Fine);
        }
        if is_at_end {
            std::thread::sleep(EVERY);
        }
        part = client.get(&format!("{path}?from={}", part.next))?;
    }
}

/// Makes control characters visible, except line ends and tabs.
fn printable(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.replace("\r\n", "\n").chars().map(visible).collect()
}
