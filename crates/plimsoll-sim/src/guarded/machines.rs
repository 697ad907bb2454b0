//! Simulated machines: what runs on which card, whatever the API server says.

use std::collections::BTreeSet;

use plimsoll_core::units::Name;

use super::api::{ApiServer, Reported, holds, mib_of};
use crate::chaos::random::Random;

/// The memory of every card, in MiB.
pub(super) const CARD_MIB: u64 = 32_607;

/// A node with its cards.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) cards: usize,
    pub(super) boot: u64,
    /// It does not reach the API server before this time.
    pub(super) cut_off_until: u64,
}

/// A container that runs on a card.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) pod: Name,
    pub(super) uid: String,
    pub(super) node: usize,
    pub(super) card: usize,
    pub(super) mib: u64,
    /// Its pod was deleted by force.
    pub(super) is_orphaned: bool,
    /// The time at which its kubelet has learnt of that.
    stops_since: Option<u64>,
}

/// All machines.
#[derive(Debug)]
pub(super) struct Machines {
    pub(super) nodes: Vec<Machine>,
    pub(super) running: Vec<Running>,
    /// The uids of pods whose containers have been started.
    started: BTreeSet<String>,
}

impl Machines {
    /// Creates nodes with one card each, and one with two cards whose plugin picks.
    pub(super) fn new() -> Machines {
        let cards = [1, 1, 2];
        let nodes = cards.into_iter().enumerate().map(|(at, cards)| Machine {
            name: format!("n{at}"),
            cards,
            boot: 1,
            cut_off_until: 0,
        });
        Machines { nodes: nodes.collect(), running: Vec::new(), started: BTreeSet::new() }
    }

    /// Lets one kubelet do one thing.
    pub(super) fn act(&mut self, api: &mut ApiServer, random: &mut Random, now: u64) {
        let node = random.index(self.nodes.len());
        if self.nodes[node].cut_off_until > now {
            return;
        }
        if random.percent(60) {
            self.start(api, random, node);
        } else {
            self.stop_deleted(api, node);
        }
    }

    /// Starts the container of a pod that is bound to the node. On a node with several cards the
    /// device plugin picks one.
    fn start(&mut self, api: &mut ApiServer, random: &mut Random, node: usize) {
        let name = &self.nodes[node].name;
        let pod = api.pods.values().find(|pod| {
            let is_new = !self.started.contains(uid_of(pod));
            pod.node_name() == Some(name) && is_new && holds(pod) && !pod.metadata.is_terminating()
        });
        let Some(pod) = pod else { return };
        let running = Running {
            pod: pod.metadata.name.as_str().into(),
            uid: uid_of(pod).to_owned(),
            node,
            card: random.index(self.nodes[node].cards),
            mib: mib_of(pod),
            is_orphaned: false,
            stops_since: None,
        };
        self.started.insert(running.uid.clone());
        let name = running.pod.clone();
        self.running.push(running);
        api.report(&name, "Running", Reported::Running);
    }

    /// Stops a pod that is to be deleted: first its container, then, later, its object.
    fn stop_deleted(&mut self, api: &mut ApiServer, node: usize) {
        let name = &self.nodes[node].name;
        let mut bound = api.pods.values().filter(|pod| pod.node_name() == Some(name));
        let Some(pod) = bound.find(|pod| pod.metadata.is_terminating()) else { return };
        let (uid, is_over) = (uid_of(pod).to_owned(), !holds(pod));
        let name = Name::from(pod.metadata.name.as_str());
        if is_over {
            return api.remove(&name);
        }
        self.started.insert(uid.clone());
        self.running.retain(|one| one.uid != uid);
        api.report(&name, "Running", Reported::Terminated);
    }

    /// Kills the containers whose pods were deleted by force, this long after their kubelet learnt
    /// of it. A kubelet that is cut off afterwards goes on with what it knows.
    pub(super) fn kill_overdue(&mut self, now: u64, after: u64) {
        for one in self.running.iter_mut().filter(|one| one.is_orphaned) {
            if self.nodes[one.node].cut_off_until <= now {
                one.stops_since.get_or_insert(now);
            }
        }
        self.running.retain(|one| one.stops_since.is_none_or(|since| now <= since + after));
    }

    /// Reboots a node: its containers are gone, and those of its pods start again.
    pub(super) fn reboot(&mut self, node: usize) {
        self.nodes[node].boot += 1;
        for one in self.running.extract_if(.., |one| one.node == node) {
            self.started.remove(&one.uid);
        }
    }

    /// Ends the container of a pod by itself.
    pub(super) fn complete(&mut self, api: &mut ApiServer, at: usize) {
        let one = self.running.swap_remove(at);
        let is_known = api.pods.get(&one.pod).is_some_and(|pod| uid_of(pod) == one.uid);
        if is_known {
            api.report(&one.pod, "Succeeded", Reported::Terminated);
        }
    }
}

pub(super) fn uid_of(pod: &plimsoll_kube::object::Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}
