//! Maintenance of runners, ended slots, their output, and what happened.

use super::*;
use plimsoll_slots::wire::LogRequest;

#[tokio::test]
async fn a_runner_is_cordoned_drained_and_opened_again() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    let busy = world.ask("m").await;
    runner.settle(&world).await;
    let cordoned = world.post("/api/v1/runners/r1/cordon", json!({})).await;
    assert_eq!((cordoned.status, &cordoned.body["intake"]), (StatusCode::OK, &json!("cordoned")));
    let drained = world.post("/api/v1/runners/r1/drain", json!({"deadline": "10m"})).await.body;
    assert_eq!((&drained["intake"], &drained["slots"]), (&json!("draining"), &json!(1)));
    assert!(drained["drain_deadline"].is_string(), "{drained}");
    assert_eq!(world.reservation(&busy["id"]).await["status"], "ready", "it is busy");
    world.delete(&format!("/api/v1/scheduler/slots/{}", busy["id"].as_str().expect("an id"))).await;
    world.post("/api/v1/runners/r1/drain", json!({})).await;
    runner.settle(&world).await;
    assert_eq!(world.get("/api/v1/runners/r1/status").await["slots"], 0);
    let ended = world.get("/api/v1/scheduler/slots/slot-1").await;
    assert_eq!((&ended["stage"], &ended["ended"]["cause"]), (&json!("gone"), &json!("drained")));
    assert_eq!(ended["runner_id"], "r1");
    let all = world.get("/api/v1/scheduler/slots?ended=true").await;
    assert_eq!(column(&all, "id"), ["slot-1"]);
    let open = world.post("/api/v1/runners/r1/uncordon", json!({})).await;
    assert_eq!(open.body["intake"], "open");
    for verb in ["cordon", "uncordon", "drain"] {
        let unknown = world.post(&format!("/api/v1/runners/r9/{verb}"), json!({})).await;
        assert_eq!(unknown.body["code"], "runner_not_found", "{verb}");
    }
    let wrong = world.post("/api/v1/runners/r1/drain", json!({"deadline": 5})).await;
    assert_eq!((wrong.status, &wrong.body["field"]), (StatusCode::BAD_REQUEST, &json!("deadline")));
}

#[tokio::test]
async fn a_busy_slot_is_not_stopped_by_a_request_for_an_idle_one() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    let busy = world.ask("m").await;
    runner.settle(&world).await;
    let kept = world.delete("/api/v1/scheduler/slots/slot-1?if_idle=true").await;
    assert_eq!((kept.status, &kept.body["code"]), (StatusCode::CONFLICT, &json!("slot_busy")));
    assert!(kept.body["detail"].to_string().contains("1 reservation"), "{}", kept.body);
    assert_eq!(world.reservation(&busy["id"]).await["status"], "ready");
    let stopped = world.delete("/api/v1/scheduler/slots/slot-1").await;
    assert_eq!(stopped.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn the_output_of_a_slot_comes_from_its_runner() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    world.ask("m").await;
    runner.settle(&world).await;
    let agent = async {
        let requests = world.get("/api/v1/runners/r1/log-requests?wait=10s").await;
        let requests: Vec<LogRequest> = serde_json::from_value(requests).expect("requests");
        let LogRequest { id, slot, from, lines } = &requests[0];
        assert_eq!((slot.as_str(), *from, *lines), ("slot-1", None, 5));
        let answer = json!({"from": 0, "next": 6, "text": "hello\n"});
        world.post(&format!("/api/v1/runners/r1/log-requests/{id}"), answer).await
    };
    let (log, answered) =
        tokio::join!(world.get("/api/v1/scheduler/slots/slot-1/log?lines=5"), agent);
    assert_eq!(answered.status, StatusCode::NO_CONTENT);
    let expected = json!({"slot_id": "slot-1", "runner_id": "r1", "from": 0, "next": 6,
        "text": "hello\n", "has_ended": false});
    assert_eq!(log, expected);
    let unknown = world.call("GET", "/api/v1/scheduler/slots/slot-9/log", None).await;
    assert_eq!(unknown.body["code"], "slot_not_found");
    let wrong = world.call("GET", "/api/v1/scheduler/slots/slot-1/log?lines=0", None).await;
    assert_eq!((wrong.status, &wrong.body["field"]), (StatusCode::BAD_REQUEST, &json!("lines")));
}

#[tokio::test]
async fn what_happens_is_listed_in_order_with_its_reason() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB", "idle_limit": "0s"})).await;
    world.declare("large", json!({"memory": "75GiB"})).await;
    world.declare("broken", json!({"memory": "1GiB"})).await;
    runner.failing.insert(
        "broken".to_string(),
        "exited with status 3; last output:\n  loading\n  no file".to_string(),
    );
    let first = world.ask("m").await;
    runner.settle(&world).await;
    world
        .delete(&format!("/api/v1/scheduler/slots/{}", first["id"].as_str().expect("an id")))
        .await;
    world.ask("large").await;
    runner.settle(&world).await;
    world.ask("broken").await;
    runner.beat(&world).await;
    runner.settle(&world).await;
    let rows = world.get("/api/v1/activity").await;
    let of = |model: &str| -> Vec<(String, String)> {
        let rows = rows.as_array().expect("a list").iter();
        rows.filter(|row| row["model"] == model)
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_string();
                (text("kind"), text("detail"))
            })
            .collect()
    };
    let kinds = |model: &str| of(model).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(rows[0]["kind"], "runner_joined", "{rows}");
    assert_eq!(kinds("m"), ["placed", "started", "ready", "evicted", "released"]);
    assert_eq!(kinds("large"), ["pending", "placed", "started", "ready"]);
    assert!(of("large")[0].1.contains("short on r1/0"), "{rows}");
    let reason = "exited with status 3; last output: no file";
    assert!(of("broken").contains(&("failed".into(), reason.into())), "{rows}");
    let ids = rows.as_array().expect("a list").iter().map(|row| row["id"].as_u64());
    assert!(ids.is_sorted());
    let last = rows.as_array().expect("a list").last().expect("one")["id"].clone();
    assert_eq!(world.get(&format!("/api/v1/activity?after={last}")).await, json!([]));
    let wrong = world.call("GET", "/api/v1/activity?after=x", None).await;
    assert_eq!((wrong.status, &wrong.body["field"]), (StatusCode::BAD_REQUEST, &json!("after")));
}

#[tokio::test]
async fn the_number_of_models_is_bounded() {
    let config = DeskConfig { max_models: 2, ..DeskConfig::default() };
    let world = World::with(&settings(), config, schedulerlog::Settings::default());
    world.declare("a", json!({"memory": "1GiB"})).await;
    world.declare("b", json!({"memory": "1GiB"})).await;
    let body = json!({"memory": "1GiB", "runtime": {"command": {"argv": ["serve"]}}});
    let rejected = world.call("PUT", "/api/v1/models/c", Some(body.clone())).await;
    assert_eq!(
        (rejected.status.as_u16(), &rejected.body["code"]),
        (409, &json!("too_many_models"))
    );
    let detail = rejected.body["detail"].as_str().expect("text");
    assert!(detail.contains("model c") && detail.contains("max_models"), "{detail}");
    assert_eq!(
        world.call("PUT", "/api/v1/models/b", Some(body.clone())).await.status,
        200,
        "a known model"
    );
    assert_eq!(world.delete("/api/v1/models/a").await.status, 204);
    assert_eq!(world.call("PUT", "/api/v1/models/c", Some(body)).await.status, 201);
}
