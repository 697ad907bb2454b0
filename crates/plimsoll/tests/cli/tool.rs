//! Running the binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The result of a run of the binary.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The output as JSON, and the exit code that was expected.
    pub(crate) fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{}\n{}", self.err, self.out);
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Fails unless the run failed with all of these texts, and without a word about internals.
    pub(crate) fn fails_with(&self, texts: &[&str]) {
        assert_eq!(self.code, Some(2), "{}\n{}", self.err, self.out);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        assert!(!self.err.contains("panicked") && !self.err.contains("backtrace"), "{}", self.err);
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is not in:\n{}", self.err);
        }
    }
}

/// The workspace, from which the examples are named as in the documentation.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command line of the binary, split at spaces.
pub(crate) fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(line.split_whitespace()).current_dir(root());
    for name in [
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "PLIMSOLL_SERVER",
        "PLIMSOLL_TOKEN",
        "http_proxy",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs a command line with nothing on standard input.
pub(crate) fn plimsoll(line: &str) -> Run {
    piped(line, "")
}

/// Runs a command line with this on standard input.
pub(crate) fn piped(line: &str, input: &str) -> Run {
    finish(command(line), input)
}

/// Runs a command with this on standard input.
pub(crate) fn finish(mut command: Command, input: &str) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built for this test");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_string();
    // A program that does not read its input closes the pipe, which is no fault of the test.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("writing does not panic");
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("answers are UTF-8"),
        err: String::from_utf8(output.stderr).expect("errors are UTF-8"),
    }
}

/// A directory for the files of one test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("the target directory can be written");
    path
}

/// The rows of a list in a sheet.
pub(crate) fn rows<'a>(sheet: &'a Value, name: &str) -> &'a [Value] {
    sheet[name].as_array().unwrap_or_else(|| panic!("{name} is no list in {sheet}"))
}
