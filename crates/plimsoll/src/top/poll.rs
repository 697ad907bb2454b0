//! Asks the server again and again, and no more than is looked at.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::fleet::Fleet;
use crate::client::rows::{DecisionRow, GpuRow, Moment, RunnerRow};
use crate::client::{Client, ClientError, segment};

/// Runners whose GPUs are asked for at once: what is on the screen, and some more in turn.
const AT_ONCE: usize = 64;

/// Decisions that are shown. Each carries what every runner said, which is much in a large fleet.
const DECISIONS: usize = 20;

/// Rows of the other lists that are shown.
const ROWS: usize = 5000;

/// What is on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The runners whose GPUs are.
    pub(crate) runners: Vec<String>,
    /// Whether the slots are.
    pub(crate) slots: bool,
}

/// Looks at a server, and remembers what it need not ask for again.
pub(crate) struct Poller {
    client: Client,
    gpus: BTreeMap<String, (u64, Vec<GpuRow>)>,
    decisions: Vec<DecisionRow>,
    looks: u64,
}

impl Poller {
    /// One that has seen nothing yet.
    pub(crate) fn new(client: Client) -> Self {
        Poller { client, gpus: BTreeMap::new(), decisions: Vec::new(), looks: 0 }
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        self.client.server()
    }

    /// Looks once.
    pub(crate) fn look(&mut self, wanted: &Wanted) -> Result<Fleet, ClientError> {
        self.looks += 1;
        let mut runners: Vec<RunnerRow> = self.client.list("/api/v1/runners", None)?.read()?;
        self.look_at_gpus(&runners, wanted)?;
        for row in &mut runners {
            row.gpus =
                self.gpus.get(&row.runner_id).map(|(_, gpus)| gpus.clone()).unwrap_or_default();
        }
        let queue = self.client.list("/api/v1/scheduler/queue", Some(ROWS))?.read()?;
        self.look_at_decisions()?;
        let asked_slots = match wanted.slots {
            true => Some(self.client.list("/api/v1/scheduler/slots", Some(ROWS))?.read()?),
            false => None,
        };
        Ok(Fleet {
            runners,
            queue,
            decisions: self.decisions.clone(),
            asked_slots,
            at: Moment::now(),
        })
    }

    /// Those on the screen first, then those that were not looked at for longest.
    fn look_at_gpus(&mut self, runners: &[RunnerRow], wanted: &Wanted) -> Result<(), ClientError> {
        self.gpus.retain(|id, _| runners.iter().any(|row| row.runner_id == *id));
        let mut ids: Vec<&str> = runners.iter().map(|row| &*row.runner_id).collect();
        let last = |id: &str| self.gpus.get(id).map_or(0, |(look, _)| *look);
        ids.sort_by_key(|id| (!wanted.runners.iter().any(|wanted| wanted == id), last(id)));
        ids.truncate(AT_ONCE);
        for id in ids {
            match self.client.get(&format!("/api/v1/runners/{}/status", segment(id))) {
                Ok(answer) => {
                    let row: RunnerRow = answer.read()?;
                    self.gpus.insert(id.to_string(), (self.looks, row.gpus));
                }
                // It went between the two questions.
                Err(error) if error.status() == Some(404) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The newest one tells whether there is anything new.
    fn look_at_decisions(&mut self) -> Result<(), ClientError> {
        let ask = |limit: usize| -> Result<Vec<DecisionRow>, ClientError> {
            self.client
                .list(&format!("/api/v1/scheduler/decisions?limit={limit}"), Some(limit))?
                .read()
        };
        let newest = ask(1)?;
        let id = |rows: &[DecisionRow]| rows.first().and_then(|row| row.id.clone());
        if id(&newest) != id(&self.decisions) {
            self.decisions = ask(DECISIONS)?;
        }
        Ok(())
    }
}

/// What a look brought.
pub(crate) type Seen = Result<Box<Fleet>, String>;

/// Looks again and again, at once when something else is wanted, until nobody listens.
pub(crate) fn poll(
    mut poller: Poller,
    every: Duration,
    wanted: &Receiver<Wanted>,
    seen: &Sender<Seen>,
) {
    let mut want = Wanted::default();
    loop {
        match wanted.recv_timeout(every) {
            Ok(newer) => want = wanted.try_iter().last().unwrap_or(newer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let look = poller.look(&want).map(Box::new).map_err(|error| said(&error));
        if seen.send(look).is_err() {
            return;
        }
    }
}

/// An error with its cause, in a line.
fn said(error: &ClientError) -> String {
    let cause =
        std::error::Error::source(error).map_or(String::new(), |cause| format!(" ({cause})"));
    match error {
        ClientError::Unreachable { url, .. } => format!("no server answers at {url}{cause}"),
        other => format!("{other}{cause}"),
    }
}
