//! `plimsoll top`: a live view of a server in the terminal.

use anyhow::Result;

use crate::cli::TopArgs;
use crate::output::Outcome;

pub(super) fn run(_args: &TopArgs) -> Result<Outcome> {
    Ok(Outcome::Fine)
}
