//! Runners: registrations, heartbeats, orders, silence, and slots that the server did not create.

use super::*;

fn with_lease(lease: u64) -> World {
    let config = DeskConfig { heartbeat: Span(50), lease: Span(lease), ..DeskConfig::default() };
    World::with(&settings(), config, schedulerlog::Settings::default())
}

fn report(slot: &str, model: &str, bytes: u64) -> SlotReport {
    SlotReport {
        slot: slot.to_string(),
        generation: 7,
        model: model.to_string(),
        state: SlotState::Running,
        reason: None,
        endpoint: Some("http://r1:9000".to_string()),
        booked: vec![OnDevice { index: 0, bytes }],
        used: vec![OnDevice { index: 0, bytes }],
    }
}

#[tokio::test]
async fn a_runner_is_welcomed_and_told_what_is_wrong_with_it() {
    let world = World::new();
    let mut runner = Runner::new("r1", &[80]);
    let beat = json!({"session": 1, "sequence": 1});
    let early = world.post("/api/v1/runners/r1/heartbeat", beat).await;
    assert_eq!(
        (early.status, &early.body["code"]),
        (StatusCode::NOT_FOUND, &json!("not_registered"))
    );
    assert_eq!(
        world.call("GET", "/api/v1/runners/r1/work", None).await.status,
        StatusCode::NOT_FOUND
    );
    let welcome = runner.register(&world).await;
    assert_eq!((welcome.heartbeat_ms, welcome.lease_ms), (2_000, 15_000));
    runner.session = 5;
    runner.register(&world).await;
    runner.session = 1;
    let earlier = serde_json::to_value(runner.registration()).expect("JSON");
    for (path, body) in [
        ("/api/v1/runners/r1", earlier.clone()),
        ("/api/v1/runners/r1/heartbeat", json!({"session": 1, "sequence": 9})),
    ] {
        let method = if path.ends_with("beat") { "POST" } else { "PUT" };
        let later = world.call(method, path, Some(body)).await;
        assert_eq!(
            (later.status, &later.body["code"]),
            (StatusCode::CONFLICT, &json!("superseded")),
            "{path}"
        );
    }
    let taken = world.call("PUT", "/api/v1/runners/r2", Some(earlier)).await;
    assert_eq!((taken.status, &taken.body["code"]), (StatusCode::CONFLICT, &json!("device_taken")));
    let none = json!({"session": 1, "devices": []});
    let named = world.call("PUT", "/api/v1/runners/a%20b", Some(none.clone())).await;
    assert_eq!(
        (named.status, &named.body["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_runner_name"))
    );
    let strange = world
        .call("PUT", "/api/v1/runners/r3", Some(json!({"session": 1, "devices": [{"totl": 1}]})))
        .await;
    assert_eq!(
        (strange.status, &strange.body["field"]),
        (StatusCode::BAD_REQUEST, &json!("devices[0].totl"))
    );
    let alive = world.delete("/api/v1/runners/r1").await;
    assert_eq!(
        (alive.status, &alive.body["code"]),
        (StatusCode::CONFLICT, &json!("runner_online"))
    );
    assert_eq!(world.delete("/api/v1/runners/r9").await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        world.call("GET", "/api/v1/runners/r9/status", None).await.status,
        StatusCode::NOT_FOUND
    );
    let rows = world.get("/api/v1/runners").await;
    assert_eq!(column(&rows, "runner_id"), ["r1"]);
    assert_eq!(
        (&rows[0]["status"], &rows[0]["free"]),
        (&json!("silent"), &json!(80 * GIB)),
        "it has not said yet what runs on it"
    );
}

#[tokio::test]
async fn work_is_answered_when_there_is_some() {
    let world = World::new();
    let runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    let at_once: Orders =
        serde_json::from_value(world.get("/api/v1/runners/r1/work").await).expect("orders");
    assert_eq!(at_once.orders, []);
    let path = format!("/api/v1/runners/r1/work?after={}&wait=30s", at_once.revision);
    let (work, _) = tokio::join!(world.get(&path), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.ask("m").await
    });
    let work: Orders = serde_json::from_value(work).expect("orders");
    assert!(work.revision > at_once.revision, "{work:?}");
    assert_eq!(work.orders[0].action, Action::Start);
    assert_eq!(
        work.orders[0].launch.as_ref().expect("it is new").devices[0].uuid.as_deref(),
        Some("GPU-r1-0")
    );
    let begun = std::time::Instant::now();
    let path = format!("/api/v1/runners/r1/work?after={}&wait=200ms", work.revision);
    let again: Orders = serde_json::from_value(world.get(&path).await).expect("orders");
    assert_eq!(again, work, "nothing new came in time");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    drop(runner);
}

