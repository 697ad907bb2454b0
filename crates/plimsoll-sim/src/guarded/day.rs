//! One day: everything that can happen, in a random order.

use plimsoll_core::units::{Millis, Name};
use plimsoll_kube::live::{
    Admission, BindingReview, BindingVerdict, Errand, ErrandOutcome, Leadership, Observation, Run,
    Term,
};

use super::api::{ApiServer, Lease, NAMESPACE, Written};
use super::checks::{over_line, uncharged};
use super::machines::{Machines, uid_of};
use super::replica::{Replica, listed, node};
use super::{GuardedCounts, GuardedFinding, GuardedOptions, GuardedReport, GuardedSabotage};
use crate::chaos::random::Random;

/// The time for which a lease lasts.
const LEASE: u64 = 15_000;

/// The memory that pods ask for, in MiB.
const SIZES: [u64; 7] = [607, 1_000, 8_000, 8_000, 12_000, 16_303, 30_000];

/// The most pods without a node.
const PENDING: usize = 12;

/// The faults that a day has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    /// Replicas crash; no pod is deleted by force, because only a record would remember it.
    Crashes,
    /// Pods are deleted by force.
    ForcedDeletions,
}

/// A message on its way.
#[derive(Debug)]
enum Flight {
    /// An admission, on its way to the API server.
    Answer(Answer),
    /// An errand, on its way to the API server.
    Errand { replica: usize, process: u64, errand: Errand },
    /// Its answer, on its way back.
    Outcome { replica: usize, process: u64, errand: Errand, outcome: ErrandOutcome },
}

/// An admission on its way to the API server.
#[derive(Debug)]
struct Answer {
    replica: usize,
    /// The term in which it was decided.
    term: u64,
    pod: Name,
    node: String,
    admission: Admission,
    /// The replica was stopped, or the network is slow: it does not arrive before this time.
    not_before: u64,
}

/// The state of a day.
pub(super) struct Day {
    options: GuardedOptions,
    random: Random,
    faults: Faults,
    now: u64,
    api: ApiServer,
    machines: Machines,
    replicas: Vec<Replica>,
    flights: Vec<Flight>,
    counts: GuardedCounts,
    fingerprint: u64,
}

impl Day {
    pub(super) fn new(options: GuardedOptions) -> Day {
        let mut random = Random::new(options.seed);
        let faults = *random.pick(&[Faults::Crashes, Faults::ForcedDeletions]);
        let (api, machines, now) = (ApiServer::default(), Machines::new(), 1_000_000);
        let start = |_| Replica::start(0, &api, &machines.nodes, now);
        let replicas = (0..2).map(start).collect();
        Day {
            options,
            random,
            faults,
            now,
            api,
            machines,
            replicas,
            flights: Vec::new(),
            counts: GuardedCounts::default(),
            fingerprint: options.seed,
        }
    }

    pub(super) fn run(mut self) -> GuardedReport {
        let mut finding = None;
        while finding.is_none() && self.counts.events < self.options.events {
            self.counts.events += 1;
            self.now += self.random.below(200);
            self.step();
            finding = self.violation();
        }
        let violation = finding.map(|violation| GuardedFinding {
            seed: self.options.seed,
            event: self.counts.events,
            at: Millis(self.now),
            violation,
        });
        let (seed, counts) = (self.options.seed, self.counts);
        GuardedReport { seed, counts, fingerprint: self.fingerprint, finding: violation }
    }

    fn violation(&mut self) -> Option<String> {
        let mix = self.api.revision ^ (self.flights.len() as u64) << 32 ^ self.now << 8;
        self.fingerprint = (self.fingerprint ^ mix).wrapping_mul(0x100_0000_01b3);
        over_line(&self.api, &self.machines).or_else(|| {
            let deciding = self.replicas.iter().enumerate().filter(|(at, replica)| {
                replica.leads() && self.api.lease.holder == Some(*at) && self.lease_holds()
            });
            deciding.into_iter().find_map(|(at, replica)| {
                let lacks = uncharged(&self.api, &self.machines, replica)?;
                Some(format!("{lacks} at the leader, replica {at}"))
            })
        })
    }

    fn lease_holds(&self) -> bool {
        self.now < self.api.lease.renewed + LEASE
    }

