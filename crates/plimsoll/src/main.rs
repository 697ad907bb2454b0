//! The load line for GPU memory, on the command line.

#![allow(
    rustdoc::bare_urls,
    reason = "what is said of an option is printed as it stands, by its help"
)]

mod cli;
mod client;
mod commands;
mod input;
mod json;
mod load;
mod logging;
mod near;
mod output;
mod progress;
mod text;
mod top;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

/// A server that decides keeps many small rows for a while, which is what this one is good at.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    output::set_color(cli.color);
    match commands::run(&cli) {
        Ok(outcome) => outcome.into(),
        Err(error) => output::fail(&error),
    }
}
