//! The machine that a scenario drives, with its journal, its clock and a witness beside it.

use std::collections::BTreeMap;

use plimsoll_core::device::Node;
use plimsoll_core::drive::{Drive, Record, replay};
use plimsoll_core::event::{Event, Outcome, Settings};
use plimsoll_core::request::{PlainRule, Request, RequestId};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::snapshot::Snapshot;
use plimsoll_core::units::{Millis, Name};

use super::ask;
use super::words::Problem;
use crate::witness::{Objection, Witness};

/// All that a scenario changes.
pub(crate) struct World {
    drive: Drive,
    /// The state that the journal begins with.
    start: Scheduler,
    records: Vec<Record>,
    witness: Witness,
    pub now: Millis,
    pub plain: PlainRule,
    /// Nodes as they were said, and whether they were reported since.
    nodes: BTreeMap<Name, (Node, bool)>,
    requests: BTreeMap<RequestId, Request>,
    pub members: Vec<Request>,
    pub last: Option<Request>,
}

impl Default for World {
    fn default() -> Self {
        let start = Scheduler::new(Settings::default());
        World {
            drive: Drive::resume(start.clone(), 0),
            start,
            records: Vec::new(),
            witness: Witness::default(),
            now: Millis(0),
            plain: PlainRule::default(),
            nodes: BTreeMap::new(),
            requests: BTreeMap::new(),
            members: Vec::new(),
            last: None,
        }
    }
}

impl World {
    /// The machine, to look at.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        self.drive.scheduler()
    }

    /// Returns the scheduler in its final state.
    pub(crate) fn into_scheduler(self) -> Scheduler {
        self.drive.scheduler().clone()
    }

    /// Takes one event, and has the witness look at it.
    pub(crate) fn step(&mut self, event: &Event) -> (Outcome, Vec<Objection>) {
        self.drive.handle(self.now, event.clone());
        self.records.extend(self.drive.batch());
        let outcome = self.drive.committed().pop().map(|output| output.outcome).unwrap_or_default();
        let objections = self.witness.step(self.now, event, &outcome, self.drive.scheduler());
        (outcome, objections)
    }

    /// Changes how the machine behaves from here on.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut snapshot = self.scheduler().snapshot();
        change(&mut snapshot.settings);
        self.resume_from(
            Scheduler::restore(snapshot).expect("a snapshot that was just made can be read"),
        );
    }

    fn resume_from(&mut self, scheduler: Scheduler) {
        self.start = scheduler.clone();
        self.records.clear();
        self.drive = Drive::resume(scheduler, 0);
    }

    /// Declares a node again, without facts.
    pub(crate) fn declare_node(&mut self, name: &str) -> &mut Node {
        self.nodes.insert(name.into(), (Node::new(name), false));
        &mut self.nodes.get_mut(name).expect("just put there").0
    }

    /// Returns a declared node, to change its facts.
    pub(crate) fn declared_node(&mut self, name: &str) -> Result<&mut Node, Problem> {
        let declared = self
            .nodes
            .get_mut(name)
            .ok_or_else(|| Problem::NoSuch { what: "node", name: name.to_string() })?;
        declared.1 = false;
        Ok(&mut declared.0)
    }

    /// Forgets a node that is gone.
    pub(crate) fn forget_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Reports the nodes that were said since the last time, by name.
    pub(crate) fn report_nodes(&mut self) -> Vec<(Outcome, Vec<Objection>)> {
        let unsaid = self.nodes.values_mut().filter(|(_, reported)| !reported);
        let nodes: Vec<Node> = unsaid
            .map(|(node, reported)| {
                *reported = true;
                node.clone()
            })
            .collect();
        nodes.into_iter().map(|node| self.step(&Event::Node { node: Box::new(node) })).collect()
    }

    /// Remembers what was asked, so that it can be explained by its id.
    pub(crate) fn remember(&mut self, request: &Request) {
        self.requests.insert(request.id.clone(), request.clone());
        self.last = Some(request.clone());
    }

    /// Returns the id of the last request or holding of a name.
    pub(crate) fn id(&self, text: &str) -> RequestId {
        let named = ask::id(text);
        let same = |id: &&RequestId| (&id.account, &id.name) == (&named.account, &named.name);
        let held = self
            .scheduler()
            .ledger()
            .holdings()
            .map(|(_, holding)| &holding.request)
            .filter(same)
            .last();
        let asked = self.requests.keys().rfind(same);
        held.or(asked).cloned().unwrap_or(named)
    }

    /// A request that was made before.
    pub(crate) fn request(&self, text: &str) -> Result<Request, Problem> {
        let request = self.requests.get(&self.id(text));
        request.cloned().ok_or_else(|| Problem::NoSuch { what: "request", name: text.to_string() })
    }

    /// Recovers from a snapshot and from the journal, and compares both with the current state.
    pub(crate) fn restart(&mut self) -> Vec<String> {
        let before = self.scheduler().snapshot();
        let restored = match Scheduler::restore(before.clone()) {
            Ok(restored) => restored,
            Err(error) => return vec![format!("the snapshot cannot be read: {error}")],
        };
        let mut recovered = self.start.clone();
        for operation in self.records.iter().flat_map(|record| &record.operations) {
            recovered.recover_next(operation);
        }
        let says = [
            (same(&before, &restored.snapshot()), "the snapshot"),
            (same(&before, &recovered.snapshot()), "the journal"),
        ];
        let text =
            says.map(
                |(same, from)| {
                    if same { format!("{from} holds it all") } else { format!("{from} DIFFERS") }
                },
            );
        self.resume_from(restored);
        vec![text.join(", ")]
    }

    /// Decides the whole journal again.
    pub(crate) fn replay(&self) -> Vec<String> {
        let divergences = replay(self.start.clone(), &self.records);
        let decisions: usize = self.records.iter().map(|record| record.decisions.len()).sum();
        match divergences.first() {
            None => vec![format!(
                "{} events and {decisions} decisions replayed, none differs",
                self.records.len()
            )],
            Some(first) => vec![format!(
                "{} of {} events DIFFER, the first is {}",
                divergences.len(),
                self.records.len(),
                first.seq
            )],
        }
    }
}

fn same(one: &Snapshot, other: &Snapshot) -> bool {
    one == other
}
