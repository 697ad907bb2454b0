//! A server with prepared answers that records its requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::tool::{Run, command, finish};

/// A prepared answer.
#[derive(Clone)]
struct Prepared {
    status: u16,
    headers: String,
    body: String,
}

/// A request that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    /// The `Authorization` header.
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

/// A server on a port of its own.
pub(crate) struct Fake {
    pub(crate) url: String,
    prepared: Arc<Mutex<BTreeMap<String, Prepared>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// Starts a server that answers everything with 404.
    pub(crate) fn new() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let fake = Fake { url, prepared: Arc::default(), asked: Arc::default() };
        let (prepared, asked) = (fake.prepared.clone(), fake.asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (prepared, asked) = (prepared.clone(), asked.clone());
                std::thread::spawn(move || serve(&stream, &prepared, &asked));
            }
        });
        fake
    }

    /// Starts a server with the rows of a whole fleet.
    pub(crate) fn fleet() -> Fake {
        let fake = Fake::new();
        for (path, file) in [
            ("runners", "runners"),
            ("runners/gpu-a/status", "gpu-a"),
            ("runners/gpu-b/status", "gpu-b"),
            ("scheduler/slots", "slots"),
            ("scheduler/slots/slot-1", "slot-1"),
            ("scheduler/slots/slot-4", "slot-4"),
            ("scheduler/slots/reservation-12", "reservation-pending"),
            ("scheduler/slots/reservation-13", "reservation-starting"),
            ("scheduler/reservations?status=open", "reservations"),
            ("scheduler/reservations?namespace=team-a&status=ended", "reservations-expired"),
            ("scheduler/queue", "queue"),
            ("scheduler/accounts", "accounts"),
            ("scheduler/decisions?limit=1", "decisions"),
            ("scheduler/decisions?limit=20", "decisions"),
            ("scheduler/decisions?limit=400", "decisions"),
            ("models/qwen3-8b", "model"),
            ("runners/gpu-a", "gpu-a"),
            ("scheduler/decisions?model=deepseek-r1&limit=200", "decisions"),
            ("scheduler/decisions?model=qwen3-8b&limit=200", "empty"),
            ("scheduler/decisions/1234.0", "decision-rejected"),
            ("scheduler/decisions/1201.0", "decision-placed"),
            ("scheduler/decisions/7.0", "decision-old"),
            ("namespaces/team-a/pods/trainer-0/schedulerlog", "schedulerlog"),
            ("namespaces/team-a/pods/trainer-1/schedulerlog", "schedulerlog-old"),
        ] {
            fake.says("GET", path, 200, &read(file));
        }
        fake.says("POST", "scheduler/whatif", 200, &read("whatif"));
        fake
    }

    /// Prepares an answer.
    pub(crate) fn says(&self, method: &str, path: &str, status: u16, body: &str) {
        self.says_with(method, path, status, "", body);
    }

    /// Prepares an answer with headers, each ended by a line break.
    pub(crate) fn says_with(
        &self,
        method: &str,
        path: &str,
        status: u16,
        headers: &str,
        body: &str,
    ) {
        let answer = Prepared { status, headers: headers.to_string(), body: body.to_string() };
        let line = format!("{method} /api/v1/{path}");
        self.prepared.lock().expect("no panic").insert(line, answer);
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// Runs a command line against it.
    pub(crate) fn run(&self, line: &str) -> Run {
        let mut command = command(line);
        command.env("PLIMSOLL_SERVER", &self.url);
        finish(command, "")
    }

    /// Runs a command line, and removes the time of day from its output.
    pub(crate) fn run_timeless(&self, line: &str) -> Run {
        let mut run = self.run(line);
        let lines = run.out.lines().map(|line| match line.split_once(" ago (") {
            Some((before, _)) => format!("{before} ago (…)\n"),
            None => format!("{line}\n"),
        });
        run.out = lines.collect();
        run
    }
}

/// Reads stored rows. `AGO 90` in them becomes the time 90 seconds ago.
pub(crate) fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/clients/rows")
        .join(format!("{file}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let mut parts = text.split("\"AGO ");
    let mut out = parts.next().expect("one part").to_string();
    for part in parts {
        let (seconds, rest) = part.split_once('"').expect("it is closed");
        let seconds: i64 = seconds.parse().expect("a number");
        let at = i64::try_from(now).expect("not yet") - seconds;
        let at = jiff::Timestamp::from_second(at).expect("a time");
        out.push_str(&format!("\"{at}\"{rest}"));
    }
    out
}

fn serve(
    stream: &TcpStream,
    prepared: &Mutex<BTreeMap<String, Prepared>>,
    asked: &Mutex<Vec<Asked>>,
) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let line = first.trim_end().trim_end_matches(" HTTP/1.1").to_string();
        let (mut authorization, mut length) = (None, 0);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).expect("a header");
            let Some((name, value)) = header.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => authorization = Some(value.to_string()),
                "content-length" => length = value.parse().expect("a length"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let body = String::from_utf8(body).expect("UTF-8");
        let answer = prepared.lock().expect("no panic").get(&line).cloned();
        asked.lock().expect("no panic").push(Asked { line, authorization, body });
        let answer = answer.unwrap_or_else(|| Prepared {
            status: 404,
            headers: String::new(),
            body:
                r#"{"title":"Not found","status":404,"detail":"no such path","code":"not_found"}"#
                    .to_string(),
        });
        let Prepared { status, headers, body } = answer;
        let text =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len());
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Returns stored rows with some fields replaced, as JSON.
pub(crate) fn changed(file: &str, fields: &[(&str, serde_json::Value)]) -> serde_json::Value {
    let mut row: serde_json::Value = serde_json::from_str(&read(file)).expect("JSON");
    for (name, value) in fields {
        row[*name] = value.clone();
    }
    row
}
