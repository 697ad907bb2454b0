//! The search for devices of one node that serve a request: exact within a stated number of steps.
//!
//! A request with one need of one device, which is most of them, needs no search: the fitting
//! device with the highest preference is the answer. A request with several needs is served
//! greedily first, each need in order with its preferred devices. Only if that fails although the
//! node itself fits, a depth-first search tries every combination of devices for every need, so
//! that a rejection is a proof and not bad luck: a greedy planner rejects requests that fit, for
//! example when the first container takes the only card that the second one accepts.
//!
//! Bound: the depth is the number of needs, and each pick costs one of `Policy::search_steps`. When
//! the steps run out, the verdict is `NodeReason::NotFound { steps }`, which is not a rejection.
//! Devices in equal state are interchangeable, so that only one of each set of equal combinations
//! is tried (`combinations`); without that, two needs of 8 cards on a node of 16 idle cards would
//! exhaust the steps. Hardware slices are the exception to exactness: within a card they are placed
//! greedily (`fit::slice`).
//!
//! An integer-programming solver was rejected: it would be a second place that decides whether
//! something fits, and its answers could not be explained device by device.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use crate::fit::{self, Allotment, ContainerNeed, Placement, Trial};
use crate::policy::Policy;
use crate::reason::NodeReason;
use crate::request::{Need, Order, Shape, Spec};
use crate::room::{FitInput, NodeView};
use crate::score::{self, Added, FULL, Score};
use crate::units::Bytes;
use crate::verdict::{Candidate, DeviceVerdict, Finding, NeedVerdict};

mod combinations;
mod pick;
mod slices;

use pick::sort_by_preference;

/// Judges nodes for one shape of a request under one policy.
pub struct Judge<'a> {
    policy: &'a Policy,
    spec: &'a Spec,
    shape: &'a Shape,
    shape_index: u16,
    needs: Vec<ContainerNeed<'a>>,
    /// Devices in equal state may stand for each other in the search. False if a need names
    /// devices: the device that it names must not be skipped for one that looks the same.
    interchangeable: bool,
}

/// The search ran out of steps. A placement that it did not find may still exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSteps;

impl<'a> Judge<'a> {
    /// Creates the judge of one shape of a request.
    pub fn new(policy: &'a Policy, spec: &'a Spec, shape_index: u16) -> Self {
        let shape = &spec.shapes()[usize::from(shape_index)];
        let needs: Vec<ContainerNeed> = fit::needs(shape).collect();
        let interchangeable = !needs.iter().any(|target| target.need.selector.names_devices());
        Judge { policy, spec, shape, shape_index, needs, interchangeable }
    }

    /// Treats all devices as different, for a request whose gang has other members that name
    /// devices.
    #[must_use]
    pub fn with_distinct_devices(self) -> Self {
        Judge { interchangeable: false, ..self }
    }

    /// Judges one node: every need on every device, and the best placement if there is one.
    pub fn judge(&self, view: &NodeView) -> Finding {
        let search = Search { judge: self, view };
        let (needs, found) = search.greedy_choice();
        let reason = fit::fit_node(view, self.spec, self.shape);
        let node = view.node.name.clone();
        let mut finding = Finding { node, reason, needs, best: None, digest: OnceLock::new() };
        if finding.reason.is_some() {
            // Devices that are taken use up their resource too, and they say by whom.
            let is_resource = matches!(finding.reason, Some(NodeReason::ShortOfResource { .. }));
            if is_resource && found.is_none() && self.needs.len() == 1 {
                finding.reason = None;
            }
            return finding;
        }
        let (picks, score) = match found {
            Some(found) => found,
            None if self.needs.len() < 2 => return finding,
            None => match search.exhaustive_choice() {
                Ok(Some(picks)) => {
                    finding.needs = search.verdicts_for(&picks);
                    let score = search.score(&picks);
                    (picks, score)
                }
                Ok(None) => return finding,
                Err(OutOfSteps) => {
                    let steps = self.policy.search_steps;
                    finding.reason = Some(NodeReason::NotFound { steps });
                    return finding;
                }
            },
        };
        finding.best = Some(Candidate { placement: self.placement(view, picks), score });
        finding
    }

    /// Returns the score of a given placement.
    pub fn score(&self, view: &NodeView, placement: &Placement) -> Score {
        Search { judge: self, view }.score(&placement.picks)
    }

    /// Visits the placements on a node in order of preference, until the visitor breaks or the
    /// steps run out. Of placements that differ only in interchangeable devices, it visits one.
    pub fn each_placement(
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
            visit(self.placement(view, picks.clone()))
        })
    }

    fn placement(&self, view: &NodeView, picks: Picks) -> Placement {
        Placement { node: view.node.name.clone(), shape: self.shape_index, picks }
    }
}

/// The search of one judge on one node.
struct Search<'a> {
    judge: &'a Judge<'a>,
    view: &'a NodeView,
}

/// A device that fits a need.
struct FittingDevice {
    ordinal: u16,
    allotment: Allotment,
    /// Higher is better.
    preference: i64,
    /// The request would be the device's first tenant.
    opens: bool,
}

