//! Whole states in files of their own, written beside the journal by a thread of their own.

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

use super::checksum::checksum;
use super::error::StoreError;
use super::schema::{remove, sync_directory};
use crate::worker::Worker;

/// A whole state to start from: everything before these numbers is in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSnapshot {
    /// The number of the first record that is not in it.
    pub next_seq: u64,
    /// The number of the first changes that is not in it.
    pub next_changes: u64,
    /// When it was made: time does not go back before it.
    #[serde(default)]
    pub now: Millis,
    /// The core's state.
    pub core: Snapshot,
    /// The front end's state, in its own words, as JSON.
    pub front: Box<RawValue>,
}

impl HostSnapshot {
    /// Where it ends.
    pub(super) fn mark(&self) -> Mark {
        Mark { next_seq: self.next_seq, next_changes: self.next_changes }
    }
}

/// A snapshot that is still to be made of what was copied for it. Its writer makes it, so that nobody else waits for it.
pub struct SnapshotDraft {
    mark: Mark,
    make: Box<dyn FnOnce() -> HostSnapshot + Send>,
}

impl SnapshotDraft {
    /// A snapshot that ends before this record and this changes.
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

/// Where a snapshot ends: the first record and the first changes that are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) next_seq: u64,
    pub(super) next_changes: u64,
}

/// The first line of a snapshot's file; the second is the snapshot.
#[derive(Serialize, Deserialize)]
struct Header {
    plimsoll_snapshot: u32,
    #[serde(flatten)]
    mark: Mark,
    bytes: usize,
    checksum: String,
}

/// The version of the file's form.
const FORM: u32 = 1;

/// How many snapshots are kept: the newest, and the one before it in case the newest cannot be read.
const KEPT: usize = 2;

/// The file of the snapshot with this number.
pub(super) fn file(dir: &Path, next_seq: u64) -> PathBuf {
    dir.join(format!("snapshot-{next_seq}.json"))
}

/// The numbers of the snapshots in a directory, readable or not, newest first.
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

/// Reads a snapshot, and makes sure that it is what was written.
pub(super) fn read(dir: &Path, next_seq: u64) -> Result<HostSnapshot, StoreError> {
    let file = file(dir, next_seq);
    let damaged = |problem: String| StoreError::Snapshot { file: file.clone(), problem };
    let text = text(&file)?;
    let (_, body) = body(&text).map_err(damaged)?;
    let snapshot: HostSnapshot = serde_json::from_slice(body)
        .map_err(|error| damaged(format!("it cannot be read: {error}")))?;
    if snapshot.next_seq != next_seq {
        return Err(damaged(format!("it says that it goes up to {}", snapshot.next_seq)));
    }
    Ok(snapshot)
}

/// Where a snapshot ends, if it is what was written. Makes no sense of the rest of it.
pub(super) fn mark(dir: &Path, next_seq: u64) -> Option<Mark> {
    let text = text(&file(dir, next_seq)).ok()?;
    body(&text).ok().map(|(mark, _)| mark)
}

fn text(file: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(file).map_err(StoreError::files(file, "read"))
}

