//! Server, runner and a real model server on a tiny model, if `PLIMSOLL_LLAMA_SERVER` or
//! `PLIMSOLL_OLLAMA` names one.
//!
//! No GPU is needed. The probe of the runner decides what is seen on its one GPU: the memory in
//! the file `use` for every process of a slot, or nothing, which is the truth for a model server
//! without a GPU.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{PATIENCE, Serve, file, scratch};
use crate::tiny_model;

/// Lists the processes of this runner's slots with the memory in the file `use`. Where there is no
/// such file, no process uses the GPU.
const PROBE: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
bytes=$(cat use 2>/dev/null) || { echo '{"devices":[{"index":0,"used":0,"processes":[]}]}'; exit; }
list= used=0
for file in $(grep -lz "^PLIMSOLL_RUNNER=$(cat name)$" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}; list="$list,{\"pid\":${pid%/environ},\"bytes\":$bytes}"; used=$((used + bytes))
done
echo "{\"devices\":[{\"index\":0,\"used\":$used,\"processes\":[${list#,}]}]}"
"#;

/// The configuration of the server: slots can be evicted soon after they started.
const CONFIG: &str = "heartbeat: 500ms\nlease: 5s\nresidency: 1s\n";

static RIGS: AtomicU32 = AtomicU32::new(0);

/// A server, a runner with one GPU of 900 MiB, and a tiny model.
struct Rig {
    dir: tempfile::TempDir,
    name: String,
    /// Each rig has its own ports. Otherwise two runners could assign the same one.
    ports: String,
    server: Option<Serve>,
    runner: Option<Child>,
}

