//! The scheduler log: the words and the shape that schedulers of pods answer in.

use std::num::NonZeroUsize;

use super::*;

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}/schedulerlog")
}

async fn ask_as(world: &World, model: &str, name: &str) -> Answered {
    world
        .post(
            "/api/v1/scheduler/slots",
            json!({"model": model, "namespace": "default", "name": name}),
        )
        .await
}

/// The words of the proposal, and nothing in their place.
fn check_shape(log: &Value) {
    let word = |value: &Value, of: &[&str]| {
        assert!(of.contains(&value.as_str().expect("a word")), "{value} in {log}");
    };
    word(&log["status"], &["succeeded", "failed"]);
    word(&log["filter"]["status"], &["passed", "failed"]);
    word(&log["bind"]["status"], &["passed", "failed", ""]);
    assert!(log["bind"]["summary"].is_string());
    let summary = log["filter"]["summary"].as_str().expect("a sentence");
    assert_eq!(summary.is_empty(), log["filter"]["status"] == "passed", "{log}");
    for node in log["filter"]["nodes"].as_array().expect("nodes") {
        word(&node["status"], &["passed", "failed"]);
        assert!(node["name"].is_string() && node["score"].is_number(), "{node}");
        assert!(node["status"] == "passed" || node["score"] == 0, "{node}");
        let containers = node["containers"].as_array().expect("containers");
        assert_eq!(containers.len(), 1, "one container, named after the model");
        for container in containers {
            word(&container["status"], &["passed", "failed"]);
            assert_eq!(
                container["reason"].is_string(),
                container["status"] == "failed",
                "{container}"
            );
        }
    }
}

#[tokio::test]
async fn work_that_runs_succeeded_and_every_runner_is_listed() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "large", &[80, 80]).await;
    Runner::registered(&world, "small", &[16, 16]).await;
    world.declare("m", json!({"memory": "40GiB"})).await;
    ask_as(&world, "m", "chat").await;
    let log = world.get(&path("chat")).await;
    check_shape(&log);
    assert_eq!(
        (&log["status"], &log["filter"]["status"]),
        (&json!("failed"), &json!("passed")),
        "not bound yet"
    );
    assert_eq!(log["bind"], json!({"status": "", "summary": ""}));
    runner.settle(&world).await;
    let log = world.get(&path("chat")).await;
    check_shape(&log);
    assert_eq!(
        (&log["status"], &log["bind"]),
        (&json!("succeeded"), &json!({"status": "passed", "summary": ""}))
    );
    let nodes = &log["filter"]["nodes"];
    assert_eq!(column(nodes, "name"), ["large", "small"]);
    assert_eq!(column(nodes, "status"), ["passed", "failed"]);
    assert!(nodes[0]["score"].as_i64().is_some_and(|score| score > 0), "{nodes}");
    assert_eq!(nodes[0]["containers"][0]["name"], "m");
    assert_eq!(nodes[1]["containers"][0]["reason"], "2/2 CardInsufficientMemory");
    world.declare("joined", json!({"memory": "1GiB", "concurrency": 2})).await;
    world.ask("joined").await;
    runner.settle(&world).await;
    ask_as(&world, "joined", "later").await;
    let log = world.get(&path("later")).await;
    assert_eq!(
        (&log["status"], column(&log["filter"]["nodes"], "name").len()),
        (&json!("succeeded"), 2)
    );
}

#[tokio::test]
async fn pending_and_impossible_work_failed_with_one_sentence() {
    let world = World::new();
    Runner::registered(&world, "r1", &[80, 80]).await;
    world.declare("full", json!({"memory": "160GiB", "gpus": 2})).await;
    world.ask("full").await;
    world.declare("m", json!({"memory": "40GiB"})).await;
    ask_as(&world, "m", "waits").await;
    world.declare("huge", json!({"memory": "90GiB"})).await;
    assert_eq!(ask_as(&world, "huge", "impossible").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    for (name, part) in [("waits", "2 of 2 GPUs"), ("impossible", "90.0 GiB")] {
        let log = world.get(&path(name)).await;
        check_shape(&log);
        assert_eq!(
            (&log["status"], &log["filter"]["status"]),
            (&json!("failed"), &json!("failed"))
        );
        assert!(log["filter"]["summary"].as_str().expect("a sentence").contains(part), "{log}");
        assert_eq!(
            log["filter"]["nodes"][0]["containers"][0]["reason"],
            "2/2 CardInsufficientMemory"
        );
        assert_eq!(log["bind"], json!({"status": "", "summary": ""}));
    }
}

#[tokio::test]
async fn work_whose_slots_are_full_names_the_runners_that_hold_them() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    Runner::registered(&world, "r2", &[80]).await;
    world.declare("m", json!({"memory": "40GiB"})).await;
    ask_as(&world, "m", "first").await;
    ask_as(&world, "m", "second").await;
    runner.settle(&world).await;
    let log = world.get(&path("second")).await;
    check_shape(&log);
    assert_eq!(
        log["filter"]["summary"],
        "model m has 1 of at most 1 slot, with its only reservation taken"
    );
    assert_eq!(column(&log["filter"]["nodes"], "name"), ["r1"]);
    let first = world.get(&path("first")).await["reservation_id"].clone();
    world.delete(&format!("/api/v1/scheduler/slots/{}", first.as_str().expect("an id"))).await;
    assert_eq!(world.get(&path("second")).await["status"], "succeeded", "it took the seat");
}

