//! What would happen: running work observed as it is, then each waiting pod placed in its turn. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::decide::Decision;
use plimsoll_core::evict;
use plimsoll_core::gang::{self, Gang};
use plimsoll_core::ledger::{Ledger, Promise};
use plimsoll_core::memo::Memo;
use plimsoll_core::policy::Policy;
use plimsoll_core::reason::Change;
use plimsoll_core::remedy::{self, Kind, Remedy};
use plimsoll_core::request::{Request, RequestId, Spec};
use plimsoll_core::room::Measured;
use plimsoll_core::summary;
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::{Candidate, NodeVerdict};
use plimsoll_kube::cluster::{Cluster, NodeFacts};

use crate::{plain, whole};

/// A cluster after every pending pod had its turn.
pub(crate) struct Simulation {
    /// Who holds what in the end.
    pub(crate) ledger: Ledger,
    /// The policy that chose.
    pub(crate) policy: Policy,
    /// Pods that found a place, in the order of their turns.
    pub(crate) placed: Vec<Placed>,
    /// Pods that found none, in the order of their turns.
    pub(crate) refused: Vec<Refused>,
    /// Pods that could not be counted at all, and why.
    pub(crate) astray: Vec<Astray>,
}

/// A pending pod that found a place.
pub(crate) struct Placed {
    /// Its index among [`Cluster::pending`].
    pub(crate) pending: usize,
    /// Where, and how good that is.
    pub(crate) found: Candidate,
}

/// A pending pod that found no place.
pub(crate) struct Refused {
    /// Its index among [`Cluster::pending`].
    pub(crate) pending: usize,
    /// The refusal with all that it was made from.
    pub(crate) decision: Decision,
    /// Whether the search was cut off, so that this is not a no by any rule.
    pub(crate) cut_off: bool,
    /// What would help.
    pub(crate) advice: Arc<Advice>,
}

impl Refused {
    /// The refusal in one sentence, with the nearest miss.
    pub(crate) fn sentence(&self) -> String {
        let mut sentence = summary::sentence(&self.decision);
        if let Some(in_the_way) = self.in_the_way() {
            sentence = format!("{sentence} ({in_the_way})");
        }
        if self.cut_off {
            format!("{sentence}; not found within the search's steps")
        } else {
            sentence
        }
    }

    /// Who is on the first device that would do without its tenants, where memory is not what is lacking: the core's
    /// sentence names holders only beside a nearest miss.
    fn in_the_way(&self) -> Option<String> {
        if self.decision.nearest_miss().is_some()
            || self.decision.table()?.unordered().any(|v| v.fits())
        {
            return None;
        }
        let verdicts =
            self.decision.table()?.by_name().into_iter().filter(|verdict| verdict.reason.is_none());
        let occupied = |verdict: NodeVerdict| {
            let devices =
                verdict.needs.iter().filter(|need| !need.passed).flat_map(|need| &need.devices);
            let device = devices.filter(|device| {
                device.reason.as_ref().is_some_and(|r| r.clears_on() == Change::LoadFell)
            });
            let (ordinal, holders) = device
                .map(|device| (device.ordinal, summary::holders(verdict, device.ordinal)))
                .find(|(_, holders)| !holders.is_empty())?;
            let label = verdict.view.node.device_label(usize::from(ordinal));
            Some(format!("{label} on {} is held by {holders}", verdict.view.node.name))
        };
        verdicts.into_iter().find_map(occupied)
    }
}

/// What would help a refused pod, as found on the very ledger that refused it.
#[derive(Default)]
pub(crate) struct Advice {
    /// Verified changes, those that harm nobody first.
    pub(crate) would_fit_if: Vec<Remedy>,
    /// The place that those who are leaving already will make.
    pub(crate) promised: Option<Promised>,
}

/// A place that will be there once somebody has gone who is going already.
#[derive(Clone)]
pub(crate) struct Promised {
    /// As the ledger keeps it.
    pub(crate) promise: Promise,
    /// For each device that it gets, its name; where the plugin picks the card, the names of all it may pick.
    pub(crate) devices: Vec<Vec<String>>,
}