impl FittingDevice {
    fn added(&self) -> Added {
        Added {
            bytes: self.allotment.peak.get(),
            cores: self.allotment.cores,
            slots: self.allotment.slots,
        }
    }
}

type Picks = Vec<Vec<u16>>;

impl<'a> Search<'a> {
    /// Serves the needs in order, each with its preferred devices. Judges every need, even after
    /// one has failed, because the explanation shows them all.
    fn greedy_choice(&self) -> (Vec<NeedVerdict>, Option<(Picks, Score)>) {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        if let [target] = &self.judge.needs[..] {
            return self.single_need_choice(&trial, target);
        }
        let mut verdicts = Vec::with_capacity(self.judge.needs.len());
        let mut picks = Vec::with_capacity(self.judge.needs.len());
        for target in &self.judge.needs {
            let (mut verdict, mut fitting) = self.judge_need(&trial, target);
            sort_by_preference(&mut fitting);
            match self.best_pick(&trial, target, &fitting) {
                Some(pick) => {
                    self.book(&mut trial, target, &pick, &fitting);
                    verdict.passed = true;
                    picks.push(pick);
                }
                None => Self::reject_set(&trial, target.need, &mut verdict),
            }
            verdicts.push(verdict);
        }
        let found = (picks.len() == self.judge.needs.len()).then(|| {
            let score = self.score(&picks);
            (picks, score)
        });
        (verdicts, found)
    }

    /// Serves a single need. Nothing is booked, since no later need has to fit beside it.
    fn single_need_choice(
        &self,
        trial: &Trial,
        target: &ContainerNeed,
    ) -> (Vec<NeedVerdict>, Option<(Picks, Score)>) {
        let need = target.need;
        if need.count.get() == 1 && !need.selector.linked && !self.view.node.floats(&need.kind) {
            return self.single_device_choice(trial, target);
        }
        let (mut verdict, mut fitting) = self.judge_need(trial, target);
        sort_by_preference(&mut fitting);
        let Some(pick) = self.best_pick(trial, target, &fitting) else {
            Self::reject_set(trial, need, &mut verdict);
            return (vec![verdict], None);
        };
        verdict.passed = true;
        if slices::repeats_card(&pick) {
            let picks = vec![pick];
            let score = self.score(&picks);
            return (vec![verdict], Some((picks, score)));
        }
        let picked = fitting.iter().filter(|fit| pick.contains(&fit.ordinal));
        let chosen: Vec<(u16, Added)> = picked.map(|fit| (fit.ordinal, fit.added())).collect();
        let score = score::score(self.view, self.judge.policy, self.judge.spec, &chosen);
        (vec![verdict], Some((vec![pick], score)))
    }

    /// Serves a single need of a single device with the preferred one, without sorting.
    fn single_device_choice(
        &self,
        trial: &Trial,
        target: &ContainerNeed,
    ) -> (Vec<NeedVerdict>, Option<(Picks, Score)>) {
        let mut best: Option<(i64, u16, Added)> = None;
        let mut verdict = self.judge_each(trial, target, |fit| {
            if best.is_none_or(|(preference, ..)| fit.preference > preference) {
                best = Some((fit.preference, fit.ordinal, fit.added()));
            }
        });
        let Some((_, ordinal, added)) = best else { return (vec![verdict], None) };
        verdict.passed = true;
        let score =
            score::score(self.view, self.judge.policy, self.judge.spec, &[(ordinal, added)]);
        (vec![verdict], Some((vec![vec![ordinal]], score)))
    }

    /// Returns the verdicts of the needs when each is served as `picks` says.
    fn verdicts_for(&self, picks: &Picks) -> Vec<NeedVerdict> {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        let mut verdicts = Vec::with_capacity(self.judge.needs.len());
        for (target, pick) in self.judge.needs.iter().zip(picks) {
            let (mut verdict, fitting) = self.judge_need(&trial, target);
            self.book(&mut trial, target, pick, &fitting);
            verdict.passed = true;
            verdicts.push(verdict);
        }
        verdicts
    }

