//! One test's machine: a state directory, pretended devices, a server and an agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Action, Heartbeat, Launch, LaunchDevice, Order, SlotReport, SlotState};
use rustix::process::{Pid, Signal, kill_process};

use crate::server::Server;

pub(crate) const GIB: u64 = 1 << 30;

/// Long enough for a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(20);

const DEVICES: &str = r#"[{"uuid":"GPU-a","memory":"80GiB"},{"uuid":"GPU-b","memory":"80GiB"}]"#;

static WORLDS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) server: Server,
    pub(crate) name: String,
    agent: Option<Child>,
    ports: String,
    /// The folder of its state.
    pub(crate) state: &'static str,
    /// What is added to the agent's command line.
    pub(crate) extra: Vec<String>,
}

impl World {
    /// A machine whose agent is not started yet.
    pub(crate) fn new() -> World {
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("meter")).expect("a folder");
        fs::write(folder.path().join("devices.json"), DEVICES).expect("it can be written");
        // Every test has ports of its own, as the model servers of two would otherwise be given the same.
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

    /// A machine with a running agent that measures nothing.
    pub(crate) fn started() -> World {
        let mut world = World::new();
        world.start();
        world
    }

    /// A machine with a running agent that measures the pretended devices.
    pub(crate) fn measured(probe: &str) -> World {
        let mut world = World::new();
        world.measure(probe);
        world.start();
        world
    }

    /// Lets the agent measure, with these options of the probe.
    pub(crate) fn measure(&mut self, probe: &str) {
        let command =
            format!("{} probe --meter {} --devices 2 {probe}", pretend(), self.meter().display());
        self.extra.extend(["--probe".to_owned(), command]);
    }

