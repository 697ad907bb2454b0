//! Developer chores that are tests or generators: `cargo run -p xtask -- help` lists them.

mod tidy;

mod mutants;

mod goldens;

mod judge;

mod reasons;

mod outputs;

mod picture;

mod deb;

mod control_plane;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
usage: cargo run -p xtask -- <chore>

  tidy              check the rules that neither compiler nor linter knows (also run by cargo test)
  reasons           write docs/reasons.md from the reasons of the core
  outputs           update the output of commands in pages from the golden files, and the picture
  picture           draw docs/picture.svg, the output of a command, from a run of it
  deb [PROGRAM]     build a Debian package of the program, or of a program that was built before
  mutants [NAME…]   change marked lines one at a time, and check that tests fail
  goldens FOLDER    write the header of every golden model, as sparse files of the real size
  judge [cpu|vulkan|table]
                    ask llama.cpp how much memory it allocates for every golden model, and write
                    docs/estimates-judged.md; needs node and npm, except for table, which uses the
                    recorded answers
  judge rpc [MODEL…]
                    the same for a server on 1, 2, 3, 4 and 8 GPUs that do not exist; needs g++ and
                    PLIMSOLL_LLAMA_CPP with the folder of a built llama.cpp
  judge card PATH…  add the tensors that llama.cpp expects to cards with metadata; needs the same
  control-plane     build etcd, kube-apiserver, kube-scheduler and kubectl for tests, and print their
                    folder; needs Go, or KUBEBUILDER_ASSETS with the folder of built programs
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
        (Some("reasons"), []) => reasons::run(&workspace()),
        (Some("outputs"), []) => {
            outputs::run(&workspace()).and_then(|()| picture::run(&workspace()))
        }
        (Some("picture"), []) => picture::run(&workspace()),
        (Some("deb"), []) => deb::run(&workspace()),
        (Some("deb"), [program]) => deb::package(&workspace(), Path::new(program)),
        (Some("mutants"), names) => mutants::run(&workspace(), names),
        (Some("goldens"), [folder]) => goldens::run(Path::new(folder)),
        (Some("judge"), args) => judge::run(&workspace(), args),
        (Some("control-plane"), []) => control_plane::run(),
        (None | Some("help" | "--help" | "-h"), _) => {
            print!("{HELP}");
            Ok(())
        }
        (Some(chore), _) => {
            bail!("unknown chore: {chore} {}\n\n{HELP}", rest.join(" "))
        }
    }
}

fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_owned()
}
