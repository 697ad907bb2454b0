//! Evictions: planned completely, shown before they happen; memory is promised and never granted
//! early.

use super::*;

/// Two GPUs of 80 with a model of 70 on each, idle unless they are said to be in use.
async fn crowded(world: &World, in_use: bool) -> Runner {
    let mut runner = Runner::registered(world, "r1", &[80, 80]).await;
    for name in ["a", "b"] {
        world.declare(name, json!({"memory": "70GiB", "idle_limit": "0s"})).await;
        let place = world.ask(name).await;
        runner.settle(world).await;
        if !in_use {
            world
                .delete(&format!(
                    "/api/v1/scheduler/slots/{}",
                    place["id"].as_str().expect("an id")
                ))
                .await;
        }
    }
    world.declare("c", json!({"memory": "45GiB"})).await;
    runner
}

#[tokio::test]
async fn one_idle_slot_is_evicted_and_its_memory_is_promised_until_it_is_released() {
    let world = World::new();
    let mut runner = crowded(&world, false).await;
    let slots = world.get("/api/v1/scheduler/slots").await;
    for slot in slots.as_array().expect("a list") {
        assert_eq!(slot["eviction"]["evictable"], true, "{slot}");
        assert!(slot["eviction"]["since"].is_string(), "{slot}");
    }
    let what_if = world.post("/api/v1/scheduler/whatif", json!({"model": "c"})).await.body;
    assert_eq!(what_if["evictions"].as_array().map(Vec::len), Some(1), "{what_if}");
    assert_eq!(world.get("/api/v1/scheduler/slots").await, slots, "what-if changes nothing");

    runner.lingers = true;
    let waiting = world.ask("c").await;
    assert_eq!(waiting["status"], "pending");
    let decision = &world.get("/api/v1/scheduler/decisions?model=c").await[0];
    assert_eq!(decision["placed"], false);
    assert_eq!(
        decision["evictions"],
        json!([{"slot_id": "slot-1", "model": "a", "runner_id": "r1"}])
    );
    let promised =
        json!({"node": "r1", "devices": ["GPU-r1-0"], "devices_wanted": 1, "after": ["a/slot-1"]});
    assert_eq!(decision["promised"], promised);
    assert_eq!(waiting["promised"], promised);
    let queue = world.get("/api/v1/scheduler/queue").await;
    assert_eq!((&queue[0]["promised"], &queue[0]["runner_id"]), (&promised, &json!("r1")));

    runner.settle(&world).await;
    let gpu = world.get("/api/v1/runners/r1/status").await["gpus"][0].clone();
    assert_eq!(
        (&gpu["releasing"], &gpu["free"]),
        (&json!(70 * GIB), &json!(10 * GIB)),
        "not granted before it is released"
    );
    assert_eq!(gpu["promised"], 45 * GIB);
    world.declare("d", json!({"memory": "35GiB", "eviction": "never"})).await;
    assert_eq!(world.ask("d").await["promised"]["node"], "r1", "45 and 35 fit in what comes back");
    world.declare("e", json!({"memory": "1GiB", "gpus": 1, "eviction": "never", "where": {"required": {"indices": [0]}}})).await;
    assert_eq!(
        world.ask("e").await["promised"],
        Value::Null,
        "the same bytes are not promised twice"
    );

    runner.lingers = false;
    runner.settle(&world).await;
    assert_eq!(world.reservation(&waiting["id"]).await["status"], "ready");
    let slots = world.get("/api/v1/scheduler/slots").await;
    assert_eq!(column(&slots, "model"), ["b", "c", "d", "e"], "exactly one went");
    assert_eq!(column(&slots, "stage"), ["running", "running", "running", "pending"]);
}

#[tokio::test]
async fn slots_in_use_stay_and_the_rejection_names_them() {
    let world = World::new();
    let _runner = crowded(&world, true).await;
    let waiting = world.ask("c").await;
    let reason = waiting["reason"].as_str().expect("a reason");
    for part in ["45.0 GiB", "35.0 GiB short", "a/slot-1", "1 request in flight"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    let decision = &world.get("/api/v1/scheduler/decisions?model=c").await[0];
    assert_eq!(decision["evictions"], json!([]));
    assert_eq!(decision["promised"]["after"], json!(["a/slot-1"]), "it goes once it is idle");
    assert_eq!(
        decision["reason"], waiting["reason"],
        "the decision names the slots that are not evictable, too"
    );
    let slot = &world.get("/api/v1/scheduler/slots/slot-1").await["eviction"];
    assert_eq!((&slot["evictable"], &slot["code"]), (&json!(false), &json!("active")));
    world.declare("e", json!({"memory": "1GiB", "pinned": true})).await;
    world.ask("e").await;
    assert_eq!(world.get("/api/v1/scheduler/slots/slot-4").await["eviction"]["code"], "pinned");
}
