//! The output on real terminals of 80 and 160 columns, compared with stored transcripts. A line
//! never exceeds the terminal, and a sentence never 160 characters.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::clients::fake::Fake;
use crate::golden::compare;
use crate::tool::{Run, command, plimsoll, scratch};

/// A terminal: the side of the person, and the side of the program.
pub(crate) struct Terminal {
    pub(crate) person: File,
    program: OwnedFd,
}

impl Terminal {
    pub(crate) fn new(columns: u16, rows: u16) -> Terminal {
        // No child inherits it: it would keep the terminal open.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).expect("a terminal");
        grantpt(&person).expect("it may be used");
        unlockpt(&person).expect("it may be opened");
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&person, size).expect("a size");
        let name = ptsname(&person, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = rustix::fs::open(&*name, flags, Mode::empty()).expect("the other side");
        Terminal { person: File::from(person), program }
    }

    /// Connects a command to it.
    pub(crate) fn attach(&self, command: &mut Command) {
        let side = || Stdio::from(self.program.try_clone().expect("a handle"));
        command.stdin(side()).stdout(side()).stderr(side()).env("TERM", "xterm-256color");
    }

    /// Drops the program's side, so that reading ends when the program does.
    pub(crate) fn into_person(self) -> File {
        self.person
    }
}

/// Runs a command on a terminal of a width, without colours.
fn on_terminal(mut command: Command, columns: u16) -> Run {
    let terminal = Terminal::new(columns, 24);
    terminal.attach(&mut command);
    // Progress is shown on standard error.
    command.env("NO_COLOR", "1").stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary was built");
    // The command holds handles of the program's side.
    drop(command);
    let mut person = terminal.into_person();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    // The read fails once no program is left on the other side.
    while let Ok(count @ 1..) = person.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    let code = child.wait().expect("it ends").code();
    let out = String::from_utf8(bytes).expect("UTF-8").replace("\r\n", "\n");
    Run { code, out, err: String::new() }
}

fn fits(run: &Run, columns: u16) {
    for line in run.out.lines() {
        assert!(line.chars().count() <= usize::from(columns), "{columns} columns: {line}");
    }
}

#[test]
fn lists_and_explanations_fit_the_terminal() {
    let fake = Fake::fleet();
    for (name, line) in [
        ("slots", "slots"),
        ("runners", "runners"),
        ("queue", "queue"),
        ("decisions", "decisions"),
        ("reservations", "reservations"),
        ("explain-slot", "explain slot-4"),
        ("explain-placed", "explain 1201.0"),
        ("explain-name", "explain team-a/trainer-0"),
    ] {
        for columns in [80, 160] {
            let mut command = command(line);
            command.env("PLIMSOLL_SERVER", &fake.url);
            let mut run = on_terminal(command, columns);
            fits(&run, columns);
            let lines = run.out.lines().map(|line| match line.split_once(" ago (") {
                Some((before, _)) => format!("{before} ago (…)\n"),
                None => format!("{line}\n"),
            });
            run.out = lines.collect();
            compare(&format!("terminal/{name}-{columns}"), line, &run);
        }
    }
}

#[test]
fn simulations_and_offline_explanations_fit_the_terminal() {
    for (name, line) in [
        ("simulate-pending", "simulate -f examples/kai-time-slicing.yaml"),
        ("simulate-gang", "simulate -f examples/gang.yaml"),
        ("explain-pending", "explain -f examples/kai-time-slicing.yaml default/ubuntu-test-4"),
        ("explain-hami", "explain -f examples/hami-pending.yaml default/sample"),
        ("audit", "audit -f examples/helix-overcommitted.yaml"),
    ] {
        for columns in [80, 160] {
            let run = on_terminal(command(line), columns);
            fits(&run, columns);
            compare(&format!("terminal/{name}-{columns}"), line, &run);
        }
    }
}

#[test]
fn no_sentence_is_longer_than_160_characters() {
    let fake = Fake::fleet();
    let offline = plimsoll("explain -f examples/hami-pending.yaml default/sample").out;
    let live = fake.run("explain slot-4").out + &fake.run("queue").out;
    for line in (offline + &live).lines() {
        let text = line.trim_start();
        for sentence in text.split("; ").flat_map(|part| part.split("  ")) {
            assert!(sentence.chars().count() <= 160, "{sentence}");
        }
    }
}

/// A cluster of alike nodes with more pods than fit, and one pod that fits nowhere.
fn large_cluster(nodes: usize, pods: usize) -> String {
    let mut text = String::new();
    for node in 0..nodes {
        text.push_str(&format!(
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: node-{node:03}\n  labels:\n    \
             nvidia.com/gpu.memory: \"81920\"\n    nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB\n    \
             nvidia.com/gpu.count: \"8\"\nstatus:\n  allocatable: {{nvidia.com/gpu: \"8\"}}\n  capacity: \
             {{nvidia.com/gpu: \"8\"}}\n"
        ));
    }
    for pod in 0..pods {
        text.push_str(&format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: work-{pod}, namespace: team}}\nspec:\n  \
             containers:\n  - name: main\n    resources: {{limits: {{nvidia.com/gpu: \"1\"}}}}\n"
        ));
    }
    text
}

#[test]
fn a_large_fleet_is_summarised_in_60_lines() {
    let file = scratch("large").join("cluster.yaml");
    std::fs::write(&file, large_cluster(100, 820)).expect("a file");
    let file = file.display();
    for line in [format!("simulate -f {file}"), format!("explain -f {file} team/work-819")] {
        let run = on_terminal(command(&line), 80);
        fits(&run, 80);
        let lines = run.out.lines().count();
        assert!(lines <= 60, "{lines} lines of {line}:\n{}", run.out);
        assert!(run.out.contains("like it") || run.out.contains("more"), "{}", run.out);
        let full = plimsoll(&format!("{line} --full"));
        assert!(full.out.lines().count() > 800, "{line} --full shows all");
    }
}

#[test]
fn a_pipe_has_no_width_and_columns_sets_one() {
    let wide = plimsoll("explain -f examples/kai-time-slicing.yaml default/ubuntu-test-4");
    assert!(wide.out.lines().any(|line| line.chars().count() > 100), "{}", wide.out);
    let mut command = command("explain -f examples/kai-time-slicing.yaml default/ubuntu-test-4");
    command.env("COLUMNS", "60");
    fits(&crate::tool::finish(command, ""), 60);
}