    fn step(&mut self) {
        let slow = self.options.sabotage == Some(GuardedSabotage::SlowKubelet);
        self.machines.kill_overdue(self.now, if slow { 3_600_000 } else { 40_000 });
        for at in 0..self.replicas.len() {
            self.attend(at);
        }
        match self.random.below(1000) {
            0..300 => self.deliver(),
            300..550 => self.fly(),
            550..700 => self.review(),
            700..840 => {
                self.machines.act(&mut self.api, &mut self.random, self.now);
            }
            840..880 => self.write_elsewhere(),
            880..930 => self.create(),
            930..960 => self.delete(),
            960..985 => self.complete(),
            985..990 => self.pause(),
            990..992 => self.crash(),
            992..994 => self.lose_watch(),
            994..995 => self.hand_over(),
            995..997 => self.reboot_or_cut_off(),
            _ => self.delete_by_force(),
        }
        for at in 0..self.replicas.len() {
            self.send_errands(at);
        }
    }

    /// Lets a replica do what is due by time.
    fn attend(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        if replica.is_paused(self.now) || replica.ticks_at > self.now {
            return;
        }
        replica.ticks_at = self.now + 1_000 + self.random.below(1_000);
        for machine in &self.machines.nodes {
            if machine.cut_off_until <= self.now {
                let renewed = Millis(self.now / 10_000 * 10_000);
                let heartbeat =
                    Observation::Heartbeat { node: machine.name.as_str().into(), renewed };
                replica.observe(self.now, vec![heartbeat]);
            }
        }
        if replica.is_current(&self.api) || self.random.percent(50) {
            let now = Millis(self.now);
            replica.with(self.now, |watch, _| watch.confirm_sight(now));
        }
        replica.tick(self.now);
        self.seek_lease(at);
    }

    fn seek_lease(&mut self, at: usize) {
        let (now, holds) = (self.now, self.lease_holds());
        let lease = &mut self.api.lease;
        let replica = &mut self.replicas[at];
        let follows = replica.host.front().leadership() == Leadership::Follower;
        let lasts = match self.options.sabotage {
            Some(GuardedSabotage::EndlessLease) => u64::MAX / 2,
            _ => LEASE,
        };
        let until = Millis(now + lasts);
        if lease.holder == Some(at) && !follows {
            lease.renewed = now;
            replica.with(now, |watch, _| watch.renew_term(until));
        } else if lease.holder.is_none() || !holds {
            *lease = Lease { holder: Some(at), number: lease.number + 1, renewed: now };
            let term = Term { number: lease.number, until };
            replica.with(now, |watch, _| watch.begin_term(term));
            self.counts.takeovers += 1;
        } else if !follows && self.options.sabotage != Some(GuardedSabotage::EndlessLease) {
            replica.with(now, |watch, _| watch.end_term());
        }
    }

    fn send_errands(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        if replica.is_paused(self.now) {
            return;
        }
        let process = replica.process;
        let errands = replica.with(self.now, |watch, _| watch.take_errands());
        let sent =
            errands.into_iter().map(|errand| Flight::Errand { replica: at, process, errand });
        self.flights.extend(sent);
    }

    fn some_replica(&mut self) -> Option<usize> {
        let at = self.random.index(self.replicas.len());
        (!self.replicas[at].is_paused(self.now)).then_some(at)
    }

    fn deliver(&mut self) {
        if let Some(at) = self.some_replica() {
            self.replicas[at].deliver(&self.api, &mut self.random, self.now);
        }
    }

    /// Delivers messages, each of those in flight with the same chance.
    fn fly(&mut self) {
        for _ in 0..self.random.between(1, 3) {
            if self.flights.is_empty() {
                return;
            }
            let at = self.random.index(self.flights.len());
            match self.flights.swap_remove(at) {
                Flight::Answer(answer) if answer.not_before > self.now => {
                    self.flights.push(Flight::Answer(answer));
                }
                Flight::Answer(_) if self.random.percent(5) => self.counts.answers_lost += 1,
                Flight::Answer(answer) => self.bind(answer),
                Flight::Errand { replica, process, errand } => {
                    self.run_errand(replica, process, errand);
                }
                Flight::Outcome { replica, process, errand, outcome } => {
                    self.answer_errand(replica, process, errand, outcome);
                }
            }
        }
    }

