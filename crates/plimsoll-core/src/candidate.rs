//! Which devices of one node would serve a request, in a fixed order of preference: exact within a number of steps.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use crate::fit::{self, Placement, Taken, Trial};
use crate::policy::Policy;
use crate::reason::{NodeReason, Reason};
use crate::request::{Container, Need, Order, Shape, Spec};
use crate::room::NodeView;
use crate::score::{self, Added, FULL, Score};
use crate::units::Bytes;
use crate::verdict::{Candidate, DeviceVerdict, Finding, NeedVerdict};

mod combinations;
mod pick;

use pick::rank;

/// One shape of a request with its policy: what nodes are judged by.
pub struct Judge<'a> {
    policy: &'a Policy,
    spec: &'a Spec,
    shape: &'a Shape,
    shape_index: u16,
    needs: Vec<(usize, &'a Container, &'a Need)>,
    /// Whether devices of the same state may stand for each other: not where a need names them.
    alike: bool,
}

/// The search was cut off; what it did not find may still be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSteps;

impl<'a> Judge<'a> {
    /// The judge of one shape of a request.
    pub fn new(policy: &'a Policy, spec: &'a Spec, shape_index: u16) -> Self {
        let shape = &spec.shapes()[usize::from(shape_index)];
        let needs: Vec<_> = fit::needs(shape).collect();
        let named = |(_, _, need): &(usize, &Container, &Need)| need.wishes.names_devices();
        let alike = !needs.iter().any(named);
        Judge { policy, spec, shape, shape_index, needs, alike }
    }

    /// The same judge for one of several requests that may name devices: no device stands for another.
    #[must_use]
    pub fn telling_devices_apart(self) -> Self {
        Judge { alike: false, ..self }
    }

    /// Judges one node: every need on every device, and the best place if there is one.
    pub fn judge(&self, view: &NodeView) -> Finding {
        let search = Search { judge: self, view };
        let (needs, found) = search.first_choice();
        let reason = fit::fit_node(view, self.spec, self.shape);
        let node = view.node.name.clone();
        let mut finding = Finding { node, reason, needs, best: None, digest: OnceLock::new() };
        if finding.reason.is_some() {
            return finding;
        }
        let (picks, score) = match found {
            Some(found) => found,
            None if self.needs.len() < 2 => return finding,
            None => match search.any_choice() {
                Ok(Some(picks)) => {
                    finding.needs = search.along(&picks);
                    let score = search.score(&picks);
                    (picks, score)
                }
                Ok(None) => return finding,
                Err(steps) => {
                    finding.reason = Some(NodeReason::NotFound { steps });
                    return finding;
                }
            },
        };
        finding.best = Some(Candidate { place: self.place(view, picks), score });
        finding
    }

    /// How good a given place is.
    pub fn score(&self, view: &NodeView, place: &Placement) -> Score {
        Search { judge: self, view }.score(&place.picks)
    }

    /// Every place on a node, best first, until the visitor has seen enough or the steps run out.
    /// Devices that are alike in everything that matters stand for each other.
    pub fn each_place(
        &self,
        view: &NodeView,
        steps: &mut u32,
        visit: &mut dyn FnMut(Placement) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, OutOfSteps> {
        if fit::fit_node(view, self.spec, self.shape).is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        let search = Search { judge: self, view };
        let mut trial = Trial::new(&view.node, &view.room);
        search.descend(&mut trial, &mut Vec::new(), steps, &mut |picks| {
            visit(self.place(view, picks.clone()))
        })
    }

    fn place(&self, view: &NodeView, picks: Picks) -> Placement {
        Placement { node: view.node.name.clone(), shape: self.shape_index, picks }
    }
}

/// One judge on one node.
struct Search<'a> {
    judge: &'a Judge<'a>,
    view: &'a NodeView,
}

/// A device that fits a need, and what it would give.
struct Fitting {
    ordinal: u16,
    taken: Taken,
    /// How much it is liked; higher is better.
    liking: i64,
    opens: bool,
}

impl Fitting {
    fn added(&self) -> Added {
        Added { bytes: self.taken.peak.get(), cores: self.taken.cores, slots: self.taken.slots }
    }
}

type Picks = Vec<Vec<u16>>;

