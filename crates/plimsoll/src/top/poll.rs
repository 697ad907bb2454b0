//! Polls the server for what is on the screen.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use plimsoll_api::rows::{DecisionRow, GpuRow, LogRow, RunnerRow, RunnerStatus};

use super::action::Action;
use super::fleet::Fleet;
use crate::client::{Client, ClientError, segment};
use crate::text::age::now;

/// The runners whose GPUs are requested at once: those on the screen, and others in turn.
const AT_ONCE: usize = 64;

/// The decisions that are shown. Each has a verdict for every runner, which is large in a large
/// fleet.
const DECISIONS: usize = 20;

/// The lines of output that are shown.
const LOG_LINES: usize = 200;

/// The rows of the other lists that are shown.
const ROWS: usize = 5000;

/// The content of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The runners whose GPUs are shown.
    pub(crate) runners: Vec<String>,
    /// The slots are shown.
    pub(crate) slots: bool,
    /// The slot whose output is shown.
    pub(crate) log: Option<String>,
}

/// A message from the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Show(Wanted),
    Do(Action),
}

/// Polls a server, and caches what need not be requested again.
pub(crate) struct Poller {
    client: Client,
    /// The GPUs of each runner, with the number of the poll that requested them.
    gpus: BTreeMap<String, (u64, Vec<GpuRow>)>,
    decisions: Vec<DecisionRow>,
    polls: u64,
}

impl Poller {
    /// Creates a poller with an empty cache.
    pub(crate) fn new(client: Client) -> Self {
        Poller { client, gpus: BTreeMap::new(), decisions: Vec::new(), polls: 0 }
    }

    /// Returns the address of the server.
    pub(crate) fn server(&self) -> &str {
        self.client.server()
    }

    /// Polls once.
    pub(crate) fn poll(&mut self, wanted: &Wanted) -> Result<Fleet, ClientError> {
        self.polls += 1;
        let runners: Vec<RunnerRow> = self.client.list("/api/v1/runners", None)?;
        self.poll_gpus(&runners, wanted)?;
        let queue = self.client.list("/api/v1/scheduler/queue", Some(ROWS))?;
        self.poll_decisions()?;
        let asked_slots = match wanted.slots {
            true => Some(self.client.list("/api/v1/scheduler/slots", Some(ROWS))?),
            false => None,
        };
        let log = wanted.log.as_ref().map(|slot| self.log(slot));
        Ok(Fleet {
            log,
            runners: runners.into_iter().map(|runner| self.with_gpus(runner)).collect(),
            queue,
            decisions: self.decisions.clone(),
            asked_slots,
            at: now(),
        })
    }

    /// Returns the last output of a slot, or why there is none.
    fn log(&self, slot: &str) -> String {
        let path = format!("/api/v1/scheduler/slots/{}/log?lines={LOG_LINES}", segment(slot));
        match self.client.get::<LogRow>(&path) {
            Ok(row) if row.text.is_empty() => format!("{slot} has written nothing yet"),
            Ok(row) => row.text,
            Err(error) => one_line(&error),
        }
    }

    fn with_gpus(&self, runner: RunnerRow) -> RunnerStatus {
        let gpus = self.gpus.get(&runner.runner_id).map(|(_, gpus)| gpus.clone());
        RunnerStatus { runner, gpus: gpus.unwrap_or_default(), breaches: Vec::new() }
    }

    /// Requests the GPUs of runners on the screen first, then of those with the oldest data.
    fn poll_gpus(&mut self, runners: &[RunnerRow], wanted: &Wanted) -> Result<(), ClientError> {
        self.gpus.retain(|id, _| runners.iter().any(|row| row.runner_id == *id));
        let mut ids: Vec<&str> = runners.iter().map(|row| &*row.runner_id).collect();
        let last = |id: &str| self.gpus.get(id).map_or(0, |(poll, _)| *poll);
        ids.sort_by_key(|id| (!wanted.runners.iter().any(|wanted| wanted == id), last(id)));
        ids.truncate(AT_ONCE);
        for id in ids {
            let path = format!("/api/v1/runners/{}/status", segment(id));
            // The runner may have been removed between the two requests.
            if let Some(row) = self.client.find::<RunnerStatus>(&path)? {
                self.gpus.insert(id.to_string(), (self.polls, row.gpus));
            }
        }
        Ok(())
    }

    /// Requests the decisions again if the newest one changed.
    fn poll_decisions(&mut self) -> Result<(), ClientError> {
        let newest = self.latest_decisions(1)?;
        let newest_id = newest.first().map(|row| &row.id);
        if newest_id != self.decisions.first().map(|row| &row.id) {
            self.decisions = self.latest_decisions(DECISIONS)?;
        }
        Ok(())
    }

    fn latest_decisions(&self, limit: usize) -> Result<Vec<DecisionRow>, ClientError> {
        let path = format!("/api/v1/scheduler/decisions?limit={limit}");
        self.client.list(&path, Some(limit))
    }
}

/// The result of a poll, or of a change.
#[derive(Debug)]
pub(crate) enum Polled {
    Fleet(Box<Fleet>),
    /// The server did not answer.
    Failed(String),
    /// The outcome of a change.
    Notice(String),
}

/// Polls at an interval, and at once if the content of the screen changes, until the screen is
/// closed.
pub(crate) fn poll(
    mut poller: Poller,
    every: Duration,
    asked: &Receiver<Asked>,
    polled: &Sender<Polled>,
) {
    let mut want = Wanted::default();
    loop {
        let first = match asked.recv_timeout(every) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for message in first.into_iter().chain(asked.try_iter()) {
            match message {
                Asked::Show(newer) => want = newer,
                Asked::Do(action) => {
                    let done = action.send(&poller.client);
                    let notice = done.unwrap_or_else(|error| one_line(&error));
                    let _ = polled.send(Polled::Notice(notice));
                }
            }
        }
        let fleet = match poller.poll(&want) {
            Ok(fleet) => Polled::Fleet(Box::new(fleet)),
            Err(error) => Polled::Failed(one_line(&error)),
        };
        if polled.send(fleet).is_err() {
            return;
        }
    }
}

/// Formats an error and its cause in one line.
fn one_line(error: &ClientError) -> String {
    let cause =
        std::error::Error::source(error).map_or(String::new(), |cause| format!(" ({cause})"));
    match error {
        ClientError::Unreachable { url, .. } => format!("no server answers at {url}{cause}"),
        other => format!("{other}{cause}"),
    }
}
