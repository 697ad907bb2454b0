//! What the agent keeps on disk, so that the next one knows what runs: a small file a slot, written before its process starts.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll_slots::wire::{Launch, SlotState};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::processes::ProcessId;

/// What is kept of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) slot: String,
    pub(crate) generation: u64,
    pub(crate) launch: Launch,
    /// The port that it was given.
    pub(crate) port: Option<u16>,
    /// The process that was started; unknown until it is.
    pub(crate) leader: Option<ProcessId>,
    /// The boot that the process belongs to.
    pub(crate) boot: String,
    /// When it was started, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// Whether it ever answered.
    pub(crate) was_ready: bool,
    /// How it ended, once nothing is left of it.
    pub(crate) over: Option<(SlotState, Option<String>)>,
}

/// What the devices show beside the slots: what the next agent needs to judge the memory of a slot that ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Baselines {
    /// The boot in which it was learnt.
    pub(crate) boot: String,
    /// What no process accounted for, when no slot was going.
    pub(crate) unexplained: BTreeMap<u16, u64>,
    /// What was in use when no slot was there.
    pub(crate) idle: BTreeMap<u16, u64>,
}

/// So many logs of slots that ended are kept.
const MOST_ENDED: usize = 20;

/// The state directory, held by one agent at a time.
pub(crate) struct StateDir {
    path: PathBuf,
    /// Held for as long as the agent runs; the kernel gives it back however it ends.
    _lock: File,
}

impl StateDir {
    /// Makes the directory where needed, and takes it.
    pub(crate) fn take(path: &Path) -> Result<StateDir> {
        let failed = || format!("could not use the state directory {}", path.display());
        DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(failed)?;
        let path = path.canonicalize().with_context(failed)?;
        let lock = private(OpenOptions::new().create(true).truncate(false).write(true))
            .open(path.join("lock"))
            .with_context(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(StateDir { path, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => bail!(
                "another agent uses the state directory {}; end it first, or give this one another --name or --state",
                path.display()
            ),
            Err(error) => Err(error).with_context(failed),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of this session: the time, but never earlier than that of the session before, whatever the clock says.
    pub(crate) fn session(&self, now_ms: u64) -> Result<u64> {
        let path = self.path.join("session");
        let before =
            fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let session = before.map_or(now_ms, |before| now_ms.max(before.saturating_add(1)));
        replace(&path, session.to_string().as_bytes())
            .context("could not write down the session")?;
        Ok(session)
    }

    /// Keeps a record.
    pub(crate) fn keep(&self, record: &Record) -> io::Result<()> {
        replace(&self.file(&record.slot, "json"), &serde_json::to_vec_pretty(record)?)
    }

    /// Drops the record of a slot, and puts its log among those of the latest slots that ended.
    pub(crate) fn drop(&self, slot: &str) {
        let ended = self.path.join("ended");
        let log = self.log(slot);
        let kept = fs::create_dir_all(&ended)
            .and_then(|()| fs::rename(&log, ended.join(log.file_name().unwrap_or_default())));
        for file in [self.file(slot, "json"), self.file(slot, "log.1")] {
            let _ = fs::remove_file(file);
        }
        if let Err(error) = kept.and_then(|()| keep_newest(&ended, MOST_ENDED))
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(slot, %error, "the log of the slot cannot be put aside");
        }
    }

    /// What the devices usually show, as far as it was learnt since the machine started.
    pub(crate) fn baselines(&self, boot: &str) -> Baselines {
        let kept = fs::read(self.path.join("baselines.json")).ok();
        let read = kept.and_then(|text| serde_json::from_slice::<Baselines>(&text).ok());
        read.filter(|read| read.boot == boot)
            .unwrap_or_else(|| Baselines { boot: boot.to_owned(), ..Baselines::default() })
    }

    /// Keeps what the devices usually show.
    pub(crate) fn keep_baselines(&self, baselines: &Baselines) -> io::Result<()> {
        replace(&self.path.join("baselines.json"), &serde_json::to_vec(baselines)?)
    }

    /// All records. One that cannot be read is named and left where it is.
    pub(crate) fn records(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !(name.starts_with("slot-") && name.ends_with(".json")) {
                continue;
            }
            let read = fs::read(&path).map_err(anyhow::Error::from);
            match read.and_then(|text| Ok(serde_json::from_slice(&text)?)) {
                Ok(record) => records.push(record),
                Err(error) => {
                    warn!(file = %path.display(), %error, "a record cannot be read and is left aside");
                }
            }
        }
        Ok(records)
    }

    /// The log of a slot's process.
    pub(crate) fn log(&self, slot: &str) -> PathBuf {
        self.file(slot, "log")
    }

    fn file(&self, slot: &str, ending: &str) -> PathBuf {
        self.path.join(format!("slot-{}.{ending}", file_name(slot)))
    }
}

fn keep_newest(folder: &Path, most: usize) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let surplus = files.len().saturating_sub(most);
    files[..surplus].iter().try_for_each(|(_, file)| fs::remove_file(file))
}

/// A slot's name as part of a file's name; different slots have different ones.
fn file_name(slot: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    slot.bytes()
        .map(
            |byte| {
                if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }
            },
        )
        .collect()
}

