//! Real processes that are killed, kept out, and run out of room.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// The environment variable with the child's directory. Without it, the child's test does nothing.
const DIRECTORY: &str = "PLIMSOLL_TEST_STORE";

/// The prefix of a child's line after each commit.
const ACKNOWLEDGED: &str = "acknowledged ";

/// Not a test: the program of the children below. It continues from the store it finds, commits
/// until it is killed, and prints the number of durable records after each commit.
#[test]
#[ignore = "run by the tests of this module"]
fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let dir = Path::new(&dir);
    let (mut store, found) = open(dir);
    let mut machine =
        if found.snapshot.is_some() { Machine::resume(found) } else { Machine::new() };
    store.save_snapshot(machine.snapshot().into());
    store.wait_for_snapshots().expect("a snapshot is kept");
    // A limit far above any test, so that a child whose parent is gone ends as well.
    for round in 1_usize..50_000 {
        if let Err(error) = store.commit(&machine.batch(round % 7 + 1, round % 3)) {
            println!("failed {error}");
            return;
        }
        println!("{ACKNOWLEDGED}{} {}", machine.steps, machine.next_changes);
        std::io::stdout().flush().expect("the parent reads");
        if round % 10 == 0 {
            store.save_snapshot(machine.snapshot().into());
        }
    }
}

/// This test program again, as the child above, started by a command or as it is.
fn spawn(dir: &Path, by: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let exe = std::env::current_exe().expect("a running program");
    let mut line: Vec<OsString> = by.iter().map(OsString::from).collect();
    line.push(exe.into_os_string());
    line.extend(
        ["--exact", "store::tests::crash::child", "--ignored", "--nocapture"].map(OsString::from),
    );
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).env(DIRECTORY, dir).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    (child, out)
}

/// The numbers that a line acknowledges.
fn acknowledged(line: &str) -> Option<(u64, u64)> {
    // The test harness may have begun the line already.
    let (_, numbers) = line.split_once(ACKNOWLEDGED)?;
    let (steps, changes) = numbers.trim_end().split_once(' ')?;
    Some((steps.parse().ok()?, changes.parse().ok()?))
}

/// The machine that was driven so far without ever being stopped, in the same batches or in others.
fn undisturbed(steps: u64, changes: u64) -> Machine {
    let mut machine = Machine::new();
    let small = |number: u64| usize::try_from(number).expect("a small number");
    machine.batch(small(steps), small(changes));
    machine
}

#[test]
fn kill_9_at_any_moment_loses_and_doubles_nothing() {
    let root = directory();
    let mut acked = (0, 0);
    for round in 0..8 {
        let (mut child, mut out) = spawn(root.path(), &[]);
        // A child that gets on for longer each time dies in ever other places.
        for _ in 0..3 + round * 9 {
            let mut line = String::new();
            assert!(
                out.read_line(&mut line).expect("text") > 0,
                "the child lives until it is killed"
            );
            acked = acknowledged(&line).unwrap_or(acked);
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it is dead");
        for line in out.lines() {
            acked = acknowledged(&line.expect("text")).unwrap_or(acked);
        }
        let (_store, found) = open(root.path());
        assert_eq!(found.warnings, Vec::<String>::new());
        let resumed = Machine::resume(found);
        assert!(
            resumed.steps >= acked.0 && resumed.next_changes >= acked.1,
            "acknowledged and lost"
        );
        assert_eq!(resumed.snapshot(), undisturbed(resumed.steps, resumed.next_changes).snapshot());
    }
    assert!(acked.0 > 100, "it got somewhere: {acked:?}");
}

#[test]
fn a_second_process_is_kept_out_while_the_first_lives() {
    let root = directory();
    let (mut child, mut out) = spawn(root.path(), &[]);
    let mut line = String::new();
    while acknowledged(&line).is_none() {
        line.clear();
        assert!(out.read_line(&mut line).expect("text") > 0, "the child lives");
    }
    let error = Store::open(root.path()).expect_err("it is taken");
    let pid = child.id();
    assert!(
        matches!(error, StoreError::InUse { pid: Some(holder), .. } if holder == pid),
        "{error}"
    );
    History::open(root.path())
        .and_then(|history| history.records(None, 5))
        .expect("readers are let in");
    child.kill().expect("it can be killed");
    child.wait().expect("it is dead");
    open(root.path());
}

#[test]
fn a_process_without_room_stops_and_what_it_acknowledged_is_there() {
    let root = directory();
    // The signal would kill it; without it, writing fails as on a full disk. In blocks of 1 KiB.
    let limited = ["bash", "-c", "trap '' XFSZ; ulimit -f 300; exec \"$0\" \"$@\""];
    let (mut child, out) = spawn(root.path(), &limited);
    let mut acked = (0, 0);
    let mut failed = String::new();
    for line in out.lines() {
        let line = line.expect("text");
        acked = acknowledged(&line).unwrap_or(acked);
        if let Some((_, error)) = line.split_once("failed ") {
            failed = error.to_string();
        }
    }
    child.wait().expect("it ended");
    assert!(failed.contains("cannot be read or written"), "{failed}");
    let (_store, found) = open(root.path());
    let resumed = Machine::resume(found);
    assert!(acked.0 > 0 && resumed.steps >= acked.0, "{acked:?}");
    assert_eq!(resumed.snapshot(), undisturbed(resumed.steps, resumed.next_changes).snapshot());
}
