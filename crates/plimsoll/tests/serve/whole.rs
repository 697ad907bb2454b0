//! The whole of it: a server, an agent, a model's file and the process that serves it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_goldens::gguf::{self, Body};
use plimsoll_goldens::list::Golden;
use serde_json::{Value, json};

use crate::process::{PATIENCE, Serve, file, scratch};

/// A stand-in for `llama-server`: it records its arguments, and runs until it is stopped.
const MODEL_SERVER: &str =
    "#!/bin/sh\necho \"$CUDA_VISIBLE_DEVICES\" \"$@\" > \"$0.started\"\nexec sleep 600\n";

pub(crate) struct Agent(Child);

impl Agent {
    pub(crate) fn start(server: &Serve, dir: &Path) -> Agent {
        let devices = file(
            dir,
            "devices.json",
            r#"[{"uuid":"GPU-a","memory":"24GiB"},{"uuid":"GPU-b","memory":"24GiB"}]"#,
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args([
            "runner",
            "--server",
            &server.url,
            "--name",
            "r1",
            "--stop-slots-on-exit",
            "--devices",
        ]);
        command.arg(devices).arg("--state").arg(dir.join("state"));
        command.env_remove("PLIMSOLL_TOKEN").stdin(Stdio::null()).stderr(Stdio::null());
        Agent(command.spawn().expect("the binary was built for this test"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Asked to end it takes its model servers along.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn estimated(model: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("estimate").arg(model).args([
        "--context",
        "8192",
        "--kv",
        "q8_0",
        "--parallel",
        "2",
        "-o",
        "json",
    ]);
    let output = command.output().expect("the binary was built for this test");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn f3_the_charge_the_flags_and_the_report_of_a_model_come_from_its_file() {
    let dir = scratch();
    let model = dir.path().join("qwen3-8b.gguf");
    let card = Golden::gguf("qwen3-8b").expect("it is a golden one").card().expect("a right card");
    gguf::write(&card, &model, Body::Sparse).expect("the header is written");
    let program = file(dir.path(), "llama-server", MODEL_SERVER);
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("it can be run");
    let server = Serve::start(dir.path(), &[]);
    let declaration = json!({
        "file": model, "context": 8192, "concurrency": 2, "kv": "q8_0",
        "runtime": {"llama_cpp": {"program": program}},
    });
    let (status, row) = server.ask("PUT", "/api/v1/models/q", Some(&declaration));
    assert_eq!(
        (status, &row["memory"][0]["source"]),
        (201, &Value::Null),
        "no runner has inspected the file yet"
    );
    let (status, place) =
        server.ask("POST", "/api/v1/scheduler/slots", Some(&json!({"model": "q", "wait": "0s"})));
    assert_eq!(status, 202, "{place}");
    assert!(
        place["reason"].as_str().is_some_and(|why| why.contains("no runner has inspected")),
        "{place}"
    );
    let _agent = Agent::start(&server, dir.path());
    let started = dir.path().join("llama-server.started");
    let flags = until("the model server", || {
        fs::read_to_string(&started).ok().filter(|text| text.ends_with('\n'))
    });
    let estimate = estimated(&model);
    let total = &estimate["all"]["total"];
    let slot = server.get("/api/v1/scheduler/slots")[0].clone();
    let charged = &slot["gpu_allocation"]["gpus"][0];
    assert!(total.is_u64(), "{estimate}");
    assert_eq!(&charged["bytes"], total, "what is charged is what the file says");
    assert!(flags.starts_with(charged["uuid"].as_str().expect("a device")), "{flags}");
    for flag in [
        "--ctx-size 16384 ",
        "--parallel 2 ",
        "--cache-type-k q8_0 ",
        "--cache-type-v q8_0 ",
        "--fit off",
    ] {
        assert!(flags.contains(flag), "{flag} is not in {flags}");
    }
    let decision = server.get("/api/v1/scheduler/decisions")[0].clone();
    assert_eq!(decision["memory"]["source"], "estimated", "{decision}");
    assert_eq!(&decision["memory"]["per_gpu"][0], total);
    let shown = server.get("/api/v1/models/q");
    assert_eq!(&shown["memory"][0]["estimated"]["total"], total);
    let (_, what_if) = server.ask(
        "POST",
        "/api/v1/scheduler/whatif",
        Some(&json!({"declaration": {
            "name": "q", "file": model, "context": 40_960, "concurrency": 4, "runtime": {"llama_cpp": {}},
        }})),
    );
    let kinds: Vec<&str> = what_if["would_fit_if"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"lower_context") && kinds.contains(&"smaller_cache"), "{what_if}");
}
