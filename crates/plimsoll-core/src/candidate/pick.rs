//! The choice among devices that fit one need: by preference, NUMA node and links.

use std::cmp::Reverse;

use super::combinations::Combinations;
use super::{FittingDevice, Search};
use crate::device::Node;
use crate::fit::{ContainerNeed, Trial};
use crate::request::Need;
use crate::score;

/// Sorts the preferred device first; equal devices keep the order of their ordinals.
pub(super) fn sort_by_preference(fitting: &mut [FittingDevice]) {
    fitting.sort_unstable_by_key(|fit| (Reverse(fit.preference), fit.ordinal));
}

impl Search<'_> {
    /// Returns the best devices for a need, by the rules in this order: what the need requires
    /// (one NUMA node), what the policy prefers (one NUMA node, links), each device's preference.
    pub(super) fn best_pick(
        &self,
        trial: &Trial,
        target: &ContainerNeed,
        fitting: &[FittingDevice],
    ) -> Option<Vec<u16>> {
        let need = target.need;
        let wanted = usize::from(need.count.get());
        if self.view.node.floats(&need.kind) {
            return self.floating_pick(trial, need, fitting);
        }
        if wanted > 1 && self.has_slices(fitting) {
            return self.best_slices(trial, target, fitting);
        }
        if fitting.len() < wanted {
            return None;
        }
        let anywhere = || take_preferred(fitting.iter(), wanted, trial.spare());
        let first = if wanted > 1 && need.selector.one_numa {
            self.best_on_one_numa(trial, need, fitting)
        } else if wanted > 1 && self.judge.policy.prefer_one_numa {
            self.best_on_one_numa(trial, need, fitting).or_else(anywhere)
        } else {
            anywhere()
        };
        first.map(|pick| self.best_linked(trial, need, fitting, pick))
    }

    /// Returns all cards that the device plugin may pick, if the need fits on each of them.
    ///
    /// The need, the charge and the runtime's memory limit are one number, and the plugin picks
    /// after that number is fixed. So it must be the same on every card: half of a 40 GiB card is
    /// not half of an 80 GiB card.
    fn floating_pick(
        &self,
        trial: &Trial,
        need: &Need,
        fitting: &[FittingDevice],
    ) -> Option<Vec<u16>> {
        let cards: Vec<u16> = trial.pickable(&need.kind).collect();
        let all_fit = cards.iter().all(|card| fitting.iter().any(|fit| fit.ordinal == *card));
        let all_equal = fitting.windows(2).all(|pair| pair[0].allotment == pair[1].allotment);
        (need.count.get() == 1 && all_fit && all_equal && !cards.is_empty()).then_some(cards)
    }

    /// Returns the devices with the highest sum of preferences that are on one NUMA node. Devices
    /// without a known NUMA node belong to no group.
    fn best_on_one_numa(
        &self,
        trial: &Trial,
        need: &Need,
        fitting: &[FittingDevice],
    ) -> Option<Vec<u16>> {
        let numa = |fit: &FittingDevice| self.view.node.devices[usize::from(fit.ordinal)].numa;
        let mut groups: Vec<Option<u16>> = fitting.iter().map(numa).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.retain(Option::is_some);
        let wanted = usize::from(need.count.get());
        let mut picks: Vec<(i64, Vec<u16>)> = Vec::with_capacity(groups.len());
        for group in groups {
            let members = fitting.iter().filter(|fit| numa(fit) == group);
            if let Some(pick) = take_preferred(members, wanted, trial.spare()) {
                picks.push((sum_of_preferences(fitting, &pick), pick));
            }
        }
        let best = picks
            .into_iter()
            .max_by_key(|(preference, pick)| (*preference, Reverse(pick.first().copied())));
        best.map(|(_, pick)| pick)
    }

    /// Returns the pick with the best links, or `first` if links are unknown or not wanted.
    ///
    /// For several devices it compares all picks, at most `Policy::search_steps` of them, and keeps
    /// the first of equals, which is the preferred one. For a single device it takes the one with
    /// the weakest links, so that well linked sets stay available.
    fn best_linked(
        &self,
        trial: &Trial,
        need: &Need,
        fitting: &[FittingDevice],
        first: Vec<u16>,
    ) -> Vec<u16> {
        let node = &self.view.node;
        let known =
            fitting.iter().any(|fit| !node.devices[usize::from(fit.ordinal)].links.is_empty());
        if !known || !(need.selector.linked || (self.judge.policy.prefer_links && first.len() > 1))
        {
            return first;
        }
        if first.len() == 1 {
            let weakest = fitting.iter().min_by_key(|fit| sum_of_links(node, fit.ordinal));
            return weakest.map_or(first, |fit| vec![fit.ordinal]);
        }
        let mut best_links = score::links(node, &first);
        let mut best = first;
        let limit = usize::try_from(self.judge.policy.search_steps).unwrap_or(usize::MAX);
        for pick in self.all_sets(trial, need, fitting).take(limit).flatten() {
            let links = score::links(node, &pick);
            if links > best_links {
                best_links = links;
                best = pick;
            }
        }
        best
    }

    /// Iterates over all picks for a need, the preferred ones first.
    ///
    /// Yields `None` for a pick that a rule between its devices forbids, so that the caller counts
    /// it as a step: otherwise a need whose picks are all forbidden would search without a bound.
    pub(super) fn all_picks<'s>(
        &'s self,
        trial: &'s Trial,
        target: &'s ContainerNeed,
        fitting: &'s [FittingDevice],
    ) -> Box<dyn Iterator<Item = Option<Vec<u16>>> + 's> {
        let need = target.need;
        if self.view.node.floats(&need.kind) {
            return Box::new(std::iter::once(self.floating_pick(trial, need, fitting)));
        }
        if need.count.get() > 1 && self.has_slices(fitting) {
            return Box::new(self.all_slices(trial, target, fitting));
        }
        Box::new(self.all_sets(trial, need, fitting))
    }

    /// Iterates over all sets of different devices for a need.
    fn all_sets<'s>(
        &'s self,
        trial: &'s Trial,
        need: &'s Need,
        fitting: &'s [FittingDevice],
    ) -> impl Iterator<Item = Option<Vec<u16>>> + 's {
        let classes: Vec<usize> = if self.judge.interchangeable {
            (0..fitting.len()).map(|at| self.class_of(trial, fitting, at)).collect()
        } else {
            (0..fitting.len()).collect()
        };
        let sets = Combinations::new(usize::from(need.count.get()), &classes);
        sets.map(move |set| {
            let opened = set.iter().filter(|at| fitting[**at].opens).count();
            let mut pick: Vec<u16> = set.iter().map(|at| fitting[*at].ordinal).collect();
            pick.sort_unstable();
            let allowed = trial.spare().is_none_or(|spare| opened <= usize::from(spare))
                && (!need.selector.one_numa || shares_numa(&self.view.node, &pick));
            allowed.then_some(pick)
        })
    }

    /// Returns the index of the first fitting device that is interchangeable with this one.
    fn class_of(&self, trial: &Trial, fitting: &[FittingDevice], at: usize) -> usize {
        (0..at)
            .find(|&earlier| self.are_interchangeable(trial, &fitting[earlier], &fitting[at]))
            .unwrap_or(at)
    }

    /// Returns true if no rule that reads facts or usage can distinguish the two devices, for this
    /// need or a later one. UUID and ordinal are not compared: `Judge::interchangeable` is false if
    /// a need names devices. Links are relations to other devices, so that linked devices never
    /// are.
    fn are_interchangeable(
        &self,
        trial: &Trial,
        one: &FittingDevice,
        other: &FittingDevice,
    ) -> bool {
        let (a, b) = (usize::from(one.ordinal), usize::from(other.ordinal));
        let devices = &self.view.node.devices;
        let inputs = self.view.room.fit_inputs();
        one.allotment == other.allotment
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
            && inputs[a] == inputs[b]
            && trial.same_own_use(a, b)
    }
}

