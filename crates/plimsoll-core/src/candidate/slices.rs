//! Needs of several devices on partitioned cards: a card serves a need with several of its slices.

use super::combinations::Combinations;
use super::pick::shares_numa;
use super::{FittingDevice, Search};
use crate::fit::{ContainerNeed, Trial};

/// Returns true if a pick names a card more than once.
pub(super) fn repeats_card(pick: &[u16]) -> bool {
    (1..pick.len()).any(|at| pick[..at].contains(&pick[at]))
}

impl Search<'_> {
    /// Returns true if one of the devices that fit is partitioned.
    pub(super) fn has_slices(&self, fitting: &[FittingDevice]) -> bool {
        let inputs = self.view.room.fit_inputs();
        fitting.iter().any(|fit| inputs[usize::from(fit.ordinal)].partitioned)
    }

    /// Takes slice after slice, each from the preferred card that has one left; with the rule of
    /// one NUMA node, the first pick that obeys it.
    pub(super) fn best_slices(
        &self,
        trial: &Trial,
        target: &ContainerNeed,
        fitting: &[FittingDevice],
    ) -> Option<Vec<u16>> {
        if target.need.selector.one_numa {
            let limit = usize::try_from(self.judge.policy.search_steps).unwrap_or(usize::MAX);
            return self.all_slices(trial, target, fitting).take(limit).flatten().next();
        }
        let mut trial = trial.clone();
        let mut pick = Vec::new();
        for _ in 0..target.need.count.get() {
            let next = fitting.iter().find_map(|fit| {
                self.book_slices(&mut trial, target, &[fit.ordinal]).map(|()| fit.ordinal)
            })?;
            pick.push(next);
        }
        pick.sort_unstable();
        Some(pick)
    }

    /// Iterates over all multisets of cards for a need, the preferred ones first: a partitioned
    /// card as often as there are devices wanted, any other card once. Yields `None` for one that
    /// does not fit.
    pub(super) fn all_slices<'s>(
        &'s self,
        trial: &'s Trial,
        target: &'s ContainerNeed,
        fitting: &'s [FittingDevice],
    ) -> impl Iterator<Item = Option<Vec<u16>>> + 's {
        let wanted = usize::from(target.need.count.get());
        let inputs = self.view.room.fit_inputs();
        let mut cards: Vec<u16> = Vec::new();
        // The positions of one card are one class: only their number matters.
        let mut classes: Vec<usize> = Vec::new();
        for fit in fitting {
            let times = if inputs[usize::from(fit.ordinal)].partitioned { wanted } else { 1 };
            let class = cards.len();
            cards.extend(std::iter::repeat_n(fit.ordinal, times));
            classes.extend(std::iter::repeat_n(class, times));
        }
        Combinations::new(wanted, &classes).map(move |set| {
            let mut pick: Vec<u16> = set.iter().map(|at| cards[*at]).collect();
            pick.sort_unstable();
            let is_allowed = (!target.need.selector.one_numa
                || shares_numa(&self.view.node, &pick))
                && self.book_slices(&mut trial.clone(), target, &pick).is_some();
            is_allowed.then_some(pick)
        })
    }

    /// Books the devices of a pick one after the other, each judged beside the ones before; `None`
    /// if one does not fit, and then the trial is of no further use.
    pub(super) fn book_slices(
        &self,
        trial: &mut Trial,
        target: &ContainerNeed,
        pick: &[u16],
    ) -> Option<()> {
        let ContainerNeed { index, container, need } = *target;
        let choice = self.view.node.choice_for(&need.kind);
        for ordinal in pick {
            let at = usize::from(*ordinal);
            let allotment = trial.fit(index, container.role, need, at).ok()?;
            trial.book(index, container.role, at, allotment, choice);
        }
        Some(())
    }
}