fn body(text: &[u8]) -> Result<(Mark, &[u8]), String> {
    let end = text.iter().position(|byte| *byte == b'\n').ok_or("it has no second line")?;
    let (header, body) = (&text[..end], &text[end + 1..]);
    let header: Header = serde_json::from_slice(header)
        .map_err(|error| format!("its first line cannot be read: {error}"))?;
    if header.plimsoll_snapshot != FORM {
        return Err(format!(
            "it has form {}, and this program reads form {FORM}",
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
        return Err("it has changed since it was written".to_string());
    }
    Ok((header.mark, body))
}

/// Writes a snapshot, whole or not at all: under another name first, and named once it is on the disk.
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
        let header = Header { plimsoll_snapshot: FORM, mark, bytes: body.len(), checksum };
        let mut header = serde_json::to_vec(&header)?;
        header.push(b'\n');
        let mut options = OpenOptions::new();
        let mut file: File =
            options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(&header)?;
        for piece in body.chunks(SYNCED_AT_ONCE) {
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

/// So much of a snapshot is brought to the disk at once, before the disk is left to the journal for a moment.
const SYNCED_AT_ONCE: usize = 256 << 10;
/// So much of it is brought into its form at once, before the processor is left to others for a moment.
const FORMED_AT_ONCE: usize = 64 << 10;
/// Nobody waits for a snapshot, and many wait for what goes on beside it.
const PAUSE: Duration = Duration::from_millis(2);

/// A writer that rests now and then.
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
        if self.since >= FORMED_AT_ONCE {
            self.since = 0;
            thread::sleep(PAUSE);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Removes what a write left that did not come to its end.
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

/// What came of a snapshot that was handed over: below which mark nothing is needed any more, where there is such a mark.
pub(super) type Report = Result<Option<Mark>, StoreError>;

/// The thread that writes snapshots, so that a large state does not hold up the next commit.
#[derive(Debug)]
pub(super) struct SnapshotWriter {
    worker: Worker<SnapshotDraft>,
    reports: Receiver<Report>,
    on_their_way: usize,
}

/// So many snapshots may wait to be written; the next is not due while one is on its way.
const WAITING_MOST: usize = 8;

impl SnapshotWriter {
    /// Starts the thread for a directory, given the snapshots there that can be started from, newest first.
    pub(super) fn start(dir: &Path, whole: Vec<Mark>) -> Result<SnapshotWriter, StoreError> {
        let (report, reports) = mpsc::channel();
        let mut keeper = Keeper { dir: dir.to_path_buf(), whole };
        let work = move |draft: SnapshotDraft| match report.send(keeper.keep(&draft.build())) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let worker = Worker::start_behind_others("snapshot", WAITING_MOST, work);
        let worker =
            worker.map_err(StoreError::files(dir, "start a thread to write snapshots into"))?;
        Ok(SnapshotWriter { worker, reports, on_their_way: 0 })
    }

    /// Hands a snapshot over. It is durable when a report says so.
    pub(super) fn order(&mut self, snapshot: SnapshotDraft) {
        self.on_their_way += 1;
        assert!(
            self.worker.hand(snapshot),
            "the thread lives as long as snapshots can be handed over, and few wait"
        );
    }

    /// Whether a snapshot is still on its way.
    pub(super) fn is_busy(&self) -> bool {
        self.on_their_way > 0
    }

    /// The next report, if there is one by now.
    pub(super) fn report(&mut self) -> Option<Report> {
        self.reports.try_recv().ok().inspect(|_| self.on_their_way -= 1)
    }

    /// The next report, for which this waits; none when nothing is on its way.
    pub(super) fn wait(&mut self) -> Option<Report> {
        if !self.is_busy() {
            return None;
        }
        self.reports.recv().ok().inspect(|_| self.on_their_way -= 1)
    }
}

/// The snapshots of a directory, as its writer knows them.
struct Keeper {
    dir: PathBuf,
    /// Those that can be started from, newest first.
    whole: Vec<Mark>,
}

impl Keeper {
    fn keep(&mut self, snapshot: &HostSnapshot) -> Report {
        write(&self.dir, snapshot)?;
        self.whole.retain(|mark| mark.next_seq != snapshot.next_seq);
        self.whole.insert(0, snapshot.mark());
        self.whole.truncate(KEPT);
        // With a single good one, those that cannot be read stay: somebody may want to rescue them.
        let Some(oldest) = self.whole.get(KEPT - 1).copied() else { return Ok(None) };
        for old in list(&self.dir)?.into_iter().filter(|next_seq| *next_seq < oldest.next_seq) {
            remove(&file(&self.dir, old))?;
        }
        Ok(Some(oldest))
    }
}
