//! The tutorial, run as it is written: its commands in order, in an empty directory with the files
//! of `examples/tutorial`.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::tool::root;

/// The address in the page. The test uses a free port instead.
const PORT: &str = "8080";

/// Marks lines that the page leaves out.
const OMITTED: &str = "[…]";

/// A command with the lines that the page shows of its output.
#[derive(Debug)]
struct Step {
    command: String,
    shown: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        match line {
            "```console" => is_console = true,
            "```" => is_console = false,
            _ if !is_console => {}
            _ => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_string(), shown: Vec::new() });
                }
                (None, Some(step)) => step.shown.push(line.to_string()),
                (None, None) => panic!("output without a command: {line}"),
            },
        }
    }
    steps
}

/// A directory with the files of the tutorial, and what runs in the background there.
struct Session {
    dir: tempfile::TempDir,
    port: u16,
    running: Vec<Child>,
}

impl Drop for Session {
    /// Ends the runner first, which stops its model servers, then the server.
    fn drop(&mut self) {
        for child in self.running.iter_mut().rev() {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

impl Session {
    fn new() -> Session {
        let dir = tempfile::tempdir().expect("a directory");
        for file in fs::read_dir(root().join("examples/tutorial")).expect("examples").flatten() {
            fs::copy(file.path(), dir.path().join(file.file_name())).expect("a copy");
        }
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        Session { dir, port, running: Vec::new() }
    }

    /// Returns a command of the page, as a shell would start it. Its program is that of this test,
    /// and the toy is on the path.
    fn command(&self, line: &str) -> Command {
        let line = line.replace(PORT, &self.port.to_string());
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("plimsoll"), "{line}");
        let program = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
        let examples = toy_model_server();
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", examples.display());
        let mut command = Command::new(program);
        command.args(words.take_while(|word| *word != "2>")).current_dir(self.dir.path());
        for name in ["PLIMSOLL_TOKEN", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.env("PATH", path).env("PLIMSOLL_SERVER", format!("http://127.0.0.1:{}", self.port));
        command.stdin(Stdio::null());
        command
    }

    fn start(&mut self, line: &str) {
        let mut command = self.command(line);
        if line.starts_with("plimsoll serve") {
            command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        }
        let log = self.dir.path().join(format!("{}.log", self.running.len()));
        command.stderr(fs::File::create(log).expect("a log"));
        self.running.push(command.spawn().expect("the program starts"));
    }

    fn print(&self, line: &str) -> Vec<String> {
        let output = self.command(line).output().expect("the program starts");
        let printed = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        let printed = String::from_utf8(printed).expect("text");
        printed.lines().map(String::from).collect()
    }

    /// Waits until the runner has registered, for which a reader of the page needs no patience.
    fn wait_for_the_runner(&self) {
        let started = Instant::now();
        while !self.print("plimsoll runners").iter().any(|line| line.contains("online")) {
            assert!(started.elapsed() < Duration::from_secs(60), "{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        format!("{}\n{}", read("0.log"), read("1.log"))
    }
}

/// Returns the directory of the toy model server. `cargo test --test cli` builds no examples, and
/// then it is built here, into a directory of its own.
fn toy_model_server() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let built = DIRECTORY.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
        fs::create_dir_all(&directory).expect("the target directory is writable");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/toy-model-server.rs");
        let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "-o"]).arg(directory.join("toy-model-server"));
        let built = command.arg(source).status();
        assert!(built.is_ok_and(|status| status.success()), "the example is built");
        directory
    });
    built.clone()
}

/// Returns a line without what differs between two runs: times, ports, and the width of columns.
fn comparable(line: &str) -> String {
    let words = line.split_whitespace().map(|word| match word.split_once("127.0.0.1:") {
        Some((before, _)) => format!("{before}127.0.0.1:PORT"),
        None if is_time(word) => "TIME".to_string(),
        None => word.to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns whether a word is a length of time such as `0s`, `9m59s` or `250ms`.
fn is_time(word: &str) -> bool {
    let mut parts = word.split_inclusive(['s', 'm', 'h']).peekable();
    let is_part = |part: &str| {
        let digits = part.trim_end_matches(['m', 's', 'h']);
        digits.len() < part.len() && digits.chars().all(|c| c.is_ascii_digit())
    };
    word.starts_with(|c: char| c.is_ascii_digit()) && parts.peek().is_some() && parts.all(is_part)
}

/// Returns the first shown part that is not in the output, in this order.
fn first_difference(shown: &[String], printed: &[String]) -> Option<Vec<String>> {
    let printed: Vec<String> = printed.iter().map(|line| comparable(line)).collect();
    let mut rest = &printed[..];
    for (index, part) in shown.split(|line| line == OMITTED).enumerate() {
        let part: Vec<String> = part.iter().map(|line| comparable(line)).collect();
        let mut starts = if index == 0 { 0..=0 } else { 0..=rest.len() };
        let found = starts.find(|start| rest[*start..].starts_with(&part));
        let Some(start) = found else { return Some(part) };
        rest = &rest[start + part.len()..];
    }
    let is_cut = shown.is_empty() || shown.last().is_some_and(|line| line == OMITTED);
    (!is_cut && !rest.is_empty()).then(|| rest.to_vec())
}

#[test]
fn the_tutorial_works_as_it_is_written() {
    let page = fs::read_to_string(root().join("docs/tutorial.md")).expect("the tutorial");
    let mut session = Session::new();
    let mut compared = 0;
    for Step { command, shown } in steps(&page) {
        if command.ends_with('&') {
            session.start(&command);
            continue;
        }
        session.wait_for_the_runner();
        let printed = session.print(&command);
        if let Some(missing) = first_difference(&shown, &printed) {
            panic!(
                "$ {command}\nmissing:\n{}\nprinted:\n{}\nlogs:\n{}",
                missing.join("\n"),
                printed.join("\n"),
                session.logs()
            );
        }
        compared += 1;
    }
    assert!(compared > 7, "{compared} commands");
}

#[test]
fn times_and_ports_do_not_count_as_differences_and_words_do() {
    assert_eq!(comparable("desk  online   9m59s  1"), "desk online TIME 1");
    assert_eq!(comparable(" address http://127.0.0.1:20000"), "address http://127.0.0.1:PORT");
    for word in ["1", "s", "16.0", "slot-1", "2m3", "5x"] {
        assert_eq!(comparable(word), word);
    }
    let lines = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
    let differs =
        |shown: &str, printed: &str| first_difference(&lines(shown), &lines(printed)).is_some();
    assert!(!differs("a 1s\n[…]\nc", "a 2s\nb\nc"));
    assert!(differs("a\nb", "a\nb\nc") && differs("a\n[…]\nb", "a\nc") && differs("b", "a\nb"));
}
