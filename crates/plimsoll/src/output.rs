//! Standard output, standard error and exit codes.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::{Color, Format};
use crate::text::{Page, Width};

/// The amount of text beside the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// With the summary of the input, and progress on a terminal.
    Normal,
    /// The answer only.
    Quiet,
}

impl Verbosity {
    pub(crate) fn is_normal(self) -> bool {
        self == Verbosity::Normal
    }
}

/// The outcome of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All placed, it fits, or nothing found: exit code 0.
    Fine,
    /// Something is pending, impossible or found: exit code 1.
    Wanting,
}

impl Outcome {
    /// Returns `Wanting` if anything is listed that is pending, impossible or found.
    pub(crate) fn with_open<T>(open: impl IntoIterator<Item = T>) -> Self {
        match open.into_iter().next() {
            Some(_) => Outcome::Wanting,
            None => Outcome::Fine,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        match outcome {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Wanting => ExitCode::from(1),
        }
    }
}

/// Sets the use of colour; by default on a terminal, and never with NO_COLOR.
pub(crate) fn set_color(color: Color) {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Returns the width of standard output: that of $COLUMNS, else of the terminal; a pipe has none.
pub(crate) fn width() -> Width {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        let size = io::stdout().is_terminal().then(crossterm::terminal::size)?.ok()?;
        Some(usize::from(size.0))
    };
    match set.or_else(terminal).filter(|columns| *columns > 0) {
        Some(columns) => Width::Columns(columns),
        None => Width::Unlimited,
    }
}

/// Creates an empty page that fits standard output.
pub(crate) fn page() -> Page {
    Page::new(width())
}

/// Prints text on standard output.
pub(crate) fn text(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    ignore_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints text on standard output, and returns whether the reader is still there.
pub(crate) fn is_read(text: &str) -> io::Result<bool> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Prints a value as JSON on standard output.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
    ignore_closed_pipe(written.and_then(|()| writeln!(out)).and_then(|()| out.flush()))
}

/// Prints a value in a format that is not a table.
pub(crate) fn structured(format: Format, value: &impl Serialize) -> anyhow::Result<()> {
    match format {
        Format::Yaml => yaml(value),
        Format::Json | Format::Table => Ok(json(value)?),
    }
}

/// Prints a value as YAML on standard output, with the names of its JSON.
pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<()> {
    // Numbers and unknown values look as in JSON only after the conversion.
    let value = serde_json::to_value(value)?;
    Ok(text(&serde_saphyr::to_string(&value)?)?)
}

/// Ignores that the reader closed the pipe, as `head` does: the exit code stays that of the answer.
fn ignore_closed_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints one line on standard error, and ignores errors.
pub(crate) fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Prints an error and its causes, and returns exit code 2.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let bad = anstyle::AnsiColor::Red.on_default().bold();
    note(&format!("{bad}error:{bad:#} {error}"));
    for cause in error.chain().skip(1) {
        note(&format!("  because: {cause}"));
    }
    ExitCode::from(2)
}
