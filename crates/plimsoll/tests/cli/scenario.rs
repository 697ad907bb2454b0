//! Scenarios: run, rewritten, and made from a dump.

use std::fs;

use crate::tool::{plimsoll, scratch};

const HOLDS: &str = "# One card.\nnode n1\ndevice n1 0 memory=10GiB\nsubmit a/p1 8GiB\n>\n";

#[test]
fn a_scenario_is_run_compared_and_rewritten() {
    let file = scratch("scenario").join("one.txt");
    fs::write(&file, HOLDS).expect("a file");
    let name = file.display();
    assert_eq!(
        plimsoll(&format!("scenario run {name}")).code,
        Some(1),
        "nothing was expected, and something said"
    );
    assert_eq!(plimsoll(&format!("scenario run {name} --update")).code, Some(0));
    assert!(fs::read_to_string(&file).expect("it is there").contains("> a/p1 placed"));
    for line in [format!("scenario run {name}"), format!("scenario {name}")] {
        assert_eq!(plimsoll(&line).code, Some(0), "{line}");
    }
    fs::write(&file, "nod n1\n").expect("a file");
    let wrong = plimsoll(&format!("scenario {name}"));
    wrong.fails_with(&["one.txt", "line 1"]);
    assert_eq!(wrong.err.matches("because:").count(), 1, "the cause is said once: {}", wrong.err);
}

#[test]
fn a_scenario_without_expectations_does_not_count_as_expected() {
    let file = scratch("unchecked").join("one.txt");
    fs::write(&file, "node n1\ndevice n1 0 memory=10GiB\n").expect("a file");
    let name = file.display();
    let run = plimsoll(&format!("scenario run {name}"));
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.ends_with("one.txt has no expectations\n"), "{}", run.out);
    let both = plimsoll(&format!("scenario run {name} {name}"));
    let last = "0 of 2 scenarios as expected; 2 without expectations\n";
    assert!(both.out.ends_with(last), "{}", both.out);
}

#[test]
fn a_dump_becomes_a_scenario_that_can_be_run() {
    let file = scratch("from").join("dump.txt");
    for example in ["kai-time-slicing", "kai-time-slicing-too-late", "gang", "hami-pending"] {
        let made = plimsoll(&format!("scenario --from examples/{example}.yaml"));
        assert_eq!(made.code, Some(0), "{example}: {}", made.err);
        fs::write(&file, &made.out).expect("a file");
        let run = plimsoll(&format!("scenario run {}", file.display()));
        assert_eq!(run.code, Some(0), "{example}: {}{}", run.err, run.out);
    }
}

#[test]
fn an_anonymous_scenario_has_no_name_of_the_dump() {
    let plain = plimsoll("scenario --from examples/helix-overcommitted.yaml");
    let hidden = plimsoll("scenario --from examples/helix-overcommitted.yaml --anonymise");
    assert_eq!(hidden.code, Some(0), "{}", hidden.err);
    for name in ["qwen3", "models", "GPU-80000000", "runner"] {
        assert!(plain.out.contains(name), "{name} is in the dump");
        assert!(!hidden.out.contains(name), "{name}: {}", hidden.out);
    }
}
