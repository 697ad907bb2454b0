//! The tables of the journal, how a connection to them is made, and what makes a file acceptable.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::error::StoreError;

/// The version of the tables below.
pub(super) const VERSION: u32 = 2;

/// `Plim`: what says in the file's header that it is ours.
const APPLICATION_ID: i64 = 0x506c_696d;

/// The tables. `seq` and `now` are integers, everything else is text that people can read; sums and digests are hexadecimal,
/// since 64 bits without a sign are no integer of SQLite.
const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    now INTEGER NOT NULL,
    event TEXT NOT NULL,
    operations TEXT NOT NULL,
    decisions TEXT NOT NULL,
    core TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT;
CREATE TABLE decisions (
    seq INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    now INTEGER NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    summary TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (seq, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX decisions_of_account ON decisions (account, seq, idx);
CREATE TABLE changes (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, checksum TEXT NOT NULL) STRICT;
";

/// How long to wait for SQLite's own short locks, such as the one while a first reader looks through the log.
const PATIENCE: Duration = Duration::from_secs(5);

/// The journal's file.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("journal.db")
}

/// Makes an empty journal, whole or not at all: under another name first, and named last.
pub(super) fn create(dir: &Path) -> Result<(), StoreError> {
    let (part, whole) = (dir.join("journal.db.part"), file(dir));
    for rest in
        ["journal.db.part", "journal.db.part-journal", "journal.db.part-wal", "journal.db.part-shm"]
    {
        remove(&dir.join(rest))?;
    }
    let failed = StoreError::files(&part, "create");
    // SQLite gives the files beside it the rights of this one.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(&failed)?;
    fill(&part).map_err(StoreError::sql(&part, "make the tables of"))?;
    File::open(&part).and_then(|file| file.sync_all()).map_err(&failed)?;
    fs::rename(&part, &whole).map_err(StoreError::files(&whole, "create"))?;
    sync_directory(dir)
}

fn fill(part: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open(part)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    let transaction = connection.transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.execute_batch(TABLES)?;
    let mut meta = transaction.prepare("INSERT INTO meta (key, value) VALUES (?1, ?2)")?;
    meta.execute(("schema_version", VERSION.to_string()))?;
    meta.execute(("created_by", concat!("plimsoll ", env!("CARGO_PKG_VERSION"))))?;
    drop(meta);
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)
}

/// SQLite's log is as large as this at most. Where it could not be emptied between two commits, the commit that begins it anew takes some
/// 10 ms, so that it must not come often; and who starts after a crash reads all of it, so that it must not be huge.
const LOG_BYTES: u32 = 64 << 20;
/// A page of SQLite's.
pub(super) const PAGE_BYTES: u32 = 4096;

/// The connection that writes: every commit is on the disk when it returns.
pub(super) fn writer(dir: &Path) -> Result<Connection, StoreError> {
    let file = file(dir);
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        // After a long reader the log would keep its largest size for ever.
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        // Until it is that large, a thread of its own brings it into the file; then a commit does the rest.
        connection.pragma_update(None, "wal_autocheckpoint", LOG_BYTES / PAGE_BYTES)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(connection)
    };
    open().map_err(StoreError::sql(&file, "open"))
}

/// A connection that changes nothing, beside a writer or without one.
pub(super) fn reader(dir: &Path) -> Result<Connection, StoreError> {
    let file = file(dir);
    check_header(&file)?;
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags)?;
        // What a damaged file holds stays as it is for whoever wants to rescue it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    };
    let connection = open().map_err(StoreError::sql(&file, "open"))?;
    check_version(&connection, &file)?;
    Ok(connection)
}

/// Looks at the first bytes before SQLite does: it would take an empty file for a new database, and remove the log beside it.
fn check_header(file: &Path) -> Result<(), StoreError> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut header = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(100).read_to_end(&mut header));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(StoreError::Absent { file: file.to_path_buf() })
        }
        Err(error) => Err(StoreError::files(file, "read")(error)),
        Ok(_) if header.len() == 100 && header.starts_with(MAGIC) => Ok(()),
        Ok(_) => Err(StoreError::NotADatabase { file: file.to_path_buf() }),
    }
}

fn check_version(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let failed = StoreError::sql(file, "read");
    let found: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(&failed)?;
    if found != APPLICATION_ID {
        return Err(StoreError::Foreign { file: file.to_path_buf(), found });
    }
    let version: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE key = 'schema_version'", (), |row| row.get(0))
        .optional()
        .map_err(&failed)?;
    match version.as_deref().map(str::parse::<u32>) {
        Some(Ok(found)) if found > VERSION => {
            Err(StoreError::Newer { file: file.to_path_buf(), found })
        }
        Some(Ok(found)) if found < VERSION => {
            Err(StoreError::Older { file: file.to_path_buf(), found })
        }
        Some(Ok(_)) => Ok(()),
        _ => {
            let problem =
                format!("its schema version is {}", version.as_deref().unwrap_or("missing"));
            Err(StoreError::Damaged { file: file.to_path_buf(), problem })
        }
    }
}

/// Whether the pages hang together. Reads the whole file.
pub(super) fn check_pages(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let failed = StoreError::sql(file, "check");
    let said: String =
        connection.query_row("PRAGMA quick_check(1)", (), |row| row.get(0)).map_err(&failed)?;
    if said == "ok" {
        return Ok(());
    }
    let problem = said.lines().collect::<Vec<_>>().join(", ");
    Err(StoreError::Damaged { file: file.to_path_buf(), problem })
}

/// Makes a rename, a creation or a removal in a directory last.
pub(super) fn sync_directory(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::files(dir, "make durable"))
}

/// Removes a file that need not be there.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::files(path, "remove")(error))
        }
        _ => Ok(()),
    }
}
