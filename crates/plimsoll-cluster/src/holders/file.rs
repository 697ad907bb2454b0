//! The record of a watch: a file to which changed records are appended, one line for each.
//!
//! The last line of a node counts. One write and one sync store all changes of a moment. The file
//! is rewritten at each start, and when most of it is outdated.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::checksum::checksum;
use plimsoll_core::units::Millis;
use plimsoll_kube::live::{
    DamagedRecord, HoldersRecord, Recalled, RecordChange, RecordChanges, RecordKey,
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::error::ClusterError;

const NAME: &str = "holders.log";

/// A copy of a file with damaged lines, for rescue.
const DAMAGED: &str = "holders.log.damaged";

/// The outdated bytes that are worth a new file.
const OUTDATED: usize = 4 << 20;

#[derive(Clone, Debug)]
pub(super) struct HoldersFile(Arc<Mutex<Contents>>);

#[derive(Debug)]
struct Contents {
    dir: PathBuf,
    /// Opened to append; `None` until the record was read.
    file: Option<File>,
    since: Option<Millis>,
    lines: BTreeMap<RecordKey, String>,
    /// The bytes of the file that later lines replace.
    outdated: usize,
    is_failing: bool,
}

/// The line that says since when the record is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    since: Millis,
}

impl HoldersFile {
    pub(super) fn new(dir: &Path) -> HoldersFile {
        HoldersFile(Arc::new(Mutex::new(Contents {
            dir: dir.to_path_buf(),
            file: None,
            since: None,
            lines: BTreeMap::new(),
            outdated: 0,
            is_failing: false,
        })))
    }

    pub(super) async fn recall(&self) -> Result<Recalled, ClusterError> {
        let file = self.clone();
        let read = spawn_blocking(move || file.contents().recall()).await;
        let path = self.contents().dir.join(NAME);
        read.unwrap_or_else(|panic| Err(io::Error::other(panic)))
            .map_err(|error| ClusterError::HoldersFile { path, why: error.to_string() })
    }

    /// Stores changes, and returns those that may not have been stored.
    pub(super) async fn store(&self, changes: RecordChanges) -> Vec<RecordKey> {
        let file = self.clone();
        let keys: Vec<RecordKey> = changes.changes.iter().map(|one| one.key.clone()).collect();
        let stored = spawn_blocking(move || file.contents().store(changes)).await;
        let stored = stored.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        let is_stored = stored.is_ok();
        self.contents().report(stored);
        if is_stored { Vec::new() } else { keys }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // A panic while it was locked left a file that the next start checks line by line.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn recall(&mut self) -> io::Result<Recalled> {
        let path = self.dir.join(NAME);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let mut damaged = Vec::new();
        (self.since, self.lines) = (None, BTreeMap::new());
        for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            if let Err(why) = self.read_line(line) {
                let place = format!("{} line {number}", path.display());
                damaged.push(DamagedRecord { place, why });
            }
        }
        if self.since.is_none() && !text.is_empty() && damaged.is_empty() {
            let why = "the line that says since when it is complete is missing".to_owned();
            damaged.push(DamagedRecord { place: path.display().to_string(), why });
        }
        if !damaged.is_empty() {
            fs::copy(&path, self.dir.join(DAMAGED))?;
        }
        let recalled = Recalled { since: self.since, records: self.records(), damaged };
        self.rewrite()?;
        Ok(recalled)
    }

    fn records(&self) -> Vec<HoldersRecord> {
        self.lines.values().filter_map(|line| HoldersRecord::decode(line.trim_end()).ok()).collect()
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = str::from_utf8(line).map_err(|error| error.to_string())?;
        let text = line.strip_suffix('\n').ok_or("it was cut off")?;
        if let Some(since) = read_since(text) {
            self.since = Some(since);
            return Ok(());
        }
        let record = HoldersRecord::decode(text).map_err(|error| error.to_string())?;
        match record.holders.is_empty() {
            true => self.lines.remove(&record.key()),
            false => self.lines.insert(record.key(), line.to_owned()),
        };
        Ok(())
    }

    fn store(&mut self, changes: RecordChanges) -> io::Result<()> {
        let RecordChanges { since, changes, .. } = changes;
        let mut appended = String::new();
        if let Some(since) = since.filter(|since| self.since != Some(*since)) {
            appended.push_str(&since_line(since));
            self.since = Some(since);
        }
        for RecordChange { key, line } in changes {
            let before = match line {
                Some(line) => {
                    appended.extend([line.as_str(), "\n"]);
                    self.lines.insert(key, line + "\n")
                }
                None => {
                    let line = empty(&key).encode();
                    appended.extend([line.as_str(), "\n"]);
                    self.outdated += line.len();
                    self.lines.remove(&key)
                }
            };
            self.outdated += before.map_or(0, |line| line.len());
        }
        if appended.is_empty() {
            return Ok(());
        }
        match &mut self.file {
            Some(file) if self.outdated < OUTDATED => {
                let written = file.write_all(appended.as_bytes()).and_then(|()| file.sync_data());
                // After an error a part of a line may be there: the next attempt writes a new file.
                if written.is_err() {
                    self.file = None;
                }
                written
            }
            _ => self.rewrite(),
        }
    }

    /// Writes what counts into a new file, which replaces the old one at once.
    fn rewrite(&mut self) -> io::Result<()> {
        self.file = None;
        let (path, part) = (self.dir.join(NAME), self.dir.join("holders.log.part"));
        let mut text = self.since.map(since_line).unwrap_or_default();
        self.lines.values().for_each(|line| text.push_str(line));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(&self.dir)?.sync_all()?;
        self.file = Some(file);
        self.outdated = 0;
        Ok(())
    }

    /// Logs that writing fails, once, and that it succeeds again.
    fn report(&mut self, stored: io::Result<()>) {
        let was_failing = std::mem::replace(&mut self.is_failing, stored.is_err());
        let file = self.dir.join(NAME).display().to_string();
        match stored {
            Err(error) if !was_failing => {
                tracing::error!(file, %error, "the record of holders cannot be written; trying again");
            }
            Ok(()) if was_failing => tracing::info!(file, "the record of holders is written again"),
            _ => {}
        }
    }
}

fn since_line(since: Millis) -> String {
    let text = serde_json::to_string(&Since { since }).expect("a number is valid JSON");
    format!("{} {text}\n", checksum([text.as_bytes()]))
}

fn read_since(line: &str) -> Option<Millis> {
    let (sum, text) = line.split_once(' ')?;
    let Since { since } = serde_json::from_str(text).ok()?;
    (sum == checksum([text.as_bytes()])).then_some(since)
}

/// Returns the record of a node without holders, which removes the one before.
fn empty(key: &RecordKey) -> HoldersRecord {
    let RecordKey { node, part } = key.clone();
    HoldersRecord { node, part, boot: None, holders: Vec::new() }
}

#[cfg(test)]
mod tests;
