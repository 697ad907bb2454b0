//! Files that the agent keeps, so that the next agent can adopt what runs.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_slots::wire::{Launch, LaunchDevice, SlotState, Start, StartCommand};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::processes::ProcessId;

/// Grace period of a slot whose launch is unknown.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// Number of logs of ended slots that are kept.
const ENDED_LOGS: usize = 20;

/// The durable facts about a slot. Written before its process starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotRecord {
    pub(crate) slot: String,
    pub(crate) generation: u64,
    pub(crate) model: String,
    /// `None` for a process that was found without a record, until the server sends its launch
    /// again.
    pub(crate) launch: Option<Launch>,
    pub(crate) port: Option<u16>,
    /// The process that the agent started. `None` until it is started.
    pub(crate) leader: Option<ProcessId>,
    /// Boot id of the leader.
    pub(crate) boot: String,
    /// Unix time in milliseconds.
    pub(crate) started_ms: u64,
    /// True once the model server answered.
    pub(crate) was_ready: bool,
    pub(crate) end: Option<SlotEnd>,
}

/// The outcome of a slot of which nothing is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotEnd {
    pub(crate) state: EndState,
    pub(crate) reason: Option<String>,
}

/// The two final states of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndState {
    /// It never became ready.
    Failed,
    Gone,
}

impl From<EndState> for SlotState {
    fn from(state: EndState) -> SlotState {
        match state {
            EndState::Failed => SlotState::Failed,
            EndState::Gone => SlotState::Gone,
        }
    }
}

impl SlotRecord {
    /// Returns the devices that the slot is placed on.
    pub(crate) fn devices(&self) -> &[LaunchDevice] {
        self.launch.as_ref().map_or(&[], |launch| &launch.devices)
    }

    /// Returns the time between SIGTERM and SIGKILL.
    pub(crate) fn grace(&self) -> Duration {
        let launch = self.launch.as_ref();
        launch.map_or(DEFAULT_GRACE, |launch| Duration::from_millis(launch.grace_ms))
    }

    /// Returns the command of the slot, if it is known.
    pub(crate) fn command(&self) -> Option<&StartCommand> {
        match &self.launch.as_ref()?.start {
            Start::Command(command) => Some(command),
            Start::Invalid { .. } | Start::Unknown => None,
        }
    }

    /// Returns the time limit for becoming ready. There is none while the command is unknown.
    pub(crate) fn ready_timeout(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.command()?.ready_within_ms))
    }
}

/// Memory in use beside the slots, learned from measurements (`telemetry`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Baselines {
    /// Boot id of the measurements.
    pub(crate) boot: String,
    /// Bytes that no process accounted for while no slot was ending, by device index.
    pub(crate) unexplained: BTreeMap<u16, u64>,
    /// Bytes in use while no slot was on the device, by device index.
    pub(crate) idle: BTreeMap<u16, u64>,
}

/// Failure to use a state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    #[error("cannot use the state directory {}", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(
        "another agent uses the state directory {}; stop it, or choose another --name or --state",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error("cannot write the session number")]
    Session(#[source] io::Error),
}

/// The state directory, locked by one agent at a time.
pub(crate) struct StateDir {
    path: PathBuf,
    /// The kernel releases the lock when the process ends, however it ends.
    _lock: File,
}

