//! A server that says what it is told to say, and remembers what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::tool::{Run, command, finish};

/// An answer that was put up beforehand.
#[derive(Clone)]
struct Said {
    status: u16,
    headers: String,
    body: String,
}

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Method and path.
    pub(super) line: String,
    /// The header that carries the token.
    pub(super) authorization: Option<String>,
    /// The body.
    pub(super) body: String,
}

/// A server on a port of its own.
pub(super) struct Fake {
    pub(super) url: String,
    said: Arc<Mutex<BTreeMap<String, Said>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// One that says nothing but 404.
    pub(super) fn new() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let fake = Fake { url, said: Arc::default(), asked: Arc::default() };
        let (said, asked) = (fake.said.clone(), fake.asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (said, asked) = (said.clone(), asked.clone());
                std::thread::spawn(move || serve(&stream, &said, &asked));
            }
        });
        fake
    }

    /// A whole fleet, as a real server would show it.
    pub(super) fn fleet() -> Fake {
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
            ("scheduler/queue", "queue"),
            ("scheduler/decisions?limit=1", "decisions"),
            ("scheduler/decisions?limit=20", "decisions"),
            ("scheduler/decisions?model=deepseek-r1&limit=200", "decisions"),
            ("scheduler/decisions?model=qwen3-8b&limit=200", "empty"),
            ("scheduler/decisions/1234.0", "decision-refused"),
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

    /// From now on, this is answered so.
    pub(super) fn says(&self, method: &str, path: &str, status: u16, body: &str) {
        self.says_with(method, path, status, "", body);
    }

    /// The same with headers, each ended by a line break.
    pub(super) fn says_with(
        &self,
        method: &str,
        path: &str,
        status: u16,
        headers: &str,
        body: &str,
    ) {
        let said = Said { status, headers: headers.to_string(), body: body.to_string() };
        self.said.lock().expect("no panic").insert(format!("{method} /api/v1/{path}"), said);
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// Runs a command line against it.
    pub(super) fn run(&self, line: &str) -> Run {
        let mut command = command(line);
        command.env("PLIMSOLL_SERVER", &self.url);
        finish(command, "")
    }

    /// The same, with every time of day taken out: it is another one each time.
    pub(super) fn run_timeless(&self, line: &str) -> Run {
        let mut run = self.run(line);
        let lines = run.out.lines().map(|line| match line.split_once(" ago (") {
            Some((before, _)) => format!("{before} ago (…)\n"),
            None => format!("{line}\n"),
        });
        run.out = lines.collect();
        run
    }
}

/// A text that was stored. `AGO 90` in it becomes the time of 90 seconds ago.
pub(super) fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/clients/said")
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
        out.push_str(&format!("{}{rest}", at * 1000));
    }
    out
}

fn serve(stream: &TcpStream, said: &Mutex<BTreeMap<String, Said>>, asked: &Mutex<Vec<Asked>>) {
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
        let answer = said.lock().expect("no panic").get(&line).cloned();
        asked.lock().expect("no panic").push(Asked { line, authorization, body });
        let answer = answer.unwrap_or_else(|| Said {
            status: 404,
            headers: String::new(),
            body: r#"{"title":"Not found","status":404,"detail":"there is no such thing here","code":"not_found"}"#.to_string(),
        });
        let Said { status, headers, body } = answer;
        let text =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len());
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}