impl Promised {
    /// A promise with the names of its devices.
    pub(crate) fn of(ledger: &Ledger, promise: Promise) -> Self {
        let names = |on: &Vec<u16>| labels(ledger, &promise.placement.node, on.iter().copied());
        let devices = promise.charges.iter().map(|charge| names(&charge.on)).collect();
        Promised { promise, devices }
    }
}

/// A pod that could not be counted.
pub(crate) struct Astray {
    /// Which.
    pub(crate) request: RequestId,
    /// Why, reading after its name.
    pub(crate) why: String,
}

/// Who looks on while pods are placed.
pub(crate) struct Onlooker<'a> {
    /// Is shown every decision before it is carried out.
    pub(crate) watch: &'a mut dyn FnMut(&Decision),
    /// Says whose refusal deserves a search for what would help. What is on its way back is promised to everybody in turn.
    pub(crate) advise: &'a dyn Fn(&RequestId) -> bool,
    /// Steps that one such search may take.
    pub(crate) patience: u32,
}

/// Steps for each refused pod where all are advised. Where refusals and placements alternate each one is searched for anew,
/// and with the policy's own steps that is most of the time of a large simulation. Who explains one pod takes those.
pub(crate) const BRIEFLY: u32 = 2_000;

/// The ledger of what runs, before anything is placed; and who could not be counted.
pub(crate) fn observe(cluster: &Cluster) -> (Ledger, Vec<Astray>) {
    let mut ledger = Ledger::default();
    let mut astray = Vec::new();
    for facts in &cluster.nodes {
        ledger.put_node(facts.node.clone());
        for (node, ordinal, measured) in foreign(facts) {
            ledger.measure(&node, ordinal, measured).expect("the node was put just now");
        }
    }
    for holding in &cluster.running {
        if let Err(error) = ledger.observe(holding.clone()) {
            astray.push(Astray {
                request: holding.request.clone(),
                why: format!("is not counted: {error}"),
            });
        }
    }
    (ledger, astray)
}

/// Memory of a node's devices that is declared to be in use by nobody who was read.
pub(crate) fn foreign(facts: &NodeFacts) -> impl Iterator<Item = (Name, u16, Measured)> + '_ {
    let measured = |foreign: Bytes| Measured { foreign, ..Measured::default() };
    facts
        .foreign
        .iter()
        .map(move |(ordinal, bytes)| (facts.node.name.clone(), *ordinal, measured(*bytes)))
}

/// Observes what runs, then gives every pending pod its turn; the refused ones are told what would help.
pub(crate) fn simulate(
    cluster: &Cluster,
    policy: &Policy,
    onlooker: &mut Onlooker<'_>,
) -> Simulation {
    let mut simulation = turns(cluster, policy, onlooker);
    plain::propose(cluster, policy, &mut simulation, onlooker.advise);
    simulation
}

/// Observes what runs, then gives every pending pod its turn.
pub(crate) fn turns(cluster: &Cluster, policy: &Policy, onlooker: &mut Onlooker<'_>) -> Simulation {
    let (ledger, astray) = observe(cluster);
    let releasing = ledger.holdings().any(|(_, holding)| holding.stage.is_releasing());
    let simulation = Simulation {
        ledger,
        policy: policy.clone(),
        placed: Vec::new(),
        refused: Vec::new(),
        astray,
    };
    let mut run = Run {
        cluster,
        simulation,
        onlooker,
        memo: Memo::default(),
        advised: Advised::default(),
        releasing,
        gangs_done: Vec::new(),
    };
    for (index, pending) in cluster.pending.iter().enumerate() {
        match pending.gang {
            None => run.pod(index),
            Some(gang) if run.gangs_done.contains(&gang) => {}
            Some(gang) => run.gang(gang),
        }
    }
    run.simulation
}

