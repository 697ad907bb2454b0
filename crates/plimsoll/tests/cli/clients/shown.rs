//! The output of the commands that list and explain.

use serde_json::{Value, json};

use super::fake::{Fake, changed, read};
use crate::golden::compare;

#[test]
fn every_list_and_explanation_says_what_it_said() {
    let fake = Fake::fleet();
    for (name, line) in [
        ("slots", "slots"),
        ("slots-of-model", "slots --model qwen3-8b"),
        ("reservations", "reservations"),
        ("reservations-ended", "reservations --namespace team-a --status ended"),
        ("runners", "runners"),
        ("runner", "runners gpu-a"),
        ("decisions", "decisions"),
        ("queue", "queue"),
        ("queue-wide", "queue -o wide"),
        ("accounts", "accounts"),
        ("top", "top"),
        ("explain-rejected", "explain 1234.0"),
        ("explain-placed", "explain 1201.0"),
        ("explain-expired", "explain 7.0"),
        ("explain-slot", "explain slot-4"),
        ("explain-running-slot", "explain slot-1"),
        ("explain-reservation", "explain reservation-12"),
        ("explain-reservation-in-slot", "explain reservation-13"),
        ("explain-name", "explain team-a/trainer-0"),
        ("explain-name-expired", "explain team-a/trainer-1"),
    ] {
        compare(&format!("clients/{name}"), line, &fake.run_timeless(line));
    }
}

