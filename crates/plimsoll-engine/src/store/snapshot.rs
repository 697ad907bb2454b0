//! Snapshots in separate files, written by a separate thread.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use plimsoll_core::snapshot::Snapshot;
use plimsoll_core::units::Millis;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::StoreError;
use super::schema::{remove, sync_directory};
use crate::worker::Worker;
use plimsoll_core::checksum::checksum;

/// The whole state of a host, to restart from. It covers everything before the two numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSnapshot {
    /// The first record that is not covered.
    pub next_seq: u64,
    /// The first change set that is not covered.
    pub next_changes: u64,
    /// The time of the snapshot. Server time never goes back before it.
    #[serde(default)]
    pub now: Millis,
    pub core: Snapshot,
    /// The front end's state as JSON.
    pub front: Box<RawValue>,
    #[serde(default, skip_serializing_if = "SnapshotOrigin::is_journal")]
    pub origin: SnapshotOrigin,
}

/// The way to the state of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotOrigin {
    /// The records before it lead to it.
    #[default]
    Journal,
    /// Another system, read at a start. The records before it do not lead to it.
    Outside,
}

impl SnapshotOrigin {
    fn is_journal(&self) -> bool {
        *self == SnapshotOrigin::Journal
    }
}

impl HostSnapshot {
    pub(super) fn mark(&self) -> Mark {
        Mark { next_seq: self.next_seq, next_changes: self.next_changes }
    }
}

/// A snapshot that is still to be serialised from copied references. Its writer does that on its
/// own thread.
pub struct SnapshotDraft {
    mark: Mark,
    make: Box<dyn FnOnce() -> HostSnapshot + Send>,
}

impl SnapshotDraft {
    /// Creates a draft that covers everything before this record and this change set.
    pub fn new(
        next_seq: u64,
        next_changes: u64,
        make: impl FnOnce() -> HostSnapshot + Send + 'static,
    ) -> SnapshotDraft {
        SnapshotDraft { mark: Mark { next_seq, next_changes }, make: Box::new(make) }
    }

    /// Returns the snapshot, built from what was copied for it.
    pub fn build(self) -> HostSnapshot {
        (self.make)()
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }
}

impl From<HostSnapshot> for SnapshotDraft {
    fn from(snapshot: HostSnapshot) -> SnapshotDraft {
        SnapshotDraft { mark: snapshot.mark(), make: Box::new(move || snapshot) }
    }
}

/// The end of a snapshot: the first record and the first change set that it does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) next_seq: u64,
    pub(super) next_changes: u64,
}

/// The first line of a snapshot file; the second line is the snapshot.
#[derive(Serialize, Deserialize)]
struct Header {
    plimsoll_snapshot: u32,
    #[serde(flatten)]
    mark: Mark,
    bytes: usize,
    checksum: String,
}

/// The version of the file format.
const FORMAT: u32 = 2;

/// The number of snapshots to keep: the newest, and the one before it in case the newest is
/// unreadable.
const KEPT: usize = 2;

/// Returns the path of a snapshot.
pub(super) fn file(dir: &Path, next_seq: u64) -> PathBuf {
    dir.join(format!("snapshot-{next_seq}.json"))
}

/// Returns the numbers of all snapshot files, readable or not, newest first.
pub(super) fn list(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let failed = StoreError::files(dir, "list");
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("snapshot-")?.strip_suffix(".json"));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}

/// Reads a snapshot and verifies its checksum.
pub(super) fn read(dir: &Path, next_seq: u64) -> Result<HostSnapshot, StoreError> {
    let file = file(dir, next_seq);
    let damaged = |problem: String| StoreError::Snapshot { file: file.clone(), problem };
    let text = text(&file)?;
    let (_, body) = body(&text).map_err(damaged)?;
    let snapshot: HostSnapshot = serde_json::from_slice(body)
        .map_err(|error| damaged(format!("invalid contents: {error}")))?;
    if snapshot.next_seq != next_seq {
        return Err(damaged(format!("it covers records up to {}", snapshot.next_seq)));
    }
    Ok(snapshot)
}

/// Returns the end of a snapshot whose checksum matches, without parsing its body.
pub(super) fn mark(dir: &Path, next_seq: u64) -> Option<Mark> {
    let text = text(&file(dir, next_seq)).ok()?;
    body(&text).ok().map(|(mark, _)| mark)
}

fn text(file: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(file).map_err(StoreError::files(file, "read"))
}

fn body(text: &[u8]) -> Result<(Mark, &[u8]), String> {
    let end = text.iter().position(|byte| *byte == b'\n').ok_or("the second line is missing")?;
    let (header, body) = (&text[..end], &text[end + 1..]);
    let header: Header =
        serde_json::from_slice(header).map_err(|error| format!("invalid first line: {error}"))?;
    if header.plimsoll_snapshot != FORMAT {
        return Err(format!(
            "it has format {}, but this program reads format {FORMAT}",
            header.plimsoll_snapshot
        ));
    }
    if header.bytes != body.len() {
        return Err(format!(
            "it has {} bytes after its first line, and should have {}",
            body.len(),
            header.bytes
        ));
    }
    if header.checksum != checksum([body]) {
        return Err("its checksum does not match".to_string());
    }
    Ok((header.mark, body))
}

