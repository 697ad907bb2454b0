//! The machine of one test: a state directory, fake devices, a server and an agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use plimsoll_slots::wire::{
    Action, Heartbeat, Launch, LaunchDevice, Order, SlotReport, SlotState, Start, StartCommand,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::server::Server;

pub(crate) const GIB: u64 = 1 << 30;

/// Time limit of a wait. Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

const DEVICES: &str = r#"[{"uuid":"GPU-a","memory":"80GiB"},{"uuid":"GPU-b","memory":"80GiB"}]"#;

static WORLDS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) server: Server,
    pub(crate) name: String,
    agent: Option<Child>,
    ports: String,
    /// Name of the state directory.
    pub(crate) state: &'static str,
    /// Added to the agent's command line.
    pub(crate) extra: Vec<String>,
}

impl World {
    /// Returns a machine whose agent is not started yet.
    pub(crate) fn new() -> World {
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::tempdir().expect("a directory");
        fs::create_dir(folder.path().join("meter")).expect("a directory");
        fs::write(folder.path().join("devices.json"), DEVICES).expect("the file is written");
        // Each test has its own ports. Otherwise the agents of two tests could assign the same one.
        let from = 20_000 + (std::process::id().wrapping_mul(97).wrapping_add(number) % 480) * 20;
        World {
            folder,
            server: Server::start(),
            name: format!("runner-{}-{number}", std::process::id()),
            agent: None,
            ports: format!("{from}-{}", from + 19),
            state: "state",
            extra: Vec::new(),
        }
    }

    /// Returns a machine with a running agent that measures nothing.
    pub(crate) fn started() -> World {
        let mut world = World::new();
        world.start();
        world
    }

    /// Returns a machine with a running agent that measures the fake devices.
    pub(crate) fn measured(probe: &str) -> World {
        let mut world = World::new();
        world.measure(probe);
        world.start();
        world
    }

    /// Configures a probe with these options.
    pub(crate) fn measure(&mut self, probe: &str) {
        let command = format!(
            "{} probe --meter {} --devices 2 {probe}",
            fake_model_server(),
            self.meter().display()
        );
        self.extra.extend(["--probe".to_owned(), command]);
    }

