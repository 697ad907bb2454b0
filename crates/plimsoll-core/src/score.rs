//! How good a place is: one function a term, all in whole ten-thousandths.

use serde::{Deserialize, Serialize};

use crate::device::{Device, Node};
use crate::policy::Policy;
use crate::request::{NodeNeed, Order, Spec, Weights};
use crate::room::{Gauge, NodeView};
use crate::rules::Effect;

/// The most a term can be worth before its weight.
pub const FULL: i64 = 10_000;

/// What a score is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// How full the node would be.
    Node,
    /// How full the chosen devices would be.
    Device,
    /// Whether the chosen devices hang on one NUMA node.
    Numa,
    /// How well the chosen devices are linked.
    Link,
    /// How much the request likes the node.
    Preferred,
}

impl Term {
    /// Every term, in the order in which they are shown.
    pub const ALL: [Term; 5] = [Term::Node, Term::Device, Term::Numa, Term::Link, Term::Preferred];

    /// Its name in front of people.
    pub fn name(self) -> &'static str {
        match self {
            Term::Node => "node",
            Term::Device => "device",
            Term::Numa => "numa",
            Term::Link => "link",
            Term::Preferred => "preferred",
        }
    }
}

/// How good a place is, term by term. Higher is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    points: [i64; 5],
}

impl Score {
    /// The points of one term, its weight counted.
    pub fn points(&self, term: Term) -> i64 {
        self.points[term as usize]
    }

    /// All points.
    pub fn total(&self) -> i64 {
        self.points.iter().sum()
    }

    /// The term by which this score loses most against a better one.
    pub fn loses_by(&self, better: &Score) -> Option<Term> {
        let behind = |term: &Term| better.points(*term) - self.points(*term);
        Term::ALL
            .into_iter()
            .filter(|term| behind(term) > 0)
            .max_by_key(|term| (behind(term), std::cmp::Reverse(*term)))
    }
}

/// What a request would add to a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Added {
    pub bytes: u64,
    pub cores: u32,
    pub slots: u32,
}

/// The score of a place: the devices chosen, each with what it would get.
pub(crate) fn score(
    view: &NodeView,
    policy: &Policy,
    spec: &Spec,
    chosen: &[(u16, Added)],
) -> Score {
    let weighted = |value: i64, weight: u16| value * i64::from(weight);
    let weights = &policy.terms;
    let node = if chosen.is_empty() {
        node_cpu_fill(view, &spec.resources)
    } else {
        node_fill(view, chosen)
    };
    let mut points = [0; 5];
    points[Term::Node as usize] = weighted(ordered(policy.nodes, node), weights.node);
    if !chosen.is_empty() {
        let device = ordered(policy.devices, devices_fill(view, policy, chosen));
        points[Term::Device as usize] = weighted(device, weights.device);
    }
    if chosen.len() > 1 {
        let ordinals: Vec<u16> = chosen.iter().map(|(ordinal, _)| *ordinal).collect();
        if policy.prefer_one_numa && on_one_numa(&view.node, &ordinals) {
            points[Term::Numa as usize] = weighted(FULL, weights.numa);
        }
        if policy.prefer_links {
            points[Term::Link as usize] =
                weighted(links(&view.node, &ordinals).min(FULL), weights.link);
        }
    }
    points[Term::Preferred as usize] = weighted(preferred(&view.node, spec), weights.preferred);
    Score { points }
}

fn ordered(order: Order, fill: i64) -> i64 {
    match order {
        Order::Pack => fill,
        Order::Spread => FULL - fill,
    }
}

