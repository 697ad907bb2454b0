//! Looking at a server: once, or again and again.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Result;
use crossterm::{cursor, execute, terminal};

use crate::cli::{Format, ShowArgs};
use crate::client::{Client, Listed};
use crate::output::{self, Outcome};
use crate::progress;
use crate::text::Page;

/// Nobody reads faster, and the server has other things to do.
const SHORTEST: Duration = Duration::from_millis(100);

/// What was seen.
pub(super) struct Look {
    /// What to print.
    pub(super) text: String,
    /// What the server said, word for word: ages change all the time and are no news.
    pub(super) said: Vec<String>,
    /// How that is.
    pub(super) outcome: Outcome,
}

impl Look {
    /// A list, in the form that is wanted. The page is drawn only where it is.
    pub(super) fn at(
        listed: Listed,
        format: Format,
        outcome: Outcome,
        draw: impl FnOnce(&mut Page),
    ) -> Look {
        let text = match format {
            Format::Json => listed.json(),
            Format::Table => {
                let mut page = Page::default();
                draw(&mut page);
                page.text().to_string()
            }
        };
        Look { text, said: listed.rows, outcome }
    }
}

/// Looks and prints; with `--watch` again whenever something has changed, until somebody stops it.
pub(super) fn show(
    client: &Client,
    args: &ShowArgs,
    quiet: bool,
    look: impl Fn() -> Result<Look>,
) -> Result<Outcome> {
    let asking = format!("asking {}", client.server());
    let mut last = progress::meanwhile(quiet, &asking, &look)?;
    let Some(every) = args.watch else {
        output::text(&last.text)?;
        return Ok(last.outcome);
    };
    let pace = Duration::from_millis(every.0).max(SHORTEST);
    let live = io::stdout().is_terminal() && args.output == Format::Table;
    let mut heard = print(&last.text, live)?;
    let mut complained = false;
    while heard {
        std::thread::sleep(pace);
        match look() {
            Ok(next) => {
                // A live page is drawn again, so that its ages are true.
                if live || complained || next.said != last.said {
                    heard = print(&next.text, live)?;
                }
                (last, complained) = (next, false);
            }
            // It may come back; whoever watches is told once.
            Err(error) => {
                if !complained {
                    output::note(&format!("{error:#}; trying again every {every}"));
                }
                complained = true;
            }
        }
    }
    Ok(last.outcome)
}

/// Prints a frame, over the last one where that can be; and says whether anybody still reads.
fn print(text: &str, live: bool) -> Result<bool> {
    if live {
        execute!(io::stdout(), cursor::MoveTo(0, 0), terminal::Clear(terminal::ClearType::All))?;
    }
    Ok(output::heard(text)?)
}