    /// Returns the agent's command line.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command
            .args(["runner", "--server", &self.server.address, "--name", &self.name])
            .args(["--ports", &self.ports])
            .arg("--devices")
            .arg(self.path("devices.json"))
            .arg("--state")
            .arg(self.path(self.state))
            .args(&self.extra)
            .env_remove("PLIMSOLL_TOKEN")
            .env("SECRET_OF_THE_AGENT", "not for model servers")
            .stdin(Stdio::null());
        command
    }

    /// Starts the agent, and waits until it has registered.
    pub(crate) fn start(&mut self) {
        let before = self.server.received(|received| received.registrations.len());
        self.launch_agent();
        let registered = self
            .server
            .wait(TIMEOUT, |received| (received.registrations.len() > before).then_some(()));
        registered.unwrap_or_else(|| panic!("the agent did not register:\n{}", self.log()));
    }

    /// Starts the agent without waiting.
    pub(crate) fn launch_agent(&mut self) {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("agent.log"))
            .expect("a log");
        let mut command = self.command();
        self.agent =
            Some(command.stderr(log).stdout(Stdio::null()).spawn().expect("the binary was built"));
    }

    /// Kills the agent with SIGKILL.
    pub(crate) fn kill_agent(&mut self) {
        let mut agent = self.agent.take().expect("the agent is running");
        agent.kill().expect("killed");
        agent.wait().expect("exited");
    }

    /// Sends SIGTERM to the agent, and waits until it exits.
    pub(crate) fn stop_agent(&mut self) -> ExitStatus {
        self.terminate_agent();
        self.wait_for_exit()
    }

    /// Sends SIGTERM to the agent.
    pub(crate) fn terminate_agent(&self) {
        signal(self.agent.as_ref().expect("the agent is running").id(), Signal::TERM);
    }

    /// Waits until the agent exits.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let agent = self.agent.as_mut().expect("the agent is running");
            if let Some(status) = agent.try_wait().expect("the child is ours") {
                self.agent = None;
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the agent does not exit:\n{}", self.log());
    }

    /// Waits for a matching heartbeat, from the last received one on.
    pub(crate) fn wait<T>(&self, what: &str, matches: impl Fn(&Heartbeat) -> Option<T>) -> T {
        let from = self.server.received(|received| received.heartbeats.len().saturating_sub(1));
        let found = self
            .server
            .wait(TIMEOUT, |received| received.heartbeats[from..].iter().rev().find_map(&matches));
        found.unwrap_or_else(|| {
            let last = self.server.received(|received| received.heartbeats.last().cloned());
            panic!("no heartbeat with {what}; last: {last:#?}\n{}", self.log())
        })
    }

    /// Waits until a slot is in this state.
    pub(crate) fn wait_state(&self, slot: &str, state: SlotState) -> SlotReport {
        self.wait(&format!("{slot} {state:?}"), |heartbeat| {
            report(heartbeat, slot).filter(|report| report.state == state)
        })
    }

    /// Waits for this number of heartbeats, and returns the last one.
    pub(crate) fn next_heartbeats(&self, more: usize) -> Heartbeat {
        let from = self.server.received(|received| received.heartbeats.len());
        let found = self.server.wait(TIMEOUT, |received| {
            (received.heartbeats.len() >= from + more).then(|| received.heartbeats.last().cloned())
        });
        found.flatten().unwrap_or_else(|| panic!("too few heartbeats:\n{}", self.log()))
    }

    /// Returns the running processes of a slot, the earliest first.
    pub(crate) fn pids(&self, slot: &str) -> Vec<u32> {
        let mark = format!("PLIMSOLL_SLOT={slot}\0");
        let own = format!("PLIMSOLL_RUNNER={}\0", self.name);
        let of = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let text = String::from_utf8_lossy(&environment);
            text.contains(&mark) && text.contains(&own) && is_alive(*pid)
        };
        let entries = fs::read_dir("/proc").expect("/proc exists").flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(of).collect();
        pids.sort_unstable();
        pids
    }

    /// Waits until a slot has this number of processes. A slot is reported before its process
    /// starts.
    pub(crate) fn wait_pids(&self, slot: &str, count: usize) -> Vec<u32> {
        let until = Instant::now() + TIMEOUT;
        while self.pids(slot).len() != count {
            assert!(Instant::now() < until, "{slot} has {:?}:\n{}", self.pids(slot), self.log());
            thread::sleep(Duration::from_millis(20));
        }
        self.pids(slot)
    }

    /// Returns the slots of all processes that this agent started.
    fn slots(&self) -> Vec<String> {
        let own = format!("PLIMSOLL_RUNNER={}", self.name);
        let slot = |entry: fs::DirEntry| {
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let text = String::from_utf8_lossy(&environment).into_owned();
            let mut lines = text.split('\0');
            text.split('\0').any(|line| line == own).then_some(())?;
            lines.find_map(|line| line.strip_prefix("PLIMSOLL_SLOT=").map(str::to_owned))
        };
        fs::read_dir("/proc").expect("/proc exists").flatten().filter_map(slot).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn meter(&self) -> PathBuf {
        self.path("meter")
    }

    /// Waits until the agent logged this text.
    pub(crate) fn wait_log(&self, text: &str) {
        let until = Instant::now() + TIMEOUT;
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "`{text}` is not in:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the agent's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("agent.log")).unwrap_or_default()
    }

    /// Returns an order to start the fake model server on the first device, with these options.
    pub(crate) fn start_order(&self, slot: &str, generation: u64, options: &str) -> Order {
        order(slot, generation, Action::Start, self.model(options))
    }

    /// Returns a launch of the fake model server on the first device, charged 10 GiB.
    pub(crate) fn model(&self, options: &str) -> Launch {
        let meter = self.meter();
        let line = format!(
            "{} --port {{port}} --host {{host}} --meter {} {options}",
            fake_model_server(),
            meter.display()
        );
        Launch {
            model: "llama".to_owned(),
            devices: vec![LaunchDevice {
                index: 0,
                uuid: Some("GPU-a".to_owned()),
                bytes: Some(10 * GIB),
                total: Some(80 * GIB),
            }],
            start: Start::Command(StartCommand {
                argv: line.split_whitespace().map(str::to_owned).collect(),
                env: BTreeMap::from([("CUDA_VISIBLE_DEVICES".to_owned(), "GPU-a".to_owned())]),
                ready: Some("/health".to_owned()),
                ready_within_ms: 15_000,
                preload: None,
            }),
            grace_ms: 3_000,
            context: None,
            concurrency: 1,
            tensor_parallel: 1,
            runtime: None,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for slot in self.slots() {
            self.pids(&slot).into_iter().for_each(|pid| signal(pid, Signal::KILL));
        }
    }
}

/// Returns the command of a launch of the fake model server.
pub(crate) fn command(launch: &mut Launch) -> &mut StartCommand {
    match &mut launch.start {
        Start::Command(command) => command,
        other => panic!("not a command: {other:?}"),
    }
}

pub(crate) fn order(slot: &str, generation: u64, action: Action, launch: Launch) -> Order {
    let model = launch.model.clone();
    Order { slot: slot.to_owned(), generation, model, action, launch: Some(launch) }
}

/// Returns the report of a slot in a heartbeat.
pub(crate) fn report(heartbeat: &Heartbeat, slot: &str) -> Option<SlotReport> {
    heartbeat.slots.iter().find(|report| report.slot == slot).cloned()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a PID");
    let _ = kill_process(pid, signal);
}

/// Returns the path of the fake model server. `cargo test` builds all examples; `cargo test --test
/// runner` does not, and then it is built here. `rustc` alone takes a second, because the example
/// uses only the standard library; cargo would first build the dependencies of the package again.
pub(crate) fn fake_model_server() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("the test is an executable");
        let profile = test.parent().and_then(Path::parent).expect("target/<profile>/deps");
        let path = profile.join("examples").join("fake-model-server");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fake-model-server.rs");
        if modified(&path) < modified(&source) {
            fs::create_dir_all(profile.join("examples")).expect("the target directory is writable");
            let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
            let mut command = Command::new(rustc);
            let built = command.args(["--edition", "2024", "-o"]).arg(&path).arg(source).status();
            assert!(built.is_ok_and(|status| status.success()), "the example is built");
        }
        path.to_str().expect("UTF-8").to_owned()
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
