//! What one durable commit costs on this disk: the least that any durable decision can take.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::pace::Times;

/// A file like the server's journal, with one row a commit.
pub(crate) struct Disk {
    connection: Connection,
}

impl Disk {
    /// Makes the file under `dir`.
    pub(crate) fn new(dir: &Path, name: &str) -> Disk {
        let connection = Connection::open(dir.join(name)).expect("a database");
        connection.pragma_update(None, "journal_mode", "wal").expect("a log");
        connection.pragma_update(None, "synchronous", "full").expect("durable");
        connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)").expect("a table");
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