impl<'a> Search<'a> {
    /// Serves the needs in order, each with the devices it likes best. Every need is judged, also after one failed.
    fn first_choice(&self) -> (Vec<NeedVerdict>, Option<(Picks, Score)>) {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        if let [(index, container, need)] = self.judge.needs[..] {
            return self.single_choice(&trial, index, container, need);
        }
        let mut verdicts = Vec::with_capacity(self.judge.needs.len());
        let mut picks = Vec::with_capacity(self.judge.needs.len());
        for &(index, container, need) in &self.judge.needs {
            let (mut verdict, mut fitting) = self.judge_need(&trial, index, container, need);
            rank(&mut fitting);
            match self.best_pick(&trial, need, &fitting) {
                Some(pick) => {
                    self.take(&mut trial, index, container, &pick, &fitting, need);
                    verdict.passed = true;
                    picks.push(pick);
                }
                None => self.say_why_too_few(&trial, need, &mut verdict),
            }
            verdicts.push(verdict);
        }
        let found = (picks.len() == self.judge.needs.len()).then(|| {
            let score = self.score(&picks);
            (picks, score)
        });
        (verdicts, found)
    }

    /// The same for a request with a single need, which is most of them: nothing has to be tried out.
    fn single_choice(
        &self,
        trial: &Trial,
        index: usize,
        container: &Container,
        need: &Need,
    ) -> (Vec<NeedVerdict>, Option<(Picks, Score)>) {
        if need.count.get() == 1 && !need.wishes.linked && !self.view.node.floats(&need.kind) {
            return self.single_device(trial, index, container, need);
        }
        let (mut verdict, mut fitting) = self.judge_need(trial, index, container, need);
        rank(&mut fitting);
        let Some(pick) = self.best_pick(trial, need, &fitting) else {
            self.say_why_too_few(trial, need, &mut verdict);
            return (vec![verdict], None);
        };
        verdict.passed = true;
        let picked = fitting.iter().filter(|fit| pick.contains(&fit.ordinal));
        let chosen: Vec<(u16, Added)> = picked.map(|fit| (fit.ordinal, fit.added())).collect();
        let score = score::score(self.view, self.judge.policy, self.judge.spec, &chosen);
        (vec![verdict], Some((vec![pick], score)))
    }

    /// The same for a single device: the best liked one.
    fn single_device(
        &self,
        trial: &Trial,
        index: usize,
        container: &Container,
        need: &Need,
    ) -> (Vec<NeedVerdict>, Option<(Picks, Score)>) {
        let mut best: Option<(i64, u16, Added)> = None;
        let mut verdict = self.judge_each(trial, index, container, need, |fit| {
            if best.is_none_or(|(liking, ..)| fit.liking > liking) {
                best = Some((fit.liking, fit.ordinal, fit.added()));
            }
        });
        let Some((_, ordinal, added)) = best else { return (vec![verdict], None) };
        verdict.passed = true;
        let score =
            score::score(self.view, self.judge.policy, self.judge.spec, &[(ordinal, added)]);
        (vec![verdict], Some((vec![vec![ordinal]], score)))
    }

    /// The verdicts along a choice that was found later.
    fn along(&self, picks: &Picks) -> Vec<NeedVerdict> {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        let mut verdicts = Vec::with_capacity(self.judge.needs.len());
        for (&(index, container, need), pick) in self.judge.needs.iter().zip(picks) {
            let (mut verdict, fitting) = self.judge_need(&trial, index, container, need);
            self.take(&mut trial, index, container, pick, &fitting, need);
            verdict.passed = true;
            verdicts.push(verdict);
        }
        verdicts
    }

    /// The first choice that serves all needs, by trying all; an error holds the steps when they ran out.
    fn any_choice(&self) -> Result<Option<Picks>, u32> {
        let mut steps = self.judge.policy.search_steps;
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        let mut found = None;
        let mut keep = |picks: &Picks| {
            found = Some(picks.clone());
            ControlFlow::Break(())
        };
        match self.descend(&mut trial, &mut Vec::new(), &mut steps, &mut keep) {
            Ok(_) => Ok(found),
            Err(OutOfSteps) => Err(self.judge.policy.search_steps),
        }
    }

