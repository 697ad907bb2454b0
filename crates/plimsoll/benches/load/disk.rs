//! What one durable commit costs on this disk: the least that any durable decision can take.

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

/// How long commits took that came at times of their own, as requests do.
#[derive(Default)]
pub(crate) struct Offered {
    /// From the time when each should have begun: a machine that stands still is not forgiven those that could not begin meanwhile.
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
            // One that could not begin in time is not left out: after a machine stood still, all that were due meanwhile count, as
            // all requests do.
            due += every;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            offered.begun.add(self.commit());
            offered.commits.add(due.elapsed());
        }
        offered.begun.ended(started.elapsed());
        offered.commits.ended(started.elapsed());
        offered
    }

    /// One commit after the other for so long.
    pub(crate) fn commits(&mut self, seconds: u64) -> Times {
        let (started, mut times) = (Instant::now(), Times::default());
        while started.elapsed() < Duration::from_secs(seconds) {
            times.add(self.commit());
        }
        times.ended(started.elapsed());
        times
    }
}