/// Writes a snapshot atomically: under a temporary name first, renamed once it is on disk.
pub(super) fn write(dir: &Path, snapshot: &HostSnapshot) -> Result<(), StoreError> {
    let whole = file(dir, snapshot.next_seq);
    let part = whole.with_extension("json.part");
    let failed = StoreError::files(&part, "write");
    let write = || {
        let mut body = Paced::new(Vec::new());
        serde_json::to_writer(&mut body, snapshot)?;
        let mut body = body.inner;
        body.push(b'\n');
        let (mark, checksum) = (snapshot.mark(), checksum([&body[..]]));
        let header = Header { plimsoll_snapshot: FORMAT, mark, bytes: body.len(), checksum };
        let mut header = serde_json::to_vec(&header)?;
        header.push(b'\n');
        let mut options = OpenOptions::new();
        let mut file: File =
            options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(&header)?;
        for piece in body.chunks(SYNC_BYTES) {
            file.write_all(piece)?;
            file.sync_data()?;
            thread::sleep(PAUSE);
        }
        file.sync_all()
    };
    write().map_err(&failed)?;
    fs::rename(&part, &whole).map_err(&failed)?;
    sync_directory(dir)
}

/// The bytes to sync at once. Between pieces the disk is free for the journal.
const SYNC_BYTES: usize = 256 << 10;
/// The bytes to serialise at once. Between pieces the processor is free for other threads.
const SERIALISE_BYTES: usize = 64 << 10;
/// The pause between pieces. No caller waits for a snapshot, and many wait for the work beside it.
const PAUSE: Duration = Duration::from_millis(2);

/// A writer that pauses regularly.
struct Paced<W> {
    inner: W,
    since: usize,
}

impl<W> Paced<W> {
    fn new(inner: W) -> Self {
        Paced { inner, since: 0 }
    }
}

impl<W: Write> Write for Paced<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.since += written;
        if self.since >= SERIALISE_BYTES {
            self.since = 0;
            thread::sleep(PAUSE);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Removes the temporary files of interrupted writes.
pub(super) fn remove_parts(dir: &Path) -> Result<(), StoreError> {
    let failed = StoreError::files(dir, "list");
    for entry in fs::read_dir(dir).map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("snapshot-") && name.ends_with(".json.part"))
        {
            remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// The result of writing a snapshot: the mark below which rows are no longer needed, if any.
pub(super) type Report = Result<Option<Mark>, StoreError>;

/// The thread that writes snapshots, so that a large state does not delay the next commit.
#[derive(Debug)]
pub(super) struct SnapshotWriter {
    worker: Worker<SnapshotDraft>,
    reports: Receiver<Report>,
    queued: usize,
}

/// The most snapshots that may be queued. The next one is not due while one is being written.
const QUEUE_LIMIT: usize = 8;

impl SnapshotWriter {
    /// Starts the thread, given the usable snapshots of the directory, newest first.
    pub(super) fn start(dir: &Path, whole: Vec<Mark>) -> Result<SnapshotWriter, StoreError> {
        let (report, reports) = mpsc::channel();
        let mut keeper = Keeper { dir: dir.to_path_buf(), whole };
        let work = move |draft: SnapshotDraft| match report.send(keeper.keep(&draft.build())) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let worker = Worker::start_low_priority("snapshot", QUEUE_LIMIT, work);
        let worker = worker.map_err(StoreError::files(dir, "start the snapshot thread in"))?;
        Ok(SnapshotWriter { worker, reports, queued: 0 })
    }

    /// Queues a snapshot. It is durable once a report says so.
    pub(super) fn order(&mut self, snapshot: SnapshotDraft) {
        self.queued += 1;
        assert!(
            self.worker.hand(snapshot),
            "the thread outlives the writer, and the queue is never full"
        );
    }

    /// Returns whether a snapshot is being written.
    pub(super) fn is_busy(&self) -> bool {
        self.queued > 0
    }

    /// Returns the next report, if there is one.
    pub(super) fn report(&mut self) -> Option<Report> {
        self.reports.try_recv().ok().inspect(|_| self.queued -= 1)
    }

    /// Waits for the next report; `None` if nothing is being written.
    pub(super) fn wait(&mut self) -> Option<Report> {
        if !self.is_busy() {
            return None;
        }
        self.reports.recv().ok().inspect(|_| self.queued -= 1)
    }
}

/// The snapshots of a directory, as its writer knows them.
struct Keeper {
    dir: PathBuf,
    /// The usable ones, newest first.
    whole: Vec<Mark>,
}

impl Keeper {
    fn keep(&mut self, snapshot: &HostSnapshot) -> Report {
        write(&self.dir, snapshot)?;
        self.whole.retain(|mark| mark.next_seq != snapshot.next_seq);
        self.whole.insert(0, snapshot.mark());
        self.whole.truncate(KEPT);
        // With a single usable snapshot the unreadable ones are kept for rescue.
        let Some(oldest) = self.whole.get(KEPT - 1).copied() else { return Ok(None) };
        for old in list(&self.dir)?.into_iter().filter(|next_seq| *next_seq < oldest.next_seq) {
            remove(&file(&self.dir, old))?;
        }
        Ok(Some(oldest))
    }
}
