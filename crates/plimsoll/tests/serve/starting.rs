//! Startup, and configurations that do not start.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{Serve, command, data, ends, file, scratch};

#[test]
fn it_says_where_it_listens_and_is_ready() {
    let dir = scratch();
    let server = Serve::start(dir.path(), &[]);
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    for path in ["/livez", "/readyz"] {
        assert_eq!(server.ask("GET", path, None).0, 200, "{path}");
    }
    let (status, problem) = server.ask("GET", "/no/such/thing", None);
    assert_eq!((status, &problem["status"]), (404, &404.into()), "{problem}");
    assert!(
        server.get("/metrics").as_str().is_some_and(|text| text.contains("plimsoll_build_info"))
    );
}

#[test]
fn without_tokens_it_listens_on_this_machine_alone() {
    let dir = scratch();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        ends(&["--listen", address, "--data", &data(dir.path())]).with_error(&[
            "no token",
            "--token-file",
            "127.0.0.1",
        ]);
    }
    assert!(!dir.path().join("data").exists(), "nothing was touched");
}

#[test]
fn c3_a_second_one_on_the_same_data_refuses_to_start() {
    let dir = scratch();
    let first = Serve::start(dir.path(), &[]);
    let second = ends(&["--listen", "127.0.0.1:0", "--data", &data(dir.path())]);
    second.with_error(&["in use by process", &first.child.id().to_string(), "its own directory"]);
    assert!(!second.log.contains("listening"), "{}", second.log);
    assert_eq!(first.ask("GET", "/readyz", None).0, 200);
}

/// `version-1` was written by the first version of the server: a runner, a model and a reservation.
#[test]
fn a_data_directory_of_the_first_version_is_rejected_and_left_unchanged() {
    let dir = scratch();
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/version-1");
    let copy = dir.path().join("data");
    fs::create_dir(&copy).expect("a directory");
    let files = ["journal.db", "base-0.json"];
    for name in files {
        fs::copy(written.join(name), copy.join(name)).expect("a copy");
    }
    let answer =
        ["journal.db has schema version 1", "keep using the program", "move the directory"];
    ends(&["--listen", "127.0.0.1:0", "--data", &data(dir.path())]).with_error(&answer);
    let mut replay = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let replayed = replay.arg("replay").arg(&copy).output().expect("it runs");
    let said = String::from_utf8_lossy(&replayed.stderr);
    assert!(answer.iter().all(|part| said.contains(part)), "{said}");
    for name in files {
        let read = |dir: &Path| fs::read(dir.join(name)).expect("a file");
        assert!(read(&written) == read(&copy), "{name} is unchanged");
    }
}

#[test]
fn an_address_that_is_taken_is_named() {
    let (dir, other) = (scratch(), scratch());
    let first = Serve::start(dir.path(), &[]);
    let address = first.url.trim_start_matches("http://");
    ends(&["--listen", address, "--data", &data(other.path())])
        .with_error(&["cannot listen on", address]);
}

#[test]
fn what_is_wrong_in_the_configuration_is_named_with_its_line() {
    let dir = scratch();
    let config = file(dir.path(), "plimsoll.yaml", "policy: pack\nlimts: {body: 1MiB}\n");
    let config = config.display().to_string();
    for more in [&["--check-config"][..], &[]] {
        let mut args = vec!["--config", &config];
        args.extend(more);
        ends(&args).with_error(&["plimsoll.yaml", "limts", "line 2"]);
    }
    ends(&["--config", "no/such/file.yaml"]).with_error(&["no/such/file.yaml", "No such file"]);
    file(dir.path(), "plimsoll.yaml", "policy: pack\n");
    assert_eq!(Serve::spawn(command(&["--check-config", "--config", &config])).end().code, Some(0));
}

#[test]
fn models_of_the_configuration_are_there_and_one_that_left_it_stays_with_a_warning() {
    let dir = scratch();
    let model = |name: &str| {
        format!("- {{name: {name}, memory: 1GiB, runtime: {{command: {{argv: [serve]}}}}}}\n")
    };
    let config =
        file(dir.path(), "plimsoll.yaml", &format!("models:\n{}{}", model("a"), model("b")));
    let config = config.display().to_string();
    let server = Serve::start(dir.path(), &["--config", &config]);
    let names = |server: &Serve| -> Vec<String> {
        let models = server.get("/api/v1/models");
        let names = models.as_array().expect("a list").iter().map(|model| model["name"].as_str());
        names.map(|name| name.expect("a name").to_string()).collect()
    };
    assert_eq!(names(&server), ["a", "b"]);
    server.signal("TERM");
    assert_eq!(server.end().code, Some(0));
    fs::write(&config, format!("policy: pack\nmodels:\n{}", model("a"))).expect("a file");
    let server = Serve::start(dir.path(), &["--config", &config]);
    assert_eq!(names(&server), ["a", "b"]);
    assert!(
        server.log().contains("WARN") && server.log().contains("models=\"b\""),
        "{}",
        server.log()
    );
    assert_eq!(server.ask("DELETE", "/api/v1/models/b", None).0 / 100, 2);
    assert_eq!(names(&server), ["a"]);
}

#[test]
fn e5_decisions_are_logged_as_lines_of_json_where_wanted() {
    let dir = scratch();
    let mut server = Serve::start(dir.path(), &["--log", "json", "--log-decisions"]);
    server.register("r", 1);
    server.declare("m", 10).expect("an answer");
    let ask = serde_json::json!({"model": "m"});
    assert_eq!(server.ask("POST", "/api/v1/scheduler/slots", Some(&ask)).0, 202);
    server.says("allocation_success");
    server.signal("TERM");
    let log = server.end().log;
    let codes: Vec<String> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line)
                .unwrap_or_else(|error| panic!("{error}: {line}"))
        })
        .filter_map(|line| Some(line.get("code")?.as_str()?.to_string()))
        .collect();
    assert_eq!(codes.first().map(String::as_str), Some("calculating_allocated_memory"));
    assert!(codes.iter().any(|code| code == "gpu_allocation_start"), "{codes:?}");
    assert_eq!(codes.last().map(String::as_str), Some("allocation_success"));
}
