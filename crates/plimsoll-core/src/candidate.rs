//! Which devices of one node would serve a request, in a fixed order of preference: exact within a number of steps.

use std::ops::ControlFlow;

use crate::fit::{self, Placement, Taken, Trial};
use crate::policy::Policy;
use crate::reason::{NodeReason, Reason};
use crate::request::{Container, Need, Shape, Spec};
use crate::room::NodeView;
use crate::score::{self, Added, FULL};
use crate::units::Bytes;
use crate::verdict::{Candidate, DeviceVerdict, NeedVerdict, NodeVerdict};

/// Judges one node for one shape of a request: every need on every device, and the best place if there is one.
pub fn judge(view: &NodeView, policy: &Policy, spec: &Spec, shape_index: u16) -> NodeVerdict {
    let shape = &spec.shapes()[usize::from(shape_index)];
    let reason = fit::fit_node(view, spec);
    let search = Search::new(view, policy, spec, shape);
    let (needs, greedy) = search.first_choice();
    let refused = |reason| NodeVerdict {
        view: view.clone(),
        reason,
        needs: needs.clone(),
        best: None,
    };
    if reason.is_some() {
        return refused(reason);
    }
    let found = match greedy {
        Some(found) => Some(found),
        None if search.needs.len() > 1 => match search.any_choice() {
            Ok(found) => found,
            Err(steps) => return refused(Some(NodeReason::NotFound { steps })),
        },
        None => None,
    };
    let Some(picks) = found else { return refused(None) };
    let score = search.score(&picks);
    let needs = if needs.iter().all(|need| need.passed) {
        needs
    } else {
        search.along(&picks)
    };
    let place = Placement {
        node: view.node.name.clone(),
        shape: shape_index,
        picks,
    };
    NodeVerdict {
        view: view.clone(),
        reason: None,
        needs,
        best: Some(Candidate { place, score }),
    }
}

/// How good a given place is.
pub fn score_of(view: &NodeView, policy: &Policy, spec: &Spec, place: &Placement) -> score::Score {
    let shape = &spec.shapes()[usize::from(place.shape)];
    Search::new(view, policy, spec, shape).score(&place.picks)
}

/// Every place on a node, best first, until the visitor has seen enough or the steps run out.
/// Devices that are alike in everything that matters stand for each other.
pub fn each_place(
    view: &NodeView,
    policy: &Policy,
    spec: &Spec,
    shape_index: u16,
    steps: &mut u32,
    visit: &mut dyn FnMut(Placement) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, OutOfSteps> {
    if fit::fit_node(view, spec).is_some() {
        return Ok(ControlFlow::Continue(()));
    }
    let search = Search::new(view, policy, spec, &spec.shapes()[usize::from(shape_index)]);
    let mut trial = Trial::new(&view.node, &view.room);
    let mut picks = Vec::new();
    search.descend(&mut trial, &mut picks, steps, &mut |picks| {
        visit(Placement {
            node: view.node.name.clone(),
            shape: shape_index,
            picks: picks.to_vec(),
        })
    })
}

/// The search was cut off; what it did not find may still be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSteps;

struct Search<'a> {
    view: &'a NodeView,
    policy: &'a Policy,
    spec: &'a Spec,
    shape: &'a Shape,
    needs: Vec<(usize, &'a Container, &'a Need)>,
    /// Whether devices of the same state may stand for each other: not where a need names them.
    alike: bool,
}

/// A device that fits a need, and what it would give.
struct Fitting {
    ordinal: u16,
    taken: Taken,
    /// How much it is liked; higher is better.
    liking: i64,
    opens: bool,
}

type Picks = Vec<Vec<u16>>;

impl<'a> Search<'a> {
    fn new(view: &'a NodeView, policy: &'a Policy, spec: &'a Spec, shape: &'a Shape) -> Self {
        let needs: Vec<_> = fit::needs(shape).collect();
        let named = |(_, _, need): &(usize, &Container, &Need)| {
            !need.wishes.uuids.is_empty() || !need.wishes.not_uuids.is_empty()
        };
        let alike = !needs.iter().any(named);
        Search {
            view,
            policy,
            spec,
            shape,
            needs,
            alike,
        }
    }

