//! The API on a real port, asked by curl, jq and the example script.

use std::process::{Command, Output};

use super::*;

/// Serves a world on a free port, and runs a shell command with `$URL` set to it.
struct Served {
    url: String,
}

impl Served {
    async fn start(world: &World) -> Served {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = world.router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Served { url }
    }

    async fn run(&self, script: &str) -> Output {
        let (url, script) = (self.url.clone(), script.to_string());
        let run = move || {
            Command::new("sh").arg("-c").arg(script).env("URL", url).output().expect("a shell")
        };
        tokio::task::spawn_blocking(run).await.expect("it ends")
    }

    async fn alert(&self, name: &str) -> (Option<i32>, String) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/schedulerlog-alert.sh");
        let output = self.run(&format!("sh '{script}' \"$URL\" default {name}")).await;
        let line = String::from_utf8(output.stdout).expect("text").trim_end().to_string();
        (output.status.code(), line)
    }
}

fn on_path(program: &str) -> bool {
    Command::new("sh")
        .arg("-c")
        .arg(format!("command -v {program}"))
        .output()
        .is_ok_and(|found| found.status.success())
}

async fn ask_as(world: &World, model: &str, name: &str) {
    world
        .post(
            "/api/v1/scheduler/slots",
            json!({"model": model, "namespace": "default", "name": name}),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_turns_a_failed_log_into_a_line_and_an_exit_code() {
    if !on_path("curl") {
        return;
    }
    let world = World::new();
    let served = Served::start(&world).await;
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    runner
        .failing
        .insert("bad".to_string(), "exit code 1: no \"weights\" in C:\\tmp\nbye".to_string());
    for (model, gib) in [("good", 10), ("bad", 10), ("big", 75)] {
        world.declare(model, json!({"memory": format!("{gib}GiB")})).await;
    }
    ask_as(&world, "good", "chat").await;
    let starting = served.alert("chat").await;
    assert_eq!(
        starting,
        (Some(3), "STARTING default/chat: placed, and not seen running yet".to_string())
    );
    ask_as(&world, "bad", "broken").await;
    runner.settle(&world).await;
    ask_as(&world, "big", "waits").await;
    assert_eq!(
        served.alert("chat").await,
        (Some(0), "OK default/chat: placed and running".to_string())
    );
    let (code, line) = served.alert("broken").await;
    let expected = "ALERT default/broken: placed, but its start failed: exit code 1: no \"weights\" in C:\\tmp bye";
    assert_eq!((code, line.as_str()), (Some(1), expected));
    let (code, line) = served.alert("waits").await;
    assert_eq!(code, Some(1));
    assert!(
        line.starts_with("ALERT default/waits: needs 75.0 GiB on one GPU; nearest is"),
        "{line}"
    );
    let (code, line) = served.alert("missing").await;
    let expected = "UNKNOWN default/missing: HTTP 404: nothing named default/missing \
                    (namespace/name) since the server started";
    assert_eq!((code, line.as_str()), (Some(2), expected));
    let nowhere = Served { url: "http://127.0.0.1:1".to_string() };
    assert_eq!(nowhere.alert("chat").await.0, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_the_design_review_work_as_they_are_written() {
    if !on_path("curl") || !on_path("jq") {
        return;
    }
    let world = World::new();
    let served = Served::start(&world).await;
    let mut runner = Runner::registered(&world, "r1", &[80, 80]).await;
    world.declare("m", json!({"memory": "10GiB"})).await;
    world.ask("m").await;
    runner.settle(&world).await;
    for (line, part) in [
        (r#"curl -s $URL/api/v1/runners/r1/status | jq '.gpus'"#, "\"held\": 10737418240"),
        (
            r#"curl -s $URL/api/v1/scheduler/decisions | jq '.[] | select(.runner_id == "r1")'"#,
            "\"placed\": true",
        ),
        (
            r#"curl -s $URL/api/v1/scheduler/slots | jq '.[] | select(.runner_id == "r1") | {id, model, gpu_allocation, created}'"#,
            "\"id\": \"slot-1\"",
        ),
    ] {
        let output = served.run(line).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(part), "{line}: {text}");
    }
}
