//! Everything that will happen, by virtual time.

use std::collections::BTreeMap;

use plimsoll_core::units::Millis;
use plimsoll_slots::desk::RunnerError;
use plimsoll_slots::wire::{Heartbeat, Orders, Registration};

/// Something that happens at a time. `machine` and `client` are indices.
#[derive(Clone, Debug)]
pub(crate) enum Occurrence {
    /// Time passes for the server.
    Tick,
    /// A client makes a call.
    ClientCall { client: usize },
    /// A runner carries out its orders and sends a heartbeat.
    Heartbeat { machine: usize },
    /// A runner asks for its orders.
    Poll { machine: usize },
    /// A request of a runner arrives at the server; `starts` is the number of starts of the server
    /// when it was sent.
    Request { machine: usize, agent: u64, number: u64, starts: u64, body: Box<RequestBody> },
    /// A response of the server arrives at a runner.
    Response { machine: usize, agent: u64, number: u64, orders: Box<Result<Orders, RunnerError>> },
    /// Something happens to the processes of a machine.
    ProcessEvent { machine: usize },
    /// Something happens to a machine or to its network.
    MachineFault { machine: usize },
    /// The network of a machine works again, or another machine replaces a lost one.
    /// Does not happen if another agent was started meanwhile.
    Reconnect { machine: usize, agent: u64 },
    /// An operator removes a runner.
    RemoveRunner { machine: usize },
    /// The server starts again after a crash.
    ServerStart,
}

/// The body of a runner's request.
#[derive(Clone, Debug)]
pub(crate) enum RequestBody {
    Register(Registration),
    Heartbeat(Heartbeat),
    /// Asks for the orders of a session.
    Poll(u64),
}

impl RequestBody {
    /// Returns the kind of the request.
    pub(crate) fn kind(&self) -> RequestKind {
        match self {
            RequestBody::Register(_) => RequestKind::Register,
            RequestBody::Heartbeat(_) => RequestKind::Heartbeat,
            RequestBody::Poll(_) => RequestKind::Poll,
        }
    }
}

/// The kind of a runner's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Register,
    Heartbeat,
    Poll,
}

/// The future, earliest first. Occurrences at the same time keep the order of their scheduling.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    future: BTreeMap<(u64, u64), Occurrence>,
    count: u64,
}

impl Schedule {
    /// Adds an occurrence.
    pub(crate) fn add(&mut self, at: Millis, occurrence: Occurrence) {
        self.count += 1;
        self.future.insert((at.0, self.count), occurrence);
    }

    /// Takes the next occurrence, if it is not after `end`.
    pub(crate) fn next_until(&mut self, end: Millis) -> Option<(Millis, Occurrence)> {
        let entry = self.future.first_entry()?;
        let (at, _) = *entry.key();
        (at <= end.0).then(|| (Millis(at), entry.remove()))
    }
}
