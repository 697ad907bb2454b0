//! Authentication and limits over a real socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::process::{Serve, file, scratch};

const ADMIN: &str = "the-token-that-may-do-everything";
const READER: &str = "the-token-that-may-look";
const RUNNER: &str = "the-token-of-the-runner-gpu-1";

fn guarded(dir: &std::path::Path, limits: &str) -> Serve {
    let admin = file(dir, "admin", ADMIN).display().to_string();
    file(dir, "reader", READER);
    file(dir, "runner", RUNNER);
    let config = format!(
        "tokens:\n- {{name: reader, role: read, file: reader}}\n- {{name: gpus, role: runner, runner: gpu-1, file: runner}}\n{limits}"
    );
    let config = file(dir, "plimsoll.yaml", &config).display().to_string();
    Serve::start(dir, &["--config", &config, "--token-file", &admin])
}

fn connect(server: &Serve) -> TcpStream {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    stream
}

#[test]
fn tokens_do_what_their_role_says_and_never_stand_in_the_log() {
    let dir = scratch();
    let mut server = guarded(dir.path(), "");
    for path in ["/livez", "/readyz"] {
        assert_eq!(server.ask("GET", path, None).0, 200);
    }
    let log = "/api/v1/namespaces/n/pods/p/schedulerlog";
    for path in ["/metrics", "/api/v1/models", "/no/such/thing", log] {
        assert_eq!(server.ask("GET", path, None).0, 401, "{path}");
    }
    server = server.with_token("some-token-that-is-wrong");
    assert_eq!(server.ask("GET", log, None).0, 401);
    server = server.with_token(READER);
    assert_eq!(server.ask("GET", "/metrics", None).0, 200);
    assert_eq!(server.ask("GET", log, None).0, 404);
    assert_eq!(server.declare("m", 1).expect("an answer"), 403);
    assert_eq!(server.ask("PUT", "/api/v1/runners/gpu-1", Some(&json!({}))).0, 403);
    server = server.with_token(RUNNER);
    server.register("gpu-1", 1);
    assert_eq!(server.ask("GET", "/api/v1/runners/gpu-1/work", None).0, 200);
    let registration = json!({"session": 1, "devices": []});
    assert_eq!(server.ask("PUT", "/api/v1/runners/gpu-2", Some(&registration)).0, 403);
    assert_eq!(server.ask("GET", "/api/v1/runners", None).0, 403);
    assert_eq!(server.ask("GET", log, None).0, 403);
    server = server.with_token(ADMIN);
    assert_eq!(server.declare("m", 1).expect("an answer") / 100, 2);
    assert_eq!(
        server.ask("DELETE", "/api/v1/runners/gpu-1", None).0,
        409,
        "online, which only an authorised client sees"
    );
    server.says("/api/v1/models/m");
    server.signal("TERM");
    let log = server.end().log;
    for secret in [ADMIN, READER, RUNNER, "some-token-that-is-wrong"] {
        assert!(!log.contains(secret), "{log}");
    }
    assert!(log.contains("--token-file") && !log.contains("unencrypted"), "{log}");
}

#[test]
fn bodies_and_rates_are_bounded() {
    let dir = scratch();
    let server = guarded(dir.path(), "limits: {body: 10KiB, requests_per_second: 1, burst: 4}\n")
        .with_token(ADMIN);
    let large = json!({"name": "m", "memory": "x".repeat(20_000)});
    let (status, problem) = server.ask("PUT", "/api/v1/models/m", Some(&large));
    assert_eq!((status, &problem["status"]), (413, &413.into()), "{problem}");
    let statuses: Vec<u16> = (0..6).map(|_| server.ask("GET", "/api/v1/models", None).0).collect();
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");
    assert_eq!(server.ask("GET", "/readyz", None).0, 200);
}

#[test]
fn who_sends_its_head_too_slowly_is_cut_off() {
    let dir = scratch();
    let server = guarded(dir.path(), "limits: {header_timeout: 1s}\n");
    let (mut slow, mut silent) = (connect(&server), connect(&server));
    slow.write_all(b"GET /livez HTTP/1.1\r\nhost: loc").expect("it is taken");
    let started = Instant::now();
    for stream in [&mut slow, &mut silent] {
        let mut rest = Vec::new();
        // Whether it is closed politely does not matter.
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_connection_too_many_is_closed_and_one_that_ends_makes_room() {
    let dir = scratch();
    let server = guarded(dir.path(), "limits: {connections: 2, header_timeout: 1m}\n");
    let answered = |stream: &mut TcpStream| {
        let asked = stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut begin = [0; 12];
        asked.and_then(|()| stream.read_exact(&mut begin)).is_ok() && &begin == b"HTTP/1.1 200"
    };
    let (mut one, mut two) = (connect(&server), connect(&server));
    assert!(answered(&mut one) && answered(&mut two));
    assert!(!answered(&mut connect(&server)));
    drop(one);
    let started = Instant::now();
    while !answered(&mut connect(&server)) {
        assert!(started.elapsed() < Duration::from_secs(20), "there is room again");
    }
}

#[test]
fn a_page_of_another_site_is_not_let_in() {
    let dir = scratch();
    let server = Serve::start(dir.path(), &[]);
    for head in ["host: evil.example", "host: localhost\r\norigin: https://evil.example"] {
        let mut stream = connect(&server);
        let request = format!("GET /api/v1/models HTTP/1.1\r\n{head}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
}