/// Writes a file whole or not at all. Launches can carry secrets, so that nobody else may read it. It is not forced to disk: where the
/// machine ends, so do the processes that it tells of.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file =
        private(OpenOptions::new().create(true).truncate(true).write(true)).open(&beside)?;
    file.write_all(content)?;
    fs::rename(&beside, path)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(slot: &str) -> Record {
        let launch = Launch {
            model: "m".to_owned(),
            devices: Vec::new(),
            argv: vec!["serve".to_owned()],
            env: BTreeMap::new(),
            ready: None,
            ready_within_ms: 1,
            grace_ms: 2,
            context: None,
            concurrency: 1,
            tensor_parallel: 1,
            told: None,
        };
        Record {
            slot: slot.to_owned(),
            generation: 3,
            launch,
            port: Some(4),
            leader: Some(ProcessId { pid: 5, start: 6 }),
            boot: "b".to_owned(),
            started_ms: 7,
            was_ready: true,
            over: Some((SlotState::Gone, None)),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_kept_whatever_the_slot_is_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::take(folder.path()).expect("it is free");
        let slots = ["../a", "a/b", "a.b", "a%2fb", "ü", "."];
        for slot in slots {
            state.keep(&record(slot)).expect("it can be written");
        }
        let read: BTreeMap<String, Record> = state
            .records()
            .expect("they can be read")
            .into_iter()
            .map(|r| (r.slot.clone(), r))
            .collect();
        assert_eq!(read.len(), slots.len());
        assert!(slots.iter().all(|slot| read[*slot] == record(slot)));
        state.drop("a/b");
        assert_eq!(state.records().expect("they can be read").len(), slots.len() - 1);
    }

    #[test]
    fn the_logs_of_the_latest_slots_that_ended_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::take(folder.path()).expect("it is free");
        for number in 0..MOST_ENDED + 5 {
            fs::write(state.log(&format!("s{number}")), "words").expect("it can be written");
            state.drop(&format!("s{number}"));
        }
        state.drop("without a log");
        let count = fs::read_dir(folder.path().join("ended")).expect("it is there").count();
        assert_eq!(count, MOST_ENDED);
    }

    #[test]
    fn baselines_hold_for_one_boot() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::take(folder.path()).expect("it is free");
        let mut baselines = state.baselines("b");
        baselines.idle.insert(0, 7);
        state.keep_baselines(&baselines).expect("it can be written");
        assert_eq!(state.baselines("b"), baselines);
        assert!(state.baselines("another").idle.is_empty());
    }

    #[test]
    fn a_broken_record_is_left_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::take(folder.path()).expect("it is free");
        fs::write(folder.path().join("slot-x.json"), "{").expect("it can be written");
        state.keep(&record("a")).expect("it can be written");
        assert_eq!(state.records().expect("the rest can be read").len(), 1);
        assert!(folder.path().join("slot-x.json").exists());
    }

    #[test]
    fn one_agent_at_a_time_has_the_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = StateDir::take(folder.path()).expect("it is free");
        let second =
            StateDir::take(folder.path()).map(|_| ()).expect_err("it is taken").to_string();
        assert!(second.contains("another agent uses the state directory"), "{second}");
        drop(first);
        assert!(StateDir::take(folder.path()).is_ok());
    }

    #[test]
    fn sessions_grow_even_when_the_clock_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::take(folder.path()).expect("it is free");
        assert_eq!(state.session(100).expect("it can be written"), 100);
        assert_eq!(state.session(50).expect("it can be written"), 101);
        assert_eq!(state.session(500).expect("it can be written"), 500);
    }
}
