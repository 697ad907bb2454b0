//! Lists of a server, printed once or refreshed.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Result;
use crossterm::{cursor, execute, terminal};
use serde::Serialize;

use crate::cli::{Format, ShowArgs};
use crate::client::Client;
use crate::output::{self, Outcome, Verbosity};
use crate::progress;
use crate::text::Page;

/// The shortest refresh interval, to spare the server.
const SHORTEST: Duration = Duration::from_millis(100);

/// A list of rows and how to print them.
pub(super) struct View<'a, T> {
    /// Requests the rows.
    pub(super) rows: &'a dyn Fn() -> Result<Vec<T>>,
    pub(super) print: &'a dyn Fn(&mut Page, &[T]),
    pub(super) outcome: &'a dyn Fn(&[T]) -> Outcome,
}

/// Prints a list; with `--watch`, prints it again whenever it changes, until interrupted.
pub(super) fn show<T: Serialize + PartialEq>(
    client: &Client,
    args: &ShowArgs,
    verbosity: Verbosity,
    view: &View<'_, T>,
) -> Result<Outcome> {
    let activity = format!("asking {}", client.server());
    let mut last = progress::meanwhile(verbosity, &activity, view.rows)?;
    let Some(every) = args.watch else {
        output::text(&text(args.output, view, &last)?)?;
        return Ok((view.outcome)(&last));
    };
    let interval = Duration::from_millis(every.0).max(SHORTEST);
    let is_table = args.output == Format::Table;
    let screen =
        if is_table && io::stdout().is_terminal() { Screen::Refreshed } else { Screen::Appended };
    let mut is_read = print(&text(args.output, view, &last)?, screen)?;
    let mut has_failed = false;
    while is_read {
        std::thread::sleep(interval);
        match (view.rows)() {
            Ok(next) => {
                // A live page is always drawn again, because it shows ages.
                if screen == Screen::Refreshed || has_failed || next != last {
                    is_read = print(&text(args.output, view, &next)?, screen)?;
                }
                (last, has_failed) = (next, false);
            }
            // The server may come back; the error is printed once.
            Err(error) => {
                if !has_failed {
                    output::note(&format!("{error:#}; trying again every {every}"));
                }
                has_failed = true;
            }
        }
    }
    Ok((view.outcome)(&last))
}

fn text<T: Serialize>(format: Format, view: &View<'_, T>, rows: &[T]) -> Result<String> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(rows)? + "\n"),
        Format::Table => {
            let mut page = Page::default();
            (view.print)(&mut page, rows);
            Ok(page.text().to_string())
        }
    }
}

/// The treatment of the previous frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Screen {
    /// A terminal: the next frame replaces it.
    Refreshed,
    Appended,
}

/// Prints a frame. Returns whether the output is still read.
fn print(text: &str, screen: Screen) -> Result<bool> {
    if screen == Screen::Refreshed {
        execute!(io::stdout(), cursor::MoveTo(0, 0), terminal::Clear(terminal::ClearType::All))?;
    }
    Ok(output::is_read(text)?)
}