#[test]
fn an_empty_server_has_its_own_text() {
    let fake = Fake::new();
    for path in [
        "runners",
        "scheduler/slots",
        "scheduler/reservations?status=open",
        "scheduler/queue",
        "scheduler/accounts",
        "scheduler/decisions?limit=1",
        "scheduler/decisions?limit=20",
        "scheduler/decisions?limit=400",
        "models",
        "activity?limit=5000",
        "scheduler/slots?ended=true",
    ] {
        fake.says("GET", path, 200, "[]");
    }
    for (line, words) in [
        ("runners", "no runners"),
        ("slots", "no slots"),
        ("reservations", "no reservations"),
        ("queue", "the queue is empty"),
        ("accounts", "no account has a share"),
        ("decisions", "no decisions"),
        ("models", "no models"),
        ("events", "no events"),
        ("slots --ended", "no ended slots"),
        ("top", "no runners"),
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
fn json_has_the_rows_of_the_server() {
    let fake = Fake::fleet();
    for (line, file) in [
        ("slots -o json", "slots"),
        ("reservations -o json", "reservations"),
        ("queue -o json", "queue"),
    ] {
        let printed = fake.run(line);
        let printed: Vec<Value> = serde_json::from_str(&printed.out).expect("JSON");
        let rows: Vec<Value> = serde_json::from_str(&read(file)).expect("JSON");
        for (printed, row) in printed.iter().zip(&rows) {
            for (name, value) in row.as_object().expect("a row") {
                // Times are relative to the time of reading.
                let is_time = value.as_str().is_some_and(|text| text.ends_with('Z'));
                let is_same = is_time || value.is_object() || printed[name] == *value;
                assert!(is_same && printed.get(name).is_some(), "{line}: {name} of {printed}");
            }
        }
        assert_eq!(printed.len(), rows.len());
    }
    let one = fake.run("slots --model qwen3-8b -o json").json(0);
    assert_eq!(one.as_array().map(Vec::len), Some(1));
    assert_eq!(one[0]["id"], "slot-1");
    let explained = fake.run("explain slot-4 -o json").json(1);
    assert_eq!(explained["slot"]["id"], "slot-4");
    assert_eq!(explained["decision"]["id"], "1234.0");
    assert!(explained["now"]["would_fit_if"].is_array(), "{explained}");
}

#[test]
fn pages_are_followed_to_the_end_of_the_list_and_never_to_another_server() {
    let fake = Fake::new();
    let link = "Link: <http://evil.example/api/v1/scheduler/slots?after=a>; rel=\"next\"\r\n";
    let page = |id: &str| json!([changed("slot-1", &[("id", id.into())])]).to_string();
    fake.says_with("GET", "scheduler/slots", 200, link, &page("a"));
    fake.says("GET", "scheduler/slots?after=a", 200, &page("b"));
    let run = fake.run("slots -o json");
    let ids: Vec<String> =
        run.json(0).as_array().expect("a list").iter().map(|row| row["id"].to_string()).collect();
    assert_eq!(ids, ["\"a\"", "\"b\""]);
}

#[test]
fn no_more_decisions_are_asked_for_than_wanted() {
    let fake = Fake::new();
    let link = "Link: </api/v1/scheduler/decisions?limit=2&after=1.0>; rel=\"next\"\r\n";
    let rows = ["2.0", "1.0"].map(|id| changed("decision-old", &[("id", id.into())]));
    fake.says("GET", "models/a%2Fb", 200, "{}");
    let (path, rows) = ("scheduler/decisions?model=a%2Fb&limit=2", json!(rows).to_string());
    fake.says_with("GET", path, 200, link, &rows);
    assert_eq!(
        fake.run("decisions --model a/b --limit 2 -o json").json(0).as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(fake.asked().len(), 2, "the model, and one page");
}

#[test]
fn a_name_cannot_paint_the_terminal() {
    let fake = Fake::new();
    let fields = [("model", "m\u{1b}[2J".into()), ("reason", "\u{1b}]0;x\u{7}".into())];
    let rows = json!([changed("slot-4", &fields)]);
    fake.says("GET", "scheduler/slots", 200, &rows.to_string());
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
    assert_eq!(lines.next().expect("a line").expect("text"), "the queue is empty");
    // The hint is the last line, so that the reader closes the pipe between two frames.
    let queue: Value = serde_json::from_str(&read("queue")).expect("JSON");
    let mut row = queue[1].clone();
    (row["id"], row["brief"]) = ("slot-9".into(), "full".into());
    fake.says("GET", "scheduler/queue", 200, &json!([row]).to_string());
    assert!(
        lines.any(|line| line.expect("text").contains("explain slot-9")),
        "the change is shown"
    );
    drop(lines);
    fake.says("GET", "scheduler/queue", 200, "[]");
    let status = child.wait().expect("it ends by itself");
    assert_eq!(status.code(), Some(0), "the reader is gone");
}

#[test]
fn lists_are_selected_by_labels_and_printed_in_every_format() {
    let fake = Fake::fleet();
    let names = |line: &str| fake.run(line).out;
    let all = names("slots -o name");
    assert!(all.contains("slot-1\n") && all.contains("slot-4\n"), "{all}");
    let runners: serde_json::Value = fake.run("runners -o json").json(1);
    let labels = runners[0]["labels"].as_object().expect("labels");
    let (key, value) = labels.iter().next().expect("a label");
    let value = value.as_str().expect("text");
    let runner = runners[0]["runner_id"].as_str().expect("a name");
    let selected = names(&format!("runners list -l {key}={value} -o name"));
    assert_eq!(selected, names(&format!("runners -l {key}={value} -o name")));
    assert!(selected.contains(runner), "{selected}");
    let on_it = names(&format!("slots -l {key}={value} -o name"));
    assert!(on_it.contains("slot-1\n") && !on_it.contains("slot-4\n"), "a pending slot: {on_it}");
    assert!(!names(&format!("slots -l {key}!={value} -o name")).contains("slot-1\n"));
    assert_eq!(names("slots -l nosuch -o name"), "");
}

#[test]
fn contexts_are_listed_by_name_and_as_data() {
    let folder = crate::tool::scratch("contexts");
    let run = |line: &str| {
        let mut command = crate::tool::command(line);
        command.env("XDG_CONFIG_HOME", &folder);
        crate::tool::finish(command, "")
    };
    for name in ["lab", "prod"] {
        assert_eq!(run(&format!("context set {name} --server http://127.0.0.1:1")).code, Some(0));
    }
    assert_eq!(run("context -o name").out, "lab\nprod\n");
    assert_eq!(run("context list -o json").json(0)["current"], "lab");
    assert!(run("context").out.contains("prod"), "a table by default");
}
