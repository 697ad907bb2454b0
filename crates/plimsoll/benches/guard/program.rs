//! The guard as a process, and the histogram that it keeps of its own time.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll_testbed::api::Api;
use plimsoll_testbed::client::Client;
use plimsoll_testbed::simulated::SimulatedApiServer;
use serde_json::{Value, json};

use crate::reviews::Reviews;

const READY: Duration = Duration::from_secs(120);

const WEBHOOKS: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll-guard";

pub(crate) struct Program {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

/// The reviews that were answered within each bound, in seconds.
pub(crate) struct Buckets(Vec<(f64, u64)>);

impl Program {
    pub(crate) fn start(server: &SimulatedApiServer) -> Program {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let config = folder.path().join("config");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server.url()}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        fs::write(&config, text.to_string()).expect("a file");
        let (address, webhooks) = (free_address(), free_address());
        let program = std::env::var("PLIMSOLL_GUARD_PROGRAM");
        let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_plimsoll").to_owned());
        let mut command = Command::new(program);
        command.args([
            "-q",
            "kube",
            "--guard",
            "--listen",
            &address,
            "--webhook-listen",
            &webhooks,
        ]);
        command.args(["--webhook-url", &format!("https://{webhooks}"), "--kubeconfig"]);
        command.arg(&config).stdout(Stdio::null());
        let child = command.spawn().expect("the program was built");
        let program = Program { child, address, _folder: folder };
        let start = Instant::now();
        while program.metric("plimsoll_guard_registered ") != Some(1.0) {
            assert!(start.elapsed() < READY, "it does not decide after {READY:?}");
            thread::sleep(Duration::from_millis(50));
        }
        program
    }

    /// Returns a client of the webhooks as they are registered.
    pub(crate) fn reviews(&self, server: &SimulatedApiServer) -> Reviews {
        let registered = Client::plain(&server.url()).get(WEBHOOKS).expect("it is registered");
        let webhooks = registered["webhooks"].as_array().cloned().unwrap_or_default();
        let is_meant = |one: &&Value| one["name"] == "bindings.guard.plimsoll.dev";
        let client = &webhooks.iter().find(is_meant).expect("a webhook")["clientConfig"];
        let authority = STANDARD.decode(client["caBundle"].as_str().unwrap_or_default());
        let authority = String::from_utf8(authority.expect("base64")).expect("PEM");
        Reviews::new(client["url"].as_str().expect("a URL"), &authority)
    }

    fn metrics(&self) -> Option<String> {
        let mut answer = ureq::get(format!("http://{}/metrics", self.address)).call().ok()?;
        answer.body_mut().read_to_string().ok()
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.metrics()?;
        metrics.lines().find_map(|line| line.strip_prefix(name))?.parse().ok()
    }

    /// Returns the time inside the process of the reviews so far.
    pub(crate) fn histogram(&self) -> Buckets {
        let metrics = self.metrics().expect("metrics");
        let bound = |line: &str| {
            let rest = line.strip_prefix("plimsoll_guard_review_seconds_bucket{le=\"")?;
            let (bound, count) = rest.split_once("\"} ")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, count.parse().ok()?))
        };
        Buckets(metrics.lines().filter_map(bound).collect())
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

impl Buckets {
    /// Returns what was added since an earlier look.
    pub(crate) fn since(&self, earlier: &Buckets) -> Buckets {
        let pairs = self.0.iter().zip(&earlier.0);
        Buckets(pairs.map(|((bound, now), (_, before))| (*bound, now - before)).collect())
    }

    /// Prints the bounds within which half and 99 of 100 reviews were answered.
    pub(crate) fn print(&self) {
        let all = self.0.last().map_or(0, |(_, count)| *count);
        let within = |share: f64| {
            let found = self.0.iter().find(|(_, count)| *count as f64 >= share * all as f64);
            found.map_or(f64::NAN, |(bound, _)| bound * 1000.0)
        };
        let limit = self.0.iter().find(|(bound, _)| *bound >= 0.002).map_or(0, |(_, count)| *count);
        println!(
            "inside Plimsoll     {:>8.2} ms holds half, {:.2} ms holds 99 of 100; {:.2} % within 2 ms",
            within(0.5),
            within(0.99),
            100.0 * limit as f64 / (all as f64).max(1.0)
        );
    }
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}
