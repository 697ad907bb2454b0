//! Asking for a place, and giving it back.

use serde_json::{Value, json};

use super::fake::{Fake, read};
use crate::golden::compare;
use crate::tool::Run;

#[test]
fn a_place_is_asked_for_as_a_program_would() {
    let fake = Fake::new();
    fake.says("POST", "scheduler/slots", 201, &read("place-ready"));
    let line = "ask qwen3-8b --wait 2s --deadline 60s --key order-17 --as team-a/trainer-0";
    compare("clients/ask-ready", line, &anywhere(&fake, fake.run(line)));
    let body: Value = serde_json::from_str(&fake.asked()[0].body).expect("JSON");
    let expected = json!({"model": "qwen3-8b", "namespace": "team-a", "name": "trainer-0", "key": "order-17",
        "deadline": "1m", "wait": "2s"});
    assert_eq!(body, expected);
    fake.says("POST", "scheduler/slots", 202, &read("place-waiting"));
    compare("clients/ask-waiting", "ask qwen3-8b", &anywhere(&fake, fake.run("ask qwen3-8b")));
    assert_eq!(fake.run("ask qwen3-8b -o json").json(1)["id"], "place-12");
}

#[test]
fn a_refusal_is_an_answer_and_everything_else_an_error() {
    let fake = Fake::new();
    let problem = |status: u16, code: &str, title: &str| {
        json!({"type": "urn:plimsoll:problem:x", "title": title, "status": status, "code": code,
            "detail": "model m: needs 90 GiB, the largest GPU has 80 GiB", "reason": "needs 90 GiB", "place": "place-3"})
        .to_string()
    };
    for (status, code, title) in [
        (422, "refused", "Refused"),
        (409, "deadline_passed", "Deadline passed"),
        (409, "place_lost", "Place lost"),
    ] {
        fake.says("POST", "scheduler/slots", status, &problem(status, code, title));
        let run = fake.run("ask m");
        let said = format!(
            "place-3: {}, model m: needs 90 GiB, the largest GPU has 80 GiB\n",
            title.to_lowercase()
        );
        assert_eq!((run.code, &run.out), (Some(1), &said), "{}", run.err);
        assert_eq!(fake.run("ask m -o json").json(1)["code"], code);
    }
    fake.says("POST", "scheduler/slots", 409, &problem(409, "key_used", "Key used"));
    fake.run("ask m").fails_with(&["409", "needs 90 GiB"]);
    fake.says("POST", "scheduler/slots", 404, r#"{"detail":"model m is not declared"}"#);
    fake.run("ask m").fails_with(&["404", "model m is not declared"]);
}

#[test]
fn places_and_slots_are_given_back_by_their_ids() {
    let fake = Fake::new();
    fake.says("DELETE", "scheduler/slots/place-3", 204, "");
    fake.says("DELETE", "scheduler/slots/slot-7", 202, "{}");
    assert_eq!(fake.run("release place-3").out, "place-3 is given back\n");
    assert_eq!(fake.run("release slot-7").out, "slot-7 is asked to go\n");
    fake.run("release slot-8").fails_with(&["404", "no such thing"]);
}

/// What was said, wherever the server listens.
fn anywhere(fake: &Fake, run: Run) -> Run {
    Run { out: run.out.replace(&fake.url, "URL"), ..run }
}
