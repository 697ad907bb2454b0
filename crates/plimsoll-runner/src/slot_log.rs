//! What a slot's process says: a file that it writes itself, kept small, of which the last lines explain a failure.
//!
//! The process writes to the file and not through the agent, so that it can go on when the agent does not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A log that is larger is put aside and begun anew; one older part is kept.
const MOST_BYTES: u64 = 10 << 20;

/// So much of the end is looked at for the last lines.
const TAIL_BYTES: u64 = 4096;

const TAIL_LINES: usize = 10;

/// Opens the log for a new process, and puts that of an earlier one aside. What is appended after the file was cut short goes to the
/// new end.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    if path.exists() {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Puts the log aside when it has become too large. What is written in that very moment may be lost.
pub(crate) fn cap(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.len() > MOST_BYTES {
        fs::copy(path, path.with_extension("log.1"))?;
        OpenOptions::new().write(true).open(path)?.set_len(0)?;
    }
    Ok(())
}

/// The last lines, or nothing where nothing was said.
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
    // The first line is probably not whole, unless the file is.
    let whole = if from > 0 && lines.len() > 1 { &lines[1..] } else { &lines[..] };
    let last = &whole[whole.len().saturating_sub(TAIL_LINES)..];
    (!last.is_empty()).then(|| last.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_whole_and_few() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("slot-a.log");
        assert_eq!(last_lines(&path), None);
        let mut log = create(&path).expect("it can be written");
        assert_eq!(last_lines(&path), None);
        writeln!(log, "one\n\ntwo \n\u{fffd}").expect("it can be written");
        log.write_all(b"\xff\n").expect("it can be written");
        assert_eq!(last_lines(&path).as_deref(), Some("one\ntwo\n\u{fffd}\n\u{fffd}"));
        for number in 0..10_000 {
            writeln!(log, "line {number}").expect("it can be written");
        }
        let lines = last_lines(&path).expect("there are some");
        assert_eq!(lines.lines().next(), Some("line 9990"));
        assert_eq!(lines.lines().last(), Some("line 9999"));
    }

    #[test]
    fn a_log_stays_bounded_while_its_process_goes_on_writing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("slot-a.log");
        let mut log = create(&path).expect("it can be written");
        let size = usize::try_from(MOST_BYTES).expect("it is small") + 1;
        log.write_all(&vec![b'x'; size]).expect("it can be written");
        cap(&path).expect("it can be cut");
        writeln!(log, "after").expect("it can be written");
        assert_eq!(fs::read_to_string(&path).expect("it can be read"), "after\n");
        assert_eq!(
            fs::metadata(path.with_extension("log.1")).expect("it is kept").len(),
            MOST_BYTES + 1
        );
        cap(&path).expect("it is small");
        assert_eq!(last_lines(&path).as_deref(), Some("after"));
    }
}
