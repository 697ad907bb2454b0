//! What is due when, in virtual time: a list that time walks down.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use plimsoll_core::units::Millis;

use super::wire::{Order, Word};
use plimsoll_core::request::RequestId;

/// Something that is due.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    /// Time passes for the machine under test.
    Tick,
    /// An asker does something.
    Act { asker: usize },
    /// An asker has waited for long enough.
    GiveUp { asker: usize },
    /// Orders arrive at a runner.
    Orders { machine: usize, connection: u64, orders: Vec<Order> },
    /// A word of a runner arrives.
    Word { machine: usize, connection: u64, number: u64, word: Box<Word> },
    /// A runner says what it has.
    Report { machine: usize },
    /// A runner is told what it should have.
    Sync { machine: usize },
    /// A process has loaded its model.
    Loaded { machine: usize, request: RequestId, generation: u64 },
    /// A process that was stopped has gone from a card, or altogether.
    Left { machine: usize, request: RequestId },
    /// Something happens on a machine: work, growth, a death, a stranger.
    Stir { machine: usize },
    /// A machine's devices are measured.
    Measure { machine: usize },
    /// Something happens to a machine.
    Trouble { machine: usize },
    /// A machine can be reached again.
    Back { machine: usize },
    /// A machine has been silent for longer than its lease.
    Lease { machine: usize, connection: u64 },
    /// An operator says that a machine will not come back.
    Bury { machine: usize },
    /// The machine under test starts again.
    Restart,
}

/// What is due, the earliest first; what is due at the same time, in the order in which it was written down.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Entry>,
    written: u64,
}

#[derive(Debug)]
struct Entry {
    at: Millis,
    number: u64,
    due: Due,
}

impl Agenda {
    /// Writes something down.
    pub(crate) fn put(&mut self, at: Millis, due: Due) {
        self.written += 1;
        self.heap.push(Entry { at, number: self.written, due });
    }

    /// What is due next, and when.
    pub(crate) fn next(&mut self) -> Option<(Millis, Due)> {
        self.heap.pop().map(|entry| (entry.at, entry.due))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