    fn descend(
        &self,
        trial: &mut Trial<'a>,
        picks: &mut Picks,
        steps: &mut u32,
        visit: &mut dyn FnMut(&Picks) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, OutOfSteps> {
        let Some(&(index, container, need)) = self.judge.needs.get(picks.len()) else {
            return Ok(visit(picks));
        };
        let (_, mut fitting) = self.judge_need(trial, index, container, need);
        rank(&mut fitting);
        for pick in self.all_picks(trial, need, &fitting) {
            *steps = steps.checked_sub(1).ok_or(OutOfSteps)?;
            let Some(pick) = pick else { continue };
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

    /// What every device of the need's kind says, and those that fit, by ordinal.
    fn judge_need(
        &self,
        trial: &Trial,
        index: usize,
        container: &Container,
        need: &Need,
    ) -> (NeedVerdict, Vec<Fitting>) {
        let mut fitting = Vec::with_capacity(self.view.node.devices.len());
        let verdict = self.judge_each(trial, index, container, need, |fit| fitting.push(fit));
        (verdict, fitting)
    }

    /// What every device of the need's kind says; those that fit are handed out, by ordinal.
    #[inline]
    fn judge_each(
        &self,
        trial: &Trial,
        index: usize,
        container: &Container,
        need: &Need,
        mut fits: impl FnMut(Fitting),
    ) -> NeedVerdict {
        let (node, gauges) = (&self.view.node, self.view.room.gauges());
        let kind = self.view.room.kind(&need.kind);
        let mut devices = Vec::with_capacity(gauges.len());
        for (ordinal, gauge) in (0_u16..).zip(gauges).filter(|(_, gauge)| Some(gauge.kind) == kind)
        {
            let at = usize::from(ordinal);
            let (amount, reason) = match trial.fit_kindred(index, container.role, need, at) {
                Ok(taken) => {
                    let peak = taken.bytes.map(|_| taken.peak);
                    let mut fit = Fitting {
                        ordinal,
                        taken,
                        liking: 0,
                        opens: trial.opens(usize::from(ordinal)),
                    };
                    let fill = score::device_fill(
                        &node.devices[at],
                        gauge,
                        fit.added(),
                        self.judge.policy.fullness,
                    );
                    fit.liking = match self.judge.policy.devices {
                        Order::Pack => fill,
                        Order::Spread => FULL - fill,
                    };
                    fits(fit);
                    (peak, None)
                }
                Err(reason) => {
                    let need = reason.need().or_else(|| trial.would_hold(container.role, need, at));
                    (need, Some(reason))
                }
            };
            devices.push(DeviceVerdict { ordinal, need: amount, reason });
        }
        let (container, wanted) = (u16::try_from(index).unwrap_or(u16::MAX), need.count.get());
        NeedVerdict { container, wanted, devices: devices.into_boxed_slice(), passed: false }
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
            trial.take(index, container.role, usize::from(*ordinal), fit.taken.clone(), floating);
        }
    }

    /// Gives the devices that would fit, but do not help, their reason.
    fn say_why_too_few(&self, trial: &Trial, need: &Need, verdict: &mut NeedVerdict) {
        let node = &self.view.node;
        let fits = |device: &&DeviceVerdict| device.reason.is_none();
        let fitting = verdict.devices.iter().filter(fits).count();
        let narrow = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let numa_of = |ordinal: u16| node.devices[usize::from(ordinal)].numa;
        let by_numa: Vec<u16> = if need.wishes.one_numa {
            let together = |d: &DeviceVerdict| {
                let same = |other: &&DeviceVerdict| numa_of(other.ordinal) == numa_of(d.ordinal);
                narrow(verdict.devices.iter().filter(fits).filter(same).count())
            };
            verdict.devices.iter().map(together).collect()
        } else {
            Vec::new()
        };
        let wanted = need.count.get();
        let floats = node.floats(&need.kind);
        let spare_short = trial.spare().is_some() && fitting >= usize::from(wanted);
        for (at, device) in
            verdict.devices.iter_mut().enumerate().filter(|(_, d)| d.reason.is_none())
        {
            device.reason = Some(if floats && wanted > 1 {
                Reason::ChoiceNotDistinct { wanted }
            } else if floats {
                Reason::ChoiceNotOwned
            } else if need.wishes.one_numa && wanted > 1 {
                Reason::NumaNotFit { fitting: by_numa[at], wanted }
            } else if spare_short {
                Reason::SomeCardFaulty {
                    bookable: narrow(node.devices.len()).saturating_sub(node.missing_cards),
                }
            } else {
                Reason::TooFew { fitting: narrow(fitting), wanted }
            });
        }
    }

    fn score(&self, picks: &Picks) -> score::Score {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        for (&(index, container, need), pick) in self.judge.needs.iter().zip(picks) {
            let floating = self.view.node.floats(&need.kind);
            for ordinal in pick {
                let at = usize::from(*ordinal);
                if let Ok(taken) = trial.fit(index, container.role, need, at) {
                    trial.take(index, container.role, at, taken, floating);
                }
            }
        }
        let chosen: Vec<(u16, Added)> = trial
            .charges(self.judge.shape)
            .iter()
            .flat_map(|charge| {
                let bytes = charge.bytes().unwrap_or(Bytes::ZERO).get();
                let added = Added { bytes, cores: charge.cores.0, slots: charge.slots };
                charge.on.iter().map(move |ordinal| (*ordinal, added))
            })
            .collect();
        score::score(self.view, self.judge.policy, self.judge.spec, &chosen)
    }
}
