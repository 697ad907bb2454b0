//! Reservations: seated, pending, released, rejected; and the rows of slots, models and the queue.

use super::*;

const SLOTS: &str = "/api/v1/scheduler/slots";

#[tokio::test]
async fn a_place_is_coming_then_ready_then_given_back() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    let asked = world.post(SLOTS, json!({"model": "m"})).await;
    assert_eq!((asked.status, &asked.body["status"]), (StatusCode::ACCEPTED, &json!("starting")));
    assert_eq!(asked.headers[header::LOCATION], "/api/v1/scheduler/slots/reservation-1");
    runner.settle(&world).await;
    let ready = world.reservation(&asked.body["id"]).await;
    assert_eq!((&ready["status"], &ready["runner_id"]), (&json!("ready"), &json!("r1")));
    assert_eq!(
        (&ready["endpoint"], &ready["slot_id"]),
        (&json!("http://r1:8000"), &json!("slot-1"))
    );
    assert_eq!(ready["gpu_allocation"]["gpus"][0]["uuid"], "GPU-r1-0");
    assert_eq!(
        world.post(SLOTS, json!({"model": "m", "key": "k"})).await.status,
        StatusCode::ACCEPTED,
        "it is full"
    );
    for _ in 0..2 {
        assert_eq!(
            world.delete("/api/v1/scheduler/slots/reservation-1").await.status,
            StatusCode::NO_CONTENT
        );
    }
    assert_eq!(world.reservation(&json!("reservation-1")).await["status"], "released");
    let again = world.post(SLOTS, json!({"model": "m", "key": "k"})).await;
    assert_eq!(
        (again.status, &again.body["id"]),
        (StatusCode::CREATED, &json!("reservation-2")),
        "it took the seat"
    );
    assert_eq!(
        world.delete("/api/v1/scheduler/slots/reservation-77").await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        world.delete("/api/v1/scheduler/slots/reservation-2").await.status,
        StatusCode::NO_CONTENT
    );
    let over = world.post(SLOTS, json!({"model": "m", "key": "k"})).await;
    assert_eq!(
        (over.status, &over.body["code"]),
        (StatusCode::CONFLICT, &json!("reservation_released"))
    );
}

