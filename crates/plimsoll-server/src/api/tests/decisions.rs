//! Decisions: in full while they are in memory, as summaries afterwards, and what-if.

use super::*;

#[tokio::test]
async fn a_decision_names_every_candidate_with_the_first_rule_that_failed() {
    let world = World::new();
    for (id, gib) in [("small", 16), ("large", 80)] {
        Runner::registered(&world, id, &[gib]).await;
    }
    world.declare("m", json!({"memory": "40GiB", "tensor_parallel": [1, 2]})).await;
    world.ask("m").await;
    let decisions = world.get("/api/v1/scheduler/decisions").await;
    let decision = &decisions[0];
    assert_eq!((&decision["placed"], &decision["runner_id"]), (&json!(true), &json!("large")));
    assert_eq!((&decision["model"], &decision["slot_id"]), (&json!("m"), &json!("slot-1")));
    let candidates = decision["candidates"].as_array().expect("candidates");
    assert_eq!(
        candidates.iter().map(|row| row["name"].as_str()).collect::<Vec<_>>(),
        [Some("large"), Some("small")]
    );
    assert_eq!(candidates[1]["containers"][0]["reason"], "1/1 CardInsufficientMemory");
    let device = &candidates[1]["containers"][0]["devices"][0];
    assert_eq!((&device["need"], &device["free"]), (&json!(40 * GIB), &json!(16 * GIB)));
    assert_eq!(device["short_by"], 24 * GIB);
    assert_eq!(
        (&decision["before"][0]["load"], &decision["after"][0]["load"]),
        (&json!(0), &json!(40 * GIB))
    );
    assert_eq!(decision["gpu_allocation"]["memory_per_gpu"], 40 * GIB);
    let id = decision["id"].as_str().expect("an id");
    assert_eq!(world.get(&format!("/api/v1/scheduler/decisions/{id}")).await, *decision);
    for (query, found) in
        [("runner_id=large", 1), ("runner_id=small", 0), ("model=m", 1), ("model=x", 0)]
    {
        let rows = world.get(&format!("/api/v1/scheduler/decisions?{query}")).await;
        assert_eq!(rows.as_array().map(Vec::len), Some(found), "{query}");
    }
}

#[tokio::test]
async fn a_shape_that_failed_is_explained_beside_the_chosen_shape() {
    let world = World::new();
    Runner::registered(&world, "r1", &[80, 80]).await;
    world.declare("m", json!({"memory": "100GiB", "tensor_parallel": [1, 2]})).await;
    world.ask("m").await;
    let decision = &world.get("/api/v1/scheduler/decisions").await[0];
    let sizes: Vec<(&Value, &Value)> = decision["candidates"]
        .as_array()
        .expect("candidates")
        .iter()
        .map(|row| (&row["device_count"], &row["status"]))
        .collect();
    assert_eq!(sizes, [(&json!(1), &json!("failed")), (&json!(2), &json!("passed"))]);
    assert_eq!(decision["gpu_allocation"]["tensor_parallel_size"], 2);
    assert_eq!(decision["after"][1]["load"], 50 * GIB);
}

