//! Leases: renewed by waiting and by request; one that is not renewed says so everywhere.

use super::events::Stream;
use super::*;
use crate::guard::tokens::TokenEntry;

const SLOTS: &str = "/api/v1/scheduler/slots";

/// A server with a runner and a model, and a reservation with this lease.
async fn reserved(lease: &str) -> (World, Runner, String) {
    let world = World::new();
    let runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    let body = json!({"model": "m", "lease": lease, "key": "k", "namespace": "team", "name": "a"});
    let asked = world.post(SLOTS, body).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.body);
    let id = asked.body["id"].as_str().expect("an id").to_string();
    (world, runner, id)
}

fn renew_path(id: &str) -> String {
    format!("/api/v1/scheduler/reservations/{id}/renew")
}

async fn status(world: &World, id: &str) -> Value {
    world.reservation(&json!(id)).await["status"].clone()
}

#[tokio::test]
async fn a_reservation_whose_client_is_gone_is_released_and_says_why_everywhere() {
    let (world, mut runner, id) = reserved("1s").await;
    let mut stream = Stream::open(&world, "", None).await;
    runner.settle(&world).await;
    let ready = world.reservation(&json!(id)).await;
    assert_eq!((&ready["status"], &ready["lease"]), (&json!("ready"), &json!("1s")));
    assert!(ready["lease_expires"].is_string(), "{ready}");
    eventually(async || status(&world, &id).await != json!("ready")).await;
    let reason = "released: the client did not renew its lease of 1s";
    let row = world.reservation(&json!(id)).await;
    assert_eq!((&row["status"], &row["reason"]), (&json!("lease_expired"), &json!(reason)));
    assert_eq!((&row["lease"], &row["lease_expires"]), (&json!("1s"), &Value::Null));
    let log = world.get("/api/v1/namespaces/team/pods/a/schedulerlog").await;
    let end = json!({"status": "lease_expired", "reason": reason, "at": row["ended"]});
    assert_eq!(log["ended"], end);
    let (event_id, data) = loop {
        let (id, kind, data) = stream.next().await;
        if kind == "reservation" {
            break (id, data);
        }
    };
    assert_eq!((event_id, &data["reservation_id"]), (None, &json!(id)));
    assert_eq!((&data["status"], &data["reason"]), (&json!("lease_expired"), &json!(reason)));
    for answered in [
        world.call("POST", &renew_path(&id), None).await,
        world.post(SLOTS, json!({"model": "m", "key": "k"})).await,
    ] {
        assert_eq!(answered.status, StatusCode::CONFLICT);
        let body = &answered.body;
        assert_eq!((&body["code"], &body["reason"]), (&json!("lease_expired"), &json!(reason)));
    }
    let slot = world.get("/api/v1/scheduler/slots/slot-1").await;
    assert_eq!(slot["active_requests"], 0, "its unit is free again");
}

#[tokio::test]
async fn a_client_renews_by_request_or_by_waiting() {
    let (world, mut runner, id) = reserved("1s").await;
    // The start takes longer than the lease; the client waits for it.
    runner.slow = true;
    runner.settle(&world).await;
    let waited = world.get(&format!("{SLOTS}/{id}?wait=2500ms")).await;
    assert_eq!(waited["status"], "starting");
    runner.slow = false;
    runner.settle(&world).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let renewed = world.call("POST", &renew_path(&id), None).await;
        assert_eq!((renewed.status, &renewed.body["status"]), (StatusCode::OK, &json!("ready")));
    }
    let before = world.reservation(&json!(id)).await["lease_expires"].clone();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(
        world.reservation(&json!(id)).await["lease_expires"],
        before,
        "a look renews nothing"
    );
    eventually(async || status(&world, &id).await == json!("lease_expired")).await;
}

#[tokio::test]
async fn a_caller_that_may_only_read_keeps_no_reservation() {
    let (mut world, _runner, id) = reserved("1s").await;
    let dir = world.dir.path().to_path_buf();
    std::fs::write(dir.join("reader"), "0123456789abcdef0123456789abcdef").expect("a file");
    let entry = r#"{"name": "reader", "role": "read", "file": "reader"}"#;
    let entry: TokenEntry = serde_json::from_str(entry).expect("an entry");
    let tokens = Tokens::load(&[entry], &dir, None, &mut Vec::new()).expect("tokens");
    world.router = served_to(world.app.clone(), tokens);
    let wait = format!("{SLOTS}/{id}?wait=20s");
    let request = Request::get(wait)
        .header(header::AUTHORIZATION, "Bearer 0123456789abcdef0123456789abcdef")
        .body(Body::empty());
    let answered = world.send(request.expect("a request")).await;
    assert_eq!(answered.body["status"], "lease_expired", "{}", answered.body);
}

#[tokio::test]
async fn the_same_key_of_another_token_makes_another_reservation() {
    let mut world = World::new();
    Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB", "concurrency": 4})).await;
    let dir = world.dir.path().to_path_buf();
    let entry = |name: &str| {
        std::fs::write(dir.join(name), format!("the-secret-token-of-{name}")).expect("a file");
        json!({"name": name, "role": "operate", "file": name})
    };
    let entries = json!([entry("team-a"), entry("team-b")]);
    let entries: Vec<TokenEntry> = serde_json::from_value(entries).expect("entries");
    let tokens = Tokens::load(&entries, &dir, None, &mut Vec::new()).expect("tokens");
    world.router = served_to(world.app.clone(), tokens);
    let mut ids = Vec::new();
    for team in ["team-a", "team-b", "team-a"] {
        let request = Request::post(SLOTS)
            .header(header::AUTHORIZATION, format!("Bearer the-secret-token-of-{team}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(json!({"model": "m", "key": "order-17"}).to_string()));
        let answered = world.send(request.expect("a request")).await;
        assert_eq!(answered.body["key"], "order-17", "{}", answered.body);
        ids.push(answered.body["id"].clone());
    }
    assert!(ids[0] != ids[1] && ids[0] == ids[2], "{ids:?}");
}

#[tokio::test]
async fn a_lease_can_be_off_and_an_invalid_one_is_rejected_by_name() {
    let (world, _runner, _) = reserved("off").await;
    let row = world.reservation(&json!("reservation-1")).await;
    assert_eq!((&row["lease"], &row["lease_expires"]), (&json!("off"), &Value::Null));
    for lease in [json!(5), json!("0s"), json!("5"), json!("never"), json!(true), json!({})] {
        let answered = world.post(SLOTS, json!({"model": "m", "lease": lease})).await;
        assert_eq!(answered.status, StatusCode::BAD_REQUEST, "{lease}");
        assert_eq!(answered.body["field"], "lease", "{}", answered.body);
    }
    let by_default = world.ask("m").await;
    assert_eq!(by_default["lease"], "10m");
    for id in ["reservation-99", "slot-1", "reservation-", "%20", "reservation-1%2F"] {
        let answered = world.call("POST", &renew_path(id), None).await;
        assert_eq!(answered.status, StatusCode::NOT_FOUND, "{id}");
        assert_eq!(answered.body["code"], "reservation_not_found", "{}", answered.body);
    }
}