struct Run<'a, 'o> {
    cluster: &'a Cluster,
    simulation: Simulation,
    onlooker: &'a mut Onlooker<'o>,
    memo: Memo,
    advised: Advised,
    /// Whether there is anything to promise.
    releasing: bool,
    gangs_done: Vec<usize>,
}

/// Advice that holds as long as the ledger does not change: 400 equal refusals cost one search. A promise is a change, so
/// that advice with one is never shared.
#[derive(Default)]
struct Advised {
    revision: u64,
    /// Also by whether a search for what would help was wanted.
    by_spec: BTreeMap<(bool, Arc<Spec>), Arc<Advice>>,
}

impl Run<'_, '_> {
    fn pod(&mut self, index: usize) {
        let request = &self.cluster.pending[index].request;
        if self.already_counted(request) {
            return;
        }
        let decision = self.memo.decide(&self.simulation.ledger, &self.simulation.policy, request);
        self.settle(index, decision);
    }

    /// Carries a decision out: a place is taken, a refusal is kept with what would help.
    fn settle(&mut self, index: usize, decision: Decision) {
        (self.onlooker.watch)(&decision);
        let request = &self.cluster.pending[index].request;
        if let Some(found) = decision.place() {
            let sent = self.simulation.ledger.send(request, &found.place);
            sent.expect("what decide proposes the commit admits, on the same ledger");
            self.simulation.placed.push(Placed { pending: index, found: found.clone() });
        } else {
            let advice = self.advise(request, &decision);
            self.simulation.refused.push(Refused {
                pending: index,
                decision,
                cut_off: false,
                advice,
            });
        }
    }

    fn advise(&mut self, request: &Request, refused: &Decision) -> Arc<Advice> {
        let wanted = (self.onlooker.advise)(&request.id);
        if !wanted && !self.releasing {
            return Arc::default();
        }
        let Simulation { ledger, policy, .. } = &mut self.simulation;
        let policy = &Policy { search_steps: self.onlooker.patience, ..policy.clone() };
        if self.advised.revision != ledger.revision() {
            self.advised = Advised { revision: ledger.revision(), ..Advised::default() };
        }
        let key = (wanted, request.spec.clone());
        if let Some(known) = self.advised.by_spec.get(&key) {
            return known.clone();
        }
        let mut would_fit_if =
            if wanted { remedy::remedies(ledger, policy, request, refused) } else { Vec::new() };
        // That rule is one for all pods, and `plain` tries it so; what it does for this pod alone proves nothing here.
        would_fit_if.retain(|remedy| remedy.kind != Kind::PlainRule);
        let plan = self.releasing.then(|| evict::after_releases(ledger, policy, request)).flatten();
        let promised = plan.map(|plan| Promised::of(ledger, plan.into()));
        let advice = Arc::new(Advice { would_fit_if, promised });
        match &advice.promised {
            Some(promised) => keep(ledger, request, promised),
            None => drop(self.advised.by_spec.insert(key, advice.clone())),
        }
        advice
    }

    /// Decides a gang whole, when the first of its members has its turn.
    fn gang(&mut self, index: usize) {
        self.gangs_done.push(index);
        let facts = &self.cluster.gangs[index];
        let pending = self.cluster.pending.iter().enumerate();
        let turns: Vec<usize> = pending
            .filter(|(_, member)| {
                member.gang == Some(index) && !self.already_counted(&member.request)
            })
            .map(|(turn, _)| turn)
            .collect();
        let gang = Gang {
            name: facts.name.clone(),
            minimum: facts.minimum.saturating_sub(facts.running),
            members: turns.iter().map(|turn| self.cluster.pending[*turn].request.clone()).collect(),
        };
        let answer = gang::decide_gang(&self.simulation.ledger, &self.simulation.policy, &gang);
        if answer.placed {
            self.settle_gang(&turns, answer.decisions);
        } else {
            self.refuse_gang(&gang, &turns, answer);
        }
    }

