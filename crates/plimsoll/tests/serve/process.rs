//! A server to talk to.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Agent;

/// The time that anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs, and is killed when it is dropped.
pub(crate) struct Serve {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    agent: Agent,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// The end of a server that did not start.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) log: String,
}

impl Ended {
    /// Fails unless it exited with 2 and all of these texts, and without a word about internals.
    pub(crate) fn with_error(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(2), "{}", self.log);
        assert!(self.log.contains("error: ") && !self.log.contains("panicked"), "{}", self.log);
        for part in parts {
            assert!(self.log.contains(part), "`{part}` is not in:\n{}", self.log);
        }
    }
}

/// The command, with nothing of the tester's own in its environment.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("serve").args(args);
    clean(&mut command);
    command
}

fn clean(command: &mut Command) {
    for name in ["RUST_LOG", "PLIMSOLL_TOKEN", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
}

/// Runs it to its end, which must come by itself.
pub(crate) fn ends(args: &[&str]) -> Ended {
    Serve::spawn(command(args)).end()
}

impl Serve {
    /// Starts it on any free port, with its data in a directory, and waits until it is ready.
    pub(crate) fn start(dir: &Path, args: &[&str]) -> Serve {
        let data = data(dir);
        let mut all = vec!["--listen", "127.0.0.1:0", "--data", &data];
        all.extend(args);
        Serve::spawn(command(&all)).ready()
    }

    /// The same under a limit to the size of files, in units of 1024 bytes.
    pub(crate) fn start_limited(dir: &Path, limit: u32) -> Serve {
        let mut command = Command::new("bash");
        let script = format!(
            "trap '' XFSZ; ulimit -f {limit}; exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\""
        );
        command.args(["-c", &script, env!("CARGO_BIN_EXE_plimsoll"), &data(dir)]);
        clean(&mut command);
        Serve::spawn(command).ready()
    }

    pub(crate) fn spawn(mut command: Command) -> Serve {
        let mut child = command.spawn().expect("the binary was built for this test");
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, kept) =
            (BufReader::new(child.stderr.take().expect("it is piped")), log.clone());
        let reader = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut log = kept.lock().expect("no thread panicked");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let agent = agent(None);
        Serve { child, url: String::new(), token: None, agent, log, reader: Some(reader) }
    }

    /// Waits until it says where it listens, and that it is ready.
    pub(crate) fn ready(mut self) -> Serve {
        self.says("ready");
        let log = self.log();
        // A field of the log, as text or as JSON.
        let rest = ["listening url=", "\"url\":\""].iter().find_map(|start| log.split_once(start));
        let (_, rest) = rest.expect("the log has the address");
        self.url = rest.split(['"', ' ', '\n']).next().expect("an address").to_string();
        self
    }

    /// The same, asked with this token.
    pub(crate) fn with_token(mut self, token: &str) -> Serve {
        self.token = Some(token.to_string());
        self
    }

    /// The same, with a certificate to trust.
    pub(crate) fn trusting(mut self, pem: &str) -> Serve {
        self.agent = agent(Some(pem));
        self.url = self.url.replace("127.0.0.1", "localhost");
        self
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no thread panicked").clone()
    }

    /// Waits until the log says this.
    pub(crate) fn says(&mut self, text: &str) {
        let started = Instant::now();
        while !self.log().contains(text) {
            let ended = self.child.try_wait().expect("it can be asked");
            assert!(
                ended.is_none(),
                "it ended with {ended:?} before it said {text:?}:\n{}",
                self.log()
            );
            assert!(started.elapsed() < PATIENCE, "it never said {text:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|sent| sent.success()), "the signal is sent");
    }

    /// Waits until it ends.
    pub(crate) fn end(mut self) -> Ended {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        };
        self.reader.take().expect("once").join().expect("reading does not panic");
        Ended { code: status.code(), log: self.log() }
    }

    /// Asks for something; the status, and the body where it is JSON.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.try_ask(method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.log()))
    }

    pub(crate) fn try_ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), ureq::Error> {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let text = body.map_or(String::new(), Value::to_string);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let mut response = self.agent.run(request.body(text).expect("a request"))?;
        let status = response.status().as_u16();
        let mut text = String::new();
        response.body_mut().as_reader().read_to_string(&mut text)?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// Asks for something that must succeed.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, None);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Declares a model of this many GiB.
    pub(crate) fn declare(&self, name: &str, gib: u64) -> Result<u16, ureq::Error> {
        let model = json!({"name": name, "memory": format!("{gib}GiB"), "runtime": {"command": {"argv": ["serve"]}}});
        self.try_ask("PUT", &format!("/api/v1/models/{name}"), Some(&model))
            .map(|(status, _)| status)
    }

    /// Registers a runner with GPUs of 80 GiB, on which nothing runs.
    pub(crate) fn register(&self, name: &str, gpus: usize) -> Value {
        let device =
            |index: usize| json!({"uuid": format!("GPU-{name}-{index}"), "total": 80_u64 << 30});
        let devices: Vec<Value> = (0..gpus).map(device).collect();
        let registration = json!({"session": 1, "devices": devices});
        let (status, welcome) =
            self.ask("PUT", &format!("/api/v1/runners/{name}"), Some(&registration));
        assert_eq!(status, 200, "{welcome}");
        let beat = json!({"session": 1, "sequence": 1});
        let (status, orders) =
            self.ask("POST", &format!("/api/v1/runners/{name}/heartbeat"), Some(&beat));
        assert_eq!(status, 200, "{orders}");
        welcome
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent(pem: Option<&str>) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .proxy(None)
        .timeout_global(Some(PATIENCE));
    if let Some(pem) = pem {
        let root = ureq::tls::Certificate::from_pem(pem.as_bytes()).expect("a certificate");
        let roots = ureq::tls::RootCerts::new_with_certs(&[root]);
        config = config.tls_config(ureq::tls::TlsConfig::builder().root_certs(roots).build());
    }
    config.build().new_agent()
}

/// The data directory of a test.
pub(crate) fn data(dir: &Path) -> String {
    dir.join("data").display().to_string()
}

/// Writes a file into the directory of a test, for its owner alone.
pub(crate) fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(name);
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    path
}

/// A directory for one test.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}
