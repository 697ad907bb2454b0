//! The programs of the control plane: their pinned versions, and the folder they are built into.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Names the folder with built programs, as the test tools of other Kubernetes projects do.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// Makes tests fail that would be skipped without the programs.
pub const REQUIRED: &str = "PLIMSOLL_REQUIRE_CONTROL_PLANE";

/// The chore that builds the programs.
pub const CHORE: &str = "cargo run -p xtask -- control-plane";

/// Every program, and the Go package that it is built from.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// A folder that holds every program of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Returns the programs in `folder`.
    ///
    /// # Errors
    ///
    /// [`Missing`] names the first program that is not there.
    pub fn in_folder(folder: &Path) -> Result<Self, Missing> {
        for (name, _) in PROGRAMS {
            let file = folder.join(name);
            if !file.is_file() {
                return Err(Missing { file });
            }
        }
        Ok(Programs { folder: folder.to_owned() })
    }

    /// Returns the folder of the programs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of one program.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

/// A program that has not been built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {}: build it with `{CHORE}`, or set {ASSETS}", file.display())]
pub struct Missing {
    pub file: PathBuf,
}

/// Returns the programs that tests use: those in [`ASSETS`] if it is set, else the built ones.
///
/// # Errors
///
/// [`Missing`] if a program is not there, or the pinned versions cannot be read.
pub fn find() -> Result<Programs, Missing> {
    let folder = match env::var_os(ASSETS) {
        Some(folder) => PathBuf::from(folder),
        None => built_folder().map_err(|_| Missing { file: module_folder().join("go.mod") })?,
    };
    Programs::in_folder(&folder)
}

/// Returns the programs for a test. Without them, says what is skipped and returns nothing.
///
/// # Panics
///
/// If the programs are missing and [`REQUIRED`] is set, as it is where all tests must run.
pub fn find_or_skip(test: &str) -> Option<Programs> {
    let missing = match find() {
        Ok(programs) => return Some(programs),
        Err(missing) => missing,
    };
    assert!(env::var_os(REQUIRED).is_none(), "{test} cannot run: {missing}");
    // The macros for printing are captured in tests that pass; this is not.
    let _ = writeln!(io::stderr(), "SKIPPED {test}: {missing}");
    None
}

/// Returns the folder of the Go module that pins the versions.
pub fn module_folder() -> PathBuf {
    workspace().join("testbed/control-plane")
}

/// Returns the folder that the pinned versions are built into. Its name contains a hash of the
/// pins, so that programs of other versions are never used by mistake.
///
/// # Errors
///
/// Any error while reading the pins.
pub fn built_folder() -> io::Result<PathBuf> {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for file in ["go.mod", "go.sum"] {
        context.update(&fs::read(module_folder().join(file))?);
    }
    let digest = context.finish();
    let hash: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(workspace().join("target/control-plane").join(hash))
}

fn workspace() -> &'static Path {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("the crate is two folders below the workspace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_one_of_the_programs_is_rejected_with_its_name_and_the_chore() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, _) in PROGRAMS {
            let missing = Programs::in_folder(folder.path()).expect_err("a program is missing");
            assert_eq!(missing.file, folder.path().join(name));
            assert!(missing.to_string().contains(CHORE), "{missing}");
            fs::write(folder.path().join(name), "").expect("the folder is writable");
        }
        let programs = Programs::in_folder(folder.path()).expect("every program is there");
        assert_eq!(programs.path("etcd"), folder.path().join("etcd"));
    }

    #[test]
    fn every_program_is_a_tool_of_the_module_that_pins_it() {
        let module = fs::read_to_string(module_folder().join("go.mod")).expect("go.mod");
        for (name, package) in PROGRAMS {
            let is_tool = module.lines().any(|line| line == format!("\t{package}"));
            assert!(is_tool, "{name}: go.mod has no tool {package}");
        }
    }
}
