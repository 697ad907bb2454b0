//! The fleet that held 128.175 GiB on a GPU of 80: three models in every order, through the API.

use super::*;

const MODELS: [(&str, u64); 3] = [
    ("qwen3:30b", 79_982_566_400),
    ("qwen3:8b", 15_767_897_088),
    ("org/qwen2.5-vl:7b", 41_875_931_136),
];
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

async fn declared(world: &World, sizes: &Value) {
    for (name, bytes) in MODELS {
        world.declare(name, json!({"memory": bytes, "tensor_parallel": sizes})).await;
    }
}

async fn held(world: &World) -> Vec<u64> {
    let status = world.get("/api/v1/runners/r1/status").await;
    let gpus = status["gpus"].as_array().expect("GPUs").iter();
    let mut held: Vec<u64> = gpus.map(|gpu| gpu["held"].as_u64().expect("known")).collect();
    held.sort_unstable();
    held
}

/// Every decision starts from what the one before left, and no GPU is ever over its line.
async fn books_hang_together(world: &World) {
    let decisions = world.get("/api/v1/scheduler/decisions").await;
    let mut before: Option<Value> = None;
    for decision in decisions.as_array().expect("a list").iter().rev() {
        if let Some(before) = before {
            assert_eq!(decision["before"], before, "{decision}");
        }
        for gpu in decision["after"].as_array().expect("GPUs") {
            assert!(gpu["load"].as_u64() <= gpu["usable"].as_u64(), "{decision}");
        }
        before = Some(decision["after"].clone());
    }
    let status = world.get("/api/v1/runners/r1/status").await;
    let loads: Vec<&Value> =
        status["gpus"].as_array().expect("GPUs").iter().map(|gpu| &gpu["held"]).collect();
    let last = before.expect("a decision");
    let last: Vec<&Value> = last.as_array().expect("GPUs").iter().map(|gpu| &gpu["load"]).collect();
    assert_eq!(loads, last, "the last decision left what the books show");
}

#[tokio::test]
async fn packing_ends_the_same_in_every_order() {
    for order in ORDERS {
        let world = World::new();
        let mut runner = Runner::registered(&world, "r1", &[80, 80]).await;
        declared(&world, &json!([1])).await;
        for model in order {
            assert!(world.ask(MODELS[model].0).await["gpu_allocation"]["gpu_count"] == 1);
        }
        assert_eq!(
            held(&world).await,
            [15_767_897_088 + 41_875_931_136, 79_982_566_400],
            "{order:?}"
        );
        runner.settle(&world).await;
        books_hang_together(&world).await;
    }
}

#[tokio::test]
async fn spreading_places_the_large_one_over_both_where_it_may() {
    for order in ORDERS {
        let world = World::spreading();
        let _runner = Runner::registered(&world, "r1", &[80, 80]).await;
        declared(&world, &json!([1, 2])).await;
        for model in order {
            world.ask(MODELS[model].0).await;
        }
        let small_first = order[2] == 0;
        let split = [39_991_283_200 + 15_767_897_088, 39_991_283_200 + 41_875_931_136];
        let apart = [15_767_897_088 + 41_875_931_136, 79_982_566_400];
        assert_eq!(held(&world).await, if small_first { split } else { apart }, "{order:?}");
        books_hang_together(&world).await;
    }
}

