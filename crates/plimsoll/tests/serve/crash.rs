//! A crash, a damaged store and a full disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::process::{Serve, data, ends, scratch};

/// Everything that must be the same after a restart.
fn state(server: &Serve) -> Value {
    let metrics = server.get("/metrics");
    let load: Vec<&str> = metrics
        .as_str()
        .expect("a text")
        .lines()
        .filter(|line| line.starts_with("plimsoll_device_") && !line.contains("age"))
        .collect();
    let mut load: Vec<String> = load.into_iter().map(String::from).collect();
    load.sort();
    let mut place = server.get("/api/v1/scheduler/slots/reservation-1");
    // A restart gives every reservation one full lease, so its expiry is another.
    place.as_object_mut().expect("a row").remove("lease_expires");
    json!({
        "models": server.get("/api/v1/models"),
        "slots": server.get("/api/v1/scheduler/slots"),
        "place": place,
        "load": load,
    })
}

/// A runner with a slot that runs and one that was ordered, and a model without either.
fn filled(server: &Serve) {
    let welcome = server.register("r", 2);
    assert!(welcome["heartbeat_ms"].is_u64(), "{welcome}");
    for (model, gib) in [("a", 60), ("b", 30), ("c", 10)] {
        assert_eq!(server.declare(model, gib).expect("an answer") / 100, 2);
    }
    for model in ["a", "b"] {
        let (status, place) = server.ask(
            "POST",
            "/api/v1/scheduler/slots",
            Some(&json!({"model": model, "key": model})),
        );
        assert_eq!(status, 202, "{place}");
    }
    let orders = server.get("/api/v1/runners/r/work");
    let first = &orders["orders"][0];
    let report = json!({
        "slot": first["slot"], "generation": first["generation"], "model": first["launch"]["model"], "state": "running",
        "booked": [{"index": first["launch"]["devices"][0]["index"], "bytes": first["launch"]["devices"][0]["bytes"]}],
    });
    let beat = json!({"session": 1, "sequence": 2, "slots": [report]});
    assert_eq!(server.ask("POST", "/api/v1/runners/r/heartbeat", Some(&beat)).0, 200);
}

#[test]
fn c2_killed_at_any_moment_it_comes_back_as_it_was() {
    let dir = scratch();
    let mut server = Serve::start(dir.path(), &[]);
    filled(&server);
    let before = state(&server);
    assert!(before["load"].to_string().contains("node="), "{before}");
    server.child.kill().expect("it runs");
    server.end();
    let server = Serve::start(dir.path(), &[]);
    assert_eq!(state(&server), before);
    // The same key finds the same place, and nothing is made twice.
    let (_, place) =
        server.ask("POST", "/api/v1/scheduler/slots", Some(&json!({"model": "a", "key": "a"})));
    assert_eq!(place["id"], before["place"]["id"], "{place}");
    assert_eq!(state(&server)["slots"], before["slots"]);
}

#[test]
fn a_restart_gives_a_reservation_one_full_lease() {
    let dir = scratch();
    let path = "/api/v1/scheduler/slots/reservation-1";
    let mut server = Serve::start(dir.path(), &[]);
    server.declare("m", 1).expect("an answer");
    let body = json!({"model": "m", "lease": "3s"});
    assert_eq!(server.ask("POST", "/api/v1/scheduler/slots", Some(&body)).0, 202);
    server.child.kill().expect("it runs");
    server.end();
    // The server is down for longer than the lease.
    std::thread::sleep(std::time::Duration::from_millis(3_200));
    let server = Serve::start(dir.path(), &[]);
    assert_eq!(server.get(path)["status"], "pending");
    assert_eq!(server.get(path)["lease"], "3s");
    let is_open = |_: &i32| server.get(path)["status"] == "pending";
    let pause = |_: &i32| std::thread::sleep(std::time::Duration::from_millis(100));
    let looks = (0..100).take_while(is_open).inspect(pause).count();
    assert!(looks >= 15, "it ended after {looks} looks, 100 ms apart");
    assert_eq!(server.get(path)["status"], "lease_expired");
}