    /// The agent's command line.
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
        let before = self.server.heard(|said| said.registrations.len());
        self.launch_agent();
        let is_there =
            |said: &crate::server::Said| (said.registrations.len() > before).then_some(());
        self.server.wait(PATIENCE, is_there).unwrap_or_else(|| panic!("no agent:\n{}", self.log()));
    }

    /// Starts the agent, and waits for nothing.
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

    /// Kills the agent without a word.
    pub(crate) fn kill_agent(&mut self) {
        let mut agent = self.agent.take().expect("it runs");
        agent.kill().expect("it can be killed");
        agent.wait().expect("it ends");
    }

    /// Asks the agent to end, and waits until it has.
    pub(crate) fn end_agent(&mut self) -> ExitStatus {
        self.terminate_agent();
        self.agent_ends()
    }

    /// Asks the agent to end.
    pub(crate) fn terminate_agent(&self) {
        signal(self.agent.as_ref().expect("it runs").id(), Signal::TERM);
    }

    /// Waits until the agent has ended.
    pub(crate) fn agent_ends(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let agent = self.agent.as_mut().expect("it runs");
            if let Some(status) = agent.try_wait().expect("it can be asked") {
                self.agent = None;
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the agent does not end:\n{}", self.log());
    }

    /// Waits for a heartbeat that is as wanted, counted from the last one that the server has.
    pub(crate) fn wait<T>(&self, what: &str, wanted: impl Fn(&Heartbeat) -> Option<T>) -> T {
        let from = self.server.heard(|said| said.beats.len().saturating_sub(1));
        let found =
            self.server.wait(PATIENCE, |said| said.beats[from..].iter().rev().find_map(&wanted));
        found.unwrap_or_else(|| {
            let last = self.server.heard(|said| said.beats.last().cloned());
            panic!("{what} never came; last: {last:#?}\n{}", self.log())
        })
    }

    /// Waits until a slot is in this state.
    pub(crate) fn wait_state(&self, slot: &str, state: SlotState) -> SlotReport {
        self.wait(&format!("{slot} {state:?}"), |beat| {
            report(beat, slot).filter(|report| report.state == state)
        })
    }

    /// Waits until so many more heartbeats came, and gives the last.
    pub(crate) fn beats(&self, more: usize) -> Heartbeat {
        let from = self.server.heard(|said| said.beats.len());
        let found = self.server.wait(PATIENCE, |said| {
            (said.beats.len() >= from + more).then(|| said.beats.last().cloned())
        });
        found.flatten().unwrap_or_else(|| panic!("no heartbeats:\n{}", self.log()))
    }

    /// The living processes of a slot, first the earliest.
    pub(crate) fn pids(&self, slot: &str) -> Vec<u32> {
        let mark = format!("PLIMSOLL_SLOT={slot}\0");
        let own = format!("PLIMSOLL_RUNNER={}\0", self.name);
        let of = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let text = String::from_utf8_lossy(&environment);
            text.contains(&mark) && text.contains(&own) && is_alive(*pid)
        };
        let entries = fs::read_dir("/proc").expect("it is there").flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(of).collect();
        pids.sort_unstable();
        pids
    }

    /// Waits until a slot has so many processes: one is reported from the moment in which it is about to be started.
    pub(crate) fn wait_pids(&self, slot: &str, count: usize) -> Vec<u32> {
        let until = Instant::now() + PATIENCE;
        while self.pids(slot).len() != count {
            assert!(Instant::now() < until, "{slot} has {:?}:\n{}", self.pids(slot), self.log());
            thread::sleep(Duration::from_millis(20));
        }
        self.pids(slot)
    }

    /// The slots that processes of this machine's agent belong to.
    fn slots(&self) -> Vec<String> {
        let own = format!("PLIMSOLL_RUNNER={}", self.name);
        let slot = |entry: fs::DirEntry| {
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let text = String::from_utf8_lossy(&environment).into_owned();
            let mut lines = text.split('\0');
            text.split('\0').any(|line| line == own).then_some(())?;
            lines.find_map(|line| line.strip_prefix("PLIMSOLL_SLOT=").map(str::to_owned))
        };
        fs::read_dir("/proc").expect("it is there").flatten().filter_map(slot).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn meter(&self) -> PathBuf {
        self.path("meter")
    }

    /// Waits until the agent has logged this.
    pub(crate) fn wait_log(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.log().contains(words) {
            assert!(Instant::now() < until, "`{words}` is not in:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the agent logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("agent.log")).unwrap_or_default()
    }

    /// An order to start the pretended model server on the first device, with these options.
    pub(crate) fn start_order(&self, slot: &str, generation: u64, options: &str) -> Order {
        order(slot, generation, Action::Start, self.model(options))
    }

    /// A launch of the pretended model server on the first device, with 10 GiB booked.
    pub(crate) fn model(&self, options: &str) -> Launch {
        let meter = self.meter();
        let line = format!(
            "{} --port {{port}} --host {{host}} --meter {} {options}",
            pretend(),
            meter.display()
        );
        Launch {
            model: "llama".to_owned(),
            devices: vec![LaunchDevice {
                index: 0,
                uuid: Some("GPU-a".to_owned()),
                bytes: 10 * GIB,
                total: Some(80 * GIB),
            }],
            argv: line.split_whitespace().map(str::to_owned).collect(),
            env: BTreeMap::from([("CUDA_VISIBLE_DEVICES".to_owned(), "GPU-a".to_owned())]),
            ready: Some("/health".to_owned()),
            ready_within_ms: 15_000,
            grace_ms: 3_000,
            context: None,
            concurrency: 1,
            tensor_parallel: 1,
            told: None,
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

pub(crate) fn order(slot: &str, generation: u64, action: Action, launch: Launch) -> Order {
    let model = launch.model.clone();
    Order { slot: slot.to_owned(), generation, model, action, launch: Some(launch) }
}

/// What a heartbeat says of a slot.
pub(crate) fn report(beat: &Heartbeat, slot: &str) -> Option<SlotReport> {
    beat.slots.iter().find(|report| report.slot == slot).cloned()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
    let _ = kill_process(pid, signal);
}

/// The pretended model server. `cargo test` builds it; where one test alone is built, it is built here.
pub(crate) fn pretend() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("this test has a file");
        let profile = test.parent().and_then(Path::parent).expect("target/<profile>/deps");
        let path = profile.join("examples").join("pretend-model-server");
        if !path.exists() {
            let target = profile.parent().expect("the target directory");
            let built = Command::new(env!("CARGO"))
                .args([
                    "build",
                    "--quiet",
                    "-p",
                    "plimsoll",
                    "--example",
                    "pretend-model-server",
                    "--target-dir",
                ])
                .arg(target)
                .status();
            assert!(built.is_ok_and(|status| status.success()), "the example can be built");
        }
        path.to_str().expect("a path that is text").to_owned()
    })
}
