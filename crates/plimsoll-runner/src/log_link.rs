//! Sends the output of slots to the server when it asks for it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{LogAnswer, LogRequest, MAX_LOG_BYTES};

use super::agent::Agent;
use super::client::{Client, RequestError};

/// The pause after an error, and between requests to a server that does not hold them back.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause before asking a server again that does not know these requests.
const UNSUPPORTED_PAUSE: Duration = Duration::from_secs(300);

/// Starts the thread that answers requests for output.
pub(crate) fn spawn(agent: &Arc<Agent>, client: &Arc<Client>) {
    let (agent, client) = (Arc::clone(agent), Arc::clone(client));
    thread::spawn(move || {
        loop {
            agent.shared.wait(Duration::from_secs(3600), |state| state.is_registered);
            let began = Instant::now();
            match client.poll_log_requests() {
                Ok(requests) => {
                    for request in &requests {
                        // The client of the server repeats what is lost.
                        let _ = client.send_log(request.id, &answer(&agent, request));
                    }
                    if requests.is_empty() && began.elapsed() < PAUSE {
                        thread::sleep(PAUSE);
                    }
                }
                Err(RequestError::Rejected { status: 404 | 405, .. }) => {
                    thread::sleep(UNSUPPORTED_PAUSE);
                }
                // The heartbeats meet the same error and log it.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    });
}

fn answer(agent: &Agent, request: &LogRequest) -> LogAnswer {
    let path = agent.state_dir.readable_log(&request.slot);
    match read(&path, request.from, request.lines) {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem = format!("the runner has no output of {} any more", request.slot);
            LogAnswer { problem: Some(problem), ..LogAnswer::default() }
        }
        Err(error) => {
            let problem = format!("the runner cannot read {}: {error}", path.display());
            LogAnswer { problem: Some(problem), ..LogAnswer::default() }
        }
    }
}

/// Reads from an offset on, or the last lines; at most [`MAX_LOG_BYTES`]. A log that is shorter
/// than the offset was rotated, and is read from its start.
fn read(path: &Path, from: Option<u64>, lines: u32) -> io::Result<LogAnswer> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = match from {
        Some(from) if from <= length => from,
        Some(_) => 0,
        None => length.saturating_sub(MAX_LOG_BYTES),
    };
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
    let skipped = if from.is_none() { before_last_lines(&bytes, lines) } else { 0 };
    let next = start + bytes.len() as u64;
    let text = String::from_utf8_lossy(&bytes[skipped..]).into_owned();
    Ok(LogAnswer { from: start + skipped as u64, next, text, problem: None })
}

/// Returns the number of bytes before the last lines.
fn before_last_lines(bytes: &[u8], lines: u32) -> usize {
    let end = if bytes.ends_with(b"\n") { bytes.len() - 1 } else { bytes.len() };
    let breaks = bytes[..end].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let before = breaks.map(|(at, _)| at + 1).nth((lines.max(1) - 1) as usize);
    before.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_come_first_and_then_what_was_added() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("slot-a.log");
        std::fs::write(&path, "one\ntwo\nthree\n").expect("written");
        let last = read(&path, None, 2).expect("readable");
        assert_eq!((last.text.as_str(), last.from, last.next), ("two\nthree\n", 4, 14));
        let none = read(&path, Some(last.next), 2).expect("readable");
        assert_eq!((none.text.as_str(), none.next), ("", 14));
        std::fs::write(&path, "one\ntwo\nthree\nfour\n").expect("written");
        assert_eq!(read(&path, Some(14), 2).expect("readable").text, "four\n");
    }

    #[test]
    fn a_rotated_log_is_read_from_its_start_and_a_long_one_in_parts() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("slot-a.log");
        std::fs::write(&path, "new\n").expect("written");
        assert_eq!(read(&path, Some(1000), 1).expect("readable").text, "new\n");
        let size = usize::try_from(MAX_LOG_BYTES).expect("small");
        std::fs::write(&path, vec![b'x'; size + 5]).expect("written");
        let first = read(&path, Some(0), 1).expect("readable");
        assert_eq!((first.text.len(), first.next), (size, MAX_LOG_BYTES));
        assert_eq!(read(&path, Some(first.next), 1).expect("readable").text.len(), 5);
    }
}