/// How full a device would be, by the weights of what fullness means.
#[inline]
pub(crate) fn device_fill(device: &Device, gauge: &Gauge, added: Added, weights: Weights) -> i64 {
    let memory = || share(gauge.load.get().saturating_add(added.bytes), gauge.usable.get());
    if weights.cores == 0 && weights.slots == 0 {
        return if gauge.known { memory() } else { 0 };
    }
    let used = |all: u32, free: u32, more: u32| u64::from(all - free.min(all)) + u64::from(more);
    let cores = || share(used(gauge.cores, gauge.cores_free, added.cores), u64::from(gauge.cores));
    let slots =
        device.slots.map(|all| share(used(all, gauge.slots_free, added.slots), u64::from(all)));
    let parts = [
        (gauge.known.then(memory), weights.memory),
        ((gauge.cores > 0).then(cores), weights.cores),
        (slots, weights.slots),
    ];
    let (sum, weight) =
        parts.into_iter().fold((0, 0), |(sum, weights), (fill, weight)| match fill {
            Some(fill) => (sum + fill * i64::from(weight), weights + i64::from(weight)),
            None => (sum, weights),
        });
    if weight == 0 { 0 } else { sum / weight }
}

#[inline]
fn share(part: u64, whole: u64) -> i64 {
    if whole == 0 {
        return FULL;
    }
    let (part, full) = (part.min(whole), FULL.unsigned_abs());
    // Sixty-four bits hold any device's size times ten thousand, and divide many times faster.
    let share = match part.checked_mul(full) {
        Some(product) => product / whole,
        None => {
            u64::try_from(u128::from(part) * u128::from(full) / u128::from(whole)).unwrap_or(full)
        }
    };
    i64::try_from(share).unwrap_or(FULL)
}

fn devices_fill(view: &NodeView, policy: &Policy, chosen: &[(u16, Added)]) -> i64 {
    let fill = |(ordinal, added): &(u16, Added)| {
        let at = usize::from(*ordinal);
        device_fill(&view.node.devices[at], &view.room.gauges()[at], *added, policy.fullness)
    };
    chosen.iter().map(fill).sum::<i64>() / i64::try_from(chosen.len()).unwrap_or(1).max(1)
}

fn node_fill(view: &NodeView, chosen: &[(u16, Added)]) -> i64 {
    let added = chosen.iter().fold(0_u64, |sum, (_, added)| sum.saturating_add(added.bytes));
    let (load, usable) = view.room.gauges().iter().fold((added, 0_u64), |(load, usable), gauge| {
        let has = gauge.usable.get();
        (load.saturating_add(gauge.load.get().min(has)), usable.saturating_add(has))
    });
    share(load, usable)
}

fn node_cpu_fill(view: &NodeView, need: &NodeNeed) -> i64 {
    let (Some(all), Some(free)) = (view.node.allocatable.cpu, view.room.free_cpu(&view.node))
    else {
        return 0;
    };
    share(all.0.saturating_sub(free.0).saturating_add(need.cpu.0), all.0)
}

/// Whether all these devices hang on one known NUMA node.
pub(crate) fn on_one_numa(node: &Node, ordinals: &[u16]) -> bool {
    let numa = |ordinal: &u16| node.devices[usize::from(*ordinal)].numa;
    let first = ordinals.first().and_then(numa);
    first.is_some() && ordinals.iter().all(|ordinal| numa(ordinal) == first)
}

/// The sum of the links between every pair of these devices.
pub(crate) fn links(node: &Node, ordinals: &[u16]) -> i64 {
    let link =
        |from: u16, to: u16| node.devices[usize::from(from)].links.get(&to).copied().unwrap_or(0);
    let pairs = ordinals
        .iter()
        .enumerate()
        .flat_map(|(i, &a)| ordinals[i + 1..].iter().map(move |&b| (a, b)));
    pairs.map(|(a, b)| i64::from(link(a, b))).sum()
}

fn preferred(node: &Node, spec: &Spec) -> i64 {
    let rules = &spec.rules;
    let liked: i64 = rules
        .preferred
        .iter()
        .filter(|(_, term)| term.holds(&node.name, &node.labels))
        .map(|(weight, _)| i64::from(*weight) * FULL / 100)
        .sum();
    let disliked = node
        .taints
        .iter()
        .filter(|t| t.effect == Effect::PreferNoSchedule && !rules.tolerates(t))
        .count();
    liked - FULL * i64::try_from(disliked).unwrap_or(0)
}
