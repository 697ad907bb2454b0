//! The lock that keeps a second process out of a data directory while the first one lives.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::StoreError;

/// A lock on a data directory, held until it is dropped. The kernel releases it when the process
/// dies in any way; the mere existence of a file would have to be cleaned up by hand after a crash.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Acquires the lock, or returns the process that holds it.
    pub(super) fn acquire(dir: &Path) -> Result<Lock, StoreError> {
        let path = dir.join("lock");
        let failed = StoreError::files(&path, "lock");
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(&failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse { dir: dir.to_path_buf(), pid: holder(&mut file) });
            }
            Err(error) => return Err(failed(error.into())),
        }
        // The process id is for people only; the lock itself is what excludes others.
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(&failed)?;
        Ok(Lock { file, path: path.clone() })
    }

    /// Returns whether the locked file is still the one in the directory. If not, the journal
    /// beside it was removed or replaced too.
    pub(super) fn is_current(&self) -> bool {
        let id = |found: Metadata| (found.dev(), found.ino());
        let (held, there) = (self.file.metadata().map(id), fs::metadata(&self.path).map(id));
        held.is_ok_and(|held| there.is_ok_and(|there| held == there))
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
