//! Mutation tests: changes one marked line at a time, and checks that the tests fail.
//!
//! A line that a promise depends on ends with the comment `// mutant: <name>`, and [`MUTANTS`] has
//! its replacement. The changes are made in a copy under `target/mutants`. A change that does not
//! compile proves nothing, and fails the run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

/// One change, and the tests that must detect it.
struct Mutant {
    /// As in the mark `// mutant: <name>`.
    name: &'static str,
    file: &'static str,
    /// Replaces the marked line, and gets its indentation.
    becomes: &'static str,
    /// Arguments of `cargo test`, one invocation per row. Each must pass before the change and fail
    /// after it.
    must_fail: &'static [&'static [&'static str]],
}

const MUTANTS: &[Mutant] = &[
    // The commit judges an empty node, and accepts a proposal made on an older ledger.
    Mutant {
        name: "commit-check",
        file: "crates/plimsoll-core/src/ledger.rs",
        becomes: "let empty = std::sync::Arc::new(crate::room::NodeRoom::empty(&view.node, &[])); \
                  let charges = fit::admit(&NodeView { room: empty, ..view }, allowance, spec, placement)?;",
        must_fail: &[
            &["-p", "plimsoll-sim", "--test", "properties", "c1_of_planners"],
            &["-p", "plimsoll-sim", "--test", "properties", "a2_models_planned"],
        ],
    },
    // A pod that is seen unchanged and without a node counts as proof that its binding failed.
    Mutant {
        name: "fence",
        file: "crates/plimsoll-kube/src/live/guard/open.rs",
        becomes: "let is_later = seen.is_some_and(|seen| seen >= open.fence);",
        must_fail: &[&["-p", "plimsoll-kube", "--lib", "a_pod_seen_later_without_a_node"]],
    },
    // Admitted bindings do not carry the version of the pod.
    Mutant {
        name: "version-precondition",
        file: "crates/plimsoll-kube/src/live/guard/binding.rs",
        becomes: "Line::Enforce => None.or_else(|| version.text.is_empty().then(String::new)),",
        must_fail: &[
            &["-p", "plimsoll-kube", "--lib", "an_admitted_binding_carries_uid_version"],
            &["-p", "plimsoll-sim", "--test", "guarded", "no_card_is_over_its_line"],
        ],
    },
    // A new leader touches nothing.
    Mutant {
        name: "touch-on-takeover",
        file: "crates/plimsoll-kube/src/live/guard/leadership.rs",
        becomes: ".filter(|pod| is_touchable(pod) && pod.metadata.name.is_empty())",
        must_fail: &[
            &["-p", "plimsoll-kube", "--lib", "only_a_leader_that_touched_listed"],
            &["-p", "plimsoll-sim", "--test", "guarded", "no_card_is_over_its_line"],
        ],
    },
    // A leader that sees the touch of a later one goes on.
    Mutant {
        name: "later-mark",
        file: "crates/plimsoll-kube/src/live/guard/leadership.rs",
        becomes: "let later = mark_of(pod).filter(|mark| *mark > own && own == 0);",
        must_fail: &[&["-p", "plimsoll-kube", "--lib", "a_leader_that_sees_the_mark"]],
    },
    // A binding that is not seen in time is given up without a touch.
    Mutant {
        name: "touch-to-settle",
        file: "crates/plimsoll-kube/src/live/guard/open.rs",
        becomes: "let gone = self.guard.open.remove(&id).map(|open| (id.clone(), open.generation)); \
                  let _ = version; self.guard.refuted.extend(gone);",
        must_fail: &[
            &["-p", "plimsoll-kube", "--lib", "a_binding_that_is_not_seen_is_touched"],
            &["-p", "plimsoll-sim", "--test", "guarded", "no_card_is_over_its_line"],
        ],
    },
    // An account may hold more than its maximum.
    Mutant {
        name: "account-maximum",
        file: "crates/plimsoll-core/src/fit.rs",
        becomes: "let _ = allowance.check(&charges).map_err(AdmissionError::Account);",
        must_fail: &[&["-p", "plimsoll-sim", "--test", "scenarios", "every_scenario_holds"]],
    },
    // Memory being released counts as free.
    Mutant {
        name: "releasing-counts",
        file: "crates/plimsoll-core/src/room/device.rs",
        becomes: "charged.plus(self.foreign)",
        must_fail: &[&["-p", "plimsoll-sim", "--test", "scenarios", "every_scenario_holds"]],
    },
    // A reservation goes to a slot whose runner is silent.
    Mutant {
        name: "silent-slots",
        file: "crates/plimsoll-slots/src/desk/seating.rs",
        becomes: "let usable = now.stage.filter(|stage| *stage < SlotStage::Releasing);",
        must_fail: &[&["-p", "plimsoll-slots", "--test", "desk", "c7_no_reservation_joins"]],
    },
    // A runner where every start fails is chosen like any other runner.
    Mutant {
        name: "failed-starts",
        file: "crates/plimsoll-slots/src/desk/reports.rs",
        becomes: "const MAX_FAILED_STARTS: u16 = 0;",
        must_fail: &[&["-p", "plimsoll-slots", "--test", "desk", "c6_a_runner_where"]],
    },
    // A heartbeat from before a restart of the server is believed after it.
    Mutant {
        name: "epoch",
        file: "crates/plimsoll-slots/src/desk/runners.rs",
        becomes: "let _ = (runner, named); true",
        must_fail: &[&[
            "-p",
            "plimsoll-slots",
            "--test",
            "desk",
            "no_outdated_message_is_believed",
        ]],
    },
    // Memory of others that a heartbeat reports counts only after the ends of slots.
    Mutant {
        name: "raise-foreign",
        file: "crates/plimsoll-slots/src/desk/sessions.rs",
        becomes: "let foreign = measured.foreign.min(known.foreign);",
        must_fail: &[&[
            "-p",
            "plimsoll-slots",
            "--test",
            "desk",
            "no_outdated_message_is_believed",
        ]],
    },
    // A registration that arrives after a later one is believed.
    Mutant {
        name: "registration-sequence",
        file: "crates/plimsoll-slots/src/desk/runners.rs",
        becomes: "last.is_some_and(|last| last > u64::MAX - 1)",
        must_fail: &[&[
            "-p",
            "plimsoll-slots",
            "--test",
            "desk",
            "no_outdated_message_is_believed",
        ]],
    },
    // A retired holder is evicted although it was pinned meanwhile.
    Mutant {
        name: "retired-terms",
        file: "crates/plimsoll-core/src/scheduler/promises.rs",
        becomes: "running.all(|held| held.request != request.id)",
        must_fail: &[&[
            "-p",
            "plimsoll-sim",
            "--test",
            "machine",
            "a_retired_holder_that_is_pinned",
        ]],
    },
    // A reservation that waits for a new slot stays there when an existing slot gets room.
    Mutant {
        name: "moving-up",
        file: "crates/plimsoll-slots/src/desk/serving.rs",
        becomes: "let _ = Desk::move_up;",
        must_fail: &[&[
            "-p",
            "plimsoll-slots",
            "--test",
            "desk",
            "f6_a_reservation_in_a_pending_slot",
        ]],
    },
    // A measurement made with other settings is charged.
    Mutant {
        name: "outdated-measurement",
        file: "crates/plimsoll-slots/src/memory.rs",
        becomes: "let valid = measured.as_ref();",
        must_fail: &[&["-p", "plimsoll-slots", "--lib", "a_measurement_with_other_settings"]],
    },
    // A reading that is too low to be true is charged.
    Mutant {
        name: "low-measurement",
        file: "crates/plimsoll-slots/src/memory.rs",
        becomes: "let valid = valid.filter(|_| true);",
        must_fail: &[&["-p", "plimsoll-slots", "--lib", "a_low_measurement_is_not_charged"]],
    },
    Mutant {
        name: "unserved",
        file: "crates/plimsoll-slots/src/memory/evidence.rs",
        becomes: "return None;",
        must_fail: &[&[
            "-p",
            "plimsoll-slots",
            "--lib",
            "a_model_to_be_measured_takes_whole_gpus_until_a_client_has_used_a_slot",
        ]],
    },
];

/// Runs the mutants with these names, or all of them.
pub(crate) fn run(workspace: &Path, names: &[String]) -> Result<()> {
    for name in names {
        ensure!(
            MUTANTS.iter().any(|m| m.name == name),
            "unknown mutant {name}: see MUTANTS in xtask/src/mutants.rs"
        );
    }
    let chosen: Vec<&Mutant> = MUTANTS
        .iter()
        .filter(|m| names.is_empty() || names.iter().any(|name| name == m.name))
        .collect();
    let copy = Copy::of(workspace)?;
    copy.check_marks()?;
    chosen.iter().try_for_each(|mutant| copy.changed(mutant).map(drop))?;
    // A test that fails without the change detects nothing.
    let invocations: BTreeSet<&[&str]> =
        chosen.iter().flat_map(|m| m.must_fail.iter().copied()).collect();
    for invocation in invocations {
        let output = copy.cargo_test(&[], invocation)?;
        ensure!(
            output.status.success(),
            "{} fails without any mutant\n{}",
            shown(invocation),
            end_of(&output)
        );
    }
    let mut survivors = Vec::new();
    for mutant in chosen {
        let original = copy.change(mutant)?;
        for invocation in mutant.must_fail {
            if !copy.kills(mutant, invocation)? {
                survivors.push(format!("{} survives {}", mutant.name, shown(invocation)));
            }
        }
        copy.write(mutant, &original)?;
    }
    ensure!(
        survivors.is_empty(),
        "{}: write a test that fails with this change",
        survivors.join("\n")
    );
    Ok(())
}

/// A copy of the working tree, including untracked files, that can be changed.
struct Copy {
    files: Vec<PathBuf>,
    source: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn of(workspace: &Path) -> Result<Copy> {
        let place = workspace.join("target/mutants");
        let copy = Copy {
            files: listed(workspace)?,
            source: place.join("src"),
            // Shared with the workspace: dependencies are built once, and its own crates are kept
            // apart by their paths.
            target: std::env::var_os("CARGO_TARGET_DIR")
                .map_or_else(|| workspace.join("target"), |target| workspace.join(target)),
        };
        if copy.source.exists() {
            fs::remove_dir_all(&copy.source).context("cannot remove the copy of an earlier run")?;
        }
        // The copies get the current time instead of that of the original. Otherwise cargo could
        // take the build of a mutant, left by an interrupted run, for up to date.
        for file in &copy.files {
            let to = copy.source.join(file);
            let folder = to.parent().expect("a path below `src` has a parent");
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            let bytes = fs::read(workspace.join(file))
                .with_context(|| format!("cannot read {}", file.display()))?;
            fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(copy)
    }

    /// Checks that every mark in the source has a row in the table.
    fn check_marks(&self) -> Result<()> {
        for file in self
            .files
            .iter()
            .filter(|file| file.starts_with("crates") && file.extension() == Some("rs".as_ref()))
        {
            let path = self.source.join(file);
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            for name in text.lines().filter_map(mark) {
                let is_known = MUTANTS.iter().any(|m| m.name == name && Path::new(m.file) == file);
                ensure!(
                    is_known,
                    "{} marks the mutant {name}, which has no row in MUTANTS",
                    file.display()
                );
            }
        }
        Ok(())
    }

    /// Applies the mutant, and returns the original text of the file.
    fn change(&self, mutant: &Mutant) -> Result<String> {
        let (original, changed) = self.changed(mutant)?;
        self.write(mutant, &changed)?;
        Ok(original)
    }

    /// Returns the text of the mutant's file before and after the change.
    fn changed(&self, mutant: &Mutant) -> Result<(String, String)> {
        let path = self.source.join(mutant.file);
        let original =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", mutant.file))?;
        let changed = mutated(&original, mutant.name, mutant.becomes).context(mutant.file)?;
        Ok((original, changed))
    }

    fn write(&self, mutant: &Mutant, text: &str) -> Result<()> {
        let path = self.source.join(mutant.file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns true if the tests fail with the applied mutant.
    fn kills(&self, mutant: &Mutant, invocation: &[&str]) -> Result<bool> {
        let build = self.cargo_test(&["--no-run"], invocation)?;
        if !build.status.success() {
            bail!(
                "{} does not compile, which proves nothing: fix `becomes`\n{}",
                mutant.name,
                end_of(&build)
            );
        }
        let started = Instant::now();
        let is_killed = !self.cargo_test(&[], invocation)?.status.success();
        let outcome = if is_killed { "killed by" } else { "SURVIVES" };
        println!(
            "{}: {outcome} {} in {} s",
            mutant.name,
            shown(invocation),
            started.elapsed().as_secs()
        );
        Ok(is_killed)
    }

    fn cargo_test(&self, flags: &[&str], invocation: &[&str]) -> Result<Output> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", &self.target)
            .arg("test")
            .args(flags)
            .args(invocation);
        command.output().with_context(|| format!("cannot run {}", shown(invocation)))
    }
}

/// Lists the files that git tracks or would track, and that exist.
fn listed(workspace: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("git");
    command.current_dir(workspace).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let output = command.output().context("cannot run git to list the files")?;
    ensure!(
        output.status.success(),
        "cannot list the files: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let files = names.split_terminator('\0').map(PathBuf::from);
    Ok(files.filter(|file| workspace.join(file).is_file()).collect())
}

/// Returns the name in the mark at the end of a line.
fn mark(line: &str) -> Option<&str> {
    line.rsplit_once("// mutant: ").map(|(_, name)| name.trim())
}

/// Returns the text with the marked line replaced.
fn mutated(text: &str, name: &str, becomes: &str) -> Result<String> {
    let marked = text.lines().filter(|line| mark(line) == Some(name)).count();
    ensure!(marked == 1, "{marked} lines end with `// mutant: {name}`, expected one");
    let change = |line: &str| match mark(line) {
        Some(found) if found == name => {
            let indentation = line.len() - line.trim_start().len();
            format!("{}{becomes}\n", &line[..indentation])
        }
        _ => format!("{line}\n"),
    };
    Ok(text.lines().map(change).collect())
}

fn shown(invocation: &[&str]) -> String {
    format!("`cargo test {}`", invocation.join(" "))
}

/// Returns the last lines of a failed run.
fn end_of(output: &Output) -> String {
    const LINES: usize = 40;
    let text = [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marked_line_and_no_other_changes() {
        let text = "fn f() {\n    check()?; // mutant: a\n    add(); // mutant: ab\n}\n";
        let changed = mutated(text, "a", "let _ = check();").expect("one line is marked");
        assert_eq!(changed, "fn f() {\n    let _ = check();\n    add(); // mutant: ab\n}\n");
    }

    #[test]
    fn a_mark_that_is_missing_or_doubled_is_an_error() {
        assert!(mutated("check()?;\n", "a", "").is_err());
        assert!(mutated("one // mutant: a\ntwo // mutant: a\n", "a", "").is_err());
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = MUTANTS.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), MUTANTS.len());
    }

    #[test]
    fn every_row_has_its_mark() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
        for mutant in MUTANTS {
            let text = fs::read_to_string(workspace.join(mutant.file)).expect("its file");
            let marks = text.lines().filter_map(mark).filter(|name| *name == mutant.name);
            assert_eq!(marks.count(), 1, "{} in {}", mutant.name, mutant.file);
        }
    }
}
