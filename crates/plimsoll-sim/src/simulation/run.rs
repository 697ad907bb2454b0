//! A cluster as events, and the machine's outcomes as placements and rejections.

use std::collections::BTreeMap;

use plimsoll_core::decide::Decision;
use plimsoll_core::event::{self, Event, Settings};
use plimsoll_core::gang::Gang;
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::request::{Request, RequestId};
use plimsoll_core::scheduler::{Scheduler, Turns};
use plimsoll_core::verdict::Candidate;
use plimsoll_kube::cluster::Cluster;

use super::advice::Advisor;
use super::{
    Advising, NOW, Outlook, Placed, Rejected, Simulation, Uncounted, WhyUncounted, foreign,
};

/// Shows a machine the nodes, what was measured on them, and what runs.
pub(super) fn observe(cluster: &Cluster, settings: &Settings) -> (Scheduler, Vec<Uncounted>) {
    let mut scheduler = Scheduler::new(settings.clone());
    let mut uncounted = Vec::new();
    for facts in &cluster.nodes {
        let _ = scheduler.step(NOW, Event::Node { node: Box::new(facts.node.clone()) });
        for (node, ordinal, measured) in foreign(facts) {
            let _ = scheduler.step(NOW, Event::Measured { node, ordinal, measured });
        }
    }
    for holding in &cluster.running {
        // A server keeps what runs on an unknown node for the node's own report. Here all nodes
        // were read, and none will be reported later.
        match scheduler.ledger().check_observed(holding) {
            Ok(()) => {
                let holding = Box::new(holding.clone());
                let _ = scheduler.step(NOW, Event::Observed { holding });
            }
            Err(error) => uncounted.push(Uncounted {
                request: holding.request.clone(),
                why: WhyUncounted::Unobservable(error),
            }),
        }
    }
    (scheduler, uncounted)
}

/// Observes what runs, then submits each pending pod in its turn; a gang whole, in the turn of its
/// first member.
pub(super) fn run(
    cluster: &Cluster,
    settings: &Settings,
    advising: &Advising,
    watch: &mut dyn FnMut(&Decision),
) -> Simulation {
    let (scheduler, uncounted) = observe(cluster, settings);
    let mut run = Run {
        cluster,
        scheduler,
        uncounted,
        advisor: Advisor::new(advising, &settings.policy),
        watch,
        submitted: BTreeMap::new(),
        gangs: BTreeMap::new(),
        turns: Vec::new(),
        answers: BTreeMap::new(),
    };
    let members = members_of_gangs(cluster);
    let pods = cluster.pending.iter().enumerate();
    let entries = pods.map(|(pending, pod)| PodInTurn {
        pending,
        entry: PendingRequest::new(NOW, pod.request.clone()),
    });
    let mut turns = Turns::new(&run.scheduler, entries);
    while let Some(PodInTurn { pending, .. }) = turns.next(&run.scheduler) {
        match cluster.pending[pending].gang {
            None => run.submit(pending),
            Some(gang) if run.gangs.contains_key(&gang) => {}
            Some(gang) => run.submit_gang(gang, &members[&gang]),
        }
    }
    run.finish()
}

/// A pending pod whose turn is to come: among accounts with shares, each placement changes it.
struct PodInTurn {
    /// Its index among the pending pods.
    pending: usize,
    entry: PendingRequest,
}

impl AsRef<PendingRequest> for PodInTurn {
    fn as_ref(&self) -> &PendingRequest {
        &self.entry
    }
}

/// The pending pods of each gang, by the gang's index.
fn members_of_gangs(cluster: &Cluster) -> BTreeMap<usize, Vec<usize>> {
    let mut gangs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (pending, pod) in cluster.pending.iter().enumerate() {
        if let Some(gang) = pod.gang {
            gangs.entry(gang).or_default().push(pending);
        }
    }
    gangs
}