impl StateDir {
    /// Creates the directory if necessary, and locks it.
    pub(crate) fn open(path: &Path) -> Result<StateDir, StateDirError> {
        let unusable = |source| StateDirError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        let lock = private(OpenOptions::new().create(true).truncate(false).write(true))
            .open(path.join("lock"))
            .map_err(unusable)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(StateDir { path, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StateDirError::Locked { path }),
            Err(error) => Err(unusable(error.into())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of a new session: the time, but always later than the previous session,
    /// even if the clock was set back.
    pub(crate) fn next_session(&self, now_ms: u64) -> Result<u64, StateDirError> {
        let path = self.path.join("session");
        let text = fs::read_to_string(&path).ok();
        let previous = text.and_then(|text| text.trim().parse::<u64>().ok());
        let session = previous.map_or(now_ms, |previous| now_ms.max(previous.saturating_add(1)));
        replace(&path, session.to_string().as_bytes()).map_err(StateDirError::Session)?;
        Ok(session)
    }

    /// Writes the record of a slot.
    pub(crate) fn save(&self, record: &SlotRecord) -> io::Result<()> {
        replace(&self.file(&record.slot, "json"), &serde_json::to_vec_pretty(record)?)
    }

    /// Removes the record of a slot, and moves its log to the logs of ended slots.
    pub(crate) fn remove(&self, slot: &str) {
        let ended = self.path.join("ended");
        let log = self.log_path(slot);
        let moved = fs::create_dir_all(&ended)
            .and_then(|()| fs::rename(&log, ended.join(log.file_name().unwrap_or_default())));
        for file in [self.file(slot, "json"), self.file(slot, "log.1")] {
            let _ = fs::remove_file(file);
        }
        if let Err(error) = moved.and_then(|()| keep_newest(&ended, ENDED_LOGS))
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(slot, %error, "cannot archive slot log");
        }
    }

    /// Returns all records. An unreadable record is logged and stays where it is.
    pub(crate) fn load_records(&self) -> io::Result<Vec<SlotRecord>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !(name.starts_with("slot-") && name.ends_with(".json")) {
                continue;
            }
            let text = fs::read(&path);
            match text.and_then(|text| Ok(serde_json::from_slice(&text)?)) {
                Ok(record) => records.push(record),
                Err(error) => {
                    warn!(file = %path.display(), %error, "ignoring unreadable slot record");
                }
            }
        }
        Ok(records)
    }

    /// Returns the baselines of this boot. A reboot clears the memory of all devices, so that those
    /// of an earlier boot mean nothing.
    pub(crate) fn load_baselines(&self, boot: &str) -> Baselines {
        let text = fs::read(self.path.join("baselines.json")).ok();
        let saved = text.and_then(|text| serde_json::from_slice::<Baselines>(&text).ok());
        saved
            .filter(|saved| saved.boot == boot)
            .unwrap_or_else(|| Baselines { boot: boot.to_owned(), ..Baselines::default() })
    }

    /// Writes the baselines.
    pub(crate) fn save_baselines(&self, baselines: &Baselines) -> io::Result<()> {
        replace(&self.path.join("baselines.json"), &serde_json::to_vec(baselines)?)
    }

    /// Returns the log file of a slot's processes.
    pub(crate) fn log_path(&self, slot: &str) -> PathBuf {
        self.file(slot, "log")
    }

    /// Returns the log file of a slot that exists or has ended.
    pub(crate) fn readable_log(&self, slot: &str) -> PathBuf {
        let path = self.log_path(slot);
        if path.exists() {
            return path;
        }
        self.path.join("ended").join(path.file_name().unwrap_or_default())
    }

    fn file(&self, slot: &str, extension: &str) -> PathBuf {
        self.path.join(format!("slot-{}.{extension}", file_name(slot)))
    }
}

fn keep_newest(dir: &Path, count: usize) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let surplus = files.len().saturating_sub(count);
    files[..surplus].iter().try_for_each(|(_, file)| fs::remove_file(file))
}