    /// Serves the needs in order, each with the devices it likes best. Every need is judged, also after one failed.
    fn first_choice(&self) -> (Vec<NeedVerdict>, Option<Picks>) {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        let mut verdicts = Vec::with_capacity(self.needs.len());
        let mut picks = Some(Vec::with_capacity(self.needs.len()));
        for &(index, container, need) in &self.needs {
            let (mut verdict, fitting) = self.judge_need(&trial, index, container, need);
            let pick = self.best_pick(&trial, need, &fitting);
            match &pick {
                Some(pick) => self.take(&mut trial, index, container, pick, &fitting, need),
                None => self.say_why_too_few(&trial, need, &mut verdict),
            }
            verdict.passed = pick.is_some();
            verdicts.push(verdict);
            picks = picks.zip(pick).map(|(mut picks, pick)| {
                picks.push(pick);
                picks
            });
        }
        (verdicts, picks)
    }

    /// The verdicts along a choice that was found later.
    fn along(&self, picks: &Picks) -> Vec<NeedVerdict> {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        let mut verdicts = Vec::with_capacity(self.needs.len());
        for (&(index, container, need), pick) in self.needs.iter().zip(picks) {
            let (mut verdict, fitting) = self.judge_need(&trial, index, container, need);
            self.take(&mut trial, index, container, pick, &fitting, need);
            verdict.passed = true;
            verdicts.push(verdict);
        }
        verdicts
    }

    /// The first choice that serves all needs, by trying all; an error holds the steps when they ran out.
    fn any_choice(&self) -> Result<Option<Picks>, u32> {
        let mut steps = self.policy.search_steps;
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        let mut found = None;
        let mut keep = |picks: &Picks| {
            found = Some(picks.clone());
            ControlFlow::Break(())
        };
        match self.descend(&mut trial, &mut Vec::new(), &mut steps, &mut keep) {
            Ok(_) => Ok(found),
            Err(OutOfSteps) => Err(self.policy.search_steps),
        }
    }