struct Run<'a> {
    cluster: &'a Cluster,
    scheduler: Scheduler,
    uncounted: Vec<Uncounted>,
    advisor: Advisor<'a>,
    watch: &'a mut dyn FnMut(&Decision),
    /// The pods that were submitted, by their index among the pending.
    submitted: BTreeMap<RequestId, usize>,
    /// The gangs that were submitted, by their index among the cluster's gangs.
    gangs: BTreeMap<usize, Gang>,
    /// The pods that were decided, in the order in which they were decided first.
    turns: Vec<usize>,
    /// The latest answer to each of them. The machine may decide a pod again when a later one takes
    /// what was promised to it.
    answers: BTreeMap<usize, Answer>,
}

enum Answer {
    Placed(Candidate),
    Rejected(Box<Rejected>),
}

impl Run<'_> {
    fn submit(&mut self, pending: usize) {
        if let Some(request) = self.register(pending) {
            self.step(Event::Submit { request, deadline: None });
        }
    }

    fn submit_gang(&mut self, index: usize, members: &[usize]) {
        let facts = &self.cluster.gangs[index];
        let name = facts.name.clone();
        // Only the number of running members is known, so that the rest of the minimum is
        // submitted.
        let minimum = facts.minimum.saturating_sub(facts.running);
        let members: Vec<Request> =
            members.iter().filter_map(|member| self.register(*member)).collect();
        let gang = Gang { name: name.clone(), minimum, members: members.clone() };
        self.gangs.insert(index, gang);
        self.step(Event::SubmitGang { name, minimum, members });
    }

    /// Records that a pod is submitted. The scheduler answers a known name with its earlier answer,
    /// so that a name that was read twice is reported here.
    fn register(&mut self, pending: usize) -> Option<Request> {
        let request = &self.cluster.pending[pending].request;
        let runs = self.scheduler.ledger().of_request(&request.id).is_some();
        if runs || self.submitted.contains_key(&request.id) {
            let (request, why) = (request.id.clone(), WhyUncounted::SameName);
            self.uncounted.push(Uncounted { request, why });
            return None;
        }
        self.submitted.insert(request.id.clone(), pending);
        Some(request.clone())
    }

    /// Steps the machine, and takes down what it decided.
    fn step(&mut self, event: Event) {
        let outcome = self.scheduler.step(NOW, event);
        let answers = outcome.answers;
        for decision in outcome.decisions {
            (self.watch)(&decision);
            let pending = self.submitted[&decision.request];
            let answer = match decision.chosen() {
                Some(found) => Answer::Placed(found.clone()),
                None => {
                    let pod = &self.cluster.pending[pending];
                    let gang = pod.gang.and_then(|gang| self.gangs.get(&gang));
                    let ledger = self.scheduler.ledger();
                    let advice = self.advisor.advise(ledger, &pod.request, &decision, gang);
                    let outlook = outlook(&answers, &decision.request);
                    Answer::Rejected(Box::new(Rejected { pending, decision, advice, outlook }))
                }
            };
            if self.answers.insert(pending, answer).is_none() {
                self.turns.push(pending);
            }
        }
    }

    fn finish(mut self) -> Simulation {
        let (mut placed, mut rejected) = (Vec::new(), Vec::new());
        for pending in self.turns {
            match self.answers.remove(&pending) {
                Some(Answer::Placed(found)) => placed.push(Placed { pending, found }),
                Some(Answer::Rejected(answer)) => rejected.push(*answer),
                None => {}
            }
            self.submitted.remove(&self.cluster.pending[pending].request.id);
        }
        let deferred = self.submitted.into_keys();
        self.uncounted
            .extend(deferred.map(|request| Uncounted { request, why: WhyUncounted::Deferred }));
        Simulation { scheduler: self.scheduler, placed, rejected, uncounted: self.uncounted }
    }
}

/// Returns the prospects that the machine answered with. A pod that it decided without an answer
/// stays in its queue.
fn outlook(answers: &[event::Answer], request: &RequestId) -> Outlook {
    let is_impossible = |answer: &event::Answer| {
        matches!(answer, event::Answer::Impossible { .. }) && answer.request() == request
    };
    if answers.iter().any(is_impossible) { Outlook::Impossible } else { Outlook::Pending }
}