/// Returns true if a set of several devices is on one known NUMA node.
pub(super) fn shares_numa(node: &Node, pick: &[u16]) -> bool {
    pick.len() < 2 || score::on_one_numa(node, pick)
}

fn sum_of_preferences(fitting: &[FittingDevice], pick: &[u16]) -> i64 {
    let picked = fitting.iter().filter(|fit| pick.contains(&fit.ordinal));
    picked.map(|fit| fit.preference).sum()
}

fn sum_of_links(node: &Node, ordinal: u16) -> u64 {
    node.devices[usize::from(ordinal)].links.values().map(|link| u64::from(*link)).sum()
}

/// Takes the first `wanted` devices, opening at most `spare` idle cards.
fn take_preferred<'f>(
    fitting: impl Iterator<Item = &'f FittingDevice>,
    wanted: usize,
    spare: Option<u16>,
) -> Option<Vec<u16>> {
    let mut left = spare;
    let mut pick = Vec::with_capacity(wanted);
    for fit in fitting {
        if pick.len() == wanted {
            break;
        }
        if fit.opens && left == Some(0) {
            continue;
        }
        left = left.map(|left| left - u16::from(fit.opens));
        pick.push(fit.ordinal);
    }
    pick.sort_unstable();
    (pick.len() == wanted).then_some(pick)
}