/// Encodes the name of a slot as part of a file name. Different slots have different file names.
fn file_name(slot: &str) -> String {
    let mut name = String::with_capacity(slot.len());
    for byte in slot.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

/// Writes a file completely or not at all. It is private, as launches can contain secrets. There is
/// no fsync: the records describe processes, and a crash of the machine ends those too.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file =
        private(OpenOptions::new().create(true).truncate(true).write(true)).open(&temporary)?;
    file.write_all(content)?;
    fs::rename(&temporary, path)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A launch on no device.
    pub(crate) fn launch() -> Launch {
        Launch {
            model: "m".to_owned(),
            devices: Vec::new(),
            start: Start::Command(command()),
            grace_ms: 2,
            context: None,
            concurrency: 1,
            tensor_parallel: 1,
            runtime: None,
        }
    }

    pub(crate) fn command() -> StartCommand {
        StartCommand {
            argv: vec!["serve".to_owned()],
            env: BTreeMap::new(),
            ready: None,
            ready_within_ms: 1,
            preload: None,
        }
    }

    pub(crate) fn record(slot: &str, leader: ProcessId) -> SlotRecord {
        SlotRecord {
            slot: slot.to_owned(),
            generation: 1,
            model: "m".to_owned(),
            launch: Some(launch()),
            port: Some(4),
            leader: Some(leader),
            boot: "b".to_owned(),
            started_ms: 7,
            was_ready: true,
            end: None,
        }
    }

    fn ended_record(slot: &str) -> SlotRecord {
        let end = SlotEnd { state: EndState::Gone, reason: Some("why".to_owned()) };
        SlotRecord { end: Some(end), ..record(slot, ProcessId { pid: 5, start: 6 }) }
    }

    fn open(dir: &tempfile::TempDir) -> StateDir {
        StateDir::open(dir.path()).expect("the directory is not locked")
    }

    #[test]
    fn records_are_saved_and_loaded_whatever_the_slot_is_called() {
        let dir = tempfile::tempdir().expect("a directory");
        let state_dir = open(&dir);
        let slots = ["../a", "a/b", "a.b", "a%2fb", "ü", "."];
        for slot in slots {
            state_dir.save(&ended_record(slot)).expect("the record is saved");
        }
        let records = state_dir.load_records().expect("the directory is readable");
        let loaded: BTreeMap<String, SlotRecord> =
            records.into_iter().map(|record| (record.slot.clone(), record)).collect();
        assert_eq!(loaded.len(), slots.len());
        assert!(slots.iter().all(|slot| loaded[*slot] == ended_record(slot)));
        state_dir.remove("a/b");
        assert_eq!(state_dir.load_records().expect("readable").len(), slots.len() - 1);
    }

    #[test]
    fn an_unknown_launch_has_no_ready_timeout() {
        let known = record("s", ProcessId { pid: 5, start: 6 });
        assert_eq!(known.ready_timeout(), Some(Duration::from_millis(1)));
        assert_eq!(known.grace(), Duration::from_millis(2));
        let unknown = SlotRecord { launch: None, ..known };
        assert_eq!((unknown.ready_timeout(), unknown.grace()), (None, DEFAULT_GRACE));
        assert_eq!(unknown.devices(), []);
    }

    #[test]
    fn the_newest_logs_of_ended_slots_are_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let state_dir = open(&dir);
        for number in 0..ENDED_LOGS + 5 {
            let slot = format!("s{number}");
            fs::write(state_dir.log_path(&slot), "words").expect("the log is written");
            state_dir.remove(&slot);
        }
        state_dir.remove("without a log");
        let count = fs::read_dir(dir.path().join("ended")).expect("it exists").count();
        assert_eq!(count, ENDED_LOGS);
    }

    #[test]
    fn baselines_are_valid_for_one_boot() {
        let dir = tempfile::tempdir().expect("a directory");
        let state_dir = open(&dir);
        let mut baselines = state_dir.load_baselines("b");
        baselines.idle.insert(0, 7);
        state_dir.save_baselines(&baselines).expect("the file is written");
        assert_eq!(state_dir.load_baselines("b"), baselines);
        assert!(state_dir.load_baselines("another").idle.is_empty());
    }

    #[test]
    fn an_unreadable_record_is_ignored_and_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let state_dir = open(&dir);
        fs::write(dir.path().join("slot-x.json"), "{").expect("the file is written");
        state_dir.save(&ended_record("a")).expect("the record is saved");
        assert_eq!(state_dir.load_records().expect("the directory is readable").len(), 1);
        assert!(dir.path().join("slot-x.json").exists());
    }

    #[test]
    fn one_agent_at_a_time_has_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = open(&dir);
        assert!(matches!(StateDir::open(dir.path()), Err(StateDirError::Locked { .. })));
        drop(first);
        assert!(StateDir::open(dir.path()).is_ok());
    }

    #[test]
    fn session_numbers_grow_even_if_the_clock_goes_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let state_dir = open(&dir);
        let sessions = [100, 50, 500].map(|now| state_dir.next_session(now).expect("written"));
        assert_eq!(sessions, [100, 101, 500]);
    }
}
