//! Developer chores that are tests or generators: `cargo run -p xtask -- help` lists them.

mod source;

mod tidy;

mod mutants;

mod goldens;

mod judge;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
usage: cargo run -p xtask -- <chore>

  tidy              hold the rules of the house that no compiler knows (also a test: cargo test -p xtask)
  mutants [NAME…]   break the code on purpose, line by line, and see that the tests notice
  goldens FOLDER    write the header of every golden model, as a file as long as the real one
  judge [cpu|vulkan|table]
                    ask llama.cpp what it books for every golden model, and write docs/estimates-judged.md;
                    needs node and npm, except for table, which is made from what is recorded
  help              print this
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let chore = args.next();
    let rest: Vec<String> = args.collect();
    match (chore.as_deref(), rest.as_slice()) {
        (Some("tidy"), []) => tidy::run(&workspace()),
        (Some("mutants"), names) => mutants::run(&workspace(), names),
        (Some("goldens"), [folder]) => goldens::run(Path::new(folder)),
        (Some("judge"), args) => judge::run(&workspace(), args),
        (None | Some("help" | "--help" | "-h"), _) => {
            print!("{HELP}");
            Ok(())
        }
        (Some(chore), _) => {
            bail!("no chore is called like that: {chore} {}\n\n{HELP}", rest.join(" "))
        }
    }
}

fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_owned()
}
