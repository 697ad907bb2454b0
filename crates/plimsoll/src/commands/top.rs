//! `plimsoll top`: a live view of a server or a cluster on a terminal, or one frame elsewhere.

mod cluster;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::{Color, TopArgs};
use crate::client::Client;
use crate::output::{self, Outcome, Verbosity};
use crate::text::Page;
use crate::text::live::decisions::{self, Grouping};
use crate::text::live::{queue, runners};
use crate::top::{self, Fleet, Palette, Poller};

/// The lines of decisions in a frame.
const LINES: usize = 20;

/// The shortest refresh interval.
const SHORTEST: Duration = Duration::from_millis(200);

pub(super) fn run(args: &TopArgs, color: Color, verbosity: Verbosity) -> Result<Outcome> {
    match args.cluster.access() {
        Some(_) if args.server.server.is_some() => {
            bail!("both a server and a cluster are given; watch one of them")
        }
        Some(access) => cluster::run(&access, args, verbosity),
        None => watch_server(args, color),
    }
}

fn watch_server(args: &TopArgs, color: Color) -> Result<Outcome> {
    let mut poller = Poller::new(Client::new(&args.server)?);
    // An unreachable server is reported before the screen changes.
    let first = poller.poll(&top::Wanted::default())?;
    let interactive = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !interactive {
        output::text(frame(&first).text())?;
        return Ok(Outcome::Fine);
    }
    let every = Duration::from_millis(args.every.0).max(SHORTEST);
    top::run(poller, first, every, palette(color))?;
    Ok(Outcome::Fine)
}

fn palette(color: Color) -> Palette {
    let is_unset = |no: std::ffi::OsString| no.is_empty();
    match color {
        Color::Always => Palette::Coloured,
        Color::Never => Palette::Plain,
        Color::Auto if std::env::var_os("NO_COLOR").is_none_or(is_unset) => Palette::Coloured,
        Color::Auto => Palette::Plain,
    }
}

/// Returns one frame as text.
fn frame(fleet: &Fleet) -> Page {
    let mut page = output::page();
    runners::runners(&mut page, &fleet.runners, fleet.at);
    page.heading("Pending");
    queue::queue(&mut page, &fleet.queue, fleet.at);
    page.heading("Decisions");
    decisions::decisions(&mut page, &fleet.decisions, fleet.at, (Grouping::Alike, LINES));
    page
}
