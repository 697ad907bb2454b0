//! `plimsoll kube` as a process, for tests.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// `plimsoll kube` as a process, which ends with the test.
pub(crate) struct Watching {
    child: Child,
    pub(crate) url: String,
}

impl Watching {
    pub(crate) fn start(kubeconfig: &str) -> Watching {
        Watching::start_with(kubeconfig, &[])
    }

    /// Starts with more options, and returns once it is ready.
    pub(crate) fn start_with(kubeconfig: &str, options: &[&str]) -> Watching {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        drop(listener);
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["kube", "--kubeconfig", kubeconfig, "--listen", &address]);
        command.args(options);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("the binary was built for this test");
        let mut watching = Watching { child, url: format!("http://{address}") };
        watching.until(Duration::from_secs(60), |watching| watching.text("/readyz").is_some());
        watching
    }

    /// The body of a successful answer.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        ureq::get(format!("{}{path}", self.url)).call().ok()?.body_mut().read_to_string().ok()
    }

    /// The status and the body of an answer to a caller with this token.
    pub(crate) fn ask(&self, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
        let mut request = ureq::http::Request::builder().method(method);
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let request = request.uri(format!("{}{path}", self.url)).body(()).expect("a request");
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut answer = agent.run(request).unwrap_or_else(|error| panic!("{path}: {error}"));
        let status = answer.status().as_u16();
        (status, answer.body_mut().read_to_string().unwrap_or_default())
    }

    /// The status and the body of an answer to a JSON body.
    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, String) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let request = agent.post(format!("{}{path}", self.url));
        let request = request.header("Content-Type", "application/json");
        let mut answer =
            request.send(body.to_string()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let status = answer.status().as_u16();
        (status, answer.body_mut().read_to_string().unwrap_or_default())
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let text = self.text(path).unwrap_or_else(|| panic!("no answer from {path}"));
        serde_json::from_str(&text).expect("answers are JSON")
    }

    pub(crate) fn until(&mut self, limit: Duration, is_so: impl Fn(&Watching) -> bool) -> Duration {
        let start = Instant::now();
        while !is_so(self) {
            if start.elapsed() > limit {
                let _ = self.child.kill();
                let mut log = String::new();
                let _ = self.child.stderr.take().map(|mut err| err.read_to_string(&mut log));
                panic!("not so after {limit:?}:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        start.elapsed()
    }

    /// The holders of the only device, each with its stage.
    pub(crate) fn holders(&self) -> Vec<(String, String)> {
        let rows = self.json("/api/v1/devices");
        let tenants = rows[0]["tenants"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        tenants.iter().map(|row| (text(&row["pod"]), text(&row["stage"]))).collect()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