#[tokio::test]
async fn after_a_restart_a_decision_is_a_summary_with_the_command_for_the_details() {
    let world = World::new();
    Runner::registered(&world, "r1", &[80]).await;
    for (name, gib) in [("a", 60), ("b", 60)] {
        world.declare(name, json!({"memory": format!("{gib}GiB")})).await;
        world.ask(name).await;
    }
    let before = world.get("/api/v1/scheduler/decisions").await;
    world.engine.stop();
    eventually(async || world.call("GET", "/api/v1/runners", None).await.status != StatusCode::OK)
        .await;
    let World { dir, router, app, engine } = world;
    drop((router, app, engine));
    let world =
        World::on(dir, &settings(), DeskConfig::default(), schedulerlog::Settings::default());
    world.declare("c", json!({"memory": "70GiB"})).await;
    world.ask("c").await;
    let after = world.get("/api/v1/scheduler/decisions").await;
    assert_eq!(column(&after, "model"), ["c", "b", "a"]);
    assert!(after[0]["candidates"].is_array());
    for (new, old) in [(&after[1], &before[0]), (&after[2], &before[1])] {
        for key in ["id", "created", "model", "slot_id", "placed", "runner_id", "summary", "digest"]
        {
            assert_eq!(new[key], old[key], "{key}");
        }
        assert!(new["candidates"].is_null() && new["before"].is_null(), "{new}");
        let id = new["id"].as_str().expect("an id");
        assert_eq!(new["replay"], format!("plimsoll replay DIR --decision {id}"));
        assert_eq!(world.get(&format!("/api/v1/scheduler/decisions/{id}")).await, *new);
    }
    assert_eq!(
        column(&world.get("/api/v1/scheduler/decisions?model=a&runner_id=r1").await, "model"),
        ["a"]
    );
    assert_eq!(
        column(&world.get("/api/v1/scheduler/decisions?limit=2").await, "model"),
        ["c", "b"]
    );
    let last = after[1]["id"].as_str().expect("an id");
    assert_eq!(
        column(&world.get(&format!("/api/v1/scheduler/decisions?after={last}")).await, "model"),
        ["a"]
    );
}

#[tokio::test]
async fn what_if_says_what_would_help_and_changes_nothing() {
    let world = World::new();
    let runner = Runner::registered(&world, "r1", &[80, 80]).await;
    for name in ["a", "b"] {
        world.declare(name, json!({"memory": "70GiB"})).await;
        world.ask(name).await;
    }
    let revision = world.engine.read(|_, core| core.next_seq()).await.expect("an answer");
    let made = json!({"name": "x", "runtime": {"command": {"argv": ["serve"]}}, "memory": "20GiB"});
    let refused = world.post("/api/v1/scheduler/whatif", json!({"declaration": made})).await;
    assert_eq!(
        (refused.status, &refused.body["placed"]),
        (StatusCode::OK, &json!(false)),
        "{}",
        refused.body
    );
    assert_eq!((&refused.body["id"], &refused.body["slot_id"]), (&Value::Null, &Value::Null));
    let remedies = refused.body["would_fit_if"].as_array().expect("remedies");
    let kinds: Vec<&Value> = remedies.iter().map(|remedy| &remedy["kind"]).collect();
    assert!(
        kinds.contains(&&json!("ask_less")) && kinds.contains(&&json!("give_up")),
        "{}",
        refused.body
    );
    let more = remedies.iter().find(|remedy| remedy["kind"] == "ask_less").expect("it is there");
    assert_eq!(more["amount"], 10 * GIB);
    let fits = json!({"name": "x", "runtime": {"command": {"argv": ["serve"]}}, "memory": "10GiB"});
    let placed = world.post("/api/v1/scheduler/whatif", json!({"declaration": fits})).await;
    assert_eq!((&placed.body["placed"], &placed.body["would_fit_if"]), (&json!(true), &json!([])));
    assert_eq!(placed.body["after"][0]["load"], 80 * GIB);
    let declared = world.post("/api/v1/scheduler/whatif", json!({"model": "a"})).await;
    assert_eq!(declared.body["placed"], false);
    for (body, status) in [
        (json!({}), 400),
        (json!({"model": "a", "declaration": fits}), 400),
        (json!({"modle": "a"}), 400),
        (json!({"model": "missing"}), 404),
        (json!({"declaration": {"name": "x", "runtime": {"command": {"argv": []}}}}), 422),
    ] {
        let answered = world.post("/api/v1/scheduler/whatif", body.clone()).await;
        assert_eq!(answered.status.as_u16(), status, "{body}: {}", answered.body);
    }
    let after = world.engine.read(|_, core| core.next_seq()).await.expect("an answer");
    assert_eq!(after, revision, "nothing was written");
    drop(runner);
}
