//! A process that behaves like a model server, and a probe that measures its fake memory.
//!
//! ```text
//! fake-model-server --port PORT [--host HOST] [--ready-after MS] [--say TEXT]...
//!     [--crash-after MS] [--code N]
//!     [--meter DIR] [--use INDEX=BYTES]... [--grow INDEX=BYTES] [--grow-after MS]
//!     [--ignore-term] [--fork] [--fork-away] [--dump-env FILE]
//! fake-model-server probe --meter DIR --devices N [--lag MS] [--hidden] [--sums-only]
//! ```
//!
//! The server writes its fake memory into `DIR/PID.json`, and the probe adds these files up. The
//! memory of a dead process stays for the lag, and while `DIR/hold` exists: listed, or with
//! `--hidden` only in the sum. Lines `INDEX PID BYTES` in `DIR/foreign` are other processes. While
//! `DIR/fail` exists the probe fails; while `DIR/hang` exists it hangs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("probe") => probe(&Options::read(&args[1..])),
        Some("linger") => linger(&Options::read(&args[1..])),
        _ => serve(&args),
    }
}

/// Command line: flags, and options with their values.
struct Options {
    values: BTreeMap<String, Vec<String>>,
}

impl Options {
    fn read(args: &[String]) -> Options {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut args = args.iter().peekable();
        while let Some(name) = args.next() {
            let given = values.entry(name.trim_start_matches("--").to_owned()).or_default();
            given.extend(args.next_if(|value| !value.starts_with("--")).cloned());
        }
        Options { values }
    }

    fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    fn one(&self, name: &str) -> Option<&str> {
        self.all(name).last().map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.one(name)
            .map(|text| text.parse().unwrap_or_else(|_| panic!("--{name} {text} is not a number")))
    }

    fn milliseconds(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_millis)
    }

    fn sizes(&self, name: &str) -> BTreeMap<u16, u64> {
        let size = |text: &String| {
            let (index, bytes) = text.split_once('=')?;
            Some((index.parse().ok()?, bytes.parse().ok()?))
        };
        self.all(name)
            .iter()
            .map(|text| size(text).unwrap_or_else(|| panic!("--{name} {text}")))
            .collect()
    }
}

fn serve(args: &[String]) -> io::Result<()> {
    let options = Options::read(args);
    if options.has("ignore-term") {
        return ignoring_term(args);
    }
    if let Some(file) = options.one("dump-env") {
        let lines: Vec<String> =
            env::vars().map(|(name, value)| format!("{name}={value}")).collect();
        replace(Path::new(file), &lines.join("\n"))?;
    }
    options.all("say").iter().for_each(|line| println!("{line}"));
    write_use(&options, &options.sizes("use"))?;
    if options.has("fork") || options.has("fork-away") {
        fork(&options)?;
    }
    let began = Instant::now();
    if let Some(port) = options.number("port") {
        let host = options.one("host").unwrap_or("127.0.0.1");
        let listener = TcpListener::bind(format!("{host}:{port}"))?;
        let ready_at = began + options.milliseconds("ready-after").unwrap_or_default();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || answer(stream, ready_at));
            }
        });
    }
    live(&options, began)
}

