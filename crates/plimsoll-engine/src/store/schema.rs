//! The journal's tables, its connections, and the checks that a file must pass.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::error::StoreError;

/// The version of the tables, of the records in them and of the snapshots beside them.
pub(super) const VERSION: u32 = 3;

/// `Plim`, the application id in the file header.
const APPLICATION_ID: i64 = 0x506c_696d;

/// The tables. `seq` and `now` are integers, everything else is readable text. Checksums and
/// digests are hexadecimal, because SQLite has no unsigned 64-bit integers.
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

/// The timeout for SQLite's short internal locks, such as the one while a first reader scans the
/// WAL.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the path of the journal.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("journal.db")
}

/// Creates an empty journal atomically: under a temporary name first, renamed last.
pub(super) fn create(dir: &Path) -> Result<(), StoreError> {
    let (part, whole) = (dir.join("journal.db.part"), file(dir));
    for rest in
        ["journal.db.part", "journal.db.part-journal", "journal.db.part-wal", "journal.db.part-shm"]
    {
        remove(&dir.join(rest))?;
    }
    let failed = StoreError::files(&part, "create");
    // SQLite creates the files beside it with the permissions of this one.
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

/// The maximum size of the WAL. If it could not be emptied between two commits, the commit that
/// restarts it takes about 10 ms, so that must be rare; and a restart after a crash reads all of
/// it, so it must not be huge.
const WAL_BYTES: u32 = 64 << 20;
/// SQLite's page size.
pub(super) const PAGE_BYTES: u32 = 4096;

/// Opens the writing connection. Every commit is on disk when it returns.
pub(super) fn writer(dir: &Path) -> Result<Connection, StoreError> {
    let file = file(dir);
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        // Otherwise the WAL would keep its largest size after a long reader.
        connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
        // Below this size the checkpoint thread moves it into the file; above, a commit does the
        // rest.
        connection.pragma_update(None, "wal_autocheckpoint", WAL_BYTES / PAGE_BYTES)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(connection)
    };
    open().map_err(StoreError::sql(&file, "open"))
}

/// Opens a read-only connection, beside a writer or without one.
pub(super) fn reader(dir: &Path) -> Result<Connection, StoreError> {
    let file = file(dir);
    check_header(&file)?;
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags)?;
        // A damaged file stays as it is, for rescue.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        Ok(connection)
    };
    let connection = open().map_err(StoreError::sql(&file, "open"))?;
    check_version(&connection, &file)?;
    Ok(connection)
}

/// Checks the header before SQLite sees the file: SQLite would treat an empty file as a new
/// database and remove the WAL beside it.
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

/// Runs SQLite's integrity check, which reads the whole file.
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

/// Makes a rename, creation or removal in a directory durable.
pub(super) fn sync_directory(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::files(dir, "make durable"))
}

/// Removes a file if it exists.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::files(path, "remove")(error))
        }
        _ => Ok(()),
    }
}
