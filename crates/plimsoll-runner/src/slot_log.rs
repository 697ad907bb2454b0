//! Log files of model servers.
//!
//! The processes write to the file themselves. A pipe through the agent would block or kill them
//! when the agent exits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Size at which a log is rotated. One older part is kept.
const ROTATE_BYTES: u64 = 10 << 20;

/// Bytes at the end of a log that are searched for the last lines.
const TAIL_BYTES: u64 = 4096;

const TAIL_LINES: usize = 10;

/// Opens the log for a new process, and moves the log of an earlier process aside. The file is
/// opened for appending, so that the process continues at the new end after a rotation.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    if path.exists() {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Copies a large log aside and truncates it. Output that is written between the two steps is lost.
pub(crate) fn rotate_if_large(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.len() > ROTATE_BYTES {
        fs::copy(path, path.with_extension("log.1"))?;
        OpenOptions::new().write(true).open(path)?.set_len(0)?;
    }
    Ok(())
}

/// Returns the last lines of a log, or `None` if it is empty.
pub(crate) fn last_lines(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let from = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    // The first line is cut, unless the whole file was read.
    let complete = if from > 0 && lines.len() > 1 { &lines[1..] } else { &lines[..] };
    let last = &complete[complete.len().saturating_sub(TAIL_LINES)..];
    (!last.is_empty()).then(|| last.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_complete_and_few() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("slot-a.log");
        assert_eq!(last_lines(&path), None);
        let mut log = create(&path).expect("the log is created");
        assert_eq!(last_lines(&path), None);
        log.write_all("one\n\ntwo \n\u{fffd}\n".as_bytes()).expect("written");
        log.write_all(b"\xff\n").expect("written");
        assert_eq!(last_lines(&path).as_deref(), Some("one\ntwo\n\u{fffd}\n\u{fffd}"));
        for number in 0..10_000 {
            writeln!(log, "line {number}").expect("written");
        }
        let lines = last_lines(&path).expect("the log is not empty");
        assert_eq!(lines.lines().next(), Some("line 9990"));
        assert_eq!(lines.lines().last(), Some("line 9999"));
    }

    #[test]
    fn a_log_stays_bounded_while_its_process_writes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("slot-a.log");
        let mut log = create(&path).expect("the log is created");
        let size = usize::try_from(ROTATE_BYTES).expect("a small number") + 1;
        log.write_all(&vec![b'x'; size]).expect("written");
        rotate_if_large(&path).expect("rotated");
        writeln!(log, "after").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "after\n");
        let older = fs::metadata(path.with_extension("log.1")).expect("the older part is kept");
        assert_eq!(older.len(), ROTATE_BYTES + 1);
        rotate_if_large(&path).expect("nothing to rotate");
        assert_eq!(last_lines(&path).as_deref(), Some("after"));
    }
}
