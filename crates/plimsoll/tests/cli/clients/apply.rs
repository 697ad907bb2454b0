//! Models are declared all or none.

use serde_json::{Value, json};

use super::fake::{Fake, read};
use crate::tool::{Run, command, finish, scratch};

const THREE: &str = "\
- {name: a, runtime: {command: {argv: [serve]}}, memory: 1GiB}
- {name: org/b, runtime: {command: {argv: [serve]}}, memory: 2GiB}
- {name: c, runtime: {command: {argv: [serve]}}, memory: 3GiB}
";

fn apply(fake: &Fake, text: &str, rest: &str) -> Run {
    fake.says("POST", "scheduler/whatif", 200, &read("whatif"));
    let mut command = command(&format!("apply -f - {rest}"));
    command.env("PLIMSOLL_SERVER", &fake.url);
    finish(command, text)
}

fn row(name: &str, memory: &str) -> String {
    let declaration = json!({"name": name, "runtime": {"command": {"argv": ["serve"], "ready_within": "30m", "grace": "10s"}},
        "memory": memory, "vendor": "NVIDIA", "concurrency": 1, "max_slots": 1, "pinned": false, "prewarm": false,
        "priority": 0, "idle_limit": "5m", "eviction": "idle"});
    json!({"name": name, "declaration": declaration, "slots": 0, "active_requests": 0, "load_ms": null, "memory": []})
        .to_string()
}

fn lines(fake: &Fake, method: &str) -> Vec<String> {
    fake.asked()
        .into_iter()
        .map(|asked| asked.line)
        .filter(|line| line.starts_with(method))
        .collect()
}

#[test]
fn each_model_is_created_changed_or_left_as_it_is() {
    let fake = Fake::new();
    fake.says("GET", "models/a", 200, &row("a", "1GiB"));
    fake.says("GET", "models/org%2Fb", 200, &row("org/b", "1GiB"));
    fake.says("PUT", "models/org%2Fb", 200, &row("org/b", "2GiB"));
    fake.says("PUT", "models/c", 201, &row("c", "3GiB"));
    let dry = apply(&fake, THREE, "--dry-run");
    assert_eq!(lines(&fake, "PUT"), [""; 0]);
    assert!(dry.out.contains("model c created (dry run)\n"), "{}{}", dry.out, dry.err);
    let run = apply(&fake, THREE, "");
    assert_eq!(run.out, "model a unchanged\nmodel org/b changed\nmodel c created\n", "{}", run.err);
    assert_eq!(run.code, Some(0));
    assert_eq!(lines(&fake, "PUT"), ["PUT /api/v1/models/org%2Fb", "PUT /api/v1/models/c"]);
    let sent: Value =
        serde_json::from_str(&fake.asked().last().expect("the last").body).expect("JSON");
    assert_eq!((&sent["name"], &sent["memory"]), (&json!("c"), &json!(3_u64 << 30)));
    let applied = apply(&fake, THREE, "-o json").json(0);
    assert_eq!(applied[2], json!({"model": "c", "result": "created", "dry_run": false}));
}

#[test]
fn one_invalid_model_keeps_all_from_being_sent() {
    for (broken, parts) in [
        (
            THREE.replace("memory: 2GiB", "memory: 2 gigs"),
            vec!["standard input:2: model \"org/b\", memory: ", "2 gigs"],
        ),
        (
            THREE.replace("name: c,", "name: c, concurrency: 0,"),
            vec!["standard input:3: model \"c\", concurrency: must be at least 1"],
        ),
        (
            THREE.replace("name: c", "name: a"),
            vec![":3: model \"a\" is defined twice, first in standard input:1"],
        ),
        (
            THREE.replace("name: a", "nmae: a"),
            vec![":1: a model without a name, nmae: unknown field"],
        ),
    ] {
        let fake = Fake::new();
        apply(&fake, &broken, "").fails_with(&parts);
        assert_eq!(fake.asked(), [], "no request was sent");
    }
}

#[test]
fn a_failed_comparison_changes_nothing() {
    let fake = Fake::new();
    fake.says("GET", "models/c", 403, r#"{"detail":"not yours"}"#);
    apply(&fake, THREE, "").fails_with(&["403", "not yours"]);
    assert_eq!(lines(&fake, "PUT"), [""; 0]);
}

#[test]
fn a_rejection_on_the_way_lists_what_was_declared_before() {
    let fake = Fake::new();
    fake.says("PUT", "models/a", 201, &row("a", "1GiB"));
    fake.says("PUT", "models/org%2Fb", 422, r#"{"detail":"memory is too much"}"#);
    apply(&fake, THREE, "").fails_with(&[
        "\"org/b\"",
        "already declared: a",
        "422",
        "memory is too much",
    ]);
    assert_eq!(lines(&fake, "PUT").len(), 2);
}

#[test]
fn a_config_of_a_server_can_be_applied_as_it_is() {
    let file = scratch("apply").join("server.yaml");
    let models: String = THREE.lines().map(|line| format!("  {line}\n")).collect();
    std::fs::write(&file, format!("listen: 127.0.0.1:8080\nmodels:\n{models}")).expect("a file");
    let fake = Fake::new();
    fake.says("POST", "scheduler/whatif", 200, &read("whatif"));
    let run = fake.run(&format!("apply --dry-run -f {}", file.display()));
    assert_eq!((run.code, run.out.lines().count()), (Some(0), 3), "{}", run.err);
}