#[tokio::test]
async fn a_start_that_fails_is_a_bind_that_failed_with_the_runners_reason() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    runner.failing.insert("m".to_string(), "exit code 1: out of \"luck\"".to_string());
    world.declare("m", json!({"memory": "40GiB"})).await;
    ask_as(&world, "m", "chat").await;
    runner.settle(&world).await;
    let log = world.get(&path("chat")).await;
    check_shape(&log);
    assert_eq!((&log["status"], &log["filter"]["status"]), (&json!("failed"), &json!("passed")));
    assert_eq!(log["bind"], json!({"status": "failed", "summary": "exit code 1: out of \"luck\""}));
    runner.failing.clear();
    eventually(async || {
        runner.settle(&world).await;
        world.get(&path("chat")).await["status"] == "succeeded"
    })
    .await;
}

#[tokio::test]
async fn a_runner_that_is_kept_out_fails_with_its_own_reason() {
    let config = DeskConfig { lease: Span(300), ..DeskConfig::default() };
    let world = World::with(&settings(), config, schedulerlog::Settings::default());
    Runner::registered(&world, "r1", &[80]).await;
    eventually(async || world.get("/api/v1/runners").await[0]["status"] == "silent").await;
    world.declare("m", json!({"memory": "40GiB"})).await;
    ask_as(&world, "m", "chat").await;
    let log = world.get(&path("chat")).await;
    check_shape(&log);
    assert_eq!(log["filter"]["nodes"][0]["containers"][0]["reason"], "NodeSilent");
}

#[tokio::test]
async fn the_newest_of_a_name_wins_and_the_least_recently_used_goes_first() {
    let log =
        schedulerlog::Settings { enabled: true, max_pods: NonZeroUsize::new(2).expect("two") };
    let world = World::with(&settings(), DeskConfig::default(), log);
    Runner::registered(&world, "r1", &[80]).await;
    world.declare("a", json!({"memory": "1GiB"})).await;
    world.declare("b", json!({"memory": "1GiB"})).await;
    ask_as(&world, "a", "one").await;
    ask_as(&world, "b", "one").await;
    assert_eq!(world.get(&path("one")).await["model"], "b", "the newest wins");
    world.delete("/api/v1/scheduler/slots/reservation-1").await;
    assert_eq!(
        world.get(&path("one")).await["model"],
        "b",
        "what becomes of an older one is no news"
    );
    ask_as(&world, "a", "two").await;
    world.get(&path("one")).await;
    ask_as(&world, "a", "three").await;
    let evicted = world.call("GET", &path("two"), None).await;
    assert_eq!(
        (evicted.status, &evicted.body["code"]),
        (StatusCode::NOT_FOUND, &json!("schedulerlog_evicted"))
    );
    world.get(&path("one")).await;
    let unknown = world.call("GET", &path("missing"), None).await;
    assert_eq!(
        (unknown.status, &unknown.body["code"]),
        (StatusCode::NOT_FOUND, &json!("schedulerlog_unknown"))
    );
    let off = schedulerlog::Settings { enabled: false, ..schedulerlog::Settings::default() };
    let world = World::with(&settings(), DeskConfig::default(), off);
    let off = world.call("GET", &path("one"), None).await;
    assert_eq!(
        (off.status, &off.body["code"]),
        (StatusCode::NOT_FOUND, &json!("schedulerlog_disabled"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_write_and_read_at_once() {
    let world = std::sync::Arc::new(World::new());
    Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "1GiB", "concurrency": 1000})).await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let world = world.clone();
            tokio::spawn(async move {
                for number in 0..25 {
                    let name = format!("w{task}-{number}");
                    ask_as(&world, "m", &name).await;
                    check_shape(&world.get(&path(&name)).await);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task fails");
    }
}

#[tokio::test]
async fn a_slot_has_a_log_by_its_model_and_id_without_a_named_reservation() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "40GiB"})).await;
    world.ask("m").await;
    runner.settle(&world).await;
    let log = world.get("/api/v1/namespaces/m/pods/slot-1/schedulerlog").await;
    check_shape(&log);
    assert_eq!(log["status"], "succeeded");
    assert_eq!(log["request"], json!({"account": "m", "name": "slot-1", "uid": "slot-1"}));
    assert_eq!(log.get("reservation_id"), None, "it is about the slot");
}
