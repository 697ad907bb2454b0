//! The lock that keeps a second process out of a data directory, for as long as the first one lives.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::StoreError;

/// A data directory that is ours until this is dropped. The kernel gives it back when the process dies, however it dies:
/// a file that is merely there would have to be removed by hand after a crash.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(super) fn take(dir: &Path) -> Result<Lock, StoreError> {
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
        // The number is for people only; what keeps others out is the lock.
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(&failed)?;
        Ok(Lock { file, path: path.clone() })
    }

    /// Whether the file that keeps others out is still the one in the directory. Where it is not, neither is what was written beside it.
    pub(super) fn stands(&self) -> bool {
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
