//! One replica of Plimsoll: the real guard, and its connection to the API server.

use plimsoll_core::event::Settings;
use plimsoll_core::front::{Core, Host};
use plimsoll_core::units::Millis;
use plimsoll_kube::cluster::Reading;
use plimsoll_kube::live::{Leadership, Observation, Watch};
use plimsoll_kube::object::{Kind, Pod};
use plimsoll_kube::read::{self, Object};

use super::api::{ApiServer, Change, NAMESPACE};
use super::machines::Machine;
use crate::chaos::random::Random;

/// A replica.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) host: Host<Watch>,
    /// Counts its processes: an answer to an earlier one goes nowhere.
    pub(super) process: u64,
    /// It does nothing before this time.
    pub(super) paused_until: u64,
    pub(super) ticks_at: u64,
    /// The first entry of the log that its watch has not delivered.
    next: usize,
    /// Entries of the log that were overtaken by later ones.
    late: Vec<usize>,
    /// The time at which it lists again, after its watch was lost.
    lists_at: Option<u64>,
}

impl Replica {
    /// Starts a process, which lists everything first.
    pub(super) fn start(process: u64, api: &ApiServer, machines: &[Machine], now: u64) -> Replica {
        let host = Host::new(Watch::new(Reading::default()), Settings::default());
        let mut replica = Replica {
            host,
            process,
            paused_until: 0,
            ticks_at: now,
            next: 0,
            late: Vec::new(),
            lists_at: None,
        };
        let mut learnt = vec![Observation::Applied(namespace())];
        learnt.extend(machines.iter().map(|machine| Observation::Applied(node(machine))));
        learnt.push(replica.list(api));
        replica.observe(now, learnt);
        replica
    }

    /// Returns the list of all pods now, and watches from there.
    fn list(&mut self, api: &ApiServer) -> Observation {
        self.next = api.log.len();
        self.lists_at = None;
        listed(api)
    }

    pub(super) fn with<R>(
        &mut self,
        now: u64,
        call: impl FnOnce(&mut Watch, &mut Core<'_>) -> R,
    ) -> R {
        let result = self.host.with(Millis(now), call);
        self.commit();
        result
    }

    /// Commits what was decided: nothing leaves before.
    fn commit(&mut self) {
        drop(self.host.batch());
        drop(self.host.committed());
    }

    pub(super) fn observe(&mut self, now: u64, observations: Vec<Observation>) {
        self.with(now, |watch, core| watch.observe(core, observations));
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.host.tick(Millis(now));
        self.commit();
    }

    pub(super) fn is_paused(&self, now: u64) -> bool {
        now < self.paused_until
    }

    pub(super) fn leads(&self) -> bool {
        self.host.front().leadership() == Leadership::Leading
    }

    /// Loses the watch: what it would have delivered is missing until the next list.
    pub(super) fn lose_watch(&mut self, lists_at: u64) {
        self.lists_at = Some(lists_at);
    }

    /// Delivers the next events of the watch: some of them late, twice or out of order.
    pub(super) fn deliver(&mut self, api: &ApiServer, random: &mut Random, now: u64) {
        if let Some(at) = self.lists_at {
            if at <= now {
                let listed = self.list(api);
                self.observe(now, vec![listed]);
            }
            return;
        }
        let mut entries: Vec<usize> = Vec::new();
        for _ in 0..random.between(1, 6) {
            if self.next < api.log.len() {
                if random.percent(5) {
                    self.late.push(self.next);
                } else {
                    entries.push(self.next);
                }
                self.next += 1;
            }
        }
        if !self.late.is_empty() && random.percent(20) {
            let at = random.index(self.late.len());
            entries.push(self.late.swap_remove(at));
        }
        if random.percent(5) && self.next > 0 {
            let back = random.below(20.min(self.next as u64));
            entries.push(self.next - 1 - usize::try_from(back).unwrap_or(0));
        }
        if random.percent(10) {
            random.shuffle(&mut entries);
        }
        let observations = entries.into_iter().map(|at| match &api.log[at] {
            Change::Applied(pod) => Observation::Applied(Object::Pod(pod.clone())),
            Change::Deleted(pod) => Observation::Deleted(Object::Pod(pod.clone())),
        });
        let observations: Vec<Observation> = observations.collect();
        self.observe(now, observations);
    }

    /// Returns true if everything that the API server has was delivered.
    pub(super) fn is_current(&self, api: &ApiServer) -> bool {
        self.lists_at.is_none() && self.late.is_empty() && self.next == api.log.len()
    }

    /// Returns true if the replica knows a pod on its node.
    pub(super) fn knows_bound(&self, pod: &Pod) -> bool {
        let index = self.host.front().index();
        let known = index.pod_named(NAMESPACE, &pod.metadata.name);
        known.is_some_and(|known| {
            known.metadata.uid == pod.metadata.uid && known.node_name().is_some()
        })
    }
}

/// Returns the list of all pods.
pub(super) fn listed(api: &ApiServer) -> Observation {
    let pods = api.pods.values().map(|pod| Object::Pod(Box::new(pod.clone())));
    Observation::Listed { kind: Kind::Pod, objects: pods.collect(), version: Some(api.revision) }
}

fn namespace() -> Object {
    parse(&format!(
        r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{NAMESPACE}",
            "labels": {{"plimsoll.dev/line": "enforce"}}}}}}"#
    ))
}

/// Returns the object of a node, as its kubelet reports it.
pub(super) fn node(machine: &Machine) -> Object {
    let Machine { name, cards, boot, .. } = machine;
    let tokens = cards * 100;
    parse(&format!(
        r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name}", "labels": {{
            "nvidia.com/gpu.count": "{cards}", "nvidia.com/gpu.replicas": "100",
            "nvidia.com/gpu.memory": "32607", "nvidia.com/gpu.sharing-strategy": "time-slicing"}}}},
            "status": {{"capacity": {{"nvidia.com/gpu": {tokens}}},
                "allocatable": {{"nvidia.com/gpu": {tokens}}}, "nodeInfo": {{"bootID": "{boot}"}}}}}}"#
    ))
}

fn parse(text: &str) -> Object {
    let mut objects = Vec::new();
    read::read("the simulation", text, &mut objects).expect("the simulation writes valid objects");
    objects.pop().expect("one object was written").1
}
