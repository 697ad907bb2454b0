//! Builds the Kubernetes control plane that tests run against, from the versions that
//! `testbed/control-plane` pins.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use plimsoll_testbed::programs::{self, ASSETS, PROGRAMS, Programs};

/// Builds the programs that are missing, and prints the folder that holds them.
pub(crate) fn run() -> Result<()> {
    if let Some(folder) = std::env::var_os(ASSETS) {
        let programs = Programs::in_folder(Path::new(&folder))
            .with_context(|| format!("{ASSETS} is set to {}", folder.display()))?;
        println!("{}", programs.folder().display());
        return Ok(());
    }
    let folder = programs::built_folder().context("cannot read testbed/control-plane")?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, package) in PROGRAMS {
        if !folder.join(name).is_file() {
            build(&folder, name, package)?;
        }
    }
    println!("{}", folder.display());
    Ok(())
}

/// Builds one program under another name first: an interrupted build leaves nothing that looks
/// complete.
fn build(folder: &Path, name: &str, package: &str) -> Result<()> {
    eprintln!("building {name} from {package}");
    let unfinished = folder.join(format!("{name}.unfinished"));
    let status = Command::new("go")
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o"])
        .arg(&unfinished)
        .arg(package)
        .env("CGO_ENABLED", "0")
        .current_dir(programs::module_folder())
        .status()
        .context("cannot run go: install Go 1.26 or later, or set KUBEBUILDER_ASSETS")?;
    ensure!(status.success(), "go build {package} failed: {status}");
    fs::rename(&unfinished, folder.join(name))
        .with_context(|| format!("cannot rename {}", unfinished.display()))
}