    /// Members with a place first. One that was left out is then asked for again, so that its reason is of the ledger as
    /// the others left it.
    fn settle_gang(&mut self, turns: &[usize], decisions: Vec<Decision>) {
        let mut left_out = Vec::new();
        for (turn, decision) in turns.iter().zip(decisions) {
            if decision.place().is_some() {
                self.settle(*turn, decision);
            } else {
                left_out.push(*turn);
            }
        }
        for turn in left_out {
            let request = &self.cluster.pending[turn].request;
            let decision =
                self.memo.decide(&self.simulation.ledger, &self.simulation.policy, request);
            self.settle(turn, decision);
        }
    }

    fn refuse_gang(&mut self, gang: &Gang, turns: &[usize], answer: gang::GangDecision) {
        let wanted = gang.members.iter().any(|member| (self.onlooker.advise)(&member.id));
        let Simulation { ledger, policy, .. } = &mut self.simulation;
        let policy = Policy { search_steps: self.onlooker.patience, ..policy.clone() };
        let advice = whole::advise(ledger, &policy, gang, wanted);
        for (member, advice) in gang.members.iter().zip(&advice) {
            if let Some(promised) = &advice.promised {
                keep(ledger, member, promised);
            }
        }
        let mut advice = advice.into_iter();
        for (turn, decision) in turns.iter().zip(answer.decisions) {
            (self.onlooker.watch)(&decision);
            let advice = advice.next().unwrap_or_default();
            self.simulation.refused.push(Refused {
                pending: *turn,
                decision,
                cut_off: answer.cut_off,
                advice,
            });
        }
    }

    /// Whether a pod of this very name and uid has its place already; it is said, and not counted twice.
    fn already_counted(&mut self, request: &Request) -> bool {
        let counted = self.simulation.ledger.of_request(&request.id).is_some();
        if counted {
            let why = "is not placed: a pod of the same name was counted already".to_string();
            self.simulation.astray.push(Astray { request: request.id.clone(), why });
        }
        counted
    }
}

/// Records a promise, so that those who come later are judged beside it.
fn keep(ledger: &mut Ledger, request: &Request, promised: &Promised) {
    let kept = ledger.promise(&request.id, promised.promise.clone());
    kept.expect("what was planned on this ledger names its nodes and devices");
}

