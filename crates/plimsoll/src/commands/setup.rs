//! Shell completions and man pages, generated from the same definitions as the help.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::Cli;
use crate::output::{self, Outcome};

/// Prints the completions of a shell.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Fine)
}

/// Prints the man page, or writes the pages of all commands.
pub(super) fn man(out: Option<&Path>) -> Result<Outcome> {
    let Some(directory) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        output::text(&String::from_utf8_lossy(&page))?;
        return Ok(Outcome::Fine);
    };
    let failed = || format!("could not write the man pages into {}", directory.display());
    fs::create_dir_all(directory).with_context(failed)?;
    let mut command = Cli::command();
    command.build();
    pages(&command, directory).with_context(failed)?;
    Ok(Outcome::Fine)
}

fn pages(command: &clap::Command, directory: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
    let mut file = fs::File::create(directory.join(format!("{name}.1")))?;
    clap_mangen::Man::new(command.clone()).render(&mut file)?;
    file.flush()?;
    command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
        .try_for_each(|sub| pages(sub, directory))
}
