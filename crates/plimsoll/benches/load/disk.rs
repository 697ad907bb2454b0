//! The cost of one durable commit on this disk, a lower bound for any durable decision.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::pace::Times;

/// A file like the server's journal, with one row a commit.
pub(crate) struct Disk {
    connection: Connection,
}

/// The times of commits that arrive at a given rate, as requests do.
#[derive(Default)]
pub(crate) struct Offered {
    /// Times from when each commit was due, so that a stalled machine counts against the commits it
    /// delayed.
    pub(crate) commits: Times,
    /// From the time when each did begin.
    pub(crate) begun: Times,
}

impl Disk {
    /// Makes the file under `dir`.
    pub(crate) fn new(dir: &Path, name: &str) -> Disk {
        let connection = Connection::open(dir.join(name)).expect("a database");
        connection.pragma_update(None, "journal_mode", "wal").expect("a log");
        connection.pragma_update(None, "synchronous", "full").expect("durable");
        connection
            .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
            .expect("a table");
        Disk { connection }
    }

    /// Makes one row durable, and says how long that took.
    pub(crate) fn commit(&mut self) -> Duration {
        let started = Instant::now();
        let transaction = self.connection.transaction().expect("a transaction");
        transaction
            .execute("INSERT INTO t (body) VALUES (?1)", ["some hundred bytes, as a note has"])
            .expect("a row");
        transaction.commit().expect("it is durable");
        started.elapsed()
    }

    /// A commit every so often, until all is done.
    pub(crate) fn offer(&mut self, every: Duration, done: &AtomicBool) -> Offered {
        let (started, mut offered) = (Instant::now(), Offered::default());
        let mut due = started;
        while !done.load(Ordering::Relaxed) {
            // A commit that could not begin in time still counts, so that after a stall all due
            // commits are included, as all requests are.
            due += every;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            offered.begun.add(self.commit());
            offered.commits.add(due.elapsed());
        }
        offered.begun.ended(started.elapsed());
        offered.commits.ended(started.elapsed());
        offered
    }

    /// Commits one after the other for this many seconds.
    pub(crate) fn commits(&mut self, seconds: u64) -> Times {
        let (started, mut times) = (Instant::now(), Times::default());
        while started.elapsed() < Duration::from_secs(seconds) {
            times.add(self.commit());
        }
        times.ended(started.elapsed());
        times
    }
}
