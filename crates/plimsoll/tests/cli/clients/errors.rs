//! Errors of servers end with 2 and say what to do.

use std::io::Read;

use super::fake::Fake;
use crate::tool::{command, finish, plimsoll, scratch};

#[test]
fn an_unreachable_server_is_named_with_what_to_do() {
    for line in [
        "slots",
        "runners",
        "decisions",
        "queue",
        "explain 1.0",
        "reserve m",
        "release reservation-1",
        "top",
    ] {
        let run = plimsoll(&format!("{line} --server http://127.0.0.1:1"));
        run.fails_with(&[
            "http://127.0.0.1:1/api/v1/",
            "plimsoll serve",
            "--server",
            "Connection refused",
        ]);
    }
}

#[test]
fn a_lost_connection_says_that_the_reservation_may_have_been_created() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            // It reads the request and closes the connection.
            let _ = connection.expect("a connection").read(&mut [0; 4096]);
        }
    });
    let said = ["may have been created", "was closed before the answer", &url];
    let asked = plimsoll(&format!("reserve m --server {url}"));
    asked.fails_with(&[&said[..], &["plimsoll reservations", "--key"]].concat());
    let asked = plimsoll(&format!("reserve m --key order-17 --server {url}"));
    asked.fails_with(&[&said[..], &["the same --key"]].concat());
    let looked = plimsoll(&format!("slots --server {url}"));
    looked.fails_with(&["was closed before the answer"]);
    assert!(!looked.err.contains("may have been created"), "{}", looked.err);
}

#[test]
fn rejections_have_the_detail_of_the_server_and_what_to_do() {
    let problem = |status: u16, detail: &str| {
        format!(
            r#"{{"type":"urn:x","title":"T","status":{status},"detail":"{detail}","code":"c"}}"#
        )
    };
    for (status, body, parts) in [
        (
            401,
            problem(401, "no token"),
            vec!["401", "no token was sent", "--token-file", "PLIMSOLL_TOKEN"],
        ),
        (403, problem(403, "read only"), vec!["403", "read only"]),
        (404, problem(404, "there is no runner x"), vec!["404", "there is no runner x"]),
        (422, problem(422, "limit is 0"), vec!["422", "limit is 0"]),
        (503, problem(503, "the ledger is being rebuilt"), vec!["503", "being rebuilt"]),
        (404, "<html>\u{7}oops</html>".to_string(), vec!["404", "is that a Plimsoll server?"]),
        (500, String::new(), vec!["500"]),
    ] {
        let fake = Fake::new();
        fake.says("GET", "scheduler/queue", status, &body);
        fake.run("queue").fails_with(&parts);
    }
}

#[test]
fn an_unknown_model_is_answered_with_similar_names() {
    let fake = Fake::fleet();
    fake.says("GET", "models", 200, r#"[{"name": "qwen3-8b"}, {"name": "llama"}]"#);
    let run = fake.run("reserve qwen3-b");
    run.fails_with(&["there is no model qwen3-b; did you mean qwen3-8b?"]);
    assert!(!run.err.contains("PUT"), "{}", run.err);
    fake.run("reserve gemma").fails_with(&["there is no model gemma; `plimsoll models` lists"]);
}

#[test]
fn a_missing_token_is_named_once_with_its_options() {
    let fake = Fake::new();
    let body = r#"{"type":"urn:x","title":"T","status":401,"detail":"no token was sent; send one as …","code":"c"}"#;
    fake.says("GET", "scheduler/slots", 401, body);
    let run = fake.run("slots");
    run.fails_with(&["no token was sent; give one with --token-file or PLIMSOLL_TOKEN"]);
    assert_eq!(run.err.matches("no token was sent").count(), 1, "{}", run.err);
}

#[test]
fn another_kind_of_server_is_recognized() {
    let fake = Fake::new();
    for body in ["<html>", "{}", r#"[{"id":7}]"#, "[", ""] {
        fake.says("GET", "scheduler/queue", 200, body);
        fake.run("queue").fails_with(&["is not understood", "Plimsoll server"]);
    }
}

#[test]
fn a_redirection_is_not_followed() {
    let (fake, other) = (Fake::new(), Fake::fleet());
    let to = format!("Location: {}/api/v1/scheduler/queue\r\n", other.url);
    for status in [301, 302, 307, 308] {
        fake.says_with("GET", "scheduler/queue", status, &to, "");
        let mut command = command("queue");
        command.env("PLIMSOLL_SERVER", &fake.url).env("PLIMSOLL_TOKEN", "secret");
        finish(command, "").fails_with(&["redirects to", &other.url, "not followed", "--server"]);
    }
    assert_eq!(other.asked(), [], "the token was sent nowhere else");
}

#[test]
fn a_token_is_sent_and_never_shown() {
    let fake = Fake::new();
    fake.says("GET", "scheduler/queue", 401, r#"{"detail":"who are you?"}"#);
    let file = scratch("token").join("token");
    std::fs::write(&file, "s3cret\n").expect("a file");
    let run = fake.run(&format!("queue --token-file {}", file.display()));
    run.fails_with(&["who are you?"]);
    assert!(!run.err.contains("s3cret"), "{}", run.err);
    assert_eq!(fake.asked()[0].authorization.as_deref(), Some("Bearer s3cret"));
    let far =
        plimsoll(&format!("queue --server http://gpu.example --token-file {}", file.display()));
    far.fails_with(&["unencrypted to gpu.example", "--insecure"]);
    assert!(!far.err.contains("s3cret"), "{}", far.err);
    plimsoll("queue --token-file no/such/file").fails_with(&["no/such/file"]);
    plimsoll("queue --ca-file no/such/file").fails_with(&["no/such/file"]);
}

#[test]
fn explain_reads_files_or_asks_a_server_and_never_both() {
    let both = plimsoll("explain -f examples/gang.yaml --server http://127.0.0.1:1 default/busy");
    both.fails_with(&["-f", "--server"]);
    plimsoll("explain --server http://127.0.0.1:1").fails_with(&["nothing to explain", "slot-7"]);
    let mut command = command("explain -f examples/gang.yaml default/busy");
    command.env("PLIMSOLL_SERVER", "http://127.0.0.1:1");
    let run = finish(command, "");
    assert_eq!(run.code, Some(0), "files take precedence over the environment: {}", run.err);
}
