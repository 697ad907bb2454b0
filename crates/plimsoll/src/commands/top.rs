//! `plimsoll top`: a live view of a server on a terminal, or one frame of it elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;

use crate::cli::{Color, TopArgs};
use crate::client::Client;
use crate::output::{self, Outcome};
use crate::text::Page;
use crate::text::live::{decisions, queue, runners};
use crate::top::{self, Fleet, Poller};

/// The shortest refresh interval.
const SHORTEST: Duration = Duration::from_millis(200);

pub(super) fn run(args: &TopArgs, color: Color) -> Result<Outcome> {
    let mut poller = Poller::new(Client::new(&args.server)?);
    // An unreachable server is reported before the screen changes.
    let first = poller.poll(&top::Wanted::default())?;
    let interactive = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !interactive {
        output::text(frame(&first).text())?;
        return Ok(Outcome::Fine);
    }
    let every = Duration::from_millis(args.every.0).max(SHORTEST);
    top::run(poller, first, every, is_coloured(color))?;
    Ok(Outcome::Fine)
}

fn is_coloured(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty()),
    }
}

/// Returns one frame as text.
fn frame(fleet: &Fleet) -> Page {
    let mut page = Page::default();
    runners::runners(&mut page, &fleet.runners, fleet.at);
    page.heading("Pending");
    queue::queue(&mut page, &fleet.queue, fleet.at);
    page.heading("Decisions");
    decisions::decisions(&mut page, &fleet.decisions, fleet.at);
    page
}