    fn bind(&mut self, answer: Answer) {
        let Answer { replica, term, pod, node, mut admission, .. } = answer;
        if self.options.sabotage == Some(GuardedSabotage::NoVersion) {
            admission.resource_version = None;
        }
        let lease = self.api.lease;
        let is_stale = lease.holder != Some(replica) || lease.number != term;
        match self.api.bind(&pod, &node, &admission) {
            Written::Bound => self.counts.bound += 1,
            Written::Failed => {}
            Written::Conflict => {
                self.counts.conflicts += 1;
                self.counts.stale_approvals += u64::from(is_stale);
            }
        }
    }

    fn run_errand(&mut self, replica: usize, process: u64, errand: Errand) {
        let is_lost_before = self.random.percent(5);
        let outcome = match &errand {
            _ if is_lost_before => ErrandOutcome::Unknown,
            Errand::List { .. } => ErrandOutcome::Listed(vec![listed(&self.api)]),
            Errand::Read { pod } => self.api.read(&pod.name, &pod.uid),
            Errand::Touch { pod, version, mark } => {
                self.counts.touches += 1;
                if self.options.sabotage == Some(GuardedSabotage::NoTouch) {
                    pretend_touched(self.api.read(&pod.name, &pod.uid), self.api.revision)
                } else {
                    self.api.touch(&pod.name, &pod.uid, version, mark)
                }
            }
        };
        let outcome = if self.random.percent(5) { ErrandOutcome::Unknown } else { outcome };
        self.flights.push(Flight::Outcome { replica, process, errand, outcome });
    }

    fn answer_errand(&mut self, at: usize, process: u64, errand: Errand, outcome: ErrandOutcome) {
        let replica = &mut self.replicas[at];
        if replica.process != process {
            return;
        }
        if replica.is_paused(self.now) {
            return self.flights.push(Flight::Outcome { replica: at, process, errand, outcome });
        }
        let is_touch = matches!(errand, Errand::Touch { .. });
        let before = replica.host.scheduler().ledger().holdings().count();
        replica.with(self.now, |watch, core| watch.errand_done(core, errand, outcome));
        let after = replica.host.scheduler().ledger().holdings().count();
        self.counts.settled += u64::from(is_touch && after < before);
    }

    /// Lets schedulers bind pods: several at once, some of them twice or to different nodes.
    fn review(&mut self) {
        for _ in 0..self.random.between(1, 5) {
            let pods: Vec<&Name> = self
                .api
                .pods
                .iter()
                .filter(|(_, pod)| pod.node_name().is_none())
                .map(|(name, _)| name)
                .collect();
            if pods.is_empty() {
                return;
            }
            let pod = pods[self.random.index(pods.len())].clone();
            let node = self.random.index(self.machines.nodes.len());
            let leader = self.replicas.iter().position(Replica::leads);
            let any = self.random.index(self.replicas.len());
            let at = if self.random.percent(20) { any } else { leader.unwrap_or(any) };
            if !self.replicas[at].is_paused(self.now) {
                self.review_one(at, &pod, node);
            }
        }
    }

    fn review_one(&mut self, at: usize, pod: &Name, node: usize) {
        let node = self.machines.nodes[node].name.clone();
        let uid = self.api.pods.get(pod).map(|pod| Name::from(uid_of(pod)));
        let run = if self.random.percent(5) { Run::Dry } else { Run::Real };
        let review = BindingReview {
            namespace: NAMESPACE.into(),
            pod: pod.clone(),
            pod_uid: uid.filter(|_| self.random.percent(50)),
            node: node.as_str().into(),
            resource_version: None,
            run,
        };
        let replica = &mut self.replicas[at];
        let verdict = replica.with(self.now, |watch, core| watch.review_binding(core, &review));
        self.counts.reviews += 1;
        match verdict {
            BindingVerdict::Admitted(admission) if run == Run::Real => {
                self.counts.admitted += 1;
                let (pod, term) = (pod.clone(), self.api.lease.number);
                let slow = if self.random.percent(5) { self.random.around(30_000) } else { 0 };
                let not_before = self.now + slow;
                let answer = Answer { replica: at, term, pod, node, admission, not_before };
                self.flights.push(Flight::Answer(answer));
            }
            BindingVerdict::Rejected { .. } => self.counts.rejected += 1,
            BindingVerdict::Unavailable { .. } => self.counts.unavailable += 1,
            _ => {}
        }
    }

