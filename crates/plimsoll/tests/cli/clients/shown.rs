//! What people and programs read of a server.

use serde_json::Value;

use super::fake::{Fake, read};
use crate::golden::compare;

#[test]
fn every_list_and_explanation_says_what_it_said() {
    let fake = Fake::fleet();
    for (name, line) in [
        ("slots", "slots"),
        ("slots-of-model", "slots --model qwen3-8b"),
        ("runners", "runners"),
        ("runner", "runners gpu-a"),
        ("decisions", "decisions"),
        ("queue", "queue"),
        ("top", "top"),
        ("explain-refused", "explain 1234.0"),
        ("explain-placed", "explain 1201.0"),
        ("explain-forgotten", "explain 7.0"),
        ("explain-slot", "explain slot-4"),
        ("explain-running-slot", "explain slot-1"),
        ("explain-reservation", "explain reservation-12"),
        ("explain-reservation-in-slot", "explain reservation-13"),
        ("explain-name", "explain team-a/trainer-0"),
        ("explain-name-forgotten", "explain team-a/trainer-1"),
    ] {
        compare(&format!("clients/{name}"), line, &fake.run_timeless(line));
    }
}

#[test]
fn an_empty_server_is_said_to_be_empty() {
    let fake = Fake::new();
    for path in [
        "runners",
        "scheduler/slots",
        "scheduler/queue",
        "scheduler/decisions?limit=1",
        "scheduler/decisions?limit=20",
    ] {
        fake.says("GET", path, 200, "[]");
    }
    for (line, words) in [
        ("runners", "there are no runners"),
        ("slots", "there are no slots"),
        ("queue", "nothing is pending"),
        ("decisions", "there are no decisions"),
        ("top", "there are no runners"),
    ] {
        let run = fake.run(line);
        assert_eq!(
            (run.code, run.out.contains(words)),
            (Some(0), true),
            "{line}: {}{}",
            run.out,
            run.err
        );
    }
}

#[test]
fn json_is_the_servers_own() {
    let fake = Fake::fleet();
    for (line, file) in
        [("slots -o json", "slots"), ("queue -o json", "queue"), ("runners gpu-a -o json", "gpu-a")]
    {
        let text = fake.run(line).out;
        let shapes = |text: &str| {
            text.lines()
                .map(|line| line.trim().split(':').next().map(str::to_string))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shapes(&text),
            shapes(&serde_json_pretty(&read(file))),
            "{line}: every name, in the server's order"
        );
    }
    let one = fake.run("slots --model qwen3-8b -o json").json(0);
    assert_eq!(one.as_array().map(Vec::len), Some(1));
    assert_eq!(one[0]["id"], "slot-1");
}

/// Names in their order, as the stored text has them.
fn serde_json_pretty(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(line.trim());
        out.push('\n');
    }
    let _: Value = serde_json::from_str(text).expect("it is JSON");
    out
}

#[test]
fn pages_are_followed_to_the_end_of_the_list_and_never_to_another_server() {
    let fake = Fake::new();
    let link = "Link: <http://evil.example/api/v1/scheduler/slots?after=a>; rel=\"next\"\r\n";
    fake.says_with("GET", "scheduler/slots", 200, link, r#"[{"id":"a","model":"m"}]"#);
    fake.says("GET", "scheduler/slots?after=a", 200, r#"[{"id":"b","model":"m"}]"#);
    let run = fake.run("slots -o json");
    let ids: Vec<String> =
        run.json(0).as_array().expect("a list").iter().map(|row| row["id"].to_string()).collect();
    assert_eq!(ids, ["\"a\"", "\"b\""]);
}

#[test]
fn no_more_decisions_are_asked_for_than_wanted() {
    let fake = Fake::new();
    let link = "Link: </api/v1/scheduler/decisions?limit=2&after=1.0>; rel=\"next\"\r\n";
    fake.says_with(
        "GET",
        "scheduler/decisions?model=a%2Fb&limit=2",
        200,
        link,
        r#"[{"id":"2.0"},{"id":"1.0"}]"#,
    );
    assert_eq!(
        fake.run("decisions --model a/b --limit 2 -o json").json(0).as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(fake.asked().len(), 1);
}

#[test]
fn a_name_cannot_paint_the_terminal() {
    let fake = Fake::new();
    fake.says(
        "GET",
        "scheduler/slots",
        200,
        r#"[{"id":"a","model":"m\u001b[2J","stage":"pending","reason":"\u001b]0;x\u0007"}]"#,
    );
    let run = fake.run("slots --color always");
    assert!(!run.out.contains("\u{1b}[2J") && !run.out.contains("\u{1b}]0"), "{:?}", run.out);
}

#[test]
fn a_watch_prints_again_when_something_changed_and_ends_with_its_reader() {
    use std::io::{BufRead, BufReader};
    let fake = Fake::new();
    fake.says("GET", "scheduler/queue", 200, "[]");
    let mut command = crate::tool::command("queue --watch=100ms");
    command.env("PLIMSOLL_SERVER", &fake.url).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary was built for this test");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "nothing is pending");
    fake.says("GET", "scheduler/queue", 200, r#"[{"id":"slot-9","model":"m","reason":"full"}]"#);
    assert!(lines.any(|line| line.expect("text").contains("slot-9: full")), "the change is shown");
    drop(lines);
    fake.says("GET", "scheduler/queue", 200, "[]");
    let status = child.wait().expect("it ends by itself");
    assert_eq!(status.code(), Some(0), "nobody reads any more");
}