#[tokio::test]
async fn an_agent_that_was_taken_over_gets_no_orders() {
    let world = World::new();
    let mut later = Runner::registered(&world, "r1", &[80]).await;
    let earlier = later.session;
    let revision = later.beat(&world).await.revision;
    let path = format!("/api/v1/runners/r1/work?session={earlier}&after={revision}&wait=30s");
    let begun = std::time::Instant::now();
    let (refused, _) = tokio::join!(world.call("GET", &path, None), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        later.session += 1;
        later.register(&world).await
    });
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (StatusCode::CONFLICT, &json!("superseded"))
    );
    assert!(begun.elapsed() < Duration::from_secs(20), "the answer is immediate");
    let path = |session: u64| format!("/api/v1/runners/r1/work?session={session}");
    let unknown = world.call("GET", &path(later.session + 1), None).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND, "it registers first");
    world.get(&path(later.session)).await;
}

#[tokio::test]
async fn measurements_are_shown_beside_the_books() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80, 80]).await;
    runner.used.insert(0, 21 * GIB);
    runner.beat(&world).await;
    let status = world.get("/api/v1/runners/r1/status").await;
    let (first, second) = (&status["gpus"][0], &status["gpus"][1]);
    for (key, value) in [
        ("index", json!(0)),
        ("node", json!("r1")),
        ("uuid", json!("GPU-r1-0")),
        ("used", json!(21 * GIB)),
        ("utilisation", json!(7)),
        ("foreign", json!(21 * GIB)),
        ("free", json!(59 * GIB)),
        ("telemetry", json!("fresh")),
    ] {
        assert_eq!(first[key], value, "{key}: {first}");
    }
    assert_eq!((&second["used"], &second["telemetry"]), (&Value::Null, &json!("none")));
}

#[tokio::test]
async fn a_slot_that_the_server_did_not_create_is_charged_and_kept() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    runner.slots.insert("x".to_string(), report("x", "old", 30 * GIB));
    let orders = runner.beat(&world).await;
    assert_eq!((orders.orders[0].slot.as_str(), orders.orders[0].action), ("x", Action::Keep));
    let slot = world.get("/api/v1/scheduler/slots/x").await;
    for (key, value) in [
        ("adopted", json!(true)),
        ("stage", json!("running")),
        ("runner_id", json!("r1")),
        ("endpoint", json!("http://r1:9000")),
        ("used", json!([{"index": 0, "bytes": 30 * GIB}])),
    ] {
        assert_eq!(slot[key], value, "{key}: {slot}");
    }
    assert_eq!(slot["gpu_allocation"]["total_memory_required"], 30 * GIB);
    let stopped = world.delete("/api/v1/scheduler/slots/x").await;
    assert_eq!(
        (stopped.status, &stopped.body["stage"]),
        (StatusCode::ACCEPTED, &json!("releasing"))
    );
    assert_eq!(
        world.get("/api/v1/runners/r1/status").await["gpus"][0]["free"],
        50 * GIB,
        "not back yet"
    );
    runner.settle(&world).await;
    assert_eq!(world.get("/api/v1/runners/r1/status").await["gpus"][0]["free"], 80 * GIB);
}

#[tokio::test]
async fn a_slot_that_outgrows_its_charge_is_flagged_and_charged_what_it_uses() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    world.ask("m").await;
    runner.settle(&world).await;
    assert_eq!(world.get("/api/v1/scheduler/slots/slot-1").await["outgrown"], false);
    let slot = runner.slots.get_mut("slot-1").expect("it runs");
    slot.used = vec![OnDevice { index: 0, bytes: 12 * GIB }];
    runner.beat(&world).await;
    let slot = world.get("/api/v1/scheduler/slots/slot-1").await;
    assert_eq!(
        (&slot["outgrown"], &slot["gpu_allocation"]["memory_per_gpu"]),
        (&json!(true), &json!(12 * GIB))
    );
}

#[tokio::test]
async fn a_silent_runner_keeps_its_slots_and_gets_them_back_by_id() {
    let world = with_lease(600);
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "50GiB"})).await;
    world.ask("m").await;
    runner.settle(&world).await;
    let row = || async { world.get("/api/v1/runners").await[0].clone() };
    eventually(async || row().await["status"] == "silent").await;
    assert!(row().await["silent_since"].is_string());
    assert_eq!(row().await["held"], 50 * GIB, "still charged");
    world.declare("n", json!({"memory": "1GiB"})).await;
    let waiting = world.ask("n").await;
    assert_eq!(waiting["status"], "pending");
    assert!(waiting["reason"].as_str().expect("a reason").contains("silent"), "{waiting}");
    runner.settle(&world).await;
    assert_eq!(row().await["status"], "online");
    let slots = world.get("/api/v1/scheduler/slots").await;
    assert_eq!(
        column(&slots, "id"),
        ["slot-1", "slot-2"],
        "adopted by id, and the pending request follows"
    );
    assert_eq!(column(&slots, "stage"), ["running", "running"]);
    eventually(async || row().await["status"] == "silent").await;
    assert_eq!(world.delete("/api/v1/runners/r1").await.status, StatusCode::NO_CONTENT);
    assert_eq!(world.get("/api/v1/runners").await, json!([]));
}