/// Crashes after the given time, or runs until it is killed.
fn live(options: &Options, began: Instant) -> io::Result<()> {
    let crash_after = options.milliseconds("crash-after");
    let mut grow_after = options.milliseconds("grow-after");
    loop {
        if grow_after.is_some_and(|after| began.elapsed() >= after) {
            write_use(options, &options.sizes("grow"))?;
            grow_after = None;
        }
        if crash_after.is_some_and(|after| began.elapsed() >= after) {
            eprintln!("something went wrong");
            exit(i32::try_from(options.number("code").unwrap_or(1)).unwrap_or(1));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Executes itself with SIGTERM ignored: an ignored signal stays ignored after exec.
fn ignoring_term(args: &[String]) -> io::Result<()> {
    let rest = args.iter().filter(|arg| *arg != "--ignore-term");
    let error = Command::new("sh")
        .args(["-c", "trap '' TERM; exec \"$0\" \"$@\""])
        .arg(env::current_exe()?)
        .args(rest)
        .exec();
    Err(error)
}

/// Starts a process that survives this one, in the same group or in its own.
fn fork(options: &Options) -> io::Result<()> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("linger");
    if let Some(folder) = options.one("meter") {
        command.args(["--meter", folder]);
    }
    for size in options.all("use") {
        command.args(["--use", size]);
    }
    if options.has("fork-away") {
        command.process_group(0);
    }
    command.spawn().map(drop)
}

fn linger(options: &Options) -> io::Result<()> {
    write_use(options, &options.sizes("use"))?;
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

fn write_use(options: &Options, sizes: &BTreeMap<u16, u64>) -> io::Result<()> {
    let Some(folder) = options.one("meter").filter(|_| !sizes.is_empty()) else { return Ok(()) };
    let fields: Vec<String> =
        sizes.iter().map(|(index, bytes)| format!("\"{index}\":{bytes}")).collect();
    let file = Path::new(folder).join(format!("{}.json", std::process::id()));
    replace(&file, &format!("{{{}}}", fields.join(",")))
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let beside = file.with_extension("new");
    fs::write(&beside, text)?;
    fs::rename(beside, file)
}

fn answer(mut stream: TcpStream, ready_at: Instant) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let is_health = head.starts_with(b"GET /health ");
    let (status, body) = match (Instant::now() >= ready_at, is_health) {
        (false, _) => ("503 Service Unavailable", r#"{"error":"loading"}"#.to_owned()),
        (true, true) => ("200 OK", r#"{"status":"ok"}"#.to_owned()),
        (true, false) => ("200 OK", format!(r#"{{"answered_by":{}}}"#, std::process::id())),
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

/// A process whose memory the probe shows.
struct Process {
    pid: u32,
    sizes: BTreeMap<u16, u64>,
    is_dead: bool,
}

/// Memory of listed processes on one device, and memory without a listed process.
#[derive(Default)]
struct Device {
    listed: Vec<(u32, u64)>,
    hidden: u64,
}

fn probe(options: &Options) -> io::Result<()> {
    let folder = PathBuf::from(options.one("meter").expect("--meter DIR"));
    if folder.join("fail").exists() {
        exit(1);
    }
    while folder.join("hang").exists() {
        thread::sleep(Duration::from_millis(50));
    }
    let count = u16::try_from(options.number("devices").unwrap_or(1)).expect("few devices");
    let mut devices: BTreeMap<u16, Device> =
        (0..count).map(|index| (index, Device::default())).collect();
    for process in processes(&folder, options)? {
        for (index, bytes) in process.sizes {
            let device = devices.entry(index).or_default();
            if process.is_dead && options.has("hidden") {
                device.hidden += bytes;
            } else {
                device.listed.push((process.pid, bytes));
            }
        }
    }
    for line in fs::read_to_string(folder.join("foreign")).unwrap_or_default().lines() {
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        if let [index, pid, bytes] = numbers[..] {
            let index = u16::try_from(index).expect("an index");
            devices
                .entry(index)
                .or_default()
                .listed
                .push((u32::try_from(pid).expect("a pid"), bytes));
        }
    }
    let texts: Vec<String> =
        devices.iter().map(|(index, device)| text(*index, device, options)).collect();
    println!("{{\"devices\":[{}]}}", texts.join(","));
    Ok(())
}

fn text(index: u16, device: &Device, options: &Options) -> String {
    let used: u64 = device.listed.iter().map(|(_, bytes)| bytes).sum::<u64>() + device.hidden;
    let listed: Vec<String> = device
        .listed
        .iter()
        .map(|(pid, bytes)| format!("{{\"pid\":{pid},\"bytes\":{bytes}}}"))
        .collect();
    let processes = if options.has("sums-only") {
        String::new()
    } else {
        format!(",\"processes\":[{}]", listed.join(","))
    };
    format!("{{\"index\":{index},\"used\":{used},\"utilisation\":0{processes}}}")
}

/// Returns running processes, and dead ones within the lag.
fn processes(folder: &Path, options: &Options) -> io::Result<Vec<Process>> {
    let lag = options.milliseconds("lag").unwrap_or_default();
    let is_held = folder.join("hold").exists();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(pid) = name.strip_suffix(".json").and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        let is_dead = !is_alive(pid);
        let marker = file.with_extension("dead");
        if is_dead && !marker.exists() {
            fs::write(&marker, "")?;
        }
        if is_dead
            && !is_held
            && fs::metadata(&marker)?.modified()?.elapsed().unwrap_or_default() >= lag
        {
            fs::remove_file(&file)?;
            fs::remove_file(&marker)?;
            continue;
        }
        found.push(Process { pid, sizes: sizes(&fs::read_to_string(&file)?), is_dead });
    }
    Ok(found)
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Parses `{"0":5,"1":7}`.
fn sizes(text: &str) -> BTreeMap<u16, u64> {
    let fields = text.trim_matches(['{', '}']).split(',');
    let pairs = fields.filter_map(|field| field.split_once(':'));
    pairs
        .filter_map(|(index, bytes)| {
            Some((index.trim_matches('"').parse().ok()?, bytes.parse().ok()?))
        })
        .collect()
}
