//! The Debian package: program, systemd units, shell completions and man pages.
//!
//! `dpkg-deb` builds it from a folder, so that no build helper of Debian is needed.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The place of the program in the units, which are written for a manual installation.
const MANUAL: &str = "/usr/local/bin/plimsoll";

/// Builds the program in the profile of published binaries, and its package.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let args = ["build", "--locked", "--package", "plimsoll", "--profile", "dist"];
    let status = Command::new("cargo").args(args).current_dir(workspace).status();
    if !status.context("cannot run cargo")?.success() {
        bail!("cargo build failed");
    }
    package(workspace, &workspace.join("target/dist/plimsoll"))
}

/// Builds the package of a program that was built before, and prints its path.
pub(crate) fn package(workspace: &Path, program: &Path) -> Result<()> {
    let folder = workspace.join("target/deb");
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot empty {}", root.display()))?;
    }
    stage(workspace, program, &root)?;
    let architecture = output("dpkg", &["--print-architecture"])?;
    let name = format!("plimsoll_{}_{}.deb", env!("CARGO_PKG_VERSION"), architecture.trim());
    let control = control(architecture.trim(), &needed_libc()?, installed_kibibytes(&root)?);
    put(&root, "DEBIAN/control", &control, 0o644)?;
    put(&root, "DEBIAN/conffiles", "/etc/plimsoll/plimsoll.yaml\n", 0o644)?;
    put(&root, "DEBIAN/postinst", POSTINST, 0o755)?;
    let file = folder.join(name);
    let paths = [root.display().to_string(), file.display().to_string()];
    output("dpkg-deb", &["--root-owner-group", "--build", &paths[0], &paths[1]])?;
    println!("{}", file.display());
    Ok(())
}

/// Creates the user of the runner, whose unit has no dynamic one: model servers outlive the agent.
const POSTINST: &str = "#!/bin/sh
set -e
if [ \"$1\" = configure ]; then
    if ! getent passwd plimsoll-runner >/dev/null; then
        useradd --system --user-group --home-dir /nonexistent --shell /usr/sbin/nologin plimsoll-runner
    fi
    if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
fi
";

/// The configuration of a new installation.
const CONFIGURATION: &str =
    "# The configuration of plimsoll.service. See /usr/share/doc/plimsoll/server.md.
# Without tokens, the server listens on this machine only.
listen: 127.0.0.1:8080
";

/// Copies and generates all files of the package, except those in DEBIAN.
fn stage(workspace: &Path, program: &Path, root: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    put_bytes(root, "usr/bin/plimsoll", &bytes, 0o755)?;
    for unit in ["plimsoll.service", "plimsoll-runner.service"] {
        let text = read(&workspace.join("deploy/systemd").join(unit))?;
        let text = text.replace(MANUAL, "/usr/bin/plimsoll");
        put(root, &format!("usr/lib/systemd/system/{unit}"), &text, 0o644)?;
    }
    put(root, "etc/plimsoll/plimsoll.yaml", CONFIGURATION, 0o644)?;
    let program = program.display().to_string();
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/plimsoll"),
        ("zsh", "usr/share/zsh/vendor-completions/_plimsoll"),
        ("fish", "usr/share/fish/vendor_completions.d/plimsoll.fish"),
    ] {
        put(root, path, &output(&program, &["completions", shell])?, 0o644)?;
    }
    let pages = root.join("usr/share/man/man1");
    fs::create_dir_all(&pages).context("cannot create the folder of man pages")?;
    output(&program, &["man", "--out", &pages.display().to_string()])?;
    for page in files(&pages)? {
        output("gzip", &["-9n", &page.display().to_string()])?;
    }
    let documentation = "usr/share/doc/plimsoll";
    put(root, &format!("{documentation}/copyright"), &read(&workspace.join("LICENSE"))?, 0o644)?;
    for page in files(&workspace.join("docs"))? {
        let name = page.file_name().context("a page has a name")?.to_string_lossy().into_owned();
        put_bytes(root, &format!("{documentation}/{name}"), &fs::read(&page)?, 0o644)?;
    }
    Ok(())
}

fn control(architecture: &str, libc: &str, kibibytes: u64) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "Package: plimsoll
Version: {version}
Section: admin
Priority: optional
Architecture: {architecture}
Installed-Size: {kibibytes}
Depends: libc6 (>= {libc}), libgcc-s1, passwd
Maintainer: The Plimsoll contributors <maintainers@plimsoll.invalid>
Description: GPU scheduler that never overcommits a physical device
 Places models on the GPUs of several machines by memory, audits the GPUs
 of a Kubernetes cluster, and explains every decision.
"
    )
}

/// Returns the version of the C library that the program was linked with, which is the oldest one
/// that it surely runs with.
fn needed_libc() -> Result<String> {
    let version = output("getconf", &["GNU_LIBC_VERSION"])?;
    let number = version.split_whitespace().nth(1).context("getconf prints `glibc VERSION`")?;
    Ok(number.to_owned())
}

fn installed_kibibytes(root: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files(root)? {
        bytes += match path.is_dir() {
            true => installed_kibibytes(&path)? * 1024,
            false => path.metadata()?.len(),
        };
    }
    Ok(bytes.div_ceil(1024))
}

fn put(root: &Path, path: &str, text: &str, mode: u32) -> Result<()> {
    put_bytes(root, path, text.as_bytes(), mode)
}

fn put_bytes(root: &Path, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let path = root.join(path);
    let failed = || format!("cannot write {}", path.display());
    fs::create_dir_all(path.parent().context("a file is in a folder")?).with_context(failed)?;
    let mut file = File::create(&path).with_context(failed)?;
    file.write_all(bytes).with_context(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).with_context(failed)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot list {}", folder.display());
    let entries = fs::read_dir(folder).with_context(failed)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|one| one.path())).collect();
    paths.with_context(failed)
}

/// Returns the standard output of a program that must succeed.
fn output(program: &str, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that answers the commands that the package needs.
    const STAND_IN: &str = "#!/bin/sh
case $1 in
completions) echo \"completions of $2\" ;;
man) echo .TH plimsoll > \"$3/plimsoll.1\" ;;
*) exit 3 ;;
esac
";

    #[test]
    fn a_package_has_program_units_completions_and_man_pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("plimsoll");
        fs::write(&program, STAND_IN).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        let root = folder.path().join("root");
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        stage(workspace, &program, &root).expect("it can be staged");
        let text = |path: &str| fs::read_to_string(root.join(path)).expect(path);
        let unit = text("usr/lib/systemd/system/plimsoll.service");
        assert!(unit.contains("ExecStart=/usr/bin/plimsoll serve") && !unit.contains(MANUAL));
        assert!(
            text("usr/lib/systemd/system/plimsoll-runner.service").contains("/usr/bin/plimsoll")
        );
        assert_eq!(text("usr/share/zsh/vendor-completions/_plimsoll"), "completions of zsh\n");
        assert!(root.join("usr/share/man/man1/plimsoll.1.gz").exists());
        assert!(text("usr/share/doc/plimsoll/server.md").contains("# The server"));
        let mode =
            |path: &str| root.join(path).metadata().expect(path).permissions().mode() & 0o777;
        assert_eq!((mode("usr/bin/plimsoll"), mode("etc/plimsoll/plimsoll.yaml")), (0o755, 0o644));
        assert!(installed_kibibytes(&root).expect("a size") > 100);
    }
}
