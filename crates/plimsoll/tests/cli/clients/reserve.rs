//! Creating and releasing reservations.

use serde_json::{Value, json};

use super::fake::{Fake, read};
use crate::golden::compare;
use crate::tool::Run;

#[test]
fn a_reservation_is_created_as_a_client_program_would() {
    let fake = Fake::new();
    fake.says("POST", "scheduler/slots", 201, &read("reservation-ready"));
    let line =
        "reserve qwen3-8b --wait 2s --deadline 60s --key order-17 --as team-a/trainer-0 --lease 1h";
    compare("clients/reserve-ready", line, &anywhere(&fake, fake.run(line)));
    let body: Value = serde_json::from_str(&fake.asked()[0].body).expect("JSON");
    let expected = json!({"model": "qwen3-8b", "namespace": "team-a", "name": "trainer-0", "key": "order-17",
        "deadline": "1m", "wait": "2s", "lease": "1h"});
    assert_eq!(body, expected);
    fake.says("POST", "scheduler/slots", 202, &read("reservation-pending"));
    compare(
        "clients/reserve-pending",
        "reserve qwen3-8b",
        &anywhere(&fake, fake.run("reserve qwen3-8b")),
    );
    assert_eq!(fake.run("reserve qwen3-8b -o json").json(1)["id"], "reservation-12");
}

#[test]
fn an_ended_reservation_is_an_answer_and_everything_else_an_error() {
    let fake = Fake::new();
    let problem = |status: u16, code: &str, title: &str| {
        json!({"type": "urn:plimsoll:problem:x", "title": title, "status": status, "code": code,
            "detail": "model m: needs 90 GiB, the largest GPU has 80 GiB", "reason": "needs 90 GiB", "reservation": "reservation-3"})
        .to_string()
    };
    for (status, code, title) in [
        (422, "insufficient_capacity", "Insufficient capacity"),
        (409, "deadline_exceeded", "Deadline exceeded"),
        (409, "reservation_lost", "Reservation lost"),
        (409, "lease_expired", "Lease expired"),
    ] {
        fake.says("POST", "scheduler/slots", status, &problem(status, code, title));
        let run = fake.run("reserve m");
        let said = format!(
            "reservation-3: {}, model m: needs 90 GiB, the largest GPU has 80 GiB\n",
            title.to_lowercase()
        );
        assert_eq!((run.code, &run.out), (Some(1), &said), "{}", run.err);
        assert_eq!(fake.run("reserve m -o json").json(1)["code"], code);
    }
    let reused = problem(409, "idempotency_key_reused", "Key used");
    let reused = reused.replacen('{', r#"{"field":"key","#, 1);
    fake.says("POST", "scheduler/slots", 409, &reused);
    fake.run("reserve m").fails_with(&["409", "needs 90 GiB"]);
    fake.says("POST", "scheduler/slots", 404, r#"{"detail":"model m is not declared"}"#);
    fake.run("reserve m").fails_with(&["there is no model m", "plimsoll models"]);
}

#[test]
fn a_lease_is_renewed_by_the_id_of_its_reservation() {
    let fake = Fake::new();
    let path = "scheduler/reservations/reservation-13/renew";
    fake.says("POST", path, 200, &read("reservation-ready"));
    let run = fake.run("renew reservation-13");
    let expected = "renewed reservation-13: lease of 1h, released in 30m unless renewed\n";
    assert_eq!((run.code, run.out.as_str()), (Some(0), expected), "{}", run.err);
    assert_eq!(fake.run("renew reservation-13 -o json").json(0)["lease"], "1h");
    let ended = json!({"title": "Lease expired", "status": 409, "code": "lease_expired",
        "detail": "model m: released: the client did not renew its lease of 10m", "reservation": "reservation-13"});
    fake.says("POST", path, 409, &ended.to_string());
    fake.run("renew reservation-13").fails_with(&["409", "did not renew its lease of 10m"]);
    fake.run("renew slot-8").fails_with(&["404", "no such path"]);
}

#[test]
fn reservations_are_released_and_slots_stopped_by_their_ids() {
    let fake = Fake::new();
    fake.says("DELETE", "scheduler/slots/reservation-3", 204, "");
    fake.says("DELETE", "scheduler/slots/slot-7?if_idle=true", 202, "{}");
    fake.says("DELETE", "scheduler/slots/slot-6", 202, "{}");
    let busy = json!({"code": "slot_busy", "status": 409, "detail": "slot-6 serves 1 reservation, which would be lost"});
    fake.says("DELETE", "scheduler/slots/slot-6?if_idle=true", 409, &busy.to_string());
    assert_eq!(fake.run("release reservation-3").out, "released reservation-3\n");
    assert_eq!(fake.run("release slot-7").out, "stopping slot-7\n");
    let released = json!({"id": "reservation-3", "result": "released"});
    assert_eq!(fake.run("release reservation-3 -o json").json(0), released);
    fake.run("release slot-6").fails_with(&["serves 1 reservation", "--force"]);
    assert_eq!(fake.run("slots stop slot-6 --force").out, "stopping slot-6\n");
    fake.run("release slot-8").fails_with(&["404", "no such path"]);
}

/// Replaces the address of the server.
fn anywhere(fake: &Fake, run: Run) -> Run {
    Run { out: run.out.replace(&fake.url, "URL"), ..run }
}