    /// Returns the first choice that serves all needs, trying all combinations; `None` proves that
    /// there is none.
    fn exhaustive_choice(&self) -> Result<Option<Picks>, OutOfSteps> {
        let mut steps = self.judge.policy.search_steps;
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        let mut found = None;
        let _ = self.descend(&mut trial, &mut Vec::new(), &mut steps, &mut |picks| {
            found = Some(picks.clone());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Tries every pick for the next need and descends to the needs after it: depth-first, one
    /// level per need. Terminates because each level has finitely many picks and each pick costs a
    /// step.
    fn descend(
        &self,
        trial: &mut Trial<'a>,
        picks: &mut Picks,
        steps: &mut u32,
        visit: &mut dyn FnMut(&Picks) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, OutOfSteps> {
        let Some(target) = self.judge.needs.get(picks.len()) else {
            return Ok(visit(picks));
        };
        let (_, mut fitting) = self.judge_need(trial, target);
        sort_by_preference(&mut fitting);
        for pick in self.all_picks(trial, target, &fitting) {
            *steps = steps.checked_sub(1).ok_or(OutOfSteps)?;
            let Some(pick) = pick else { continue };
            let mut next = trial.clone();
            self.book(&mut next, target, &pick, &fitting);
            picks.push(pick);
            let flow = self.descend(&mut next, picks, steps, visit)?;
            picks.pop();
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Judges a need on every device of its kind; returns the verdict and the devices that fit, by
    /// ordinal.
    fn judge_need(
        &self,
        trial: &Trial,
        target: &ContainerNeed,
    ) -> (NeedVerdict, Vec<FittingDevice>) {
        let mut fitting = Vec::with_capacity(self.view.node.devices.len());
        let verdict = self.judge_each(trial, target, |fit| fitting.push(fit));
        (verdict, fitting)
    }

    /// Judges a need on every device of its kind; passes the devices that fit to `fits`, by
    /// ordinal.
    #[inline]
    fn judge_each(
        &self,
        trial: &Trial,
        target: &ContainerNeed,
        mut fits: impl FnMut(FittingDevice),
    ) -> NeedVerdict {
        let ContainerNeed { index, container, need } = *target;
        let inputs = self.view.room.fit_inputs();
        let kind = self.view.room.kind_index(&need.kind);
        let mut devices = Vec::with_capacity(inputs.len());
        let judged = trial.judge_need(index, container.role, need);
        for (ordinal, input) in (0_u16..).zip(inputs).filter(|(_, input)| Some(input.kind) == kind)
        {
            let at = usize::from(ordinal);
            match judged.fit(at) {
                Ok(allotment) => {
                    let peak = allotment.bytes.map(|_| allotment.peak);
                    let opens = trial.opens(at);
                    let mut fit = FittingDevice { ordinal, allotment, preference: 0, opens };
                    fit.preference = self.preference(input, fit.added());
                    fits(fit);
                    devices.push(DeviceVerdict { ordinal, need: peak, reason: None });
                }
                Err(reason) => {
                    let need = reason.need().or_else(|| trial.would_hold(container.role, need, at));
                    devices.push(DeviceVerdict { ordinal, need, reason: Some(reason) });
                }
            }
        }
        NeedVerdict {
            container: u16::try_from(index).unwrap_or(u16::MAX),
            wanted: need.count.get(),
            devices: devices.into_boxed_slice(),
            passed: false,
        }
    }

    /// Ranks a device by its fullness after the placement, as the policy orders it.
    #[inline]
    fn preference(&self, input: &FitInput, added: Added) -> i64 {
        let policy = self.judge.policy;
        let fill = score::device_fill(input, added, policy.fullness);
        match policy.devices {
            Order::Pack => fill,
            Order::Spread => FULL - fill,
        }
    }

    /// Books a pick in the trial, so that later needs are judged beside it.
    fn book(
        &self,
        trial: &mut Trial,
        target: &ContainerNeed,
        pick: &[u16],
        fitting: &[FittingDevice],
    ) {
        if slices::repeats_card(pick) {
            let booked = self.book_slices(trial, target, pick);
            debug_assert!(booked.is_some(), "a pick consists of fitting slices");
            return;
        }
        let choice = self.view.node.choice_for(&target.need.kind);
        for ordinal in pick {
            let fit = fitting
                .iter()
                .find(|fit| fit.ordinal == *ordinal)
                .expect("a pick consists of fitting devices");
            let at = usize::from(*ordinal);
            trial.book(target.index, target.container.role, at, fit.allotment.clone(), choice);
        }
    }

    /// Gives devices that fit, but not in the number or combination that the need wants, their
    /// reason.
    fn reject_set(trial: &Trial, need: &Need, verdict: &mut NeedVerdict) {
        let fits = verdict.devices.iter().filter(|device| device.reason.is_none());
        let fitting: Vec<u16> = fits.map(|device| device.ordinal).collect();
        for device in verdict.devices.iter_mut().filter(|device| device.reason.is_none()) {
            device.reason = Some(trial.set_reason(need, &fitting, device.ordinal));
        }
    }

    fn score(&self, picks: &Picks) -> Score {
        let mut trial = Trial::new(&self.view.node, &self.view.room);
        for (target, pick) in self.judge.needs.iter().zip(picks) {
            let ContainerNeed { index, container, need } = *target;
            let choice = self.view.node.choice_for(&need.kind);
            for ordinal in pick {
                let at = usize::from(*ordinal);
                if let Ok(allotment) = trial.fit(index, container.role, need, at) {
                    trial.book(index, container.role, at, allotment, choice);
                }
            }
        }
        let mut chosen: Vec<(u16, Added)> = Vec::new();
        for charge in trial.charges(self.judge.shape) {
            let bytes = charge.bytes().unwrap_or(Bytes::ZERO).get();
            let added = Added { bytes, cores: charge.cores.0, slots: charge.slots };
            chosen.extend(charge.on.iter().map(|ordinal| (*ordinal, added)));
        }
        score::score(self.view, self.judge.policy, self.judge.spec, &chosen)
    }
}
