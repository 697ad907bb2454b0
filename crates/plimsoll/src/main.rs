//! The command line of Plimsoll.

#![allow(
    rustdoc::bare_urls,
    reason = "doc comments of options are printed as help, where a bare URL reads best"
)]

mod cli;
mod client;
mod commands;
mod contexts;
mod input;
mod live;
mod load;
mod logging;
mod near;
mod output;
mod progress;
mod text;
mod top;

use std::process::ExitCode;

use clap::FromArgMatches;
use mimalloc::MiMalloc;

/// The scheduler allocates many small, short-lived rows, which mimalloc handles well.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let matches = cli::command().get_matches();
    let mut cli = cli::Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    cli::Invocation::from_program(std::env::args_os().next().as_deref()).apply(&mut cli);
    output::set_color(cli.color);
    match commands::run(&cli) {
        Ok(outcome) => outcome.into(),
        Err(error) => output::fail(&error),
    }
}
