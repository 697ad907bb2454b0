//! Where answers and errors go, and what the program's exit code says.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::Color;

/// How a command ended, when it could do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All placed, it fits, or nothing found.
    Fine,
    /// Something was refused or found.
    Wanting,
}

impl Outcome {
    /// Fine unless something was refused or found.
    pub(crate) fn wanting(wanting: bool) -> Self {
        if wanting { Outcome::Wanting } else { Outcome::Fine }
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

/// Uses colour as the user wishes; by default on a terminal, and never with NO_COLOR.
pub(crate) fn set_color(color: Color) {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Prints text for people on standard output.
pub(crate) fn text(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    quietly(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints text for people on standard output, and says whether anybody still reads it.
pub(crate) fn heard(text: &str) -> io::Result<bool> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Prints a sheet as JSON on standard output.
pub(crate) fn json(sheet: &impl Serialize) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, sheet).map_err(io::Error::from);
    quietly(written.and_then(|()| writeln!(out)).and_then(|()| out.flush()))
}

/// A reader that has seen enough, like `head`, is no error: the answer's exit code stays what it is.
fn quietly(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints one line on standard error; nobody reading it is no error.
pub(crate) fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Says what went wrong, with its causes, and ends with 2.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let bad = anstyle::AnsiColor::Red.on_default().bold();
    note(&format!("{bad}error:{bad:#} {error}"));
    for cause in error.chain().skip(1) {
        note(&format!("  because: {cause}"));
    }
    ExitCode::from(2)
}