#[tokio::test]
async fn spreading_refuses_the_large_one_where_it_may_not_be_split() {
    for order in [[1, 2, 0], [2, 1, 0]] {
        let world = World::spreading();
        let _runner = Runner::registered(&world, "r1", &[80, 80]).await;
        declared(&world, &json!([1])).await;
        for model in order {
            world.ask(MODELS[model].0).await;
        }
        let queue = world.get("/api/v1/scheduler/queue").await;
        assert_eq!(column(&queue, "model"), ["qwen3:30b"]);
        let reason = queue[0]["reason"].as_str().expect("a reason");
        for part in ["74.5 GiB", "2 of 2 GPUs", "65.3 GiB free", "9.2 GiB short"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let decision = &world.get("/api/v1/scheduler/decisions?model=qwen3:30b").await[0];
        assert_eq!((&decision["placed"], &decision["runner_id"]), (&json!(false), &json!("r1")));
        let frees: Vec<u64> = decision["candidates"][0]["containers"][0]["devices"]
            .as_array()
            .expect("devices")
            .iter()
            .map(|device| device["free"].as_u64().expect("known"))
            .collect();
        let (small, large) = (80 * GIB - 15_767_897_088, 80 * GIB - 41_875_931_136);
        assert!(frees == [small, large] || frees == [large, small], "{frees:?}");
        books_hang_together(&world).await;
    }
}

#[tokio::test]
async fn a_runner_that_reports_too_much_is_a_breach_and_gets_nothing_new() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    for (number, (model, bytes)) in MODELS.into_iter().enumerate() {
        let slot = format!("old-{number}");
        let report = SlotReport {
            slot: slot.clone(),
            generation: 1,
            model: model.to_string(),
            state: SlotState::Running,
            reason: None,
            endpoint: None,
            booked: vec![OnDevice { index: 0, bytes }],
            used: Vec::new(),
        };
        runner.slots.insert(slot, report);
    }
    runner.beat(&world).await;
    let status = world.get("/api/v1/runners/r1/status").await;
    let sum: u64 = MODELS.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!((&status["gpus"][0]["held"], &status["gpus"][0]["free"]), (&json!(sum), &json!(0)));
    let breach = &status["breaches"][0];
    assert_eq!(
        (&breach["kind"], &breach["over_by"]),
        (&json!("over_line"), &json!(sum - 80 * GIB))
    );
    assert_eq!(breach["holders"].as_array().map(Vec::len), Some(3));
    world.declare("tiny", json!({"memory": "1MiB"})).await;
    assert_eq!(world.ask("tiny").await["status"], "pending");
}

#[tokio::test]
async fn the_questions_of_the_design_review_have_answers() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80, 80]).await;
    declared(&world, &json!([1])).await;
    for (model, _) in MODELS {
        world.ask(model).await;
    }
    runner.settle(&world).await;
    // curl -s .../api/v1/runners/{runner-id}/status | jq '.gpus'
    let gpus = world.get("/api/v1/runners/r1/status").await["gpus"].clone();
    assert_eq!(gpus.as_array().map(Vec::len), Some(2));
    // curl -s .../api/v1/scheduler/decisions | jq '.[] | select(.runner_id == "{runner-id}")'
    let decisions = world.get("/api/v1/scheduler/decisions").await;
    let of_r1 =
        decisions.as_array().expect("a bare list").iter().filter(|row| row["runner_id"] == "r1");
    assert_eq!(of_r1.count(), 3);
    // curl -s .../api/v1/scheduler/slots | jq '.[] | select(.runner_id == "{runner-id}") | {id,
    // model, gpu_allocation, created}'
    let slots = world.get("/api/v1/scheduler/slots").await;
    let of_r1 =
        slots.as_array().expect("a bare list").iter().filter(|row| row["runner_id"] == "r1");
    for slot in of_r1.clone() {
        let allocation = slot["gpu_allocation"].as_object().expect("an allocation");
        let mut keys: Vec<&str> = allocation.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let all = [
            "gpu_count",
            "gpus",
            "memory_per_gpu",
            "tensor_parallel_size",
            "total_memory_required",
        ];
        assert_eq!(keys, all);
        assert_eq!(
            allocation["gpus"][0].as_object().map(serde_json::Map::len),
            Some(3),
            "index, uuid, bytes"
        );
        assert!(slot["id"].is_string() && slot["model"].is_string());
        let created = slot["created"].as_str().expect("a time");
        assert!(
            created.ends_with('Z') && created.as_bytes()[created.len() - 5] == b'.',
            "{created}"
        );
    }
    assert_eq!(of_r1.count(), 3);
}