    /// Changes a pod as other writers do, such as a scheduler that reports its condition.
    fn write_elsewhere(&mut self) {
        if let Some(name) = self.some_pod() {
            self.api.update(&name, |pod| {
                pod.status.reason = Some("Reported".to_owned());
            });
        }
    }

    fn some_pod(&mut self) -> Option<Name> {
        let at = self.random.index(self.api.pods.len());
        self.api.pods.keys().nth(at).cloned()
    }

    fn create(&mut self) {
        let pending = self.api.pods.values().filter(|pod| pod.node_name().is_none()).count();
        if pending < PENDING {
            let mib = *self.random.pick(&SIZES);
            self.api.create(mib);
        }
    }

    /// Deletes a pod: one without a node at once, another when its container has ended.
    fn delete(&mut self) {
        let Some(name) = self.some_pod() else { return };
        match self.api.pods[&name].node_name() {
            None => self.api.remove(&name),
            Some(_) => self.api.update(&name, |pod| {
                pod.metadata.deletion_timestamp.get_or_insert("2026-01-02T00:00:00Z".to_owned());
            }),
        }
    }

    fn complete(&mut self) {
        if !self.machines.running.is_empty() {
            let at = self.random.index(self.machines.running.len());
            self.machines.complete(&mut self.api, at);
        }
    }

    /// Stops a replica; answers that it has decided may be stopped with it.
    fn pause(&mut self) {
        let at = self.random.index(self.replicas.len());
        let until = self.now + self.random.around(20_000);
        self.replicas[at].paused_until = until;
        for flight in &mut self.flights {
            if let Flight::Answer(answer) = flight
                && answer.replica == at
                && self.random.percent(70)
            {
                answer.not_before = until;
            }
        }
        self.counts.pauses += 1;
    }

    fn crash(&mut self) {
        if self.faults == Faults::Crashes {
            let at = self.random.index(self.replicas.len());
            let process = self.replicas[at].process + 1;
            self.replicas[at] = Replica::start(process, &self.api, &self.machines.nodes, self.now);
            self.counts.crashes += 1;
        }
    }

    fn lose_watch(&mut self) {
        let at = self.random.index(self.replicas.len());
        let lists_at = self.now + self.random.around(3_000);
        self.replicas[at].lose_watch(lists_at);
        self.counts.watches_lost += 1;
    }

    /// Gives the lease up, as a replica does that is replaced: it stops deciding first.
    fn hand_over(&mut self) {
        if let Some(at) = self.api.lease.holder
            && !self.replicas[at].is_paused(self.now)
        {
            self.replicas[at].with(self.now, |watch, _| watch.end_term());
            self.api.lease.holder = None;
        }
    }

    fn reboot_or_cut_off(&mut self) {
        let at = self.random.index(self.machines.nodes.len());
        if self.random.percent(50) {
            self.machines.nodes[at].cut_off_until = self.now + self.random.around(60_000);
            return;
        }
        self.machines.reboot(at);
        self.counts.reboots += 1;
        let changed = node(&self.machines.nodes[at]);
        for replica in &mut self.replicas {
            replica.observe(self.now, vec![Observation::Applied(changed.clone())]);
        }
    }

    /// Deletes a pod without waiting for its container. A replica that never saw the pod bound
    /// could not know about it: that is what the record of holders is for.
    fn delete_by_force(&mut self) {
        if self.faults != Faults::ForcedDeletions || self.machines.running.is_empty() {
            return;
        }
        let at = self.random.index(self.machines.running.len());
        let name = self.machines.running[at].pod.clone();
        let is_known = self.api.pods.get(&name).is_some_and(|pod| {
            uid_of(pod) == self.machines.running[at].uid
                && self.replicas.iter().all(|replica| replica.knows_bound(pod))
        });
        if is_known {
            self.machines.running[at].is_orphaned = true;
            self.api.remove(&name);
            self.counts.forced_deletions += 1;
        }
    }
}

/// Returns what a touch would return, without having been written.
fn pretend_touched(read: ErrandOutcome, revision: u64) -> ErrandOutcome {
    match read {
        ErrandOutcome::Object(mut pod) if pod.node_name().is_none() => {
            pod.metadata.resource_version = Some((revision + 1).to_string());
            ErrandOutcome::Object(pod)
        }
        other => other,
    }
}
