//! The program as a process.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest wait until it is ready.
const READY: Duration = Duration::from_secs(600);

pub(crate) struct Program {
    child: Child,
    pub(crate) address: String,
    /// The time until it was ready.
    pub(crate) ready: Duration,
    _folder: tempfile::TempDir,
}

impl Program {
    pub(crate) fn start(server: &str) -> Program {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let config = folder.path().join("config");
        let text = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        fs::write(&config, text.to_string()).expect("a file");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        drop(listener);
        let program = std::env::var("PLIMSOLL_CLUSTER_PROGRAM");
        let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_plimsoll").to_owned());
        let start = Instant::now();
        let mut command = Command::new(program);
        command.args(["-q", "kube", "--listen", &address, "--kubeconfig"]).arg(&config);
        let child = command.stdout(Stdio::null()).spawn().expect("the program was built");
        let mut program = Program { child, address, ready: Duration::ZERO, _folder: folder };
        while program.get("/readyz").is_none() {
            assert!(start.elapsed() < READY, "it is not ready after {READY:?}");
            thread::sleep(Duration::from_millis(10));
        }
        program.ready = start.elapsed();
        program
    }

    fn get(&self, path: &str) -> Option<String> {
        let url = format!("http://{}{path}", self.address);
        let mut answer = ureq::get(url).call().ok()?;
        answer.body_mut().with_config().limit(1 << 30).read_to_string().ok()
    }

    pub(crate) fn pending_without_opinion(&self) -> usize {
        let queue = self.get("/api/v1/scheduler/queue").expect("an answer");
        let rows: Vec<Value> = serde_json::from_str(&queue).expect("JSON");
        rows.iter().filter(|row| row["fits"].is_null()).count()
    }

    /// Returns the most memory that the process had so far.
    pub(crate) fn peak_mebibytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or_default() / 1024
    }

    pub(crate) fn processor_seconds(&self) -> f64 {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|one| one.parse::<f64>().ok()).sum();
        // The kernel reports in hundredths of a second, whatever its own clock.
        ticks / 100.0
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