#[tokio::test]
async fn invalid_requests_are_rejected_with_the_name_of_the_field() {
    let world = World::new();
    world.declare("m", json!({"memory": "10GiB"})).await;
    world.declare("n", json!({"memory": "10GiB"})).await;
    for (body, status, code, field) in [
        (json!({"model": "missing"}), 404, "model_not_found", None),
        (json!({"model": "m", "modle": 1}), 400, "invalid_request", Some("modle")),
        (json!({}), 400, "invalid_request", Some("model")),
        (json!({"model": "m", "deadline": "soon"}), 400, "invalid_request", Some("deadline")),
        (json!({"model": "m", "wait": "2h"}), 400, "invalid_request", Some("wait")),
        (json!({"model": "m", "namespace": "a"}), 400, "invalid_request", Some("name")),
        (json!({"model": "m", "name": "a"}), 400, "invalid_request", Some("namespace")),
        (
            json!({"model": "m", "namespace": "a/b", "name": "c"}),
            400,
            "invalid_request",
            Some("namespace"),
        ),
        (json!({"model": "m", "key": ""}), 400, "invalid_request", Some("key")),
    ] {
        let answered = world.post(SLOTS, body.clone()).await;
        assert_eq!(
            (answered.status.as_u16(), &answered.body["code"]),
            (status, &json!(code)),
            "{body}"
        );
        assert_eq!(answered.body["field"].as_str(), field, "{body}: {}", answered.body);
    }
    let request = Request::post(SLOTS)
        .header("Idempotency-Key", "a")
        .header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(r#"{"model": "m", "key": "b"}"#)).expect("a request");
    assert_eq!(world.send(request).await.body["field"], "key", "two different keys");
    let request = Request::post(SLOTS).body(Body::from(r#"{"model": "m"}"#)).expect("a request");
    assert_eq!(world.send(request).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    world.post(SLOTS, json!({"model": "m", "key": "k"})).await;
    let used = world.post(SLOTS, json!({"model": "n", "key": "k"})).await;
    assert_eq!(
        (used.status, &used.body["code"]),
        (StatusCode::CONFLICT, &json!("idempotency_key_reused"))
    );
    for (path, field) in [
        ("/api/v1/scheduler/slots?limit=0", "limit"),
        ("/api/v1/scheduler/slots?limit=5001", "limit"),
        ("/api/v1/scheduler/slots?runner=r1", "runner"),
        ("/api/v1/scheduler/decisions?after=yesterday", "after"),
        ("/api/v1/events?after=yesterday", "after"),
        ("/api/v1/runners/r1/work?after=x", "after"),
    ] {
        let answered = world.call("GET", path, None).await;
        assert_eq!(answered.status, StatusCode::BAD_REQUEST, "{path}: {}", answered.body);
        assert_eq!(answered.body["field"], field, "{path}: {}", answered.body);
    }
    assert_eq!(world.call("GET", "/api/v1/nothing", None).await.body["code"], "not_found");
    assert_eq!(world.call("PATCH", SLOTS, None).await.status, StatusCode::METHOD_NOT_ALLOWED);
    for path in
        ["/api/v1/scheduler/slots/slot-9", "/api/v1/scheduler/decisions/9.9", "/api/v1/models/x/y"]
    {
        assert_eq!(world.call("GET", path, None).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_request_that_no_empty_fleet_could_hold_is_rejected_at_once() {
    let world = World::new();
    let _runner = Runner::registered(&world, "r1", &[80, 80]).await;
    world.declare("huge", json!({"memory": "81GiB"})).await;
    let refused = world.post(SLOTS, json!({"model": "huge", "deadline": "1h"})).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    let reason = refused.body["reason"].as_str().expect("a reason");
    assert!(reason.contains("81.0 GiB") && reason.contains("80.0 GiB"), "{reason}");
    world.declare("unknown", json!({})).await;
    let refused = world.post(SLOTS, json!({"model": "unknown"})).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert!(
        refused.body["reason"].as_str().expect("a reason").contains("declare `memory`"),
        "{}",
        refused.body
    );
}

#[tokio::test]
async fn a_deadline_turns_waiting_into_409_with_the_reason() {
    let world = World::new();
    let _runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("a", json!({"memory": "50GiB"})).await;
    world.declare("b", json!({"memory": "50GiB"})).await;
    world.ask("a").await;
    let expired = world.post(SLOTS, json!({"model": "b", "deadline": "100ms"})).await;
    assert_eq!(
        (expired.status, &expired.body["code"]),
        (StatusCode::CONFLICT, &json!("deadline_exceeded"))
    );
    let reason = expired.body["reason"].as_str().expect("a reason");
    assert!(reason.contains("20.0 GiB short") && reason.contains("a/slot-1"), "{reason}");
    assert_eq!(world.reservation(&expired.body["reservation"]).await["status"], "expired");
    assert_eq!(world.get("/api/v1/scheduler/queue").await, json!([]), "the queue is empty");
}

#[tokio::test]
async fn a_long_poll_answers_when_the_place_is_served() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    let waiting = world.post(SLOTS, json!({"model": "m", "wait": "30s"}));
    let serving = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        runner.settle(&world).await;
    };
    let (answered, ()) = tokio::join!(waiting, serving);
    assert_eq!((answered.status, &answered.body["status"]), (StatusCode::CREATED, &json!("ready")));
    let begun = std::time::Instant::now();
    let slot = world.get("/api/v1/scheduler/slots/slot-1?wait=30s").await;
    assert_eq!((&slot["stage"], &slot["active_requests"]), (&json!("running"), &json!(1)));
    let place = world.get("/api/v1/scheduler/slots/reservation-1?wait=30s").await;
    assert_eq!(place["status"], "ready");
    assert!(begun.elapsed() < Duration::from_secs(5), "what is so already is not waited for");
}

#[tokio::test]
async fn eight_find_a_place_and_the_ninth_waits() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB", "concurrency": 8})).await;
    for _ in 0..8 {
        assert_eq!(world.ask("m").await["slot_id"], "slot-1");
    }
    let ninth = world.ask("m").await;
    assert_eq!((&ninth["status"], &ninth["slot_id"]), (&json!("pending"), &Value::Null));
    assert_eq!(ninth["reason"], "model m has 1 of at most 1 slot, with all 8 reservations taken");
    runner.settle(&world).await;
    assert_eq!(world.reservation(&ninth["id"]).await["status"], "pending");
    world.delete("/api/v1/scheduler/slots/reservation-3").await;
    assert_eq!(world.reservation(&ninth["id"]).await["status"], "ready");
    let slots = world.get(SLOTS).await;
    assert_eq!(
        (slots.as_array().map(Vec::len), &slots[0]["active_requests"]),
        (Some(1), &json!(8))
    );
}

#[tokio::test]
async fn the_queue_has_four_requirements_in_the_order_of_their_coming() {
    let world = World::new();
    let _runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("full", json!({"memory": "80GiB", "pinned": true})).await;
    world.ask("full").await;
    for name in ["a", "b", "c", "d"] {
        world.declare(name, json!({"memory": "40GiB", "concurrency": 8})).await;
    }
    for name in ["a", "b", "c", "d", "a"] {
        assert_eq!(world.ask(name).await["status"], "pending");
    }
    let queue = world.get("/api/v1/scheduler/queue").await;
    assert_eq!(column(&queue, "model"), ["a", "b", "c", "d"]);
    let places: Vec<&Value> =
        queue.as_array().expect("a list").iter().map(|row| &row["reservations"]).collect();
    assert_eq!(places, [&json!(2), &json!(1), &json!(1), &json!(1)]);
    assert!(queue[0]["reason"].as_str().expect("a reason").contains("40.0 GiB"), "{queue}");
    for deadline in ["2h", "1h"] {
        let asked = json!({"model": "b", "deadline": deadline, "wait": "0s"});
        let place = world.post(SLOTS, asked).await.body;
        let queue = world.get("/api/v1/scheduler/queue").await;
        assert_eq!(
            (&queue[0]["deadline"], &queue[1]["deadline"]),
            (&Value::Null, &place["deadline"])
        );
    }
    let first = world.call("GET", "/api/v1/scheduler/queue?limit=3", None).await;
    assert_eq!(column(&first.body, "model"), ["a", "b", "c"]);
    let link = first.headers[header::LINK].to_str().expect("text");
    let path = link.trim_start_matches('<').split('>').next().expect("an address");
    assert_eq!(column(&world.get(path).await, "model"), ["d"]);
    let gone = world.call("GET", "/api/v1/scheduler/queue?after=slot-99", None).await;
    assert_eq!((gone.status, &gone.body["code"]), (StatusCode::GONE, &json!("cursor_expired")));
}

#[tokio::test]
async fn one_request_and_three_runners_make_one_slot() {
    let world = World::new();
    let mut runners = Vec::new();
    for id in ["r1", "r2", "r3"] {
        runners.push(Runner::registered(&world, id, &[80]).await);
    }
    world.declare("m", json!({"memory": "10GiB", "max_slots": 3})).await;
    let asks = (0..8).map(|_| world.post(SLOTS, json!({"model": "m", "key": "once"})));
    let asked = futures_util::future::join_all(asks).await;
    let ids: Vec<Value> = asked.into_iter().map(|asked| asked.body["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    for runner in &mut runners {
        runner.settle(&world).await;
    }
    let with_header = Request::post(SLOTS)
        .header("Idempotency-Key", "once")
        .header(header::CONTENT_TYPE, "application/json");
    let again =
        world.send(with_header.body(Body::from(r#"{"model": "m"}"#)).expect("a request")).await;
    assert_eq!((again.status, &again.body["id"]), (StatusCode::CREATED, &ids[0]));
    let slots = world.get(SLOTS).await;
    assert_eq!(slots.as_array().map(Vec::len), Some(1));
    let runner = slots[0]["runner_id"].as_str().expect("a runner");
    assert_eq!(world.get(&format!("{SLOTS}?runner_id={runner}")).await, slots);
    for other in ["r1", "r2", "r3", "r4"].into_iter().filter(|other| *other != runner) {
        assert_eq!(world.get(&format!("{SLOTS}?runner_id={other}")).await, json!([]));
    }
}

#[tokio::test]
async fn work_without_a_gpu_holds_none() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("cpu", json!({"gpus": 0})).await;
    world.ask("cpu").await;
    runner.settle(&world).await;
    let slot = &world.get(SLOTS).await[0];
    assert_eq!((&slot["stage"], &slot["gpu_allocation"]), (&json!("running"), &Value::Null));
    assert_eq!(world.get("/api/v1/runners/r1/status").await["gpus"][0]["held"], 0);
}

#[tokio::test]
async fn models_are_declared_shown_and_forgotten_by_names_with_slashes() {
    let world = World::new();
    let path = "/api/v1/models/org/qwen2.5:7b";
    let body = json!({"runtime": {"command": {"argv": ["serve"]}}, "memory": "14.5GiB"});
    assert_eq!(world.call("PUT", path, Some(body.clone())).await.status, StatusCode::CREATED);
    assert_eq!(world.call("PUT", path, Some(body)).await.status, StatusCode::OK);
    let model = world.get(path).await;
    assert_eq!(
        (&model["name"], &model["declaration"]["memory"]),
        (&json!("org/qwen2.5:7b"), &json!(15_569_256_448_u64))
    );
    let back = world.call("PUT", path, Some(model["declaration"].clone())).await;
    assert_eq!(
        (back.status, &back.body),
        (StatusCode::OK, &model),
        "what was shown can be sent back"
    );
    world.declare("b", json!({"memory": 1})).await;
    let first = world.call("GET", "/api/v1/models?limit=1", None).await;
    assert_eq!(column(&first.body, "name"), ["b"]);
    assert_eq!(first.headers[header::LINK], "</api/v1/models?limit=1&after=b>; rel=\"next\"");
    assert_eq!(column(&world.get("/api/v1/models?after=b").await, "name"), ["org/qwen2.5:7b"]);
    for (body, status, field) in [
        (json!({"runtime": {"command": {"argv": ["serve"]}}, "memroy": 1}), 400, "memroy"),
        (
            json!({"runtime": {"command": {"argv": ["serve"], "port": 1}}}),
            400,
            "runtime.command.port",
        ),
        (json!({"memory": 1}), 400, "runtime"),
        (json!({"runtime": {"command": {"argv": []}}}), 422, "runtime.command"),
        (json!({"runtime": {"command": {"argv": ["serve"]}}, "name": "other"}), 422, "name"),
        (
            json!({"runtime": {"command": {"argv": ["serve"]}}, "concurrency": 0}),
            422,
            "concurrency",
        ),
    ] {
        let answered = world.call("PUT", "/api/v1/models/m", Some(body.clone())).await;
        assert_eq!(answered.status.as_u16(), status, "{body}: {}", answered.body);
        assert_eq!(answered.body["field"], field, "{body}: {}", answered.body);
    }
    assert_eq!(world.delete(path).await.status, StatusCode::NO_CONTENT);
    assert_eq!(world.delete(path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_list_ends_in_a_link_where_there_is_more() {
    let world = World::new();
    for id in ["r1", "r2", "r3"] {
        Runner::registered(&world, id, &[80]).await;
    }
    world.declare("m", json!({"memory": "10GiB", "max_slots": 3})).await;
    for _ in 0..3 {
        world.ask("m").await;
    }
    for (list, key) in
        [("/api/v1/runners", "runner_id"), (SLOTS, "id"), ("/api/v1/scheduler/decisions", "id")]
    {
        let whole = world.get(list).await;
        let (mut path, mut paged) = (format!("{list}?limit=2"), Vec::new());
        loop {
            let page = world.call("GET", &path, None).await;
            paged.extend(column(&page.body, key).into_iter().map(String::from));
            assert!(page.body.as_array().is_some_and(|rows| rows.len() <= 2), "{path}");
            let Some(link) = page.headers.get(header::LINK) else { break };
            let link = link.to_str().expect("text");
            path = link.trim_start_matches('<').split('>').next().expect("an address").to_string();
        }
        assert_eq!(paged, column(&whole, key), "{list}");
        assert_eq!(paged.len(), 3, "{list}");
        for row in whole.as_array().expect("a list") {
            assert!(row["runner_id"].is_string() && row["created"].is_string(), "{row}");
        }
    }
}

#[tokio::test]
async fn no_request_is_served_before_the_ledger_is_rebuilt() {
    let closed = served(AppState::new(schedulerlog::Settings::default()));
    for path in ["/api/v1/runners", "/api/v1/events", "/api/v1/namespaces/a/pods/b/schedulerlog"] {
        let request =
            Request::get(path).header("host", "localhost").body(Body::empty()).expect("a request");
        let response = closed.clone().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
    let world = World::new();
    world.engine.stop();
    eventually(async || {
        world.call("GET", "/api/v1/runners", None).await.body["code"] == "stopping"
    })
    .await;
}

#[tokio::test]
async fn a_page_of_large_models_ends_early_and_all_pages_have_all_models() {
    let world = World::new();
    let argv: Vec<String> = (0..1000).map(|_| "x".repeat(300)).collect();
    for number in 10..40 {
        let runtime = json!({"command": {"argv": argv}});
        world.declare(&format!("m{number}"), json!({"memory": "1GiB", "runtime": runtime})).await;
    }
    let (mut path, mut names, mut pages) = ("/api/v1/models".to_string(), Vec::new(), 0);
    loop {
        let page = world.call("GET", &path, None).await;
        assert!(page.body.to_string().len() < 3 << 20, "{path}");
        names.extend(column(&page.body, "name").into_iter().map(String::from));
        pages += 1;
        let Some(link) = page.headers.get(header::LINK) else { break };
        let link = link.to_str().expect("text");
        path = link.trim_start_matches('<').split('>').next().expect("an address").to_string();
    }
    let all: Vec<String> = (10..40).map(|number| format!("m{number}")).collect();
    assert_eq!(names, all);
    assert!(pages > 3, "{pages}");
}

#[tokio::test]
async fn a_parameter_that_is_repeated_or_no_utf8_is_rejected_by_name() {
    let world = World::new();
    for (query, field) in [
        ("limit=1&limit=2", "limit"),
        ("after=%ff", "after"),
        ("limit=1&x%ff=1", "x%ff"),
        ("x=1", "x"),
    ] {
        let answered = world.call("GET", &format!("/api/v1/models?{query}"), None).await;
        assert_eq!(
            (answered.status.as_u16(), &answered.body["field"]),
            (400, &json!(field)),
            "{query}"
        );
    }
}