/// The names of devices of a node, each once.
pub(crate) fn labels(
    ledger: &Ledger,
    node: &str,
    ordinals: impl Iterator<Item = u16>,
) -> Vec<String> {
    let Some(view) = ledger.view_of(node) else { return Vec::new() };
    let mut ordinals: Vec<u16> = ordinals.collect();
    ordinals.sort_unstable();
    ordinals.dedup();
    ordinals.iter().map(|ordinal| view.node.device_label(usize::from(*ordinal))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use plimsoll_core::device::Capacity;
    use plimsoll_core::request::Amount;

    #[test]
    fn four_of_five_fit_the_card_and_equal_refusals_share_one_search() {
        let cluster = fixture::time_sliced(400);
        let simulation = fixture::run(&cluster);
        assert_eq!((simulation.placed.len(), simulation.refused.len()), (4, 396));
        let first = &simulation.refused[0].advice;
        assert!(simulation.refused.iter().all(|refused| Arc::ptr_eq(&refused.advice, first)));
        assert!(
            simulation.refused[0]
                .sentence()
                .contains("needs 8000 MiB, 607 MiB free, short by 7393 MiB")
        );
    }

    #[test]
    fn a_gang_is_refused_whole_and_told_who_is_in_its_way() {
        let mut cluster = fixture::gang();
        let simulation = fixture::run(&cluster);
        assert_eq!((simulation.placed.len(), simulation.refused.len()), (0, 4));
        for refused in &simulation.refused {
            assert!(
                refused.sentence().contains("gang default/training needs 4"),
                "{}",
                refused.sentence()
            );
            let texts: Vec<&str> =
                refused.advice.would_fit_if.iter().map(|remedy| &*remedy.text).collect();
            assert_eq!(texts, ["default/busy gave up (80 GiB)"]);
        }
        cluster.running.clear();
        assert_eq!(fixture::run(&cluster).placed.len(), 4);
    }

    #[test]
    fn members_that_run_count_towards_the_minimum() {
        let mut cluster = fixture::gang();
        cluster.gangs[0].running = 1;
        assert_eq!(
            fixture::run(&cluster).placed.len(),
            3,
            "three of four are enough beside the one that runs"
        );
    }

    #[test]
    fn memory_on_its_way_back_is_promised_and_not_granted() {
        let cluster = fixture::releasing();
        let simulation = fixture::run(&cluster);
        let [refused] = &simulation.refused[..] else { panic!("one is refused") };
        let promised = refused.advice.promised.as_ref().expect("the release will make room");
        assert_eq!(promised.devices, [["node/gpu-0"]]);
        assert_eq!(promised.promise.after[0].to_string(), "default/leaving");
    }

    #[test]
    fn what_is_promised_to_one_is_not_promised_to_the_next() {
        let promised = |cluster: &Cluster, advise: &dyn Fn(&RequestId) -> bool| -> Vec<bool> {
            let mut onlooker = Onlooker { watch: &mut |_| {}, advise, patience: BRIEFLY };
            let simulation = simulate(cluster, &Policy::default(), &mut onlooker);
            simulation.refused.iter().map(|refused| refused.advice.promised.is_some()).collect()
        };
        let mut cluster = fixture::releasing();
        cluster.pending.push(fixture::pending("larger", Amount::bytes(Bytes::gib(60))));
        assert_eq!(promised(&cluster, &|_| true), [true, false]);
        assert_eq!(
            promised(&cluster, &|id| &*id.name == "larger"),
            [true, false],
            "whoever is asked about"
        );
        let equal =
            |i: usize| fixture::pending(&format!("equal-{i}"), Amount::bytes(Bytes::gib(30)));
        cluster.pending = (0..4).map(equal).collect();
        assert_eq!(promised(&cluster, &|_| true), [true, true, false, false]);
    }

    #[test]
    fn what_is_promised_to_a_gang_is_promised_to_nobody_else() {
        let mut cluster = fixture::gang();
        cluster.running[0].stage =
            plimsoll_core::charge::Stage::Releasing { since: Default::default() };
        cluster.pending.push(fixture::pending("late", Amount::Whole));
        let simulation = fixture::run(&cluster);
        let promised: Vec<bool> =
            simulation.refused.iter().map(|r| r.advice.promised.is_some()).collect();
        assert_eq!(promised, [true, true, true, true, false]);
    }

    #[test]
    fn a_refusal_that_is_not_about_memory_names_the_holder_too() {
        let mut cluster = fixture::gang();
        cluster.gangs.clear();
        cluster.nodes.truncate(1);
        cluster.nodes[0].node.devices.truncate(1);
        cluster.nodes[0].node.devices[0].memory.total =
            Capacity::Unknown { missing: "its memory".into() };
        cluster.pending = vec![fixture::pending("plain", Amount::Whole)];
        let simulation = fixture::run(&cluster);
        let sentence = simulation.refused[0].sentence();
        assert!(sentence.contains("is held by default/busy"), "{sentence}");
    }

    #[test]
    fn memory_that_is_declared_foreign_is_not_free() {
        let mut cluster = fixture::time_sliced(4);
        cluster.nodes[0].foreign.push((0, Bytes::mib(1000)));
        assert_eq!(fixture::run(&cluster).placed.len(), 3);
    }

    #[test]
    fn a_pod_that_is_listed_twice_is_counted_once() {
        let mut cluster = fixture::time_sliced(1);
        cluster.pending.push(cluster.pending[0].clone());
        let simulation = fixture::run(&cluster);
        assert_eq!((simulation.placed.len(), simulation.astray.len()), (1, 1));
    }

    #[test]
    fn a_pod_on_a_node_that_was_not_read_is_named() {
        let mut cluster = fixture::releasing();
        cluster.running[0].node = "elsewhere".into();
        let simulation = fixture::run(&cluster);
        assert_eq!(simulation.astray[0].why, "is not counted: there is no node elsewhere");
    }
}
