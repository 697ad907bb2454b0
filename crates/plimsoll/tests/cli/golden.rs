//! The outputs of the examples, compared with stored ones. `UPDATE_GOLDEN=1 cargo test -p plimsoll`
//! rewrites them.

use std::fs;
use std::path::Path;

use crate::tool::{Run, plimsoll};

fn check(name: &str, line: &str) {
    compare(name, line, &plimsoll(line));
}

/// Compares what a command line said with what is stored under a name.
pub(crate) fn compare(name: &str, line: &str, run: &Run) {
    let said = format!(
        "$ plimsoll {line}\n{}exit code {}\n",
        run.out,
        run.code.expect("it ended by itself")
    );
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        fs::write(&path, &said).expect("golden files can be written");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == said, "{} differs; it says now:\n{said}", path.display());
}

#[test]
fn every_example_says_what_it_said() {
    for example in [
        "gang",
        "hami-demo-pods",
        "hami-pending",
        "helix-overcommitted",
        "helix-two-gpus",
        "kai-time-slicing",
        "kai-time-slicing-too-late",
    ] {
        check(&format!("{example}.simulate"), &format!("simulate -f examples/{example}.yaml"));
        check(&format!("{example}.audit"), &format!("audit -f examples/{example}.yaml"));
    }
}

#[test]
fn explanations_say_what_they_said() {
    for (name, pod) in [
        ("kai-time-slicing", "default/ubuntu-test-4"),
        ("hami-demo-pods", "default/gpu-pod"),
        ("hami-demo-pods", "default/gpu-pod-default"),
        ("hami-pending", "default/sample"),
        ("gang", "default/worker-0"),
        ("gang", "default/busy"),
        ("helix-two-gpus", "models/qwen3-8b"),
    ] {
        let short = pod.rsplit('/').next().unwrap_or(pod);
        check(
            &format!("{name}.explain-{short}"),
            &format!("explain -f examples/{name}.yaml {pod}"),
        );
    }
}
