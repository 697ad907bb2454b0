//! Which of the devices that fit a need are taken for it, in a fixed order of preference.

use super::combinations::Combinations;
use super::{Fitting, Search};
use crate::fit::Trial;
use crate::request::Need;
use crate::score;

/// The best liked first; of equals the first by ordinal.
pub(super) fn rank(fitting: &mut [Fitting]) {
    fitting.sort_unstable_by_key(|fit| (std::cmp::Reverse(fit.liking), fit.ordinal));
}

impl Search<'_> {
    pub(super) fn best_pick(
        &self,
        trial: &Trial,
        need: &Need,
        fitting: &[Fitting],
    ) -> Option<Vec<u16>> {
        let wanted = usize::from(need.count.get());
        if self.view.node.floats(&need.kind) {
            return self.floating_pick(trial, need, fitting);
        }
        if fitting.len() < wanted {
            return None;
        }
        let anywhere = || first_of(fitting.iter(), wanted, trial.spare());
        let first = match (wanted > 1, need.wishes.one_numa) {
            (true, true) => self.best_by_numa(trial, need, fitting),
            (true, false) if self.judge.policy.prefer_one_numa => {
                self.best_by_numa(trial, need, fitting).or_else(anywhere)
            }
            _ => anywhere(),
        };
        first.map(|pick| self.best_linked(trial, need, fitting, pick))
    }

    /// Where the device plugin picks the card, the need must fit whichever card that is.
    fn floating_pick(&self, trial: &Trial, need: &Need, fitting: &[Fitting]) -> Option<Vec<u16>> {
        let cards: Vec<u16> = trial.pickable(&need.kind).collect();
        let all_fit = cards.iter().all(|card| fitting.iter().any(|fit| fit.ordinal == *card));
        // What is needed, booked and limited is one number, and so it must be the same on every card.
        let all_fit = all_fit && fitting.windows(2).all(|pair| pair[0].taken == pair[1].taken);
        (need.count.get() == 1 && all_fit && !cards.is_empty()).then_some(cards)
    }

    /// The best liked devices that hang on one NUMA node.
    fn best_by_numa(&self, trial: &Trial, need: &Need, fitting: &[Fitting]) -> Option<Vec<u16>> {
        let numa = |fit: &Fitting| self.view.node.devices[usize::from(fit.ordinal)].numa;
        let mut groups: Vec<Option<u16>> = fitting.iter().map(numa).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.retain(Option::is_some);
        let wanted = usize::from(need.count.get());
        let in_group = |group: &Option<u16>| {
            let members = fitting.iter().filter(|fit| numa(fit) == *group);
            let pick = first_of(members, wanted, trial.spare())?;
            let liking = |ordinal: &u16| {
                fitting.iter().find(|f| f.ordinal == *ordinal).map_or(0, |f| f.liking)
            };
            Some((pick.iter().map(liking).sum::<i64>(), pick))
        };
        let picks = groups.iter().filter_map(in_group);
        picks
            .max_by_key(|(liking, pick)| (*liking, std::cmp::Reverse(pick.first().copied())))
            .map(|(_, pick)| pick)
    }

    /// The best linked devices where links are known and wanted; a single device is the one that others miss least.
    fn best_linked(
        &self,
        trial: &Trial,
        need: &Need,
        fitting: &[Fitting],
        first: Vec<u16>,
    ) -> Vec<u16> {
        let node = &self.view.node;
        let known =
            fitting.iter().any(|fit| !node.devices[usize::from(fit.ordinal)].links.is_empty());
        if !known || !(need.wishes.linked || (self.judge.policy.prefer_links && first.len() > 1)) {
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
            return fitting.iter().min_by_key(missed).map_or(first, |fit| vec![fit.ordinal]);
        }
        let mut best = (score::links(node, &first), first);
        let limit = usize::try_from(self.judge.policy.search_steps).unwrap_or(usize::MAX);
        for pick in self.all_picks(trial, need, fitting).take(limit).flatten() {
            let links = score::links(node, &pick);
            if links > best.0 {
                best = (links, pick);
            }
        }
        best.1
    }

    /// Every set of devices, the best liked first; `None` for one that a rule between its devices forbids, so that the
    /// search can count it.
    pub(super) fn all_picks<'s>(
        &'s self,
        trial: &'s Trial,
        need: &'s Need,
        fitting: &'s [Fitting],
    ) -> Box<dyn Iterator<Item = Option<Vec<u16>>> + 's> {
        if self.view.node.floats(&need.kind) {
            return Box::new(std::iter::once(self.floating_pick(trial, need, fitting)));
        }
        let node = &self.view.node;
        let class = |at: usize| {
            if self.judge.alike { self.class_of(trial, fitting, at) } else { at }
        };
        let classes: Vec<usize> = (0..fitting.len()).map(class).collect();
        let sets = Combinations::new(usize::from(need.count.get()), &classes);
        let one_numa = |pick: &[u16]| {
            let numa = |ordinal: &u16| node.devices[usize::from(*ordinal)].numa;
            pick.len() < 2
                || (numa(&pick[0]).is_some()
                    && pick.iter().all(|ordinal| numa(ordinal) == numa(&pick[0])))
        };
        Box::new(sets.map(move |set| {
            let opens = set.iter().filter(|at| fitting[**at].opens).count();
            let mut pick: Vec<u16> = set.iter().map(|at| fitting[*at].ordinal).collect();
            pick.sort_unstable();
            let enough_work = trial.spare().is_none_or(|spare| opens <= usize::from(spare));
            (enough_work && (!need.wishes.one_numa || one_numa(&pick))).then_some(pick)
        }))
    }

    /// The first fitting device that is like this one in everything that a later need could look at.
    fn class_of(&self, trial: &Trial, fitting: &[Fitting], at: usize) -> usize {
        let same = |one: &Fitting, other: &Fitting| {
            let (a, b) = (usize::from(one.ordinal), usize::from(other.ordinal));
            let (devices, gauges) = (&self.view.node.devices, self.view.room.gauges());
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
                && gauges[a] == gauges[b]
                && trial.same_own(a, b)
        };
        (0..at).find(|&earlier| same(&fitting[earlier], &fitting[at])).unwrap_or(at)
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
