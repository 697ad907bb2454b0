//! Every scenario in the top folder says what it should; `UPDATE_SCENARIOS=1` rewrites what they
//! expect.

use std::fs;
use std::path::PathBuf;

use plimsoll_sim::scenario;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).expect("the folder of scenarios can be read");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

#[test]
fn every_scenario_holds() {
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let mut problems = String::new();
    for path in files() {
        let text = fs::read_to_string(&path).expect("a scenario can be read");
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        match scenario::run(&text) {
            Err(error) => problems.push_str(&format!("{name}: {error}\n")),
            Ok(report) if report.holds() => {}
            Ok(report) if update => {
                fs::write(&path, report.updated()).expect("a scenario can be written");
            }
            Ok(report) => problems.push_str(&format!("{name}:\n{}", report.diff())),
        }
    }
    assert!(problems.is_empty(), "\n{problems}");
}

#[test]
fn every_scenario_begins_with_what_it_proves() {
    assert!(files().len() > 20, "there are scenarios");
    for path in files() {
        let text = fs::read_to_string(&path).expect("a scenario can be read");
        assert!(text.starts_with("# "), "{} begins with a sentence", path.display());
    }
}

#[test]
fn every_scenario_checks_something_and_updating_it_changes_nothing() {
    for path in files() {
        let text = fs::read_to_string(&path).expect("a scenario can be read");
        assert!(
            text.lines().any(|line| line.starts_with("> ")),
            "{} expects something",
            path.display()
        );
        if let Ok(report) = scenario::run(&text)
            && report.holds()
        {
            assert_eq!(report.updated(), text, "{}", path.display());
        }
    }
}
