//! The daily life of a fleet from the command line: a server, an agent, and processes.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use crate::process::{PATIENCE, Serve, file, scratch};
use crate::whole::Agent;

const MODELS: &str = r#"
- name: talker
  runtime: {command: {argv: [sh, -c, "echo hello from the model; exec sleep 600"]}}
  memory: 10GiB
- name: broken
  runtime: {command: {argv: [/no/such/program]}}
  memory: 1Gi
- name: huge
  runtime: {command: {argv: [sh, -c, "exec sleep 600"]}}
  memory: 500GB
"#;

struct Shell<'a> {
    server: &'a Serve,
    config: &'a Path,
}

impl Shell<'_> {
    fn command(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(line.split_whitespace()).env("PLIMSOLL_SERVER", &self.server.url);
        command.env("XDG_CONFIG_HOME", self.config).env_remove("PLIMSOLL_TOKEN");
        command.env_remove("COLUMNS").output().expect("the binary was built for this test")
    }

    fn run(&self, line: &str) -> String {
        let Output { status, stdout, stderr } = self.command(line);
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert_eq!(status.code(), Some(0), "{line}: {out}{err}");
        out.into_owned()
    }

    fn fails(&self, line: &str, parts: &[&str]) {
        let Output { status, stderr, .. } = self.command(line);
        let err = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(2), "{line}: {err}");
        for part in parts {
            assert!(err.contains(part), "{line}: `{part}` is not in {err}");
        }
    }

    /// Repeats a command until its output has a text.
    fn until(&self, line: &str, part: &str) -> String {
        let started = Instant::now();
        loop {
            let output = self.command(line);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.contains(part) {
                return text;
            }
            assert!(started.elapsed() < PATIENCE, "{line}: no {part} in {text}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

#[test]
fn models_slots_and_runners_are_operated_from_the_command_line() {
    let dir = scratch();
    let models = file(dir.path(), "models.yaml", MODELS).display().to_string();
    let server = Serve::start(dir.path(), &[]);
    let shell = Shell { server: &server, config: dir.path() };
    let _agent = Agent::start(&server, dir.path());
    shell.until("runners", "online");

    let plan = shell.command(&format!("plan -f {models}"));
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    for part in [
        "+ talker would be created",
        "a slot would go to r1, GPU",
        "a slot would not be placed: too large: needs 465.7 GiB, r1/0 has 24.0 GiB in total",
        "3 to create, 0 to change, 0 unchanged",
    ] {
        assert!(plan.contains(part), "`{part}` is not in {plan}");
    }
    let applied = shell.command(&format!("apply -f {models}"));
    let warning = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(warning.contains("warning: huge cannot be placed now: too large"), "{warning}");
    assert_eq!(shell.run("models -o name"), "broken\nhuge\ntalker\n");

    let ready = shell.run("reserve talker --wait 30s --lease off");
    assert!(ready.contains("model talker: ready"), "{ready}");
    shell.until("logs slot-1", "hello from the model\n");
    shell.fails("slots stop slot-1", &["slot-1 serves 1 reservation", "--force"]);
    shell.fails("models delete talker", &["talker serves 1 reservation", "--force"]);
    shell.fails("slots show slot-11", &["slot-11", "did you mean slot-1?"]);
    shell.fails("slots --runner r2", &["there is no runner r2", "did you mean r1?"]);
    shell.fails("models show talkr", &["did you mean talker?"]);

    let _pending = shell.command("reserve broken --wait 2s --lease off");
    let failed = shell.until("slots --model broken", "back-off");
    assert!(failed.contains("back-off after"), "{failed}");
    shell.until("events --model broken", "failed");

    shell.run("runners cordon r1");
    assert!(shell.run("runners").contains("cordoned"));
    shell.run("slots stop slot-1 --force");
    let ended = shell.until("slots --ended", "slot-1");
    assert!(ended.contains("stopped by an operator"), "{ended}");
    shell.until("logs slot-1", "hello from the model\n");
    let explained = shell.command("explain slot-1");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("(stopped): stopped by an operator"), "{explained}");
    assert!(explained.contains("placed on r1"), "{explained}");

    shell.run("runners uncordon r1");
    let ready = shell.run("reserve talker --wait 30s --lease off");
    assert!(ready.contains("model talker: ready"), "{ready}");
    let drained = shell.run("runners drain r1 --deadline 1s");
    for part in ["draining runner r1: ", "busy (1 reservation)", "drained runner r1"] {
        assert!(drained.contains(part), "`{part}` is not in {drained}");
    }
    assert!(shell.run("runners").contains("drained"));
    shell.fails("runners delete r1", &["alive"]);
    shell.run("models delete talker");
    let events = shell.run("events --all");
    for part in ["runner joined", "slot-1", "runner draining", "stopped"] {
        assert!(events.contains(part), "`{part}` is not in {events}");
    }
}

#[test]
fn a_named_server_is_used_until_another_one_is_given() {
    let dir = scratch();
    let server = Serve::start(dir.path(), &[]);
    let shell = Shell { server: &server, config: dir.path() };
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(line.split_whitespace()).env_remove("PLIMSOLL_SERVER");
        command.env("XDG_CONFIG_HOME", dir.path()).env_remove("PLIMSOLL_TOKEN");
        let output = command.output().expect("the binary was built for this test");
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    assert!(run("context").contains("no contexts"));
    let saved = run(&format!("context set lab --server {}", server.url));
    assert!(saved.contains("the current context"), "{saved}");
    run("context set far --server http://127.0.0.1:1");
    assert_eq!(run("slots"), "no slots\n");
    run("context use far");
    assert!(run("slots").contains("no server answers at http://127.0.0.1:1"));
    assert!(run(&format!("slots --server {}", server.url)).contains("no slots"));
    assert!(run("context use lba").contains("did you mean lab?"));
    run("context delete far");
    assert!(run("context").contains("lab"));
    assert_eq!(shell.run("slots"), "no slots\n", "the environment overrides the context");
    let config = std::fs::read_to_string(dir.path().join("plimsoll/config.yaml")).expect("a file");
    assert!(config.contains("lab") && !config.contains("far"), "{config}");
}
