//! `plimsoll top` on pseudo terminals: keys as a person types them, screens compared with stored
//! ones (`UPDATE_GOLDEN=1` rewrites them), and its end with the terminal.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::clients::fake::Fake;
use crate::screen::Screen;
use crate::terminal::Terminal;
use crate::tool::root;

/// The time that a screen may take to appear, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// The live view on a terminal of its own.
struct Session {
    child: Child,
    person: fs::File,
    output: Arc<Mutex<Vec<u8>>>,
    size: (u16, u16),
    url: String,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session {
    /// Starts it as a shell in a terminal window would: the terminal is its controlling one.
    fn start(fake: &Fake, size: (u16, u16)) -> Session {
        let terminal = Terminal::new(size.0, size.1);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["top", "--every", "10s"]).current_dir(root());
        for name in ["PLIMSOLL_TOKEN", "COLUMNS", "LINES", "http_proxy"] {
            command.env_remove(name);
        }
        terminal.attach(&mut command);
        command.env("PLIMSOLL_SERVER", &fake.url).env("NO_COLOR", "1");
        let child = command.spawn().expect("setsid of util-linux");
        drop(command);
        let person = terminal.into_person();
        let output: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (mut reader, written) = (person.try_clone().expect("a handle"), output.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                written.lock().expect("no panic").extend_from_slice(&buffer[..count]);
            }
        });
        Session { child, person, output, size, url: fake.url.clone() }
    }

    fn screen(&self) -> Screen {
        Screen::after(&self.output.lock().expect("no panic"), self.size)
    }

    fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until the screen has a text, and returns it without what differs from run to run.
    fn wait_for(&self, part: &str) -> String {
        let started = Instant::now();
        loop {
            let text = self.screen().text();
            if text.contains(part) {
                return self.comparable(&text);
            }
            assert!(started.elapsed() < PATIENCE, "{part} is not on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns a screen with a fixed address, and with `T` for ages, whose length varies.
    fn comparable(&self, text: &str) -> String {
        let text = text.replace(&self.url, "http://127.0.0.1:PORT");
        let lines = text.lines().map(|line| {
            let mut shown = String::new();
            let mut rest = line;
            while let Some(word) = rest.split(' ').next().filter(|_| !rest.is_empty()) {
                let after = &rest[word.len()..];
                let bare = word.trim_end_matches([',', ')', ';']);
                if is_age(bare) {
                    shown.push('T');
                    shown.push_str(&word[bare.len()..]);
                    // What follows in a column moves with the length of the age.
                    rest = after.trim_start();
                    shown.push_str(if rest.is_empty() { "" } else { " " });
                } else {
                    shown.push_str(word);
                    shown.push_str(if after.is_empty() { "" } else { " " });
                    rest = after.get(1..).unwrap_or_default();
                }
            }
            let clock = shown.find(" ago (").or(shown.find(", T ago ("));
            let shown = clock.map_or(shown.clone(), |at| format!("{} ago (…)", &shown[..at]));
            let mut shown: Vec<char> = shown.trim_end().chars().collect();
            // The number of samples in a sparkline depends on the number of polls.
            shown.dedup_by(|one, other| one == other && ('▁'..='█').contains(one));
            shown.into_iter().chain(['\n']).collect::<String>()
        });
        lines.collect()
    }

    /// Compares a screen with the stored one.
    fn check(&self, name: &str, part: &str) {
        // A frame arrives in pieces: the screen counts once it no longer changes.
        let mut screen = self.wait_for(part);
        loop {
            std::thread::sleep(Duration::from_millis(400));
            let later = self.wait_for(part);
            if later == screen {
                break;
            }
            screen = later;
        }
        let file = format!("{name}-{}x{}.txt", self.size.0, self.size.1);
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/top-terminal");
        let path = directory.join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(&path, &screen).expect("golden files can be written");
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == screen, "{} differs; it shows now:\n{screen}", path.display());
    }

    /// Waits for the end of the program.
    fn ended(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it still runs");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Waits until the program has left the terminal as it found it.
    fn wait_until_restored(&self) {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if !screen.is_alternate && screen.is_cursor_visible {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "the terminal is not restored");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns whether a word is an age or a time to come, such as `0s`, `9m59s` or `2h`.
fn is_age(word: &str) -> bool {
    let is_part = |part: &str| {
        let digits = part.trim_end_matches(['s', 'm', 'h', 'd']);
        digits.len() < part.len()
            && !digits.is_empty()
            && digits.bytes().all(|c| c.is_ascii_digit())
    };
    let mut parts = word.split_inclusive(['s', 'm', 'h', 'd']).peekable();
    parts.peek().is_some() && parts.all(is_part)
}

const SIZES: [(u16, u16); 2] = [(80, 24), (160, 45)];

#[test]
fn keys_lead_through_all_views_at_two_sizes() {
    let fake = Fake::fleet();
    let output = r#"{"slot_id": "slot-1", "runner_id": "gpu-a", "from": 0, "next": 22,
        "text": "loading weights\nready\n", "has_ended": false}"#;
    fake.says("GET", "scheduler/slots/slot-1/log?lines=200", 200, output);
    for size in SIZES {
        let mut session = Session::start(&fake, size);
        session.check("gpus", "[1 GPUs]");
        session.press("2");
        session.check("pending", "[2 Pending");
        session.press("\t");
        session.check("decisions", "[3 Decisions");
        session.press("\r");
        session.check("decision", "enter back");
        session.press("4");
        session.check("slots", "slot-3 ");
        // From a GPU to its slot, and to the output of that.
        session.press("1o");
        session.check("opened", ">slot-1");
        session.press("l");
        session.check("output", "loading weights");
        session.press("\x1b");
        session.wait_for("EVICTABLE");
        session.press("?");
        session.check("help", "any key closes it");
        session.press("x1/gpu-b");
        session.check("filter", "/gpu-b_");
        session.press("\r");
        session.check("filtered", "q quit");
        session.press("q");
        assert!(session.ended().success());
        session.wait_until_restored();
    }
}

#[test]
fn a_change_is_sent_after_its_confirmation() {
    let fake = Fake::fleet();
    fake.says("POST", "runners/gpu-a/cordon", 200, "{}");
    fake.says("DELETE", "scheduler/slots/slot-1", 204, "");
    let changes = || -> Vec<String> {
        let asked = fake.asked().into_iter().map(|asked| asked.line);
        asked.filter(|line| !line.starts_with("GET")).collect()
    };
    let mut session = Session::start(&fake, (80, 24));
    session.wait_for("gpu-a");
    session.press("c");
    session.check("cordon", "(y/n)");
    session.press("n");
    session.wait_for("cancelled");
    assert_eq!(changes(), Vec::<String>::new());
    session.press("c");
    session.wait_for("(y/n)");
    session.press("y");
    session.wait_for("cordoned gpu-a");
    session.press("4");
    session.wait_for("slot-2");
    session.press("jx");
    session.check("stop", "(y/n)");
    session.press("y");
    session.wait_for("stopping slot-1");
    let sent = ["POST /api/v1/runners/gpu-a/cordon", "DELETE /api/v1/scheduler/slots/slot-1"];
    assert_eq!(changes(), sent);
    session.press("\x03");
    assert!(session.ended().success());
}

#[test]
fn signals_end_it_and_restore_the_terminal() {
    let fake = Fake::fleet();
    for signal in ["HUP", "TERM", "INT"] {
        let mut session = Session::start(&fake, (80, 24));
        session.wait_for("gpu-a");
        assert!(session.screen().is_alternate);
        session.signal(signal);
        assert!(session.ended().success(), "SIG{signal}");
        session.wait_until_restored();
    }
}

/// Starts it in a new session, closes its terminal, and waits for its end.
fn check_end_after_closing(setsid: &[&str]) {
    let fake = Fake::fleet();
    let terminal = Terminal::new(80, 24);
    let mut command = Command::new("setsid");
    command.args(setsid).arg(env!("CARGO_BIN_EXE_plimsoll")).arg("top");
    terminal.attach(&mut command);
    command.env("PLIMSOLL_SERVER", &fake.url).env("NO_COLOR", "1").env_remove("PLIMSOLL_TOKEN");
    let mut child = command.spawn().expect("setsid of util-linux");
    drop(command);
    let mut person = terminal.into_person();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("gpu-a") {
        let count = person.read(&mut buffer).expect("a first screen");
        seen.extend_from_slice(&buffer[..count]);
    }
    drop(person);
    let started = Instant::now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("it still runs without a terminal");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn it_ends_with_its_controlling_terminal() {
    check_end_after_closing(&["--ctty"]);
}

/// A process gets no signal when a terminal goes away that is not its controlling one. Its input is
/// at its end then, and it must neither spin nor stay.
#[test]
fn it_ends_when_its_input_ends_without_a_signal() {
    check_end_after_closing(&[]);
}

#[test]
fn ages_are_recognized_and_other_words_are_not() {
    for age in ["0s", "59s", "1m30s", "2h", "15d"] {
        assert!(is_age(age), "{age}");
    }
    for word in ["", "s", "14.7", "slot-1", "63%", "gpus", "5x", "m5"] {
        assert!(!is_age(word), "{word}");
    }
}
