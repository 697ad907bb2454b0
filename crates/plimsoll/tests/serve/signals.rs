//! Shutdown and reload.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::process::{Serve, command, data, file, scratch};

/// Begins a request that waits, and says that it was begun once it is on its way.
fn waiting(server: &Serve, wait: &str) -> TcpStream {
    let mut stream =
        TcpStream::connect(server.url.trim_start_matches("http://")).expect("it listens");
    let request = format!(
        "GET /api/v1/runners/r/work?after=999&wait={wait} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it is taken");
    std::thread::sleep(Duration::from_millis(300));
    stream
}

/// Begins a request that never comes to its end.
fn unending(server: &Serve) -> TcpStream {
    let mut stream =
        TcpStream::connect(server.url.trim_start_matches("http://")).expect("it listens");
    let head = "POST /api/v1/scheduler/slots HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    stream
        .write_all(format!("{head}content-length: 100\r\n\r\n{{").as_bytes())
        .expect("it is taken");
    std::thread::sleep(Duration::from_millis(300));
    stream
}

#[test]
fn on_shutdown_waiting_clients_are_answered_at_once() {
    let dir = scratch();
    let server = Serve::start(dir.path(), &[]);
    server.register("r", 1);
    let (mut work, started) = (waiting(&server, "60s"), Instant::now());
    let mut events =
        TcpStream::connect(server.url.trim_start_matches("http://")).expect("it listens");
    events
        .write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .expect("it is taken");
    std::thread::sleep(Duration::from_millis(200));
    server.signal("TERM");
    for stream in [&mut work, &mut events] {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(server.end().code, Some(0));
    assert!(started.elapsed() < Duration::from_secs(8), "no client delays it");
    let wal =
        fs::metadata(format!("{}/journal.db-wal", data(dir.path()))).map_or(0, |file| file.len());
    assert_eq!(wal, 0, "everything is in the journal itself");
}

#[test]
fn asked_to_end_it_finishes_what_it_began_and_takes_nothing_new() {
    for signal in ["TERM", "INT"] {
        let dir = scratch();
        let server = Serve::start(dir.path(), &[]);
        server.register("r", 1);
        let mut stream = waiting(&server, "2s");
        server.signal(signal);
        let started = Instant::now();
        while TcpStream::connect(server.url.trim_start_matches("http://")).is_ok() {
            assert!(started.elapsed() < Duration::from_millis(1500), "it still takes connections");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let ended = server.end();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        assert!(ended.log.contains("everything is durable"), "{}", ended.log);
    }
}

#[test]
fn what_takes_too_long_to_finish_is_cut_off() {
    let dir = scratch();
    let config =
        file(dir.path(), "plimsoll.yaml", "limits: {drain: 500ms}\n").display().to_string();
    let server = Serve::start(dir.path(), &["--config", &config]);
    server.register("r", 1);
    let _stream = unending(&server);
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.end().code, Some(0));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = scratch();
    let config = file(dir.path(), "plimsoll.yaml", "limits: {drain: 10m}\n").display().to_string();
    let mut server = Serve::start(dir.path(), &["--config", &config]);
    server.register("r", 1);
    let _stream = unending(&server);
    server.signal("TERM");
    server.says("shutting down");
    let started = Instant::now();
    server.signal("INT");
    let ended = server.end();
    ended.with_error(&["second signal", "durable"]);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn tokens_are_read_again_and_a_bad_configuration_changes_nothing() {
    let dir = scratch();
    file(dir.path(), "one", "the-first-token-of-all");
    let text = "tokens: [{name: a, role: read, file: one}]\n";
    let path = file(dir.path(), "plimsoll.yaml", text);
    let config = path.display().to_string();
    let mut server =
        Serve::start(dir.path(), &["--config", &config]).with_token("the-first-token-of-all");
    assert_eq!(server.ask("GET", "/metrics", None).0, 200);
    fs::write(&path, "tokens: [{name: a, role: reed, file: one}]").expect("a file");
    server.signal("HUP");
    server.says("the previous one stays in use");
    assert_eq!(server.ask("GET", "/metrics", None).0, 200);
    fs::write(&path, text).expect("a file");
    file(dir.path(), "one", "quite-another-token");
    server.signal("HUP");
    server.says("tokens and certificate reloaded");
    assert_eq!(server.ask("GET", "/metrics", None).0, 401);
    let server = server.with_token("quite-another-token");
    assert_eq!(server.ask("GET", "/metrics", None).0, 200);
}

#[test]
fn a_server_that_others_can_reach_never_goes_on_without_tokens() {
    let dir = scratch();
    let path = file(
        dir.path(),
        "plimsoll.yaml",
        "listen: 0.0.0.0:0\ntokens: [{name: a, role: read, file: one}]\n",
    );
    file(dir.path(), "one", "the-first-token-of-all");
    let (config, data) = (path.display().to_string(), data(dir.path()));
    let mut server = Serve::spawn(command(&["--config", &config, "--data", &data])).ready();
    server.url = server.url.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(server.ask("GET", "/metrics", None).0, 401);
    assert!(
        server.log().contains("tokens are sent over the network unencrypted"),
        "{}",
        server.log()
    );
    fs::write(&path, "listen: 127.0.0.1:0\n").expect("a file");
    server.signal("HUP");
    server.says("has no token, but other machines can connect");
    assert_eq!(server.ask("GET", "/metrics", None).0, 401);
}

#[test]
fn a_server_with_tokens_is_not_opened_by_a_configuration_without_them() {
    let dir = scratch();
    let text = "listen: 127.0.0.1:0\ntokens: [{name: a, role: read, file: one}]\n";
    let path = file(dir.path(), "plimsoll.yaml", text);
    file(dir.path(), "one", "the-first-token-of-all");
    let (config, data) = (path.display().to_string(), data(dir.path()));
    let mut server = Serve::spawn(command(&["--config", &config, "--data", &data])).ready();
    fs::write(&path, "listen: 127.0.0.1:0\n").expect("a file");
    server.signal("HUP");
    server.says("would open the server to every local process");
    assert_eq!(server.ask("GET", "/metrics", None).0, 401);
    assert_eq!(server.with_token("the-first-token-of-all").ask("GET", "/metrics", None).0, 200);
}