impl Rig {
    fn start() -> Rig {
        let dir = scratch();
        tiny_model::write(&dir.path().join("tiny.gguf"));
        let name = format!("real-{}-{}", std::process::id(), dir.path().display());
        let name = name.replace('/', "-");
        fs::write(dir.path().join("name"), &name).expect("the name is written");
        let probe = file(dir.path(), "probe", PROBE);
        fs::set_permissions(probe, PermissionsExt::from_mode(0o755)).expect("it can be run");
        file(dir.path(), "devices.json", r#"[{"uuid":"GPU-a","memory":"900MiB"}]"#);
        file(dir.path(), "config.yaml", CONFIG);
        let number = RIGS.fetch_add(1, Ordering::Relaxed);
        let from = 31_000 + std::process::id() % 80 * 100 + number * 10;
        let ports = format!("{from}-{}", from + 9);
        let mut rig = Rig { dir, name, ports, server: None, runner: None };
        rig.resume();
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the server and the runner.
    fn resume(&mut self) {
        let config = self.path("config.yaml").display().to_string();
        let server = Serve::start(self.dir.path(), &["--config", &config]);
        let mut runner = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        runner.args(["runner", "--server", &server.url, "--name", &self.name]);
        runner.args(["--ports", &self.ports]).arg("--devices").arg(self.path("devices.json"));
        runner.arg("--state").arg(self.path("state")).arg("--probe").arg(self.path("probe"));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("runner.log"));
        runner.env_remove("PLIMSOLL_TOKEN").stdin(Stdio::null()).stdout(Stdio::null());
        runner.stderr(log.expect("a log"));
        self.runner = Some(runner.spawn().expect("the binary was built for this test"));
        self.server = Some(server);
    }

    /// Kills the server and the runner with SIGKILL.
    fn kill(&mut self) {
        self.server = None;
        let mut runner = self.runner.take().expect("it runs");
        runner.kill().expect("killed");
        runner.wait().expect("exited");
    }

    fn server(&self) -> &Serve {
        self.server.as_ref().expect("it runs")
    }

    /// Makes the probe show this use by every process of a slot.
    fn show_use(&self, bytes: u64) {
        // Renamed, because the probe may read it at any time.
        fs::write(self.path("use.new"), bytes.to_string()).expect("the use is written");
        fs::rename(self.path("use.new"), self.path("use")).expect("it is renamed");
    }

    fn declare(&self, model: &str, declaration: &Value) -> Value {
        let path = format!("/api/v1/models/{model}");
        let (status, row) = self.server().ask("PUT", &path, Some(declaration));
        assert!(status == 200 || status == 201, "{row}");
        row
    }

    fn reserve(&self, model: &str, wait: &str) -> (u16, Value) {
        let body = json!({"model": model, "wait": wait});
        self.server().ask("POST", "/api/v1/scheduler/slots", Some(&body))
    }

    /// Reserves a model, and returns the reservation and the address of its model server.
    fn serve(&self, model: &str) -> (String, String) {
        let (status, row) = self.reserve(model, "50s");
        assert_eq!(status, 201, "{row}\n{}", self.log());
        let field = |name: &str| row[name].as_str().expect("a text").to_owned();
        (field("id"), field("endpoint"))
    }

    fn release(&self, reservation: &str) {
        let path = format!("/api/v1/scheduler/slots/{reservation}");
        let (status, body) = self.server().ask("DELETE", &path, None);
        assert!(status < 300, "{body}");
    }

    /// Returns the processes of the runner's slots.
    fn pids(&self) -> BTreeSet<u32> {
        let own = format!("PLIMSOLL_RUNNER={}", self.name);
        let is_own = |entry: &fs::DirEntry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|line| line == own.as_bytes())
        };
        let entries = fs::read_dir("/proc").expect("/proc exists").flatten().filter(is_own);
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("runner.log")).unwrap_or_default()
    }

    /// Waits until a request to the API gives an answer that is looked for.
    fn until<T>(&self, path: &str, find: impl Fn(&Value) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            let body = self.server().get(path);
            if let Some(found) = find(&body) {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "{path}: {body:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the memory of a model has this source, and returns its row.
    fn until_source(&self, model: &str, source: &str) -> Value {
        let path = format!("/api/v1/models/{model}");
        self.until(&path, |row| (row["memory"][0]["source"] == source).then(|| row.clone()))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut runner) = self.runner.take() {
            let _ = runner.kill();
            let _ = runner.wait();
        }
        for pid in self.pids() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// Posts JSON to a model server.
fn post(url: &str, body: &Value) -> Value {
    let config = ureq::Agent::config_builder().proxy(None).timeout_global(Some(PATIENCE));
    let agent = config.build().new_agent();
    let mut answer = agent.post(url).content_type("application/json").send(body.to_string());
    let text = answer.as_mut().map(|answer| answer.body_mut().read_to_string());
    match text {
        Ok(Ok(text)) => serde_json::from_str(&text).expect("JSON"),
        other => panic!("{url}: {other:?}"),
    }
}

fn complete(endpoint: &str) {
    let body = json!({"prompt": "To be, or not", "n_predict": 5, "ignore_eos": true});
    let answer = post(&format!("{endpoint}/completion"), &body);
    assert_eq!(answer["tokens_predicted"], 5, "{answer}");
}

fn llama_server() -> Option<String> {
    std::env::var("PLIMSOLL_LLAMA_SERVER").ok()
}

fn declaration(program: &str, model: &Path) -> Value {
    json!({
        "file": model, "context": 512, "concurrency": 2, "idle_limit": "1s",
        "runtime": {"llama_cpp": {"program": program}},
    })
}

#[test]
fn a_real_llama_server_serves_is_adopted_after_kill_9_is_measured_and_evicted() {
    let Some(program) = llama_server() else { return };
    let mut rig = Rig::start();
    rig.show_use(600 << 20);
    let model = rig.path("tiny.gguf");
    rig.declare("a", &declaration(&program, &model));
    rig.declare("b", &declaration(&program, &model));
    let (reservation, endpoint) = rig.serve("a");
    complete(&endpoint);
    let pids = rig.pids();
    assert_eq!(pids.len(), 1, "one slot is one process");
    rig.kill();
    complete(&endpoint);
    rig.resume();
    rig.until("/api/v1/scheduler/slots", |slots| (slots[0]["stage"] == "running").then_some(()));
    assert_eq!(rig.pids(), pids, "it is the same process");
    complete(&endpoint);
    let measured = rig.until_source("a", "measured");
    assert_eq!(measured["memory"][0]["per_gpu"][0], 600 << 20, "{measured}");
    rig.release(&reservation);
    // The GPU has room for one of the two.
    let (_, other) = rig.serve("b");
    complete(&other);
    let now = rig.pids();
    assert!(now.len() == 1 && now.is_disjoint(&pids), "{pids:?} was evicted for {now:?}");
}

#[test]
fn a_real_llama_server_that_found_no_gpu_is_a_failed_start() {
    let Some(program) = llama_server() else { return };
    let rig = Rig::start();
    rig.declare("a", &declaration(&program, &rig.path("tiny.gguf")));
    let (status, row) = rig.reserve("a", "0s");
    assert_eq!(status, 202, "{row}");
    let reservation = row["id"].as_str().expect("an id");
    rig.until(&format!("/api/v1/scheduler/slots/{reservation}"), |row| {
        row["reason"].as_str().filter(|reason| reason.contains("so it runs on the CPU")).map(drop)
    });
    let row = rig.server().get("/api/v1/models/a");
    assert_eq!(row["memory"][0]["measured"], Value::Null, "{row}");
}

#[test]
fn a_low_reading_of_a_real_llama_server_is_suspicious_and_the_estimate_is_charged() {
    let Some(program) = llama_server() else { return };
    let rig = Rig::start();
    rig.show_use(1 << 20);
    rig.declare("a", &declaration(&program, &rig.path("tiny.gguf")));
    let (_, endpoint) = rig.serve("a");
    complete(&endpoint);
    let row = rig.until("/api/v1/models/a", |row| {
        let remark = row["memory"][0]["remarks"][0].as_str()?;
        remark.contains("are not charged").then(|| row["memory"][0].clone())
    });
    assert_eq!(row["source"], "estimated", "{row}");
    assert_eq!(row["per_gpu"], row["estimated"]["per_gpu"], "{row}");
}

#[test]
fn a_model_to_be_measured_is_charged_by_evidence_after_a_real_llama_server_served() {
    let Some(program) = llama_server() else { return };
    let rig = Rig::start();
    rig.show_use(600 << 20);
    let mut declared = declaration(&program, &rig.path("tiny.gguf"));
    declared["memory"] = json!("measure");
    let row = rig.declare("a", &declared);
    assert_eq!(row["memory"][0]["source"], Value::Null, "{row}");
    let (reservation, endpoint) = rig.serve("a");
    complete(&endpoint);
    let slot = rig.server().get("/api/v1/scheduler/slots")[0].clone();
    assert_eq!(slot["gpu_allocation"]["gpus"][0]["bytes"], 900 << 20, "the whole GPU: {slot}");
    rig.release(&reservation);
    let row = rig.until_source("a", "measured");
    assert_eq!(row["memory"][0]["per_gpu"][0], 600 << 20, "the estimate agrees with it: {row}");
}

#[test]
fn a_real_llama_server_serves_with_an_adapter_and_a_draft_model() {
    let Some(program) = llama_server() else { return };
    let rig = Rig::start();
    rig.show_use(600 << 20);
    let (model, adapter) = (rig.path("tiny.gguf"), rig.path("adapter.gguf"));
    tiny_model::write_adapter(&adapter);
    tiny_model::write(&rig.path("draft.gguf"));
    let mut declared = declaration(&program, &model);
    declared["runtime"]["llama_cpp"]["lora"] = json!([adapter]);
    declared["runtime"]["llama_cpp"]["draft"] = json!(rig.path("draft.gguf"));
    rig.declare("a", &declared);
    let (_, endpoint) = rig.serve("a");
    complete(&endpoint);
    let row = rig.server().get("/api/v1/models/a");
    let remarks = row["memory"][0]["remarks"].to_string();
    for part in ["the LoRA adapter tiny adapter is included", "the draft model tiny is included"] {
        assert!(remarks.contains(part), "{row}");
    }
    let arguments = rig.pids().into_iter().map(|pid| {
        String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
            .replace('\0', " ")
    });
    let arguments: String = arguments.collect();
    assert!(
        arguments.contains("--lora") && arguments.contains("--spec-type"),
        "{arguments} {}",
        rig.log()
    );
    // The projector is a model, which the estimate notices before anything is started.
    declared["runtime"]["llama_cpp"]["mmproj"] = json!(model);
    declared["name"] = json!("b");
    rig.declare("b", &declared);
    let (status, answer) = rig.reserve("b", "30s");
    assert_eq!(status, 422, "{answer}\n{}", rig.log());
    let detail = answer["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("mmproj must be a projector"), "{detail}");
}

#[test]
fn a_file_that_a_real_llama_server_cannot_load_is_never_started() {
    let Some(program) = llama_server() else { return };
    let rig = Rig::start();
    rig.show_use(600 << 20);
    let whole = fs::read(rig.path("tiny.gguf")).expect("the model was written");
    let half = file(rig.dir.path(), "half.gguf", "");
    fs::write(&half, &whole[..whole.len() / 2]).expect("a file that is cut short");
    let page = file(rig.dir.path(), "page.gguf", "<html>not found</html>");
    for (name, path, problem) in
        [("half", &half, "the file is incomplete"), ("page", &page, "not a GGUF file")]
    {
        let refused =
            Command::new(&program).arg("--model").arg(path).args(["--port", "0"]).output();
        assert!(!refused.expect("it runs").status.success(), "llama-server rejects {name}, too");
        for memory in [Value::Null, json!("700MiB")] {
            let mut declared = declaration(&program, path);
            if memory != Value::Null {
                declared["memory"] = memory;
            }
            rig.declare(name, &declared);
            let (status, answer) = rig.reserve(name, "30s");
            assert_eq!(status, 422, "{answer}\n{}", rig.log());
            let detail = answer["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("no runner can load") && detail.contains(problem), "{detail}");
        }
    }
    assert!(rig.pids().is_empty() && !rig.log().contains("slot is ending"), "{}", rig.log());
    fs::write(&half, whole).expect("the file is repaired");
    let (_, endpoint) = rig.serve("half");
    complete(&endpoint);
}

/// Flags that the parser of llama-server knows and its help does not list.
const UNLISTED: &[&str] = &["--mtp", "--dflash", "--eagle3"];

#[test]
fn every_flag_of_llama_server_in_the_documentation_is_in_its_help() {
    let Some(program) = llama_server() else { return };
    let help = Command::new(&program).arg("--help").output().expect("it starts");
    let help = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).into_owned();
    let known: BTreeSet<&str> = help.split(|c: char| c.is_whitespace() || c == ',').collect();
    let page = include_str!("../../../../docs/runtimes.md");
    let flags = documented_flags(page);
    assert!(flags.len() > 30, "they are found in the page: {flags:?}");
    let missing: Vec<&str> = flags
        .into_iter()
        .filter(|flag| !known.contains(flag) && !UNLISTED.contains(flag))
        .collect();
    assert_eq!(missing, [""; 0], "not in the help of {program}");
}

/// Returns the flags of llama-server in a page: those of its column, its section and its rows.
fn documented_flags(page: &str) -> BTreeSet<&str> {
    let (mut section, mut runtime, mut flags) = ("", "", BTreeSet::new());
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        }
        let cells: Vec<&str> = line.split(" | ").collect();
        let text = match section {
            "llama-server" => line,
            "From declaration to flags" if cells.len() == 4 => cells[2],
            "Reserved arguments and variables" if cells.len() == 3 => {
                let name = cells[0].trim_start_matches("| ").trim();
                runtime = if name.is_empty() || name == "|" { runtime } else { name };
                if runtime == "llama-server" { cells[1] } else { continue }
            }
            _ => continue,
        };
        let words = text.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
        // A dash alone is a value, and an ellipsis is for several names.
        flags.extend(words.filter(|word| {
            word.starts_with('-') && word.len() > 1 && !word.contains('…') && !word.contains('*')
        }));
    }
    flags
}

#[test]
fn a_real_ollama_serves_and_is_adopted_after_kill_9() {
    let Ok(program) = std::env::var("PLIMSOLL_OLLAMA") else { return };
    let mut rig = Rig::start();
    rig.show_use(300 << 20);
    let home = rig.path("home").display().to_string();
    create_in_ollama(&program, &home, &rig.path("tiny.gguf"));
    rig.declare(
        "a",
        &json!({
            "memory": "800MiB", "context": 512, "concurrency": 1,
            "runtime": {"ollama": {"program": program, "model": "tiny", "env": {"HOME": home}}},
        }),
    );
    let (_, endpoint) = rig.serve("a");
    let ask =
        json!({"model": "tiny", "prompt": "To be", "stream": false, "options": {"num_predict": 4}});
    let generate = || {
        let answer = post(&format!("{endpoint}/api/generate"), &ask);
        assert_eq!((&answer["done"], &answer["eval_count"]), (&json!(true), &json!(4)), "{answer}");
    };
    generate();
    let pids = rig.pids();
    rig.kill();
    rig.resume();
    rig.until("/api/v1/scheduler/slots", |slots| (slots[0]["stage"] == "running").then_some(()));
    generate();
    assert_eq!(rig.pids(), pids, "they are the same processes");
}

/// Puts a model into the store of an Ollama that is started for this only.
fn create_in_ollama(program: &str, home: &str, model: &Path) {
    fs::create_dir_all(home).expect("a directory");
    let recipe = Path::new(home).join("Modelfile");
    fs::write(&recipe, format!("FROM {}\n", model.display())).expect("the recipe is written");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let ollama = |args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env("HOME", home).env("OLLAMA_HOST", &address).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut server = ollama(&["serve"]).spawn().expect("it starts");
    let recipe = recipe.display().to_string();
    let started = Instant::now();
    while !ollama(&["create", "tiny", "-f", &recipe]).status().is_ok_and(|exit| exit.success()) {
        assert!(started.elapsed() < PATIENCE, "the model is not created");
        std::thread::sleep(Duration::from_millis(200));
    }
    server.kill().expect("killed");
    server.wait().expect("exited");
}