    fn descend(
        &self,
        trial: &mut Trial<'a>,
        picks: &mut Picks,
        steps: &mut u32,
        visit: &mut dyn FnMut(&Picks) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, OutOfSteps> {
        let Some(&(index, container, need)) = self.needs.get(picks.len()) else {
            return Ok(visit(picks));
        };
        let (_, fitting) = self.judge_need(trial, index, container, need);
        for pick in self.all_picks(trial, need, &fitting) {
            *steps = steps.checked_sub(1).ok_or(OutOfSteps)?;
            let mut next = trial.clone();
            self.take(&mut next, index, container, &pick, &fitting, need);
            picks.push(pick);
            let flow = self.descend(&mut next, picks, steps, visit)?;
            picks.pop();
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn judge_need(
        &self,
        trial: &Trial,
        index: usize,
        container: &Container,
        need: &Need,
    ) -> (NeedVerdict, Vec<Fitting>) {
        let node = &self.view.node;
        let mut devices = Vec::with_capacity(node.devices.len());
        let mut fitting = Vec::new();
        for (ordinal, device) in (0_u16..)
            .zip(&node.devices)
            .filter(|(_, device)| device.kind == need.kind)
        {
            let at = usize::from(ordinal);
            let (amount, reason) = match trial.fit(index, container.role, need, at) {
                Ok(taken) => {
                    let room = &self.view.room.devices()[at];
                    let peak = taken.peak;
                    let added = Added {
                        bytes: peak.get(),
                        cores: taken.cores,
                        slots: taken.slots,
                    };
                    let fill = score::device_fill(device, room, added, self.policy.fullness);
                    let liking = match self.policy.devices {
                        crate::request::Order::Pack => fill,
                        crate::request::Order::Spread => FULL - fill,
                    };
                    fitting.push(Fitting {
                        ordinal,
                        taken,
                        liking,
                        opens: room.tenants().is_empty(),
                    });
                    (Some(peak), None)
                }
                Err(reason) => (
                    reason
                        .need()
                        .or_else(|| trial.would_hold(container.role, need, at)),
                    Some(reason),
                ),
            };
            devices.push(DeviceVerdict {
                ordinal,
                need: amount,
                reason,
            });
        }
        let wanted = need.count.get();
        let container = u16::try_from(index).unwrap_or(u16::MAX);
        let verdict = NeedVerdict {
            container,
            wanted,
            devices: devices.into_boxed_slice(),
            passed: false,
        };
        fitting.sort_by_key(|fit| (std::cmp::Reverse(fit.liking), fit.ordinal));
        (verdict, fitting)
    }

    fn take(
        &self,
        trial: &mut Trial,
        index: usize,
        container: &Container,
        pick: &[u16],
        fitting: &[Fitting],
        need: &Need,
    ) {
        let floating = self.view.node.floats(&need.kind);
        for ordinal in pick {
            let fit = fitting
                .iter()
                .find(|fit| fit.ordinal == *ordinal)
                .expect("a pick is made of fitting devices");
            trial.take(
                index,
                container.role,
                usize::from(*ordinal),
                fit.taken.clone(),
                floating,
            );
        }
    }

    fn best_pick(&self, trial: &Trial, need: &Need, fitting: &[Fitting]) -> Option<Vec<u16>> {
        let wanted = usize::from(need.count.get());
        if self.view.node.floats(&need.kind) {
            return self.floating_pick(trial, need, fitting);
        }
        if fitting.len() < wanted {
            return None;
        }
        let numa = self.best_by_numa(trial, need, fitting);
        if need.wishes.one_numa && wanted > 1 {
            return numa.map(|pick| self.best_linked(trial, need, fitting, pick));
        }
        let anywhere = first_of(fitting.iter(), wanted, trial.spare());
        let first = if self.policy.prefer_one_numa && wanted > 1 {
            numa.or(anywhere)
        } else {
            anywhere
        };
        first.map(|pick| self.best_linked(trial, need, fitting, pick))
    }

    /// Where the device plugin picks the card, the need must fit whichever card that is.
    fn floating_pick(&self, trial: &Trial, need: &Need, fitting: &[Fitting]) -> Option<Vec<u16>> {
        let cards: Vec<u16> = trial.pickable(&need.kind).collect();
        let all_fit = cards
            .iter()
            .all(|card| fitting.iter().any(|fit| fit.ordinal == *card));
        (need.count.get() == 1 && all_fit && !cards.is_empty()).then_some(cards)
    }

    /// The best liked devices that hang on one NUMA node.
    fn best_by_numa(&self, trial: &Trial, need: &Need, fitting: &[Fitting]) -> Option<Vec<u16>> {
        let numa = |fit: &Fitting| self.view.node.devices[usize::from(fit.ordinal)].numa;
        let mut groups: Vec<Option<u16>> = fitting.iter().map(numa).collect();
        groups.sort_unstable();
        groups.dedup();
        let wanted = usize::from(need.count.get());
        let in_group = |group: &Option<u16>| {
            let members = fitting.iter().filter(|fit| numa(fit) == *group);
            let pick = first_of(members, wanted, trial.spare())?;
            let liking = |ordinal: &u16| {
                fitting
                    .iter()
                    .find(|f| f.ordinal == *ordinal)
                    .map_or(0, |f| f.liking)
            };
            Some((pick.iter().map(liking).sum::<i64>(), pick))
        };
        let picks = groups.iter().filter_map(in_group);
        picks
            .max_by_key(|(liking, pick)| (*liking, std::cmp::Reverse(pick.first().copied())))
            .map(|(_, pick)| pick)
    }

    /// The best linked devices where links are known and wanted; a single device is the one that others miss least.
    fn best_linked(&self, trial: &Trial, need: &Need, fitting: &[Fitting], first: Vec<u16>) -> Vec<u16> {
        let node = &self.view.node;
        let known = fitting
            .iter()
            .any(|fit| !node.devices[usize::from(fit.ordinal)].links.is_empty());
        if !known || !(need.wishes.linked || (self.policy.prefer_links && first.len() > 1)) {
            return first;
        }
        if first.len() == 1 {
            let missed = |fit: &&Fitting| {
                node.devices[usize::from(fit.ordinal)]
                    .links
                    .values()
                    .map(|l| u64::from(*l))
                    .sum::<u64>()
            };
            return fitting
                .iter()
                .min_by_key(missed)
                .map_or(first, |fit| vec![fit.ordinal]);
        }
        let mut best = (score::links(node, &first), first);
        let limit = usize::try_from(self.policy.search_steps).unwrap_or(usize::MAX);
        for pick in self.all_picks(trial, need, fitting).take(limit) {
            let links = score::links(node, &pick);
            if links > best.0 {
                best = (links, pick);
            }
        }
        best.1
    }

    /// Every set of devices that would serve the need, the best liked first.
    fn all_picks<'s>(
        &'s self,
        trial: &'s Trial,
        need: &'s Need,
        fitting: &'s [Fitting],
    ) -> Box<dyn Iterator<Item = Vec<u16>> + 's> {
        if self.view.node.floats(&need.kind) {
            return Box::new(self.floating_pick(trial, need, fitting).into_iter());
        }
        let node = &self.view.node;
        let numa = |ordinal: &u16| node.devices[usize::from(*ordinal)].numa;
        let class = |at: usize| {
            if self.alike {
                self.class_of(trial, fitting, at)
            } else {
                at
            }
        };
        let classes: Vec<usize> = (0..fitting.len()).map(class).collect();
        let sets = Combinations::new(usize::from(need.count.get()), classes);
        Box::new(
            sets.map(move |set| set.into_iter().map(|at| &fitting[at]).collect::<Vec<_>>())
                .filter_map(move |set| {
                    let opens = set.iter().filter(|fit| fit.opens).count();
                    let mut pick: Vec<u16> = set.iter().map(|fit| fit.ordinal).collect();
                    let spare_ok = trial.spare().is_none_or(|spare| opens <= usize::from(spare));
                    let numa_ok =
                        !need.wishes.one_numa || pick.windows(2).all(|pair| numa(&pair[0]) == numa(&pair[1]));
                    pick.sort_unstable();
                    (spare_ok && numa_ok).then_some(pick)
                }),
        )
    }

    /// The first fitting device that is like this one in everything that a later need could look at.
    fn class_of(&self, trial: &Trial, fitting: &[Fitting], at: usize) -> usize {
        let same = |one: &Fitting, other: &Fitting| {
            let (a, b) = (usize::from(one.ordinal), usize::from(other.ordinal));
            let (devices, rooms) = (&self.view.node.devices, self.view.room.devices());
            one.taken == other.taken
                && devices[a].numa == devices[b].numa
                && devices[a].links.is_empty()
                && devices[b].links.is_empty()
                && devices[a].model == devices[b].model
                && devices[a].mode == devices[b].mode
                && devices[a].memory == devices[b].memory
                && devices[a].cores == devices[b].cores
                && devices[a].slots == devices[b].slots
                && devices[a].sharing == devices[b].sharing
                && devices[a].geometry == devices[b].geometry
                && rooms[a].same_sums(&rooms[b])
                && trial.same_own(a, b)
        };
        (0..at)
            .find(|&earlier| same(&fitting[earlier], &fitting[at]))
            .unwrap_or(at)
    }

    /// Gives the devices that would fit, but do not help, their reason.
    fn say_why_too_few(&self, trial: &Trial, need: &Need, verdict: &mut NeedVerdict) {
        let node = &self.view.node;
        let fits = |device: &&DeviceVerdict| device.reason.is_none();
        let fitting = verdict.devices.iter().filter(fits).count();
        let narrow = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let numa_of = |ordinal: u16| node.devices[usize::from(ordinal)].numa;
        let in_numa: Vec<u16> = verdict
            .devices
            .iter()
            .map(|d| {
                narrow(
                    verdict
                        .devices
                        .iter()
                        .filter(fits)
                        .filter(|o| numa_of(o.ordinal) == numa_of(d.ordinal))
                        .count(),
                )
            })
            .collect();
        let wanted = need.count.get();
        let floats = node.floats(&need.kind);
        let spare_short = trial.spare().is_some() && fitting >= usize::from(wanted);
        for (device, in_numa) in verdict
            .devices
            .iter_mut()
            .zip(in_numa)
            .filter(|(device, _)| device.reason.is_none())
        {
            device.reason = Some(if floats && wanted > 1 {
                Reason::ChoiceNotDistinct { wanted }
            } else if floats {
                Reason::ChoiceNotOwned
            } else if need.wishes.one_numa && fitting >= usize::from(wanted) {
                Reason::NumaNotFit {
                    fitting: in_numa,
                    wanted,
                }
            } else if spare_short {
                Reason::SomeCardFaulty {
                    bookable: narrow(node.devices.len()).saturating_sub(node.missing_cards),
                }
            } else {
                Reason::TooFew {
                    fitting: narrow(fitting),
                    wanted,
                }
            });
        }
    }

    fn score(&self, picks: &Picks) -> score::Score {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        for (&(index, container, need), pick) in self.needs.iter().zip(picks) {
            let floating = self.view.node.floats(&need.kind);
            for ordinal in pick {
                let at = usize::from(*ordinal);
                if let Ok(taken) = trial.fit(index, container.role, need, at) {
                    trial.take(index, container.role, at, taken, floating);
                }
            }
        }
        let chosen: Vec<(u16, Added)> = trial
            .charges(self.shape)
            .iter()
            .flat_map(|charge| {
                let bytes = charge.bytes().unwrap_or(Bytes::ZERO).get();
                let added = Added {
                    bytes,
                    cores: charge.cores.0,
                    slots: charge.slots,
                };
                charge.on.iter().map(move |ordinal| (*ordinal, added))
            })
            .collect();
        score::score(self.view, self.policy, self.spec, &chosen)
    }
}

/// The best liked `wanted` devices, with no more newly opened cards than can be.
fn first_of<'f>(
    fitting: impl Iterator<Item = &'f Fitting>,
    wanted: usize,
    spare: Option<u16>,
) -> Option<Vec<u16>> {
    let mut left = spare.map_or(usize::MAX, usize::from);
    let mut pick = Vec::with_capacity(wanted);
    for fit in fitting {
        if pick.len() == wanted {
            break;
        }
        if fit.opens && left == 0 {
            continue;
        }
        left -= usize::from(fit.opens);
        pick.push(fit.ordinal);
    }
    pick.sort_unstable();
    (pick.len() == wanted).then_some(pick)
}

/// Sets of `size` positions in lexicographic order; of positions of one class only the first ones are used.
struct Combinations {
    size: usize,
    classes: Vec<usize>,
    next: Option<Vec<usize>>,
}

impl Combinations {
    fn new(size: usize, classes: Vec<usize>) -> Self {
        let next = (size <= classes.len()).then(|| (0..size).collect());
        Combinations { size, classes, next }
    }

    fn advance(&self, mut set: Vec<usize>) -> Option<Vec<usize>> {
        let n = self.classes.len();
        let at = (0..self.size).rev().find(|&i| set[i] < n - self.size + i)?;
        set[at] += 1;
        for i in at + 1..self.size {
            set[i] = set[i - 1] + 1;
        }
        Some(set)
    }

    /// Whether each class is used from its front.
    fn is_canonical(&self, set: &[usize]) -> bool {
        set.iter().all(|&at| {
            let earlier = (0..at)
                .rev()
                .find(|&other| self.classes[other] == self.classes[at]);
            earlier.is_none_or(|other| set.contains(&other))
        })
    }
}

impl Iterator for Combinations {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        loop {
            let set = self.next.take()?;
            self.next = self.advance(set.clone());
            if self.is_canonical(&set) {
                return Some(set);
            }
        }
    }
}
