//! The models of a day: names, and declarations that change.

use plimsoll_slots::model::Model;
use serde_json::json;

use super::random::Random;

const NAMES: [&str; 10] = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"];

/// Returns the name of some model, declared or not.
pub(crate) fn draw_name(random: &mut Random) -> &'static str {
    NAMES[random.index(NAMES.len())]
}

/// Returns all names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied()
}

/// Draws a declaration of a model.
pub(crate) fn draw(random: &mut Random, name: &str) -> Model {
    let command = json!({"command": {"argv": ["serve"]}});
    if random.one_in(25) {
        let cpu = json!({"name": name, "runtime": command, "gpus": 0, "concurrency": 2});
        return serde_json::from_value(cpu).expect("a valid declaration");
    }
    let mib = match random.below(10) {
        0 => 16 << 10,
        1 => 80 << 10,
        2 => random.between(40_000, 160_000),
        _ => random.between(500, 45_000),
    };
    let sizes: &[u16] =
        random.pick::<&[u16]>(&[&[1], &[1], &[1, 2], &[2, 1], &[1, 2, 4], &[2], &[4, 2]]);
    let declaration = json!({
        "name": name,
        "runtime": command,
        "memory": format!("{mib}MiB"),
        "tensor_parallel": sizes,
        "concurrency": random.pick(&[1, 1, 2, 4]),
        "max_slots": random.pick(&[1, 1, 2, 5]),
        "pinned": random.percent(8),
        "prewarm": random.percent(15),
        "priority": random.below(4),
        "idle_limit": random.pick(&["0s", "60s", "10m"]),
        "eviction": random.pick(&["never", "idle", "idle", "lower-priority"]),
        "where": draw_placement(random),
    });
    serde_json::from_value(declaration).expect("a valid declaration")
}

fn draw_placement(random: &mut Random) -> serde_json::Value {
    match random.below(12) {
        0 => json!({"required": {"labels": {"zone": "a"}}}),
        1 => json!({"required": {"gpu_models": ["A100"]}}),
        2 => json!({"preferred": {"labels": {"zone": "b"}}}),
        3 => json!({"preferred": {"gpu_models": ["A100"]}}),
        _ => json!({}),
    }
}