#[test]
fn killed_while_it_is_being_asked_it_has_all_that_it_answered() {
    let dir = scratch();
    let mut known = 0;
    for _ in 0..3 {
        let server = Serve::start(dir.path(), &[]);
        let script = format!("sleep 0.3; kill -9 {}", server.child.id());
        let mut killer = Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
        for number in known.. {
            match server.declare(&format!("m{number:05}"), 1) {
                Ok(status) => assert_eq!(status / 100, 2, "{status} for {number}"),
                Err(_) => break,
            }
            known = number + 1;
        }
        killer.wait().expect("it ends");
        server.end();
    }
    let server = Serve::start(dir.path(), &[]);
    let metrics = server.get("/metrics");
    let models = metrics
        .as_str()
        .and_then(|text| text.lines().find(|line| line.starts_with("plimsoll_models ")));
    let models: usize =
        models.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a number");
    // One more may be there that was durable and not answered any more.
    assert!(models >= known && models <= known + 3, "{models} of {known}");
    assert_eq!(
        server.get(&format!("/api/v1/models/m{:05}", known - 1))["name"],
        format!("m{:05}", known - 1)
    );
}

#[test]
fn a_damaged_journal_and_a_newer_one_are_left_alone_and_named() {
    let dir = scratch();
    let server = Serve::start(dir.path(), &[]);
    filled(&server);
    server.signal("TERM");
    assert_eq!(server.end().code, Some(0));
    let (journal, data) = (dir.path().join("data/journal.db"), data(dir.path()));
    let args = ["--listen", "127.0.0.1:0", "--data", &data];
    let good = kept(&data);

    let connection = rusqlite::Connection::open(&journal).expect("a database");
    let newer = connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'", []);
    assert_eq!(newer, Ok(1));
    drop(connection);
    ends(&args).with_error(&["journal.db has schema version 99", "newer"]);

    put_back(&data, &good);
    let file = fs::OpenOptions::new().write(true).open(&journal).expect("a file");
    file.write_all_at(&[0xff; 512], 0).expect("it can be written");
    let damaged = kept(&data);
    ends(&args).with_error(&["journal.db is not a database", "backup"]);
    assert_eq!(kept(&data), damaged, "nothing is changed in what cannot be used");

    put_back(&data, &good);
    assert_eq!(
        Serve::start(dir.path(), &[]).get("/api/v1/models").as_array().map(Vec::len),
        Some(3)
    );
}

/// The files of a directory that hold data, with what is in them.
fn kept(dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries =
        fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let lasting =
        entries.filter(|path| !path.ends_with("lock") && !path.ends_with("journal.db-shm"));
    lasting.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

fn put_back(dir: &str, files: &BTreeMap<PathBuf, Vec<u8>>) {
    fs::remove_dir_all(dir).expect("a directory");
    fs::create_dir(dir).expect("a directory");
    files.iter().for_each(|(path, text)| fs::write(path, text).expect("a file"));
}

#[test]
fn a_full_disk_ends_it_with_a_clear_message_and_it_goes_on_once_there_is_room() {
    let dir = scratch();
    let server = Serve::start_limited(dir.path(), 256);
    let mut known = 0;
    let error = loop {
        match server.declare(&format!("m{known}"), 1) {
            Ok(status) if status / 100 == 2 => known += 1,
            other => break other,
        }
        assert!(known < 5000, "the limit was never met");
    };
    // A client whose change did not become durable gets an error, or no answer at all.
    assert!(matches!(error, Ok(503) | Err(_)), "{error:?}");
    let ended = server.end();
    ended.with_error(&["cannot make a decision durable", "nothing that was acknowledged is lost"]);
    let server = Serve::start(dir.path(), &[]);
    for model in [0, known - 1] {
        assert_eq!(server.get(&format!("/api/v1/models/m{model}"))["name"], format!("m{model}"));
    }
    assert_eq!(server.declare("more", 1).expect("an answer") / 100, 2);
}
