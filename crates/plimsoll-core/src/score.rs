//! Scores of placements: one function per term, in integer ten-thousandths.
//!
//! Every term is normalised to `0..=FULL` before its weight (`preferred` may exceed it in both
//! directions), so that weights of the policy compare across terms. The total is their sum; the
//! highest total wins, and ties break by node name. Integers keep the order of candidates equal on
//! every machine; sums of floats would depend on the order of addition. Terms are kept apart in
//! [`Score`], because the explanation shows by which term a candidate lost.

use std::cmp::Reverse;

use crate::device::Node;
use crate::policy::Policy;
use crate::request::{NodeNeed, Order, Spec, Weights};
use crate::room::{FitInput, NodeView};
use crate::rules::Effect;
use serde::{Deserialize, Serialize};

/// The value of a fully satisfied term, before its weight.
pub const FULL: i64 = 10_000;

/// A component of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Fullness of the node after the placement.
    Node,
    /// Mean fullness of the chosen devices after the placement.
    Device,
    /// All chosen devices are on one NUMA node.
    Numa,
    /// Links between the chosen devices.
    Link,
    /// The request's preferred terms, minus untolerated `PreferNoSchedule` taints and failed
    /// starts.
    Preferred,
}

impl Term {
    /// All terms in the order in which they are shown.
    pub const ALL: [Term; 5] = [Term::Node, Term::Device, Term::Numa, Term::Link, Term::Preferred];

    /// Returns the name that users see.
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

/// The score of a placement, term by term. Higher is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    points: [i64; 5],
}

impl Score {
    /// Returns the weighted points of one term.
    pub fn points(&self, term: Term) -> i64 {
        self.points[term as usize]
    }

    /// Returns the sum over all terms.
    pub fn total(&self) -> i64 {
        self.points.iter().sum()
    }

    /// Returns the term by which this score falls furthest behind a better one.
    pub fn loses_by(&self, better: &Score) -> Option<Term> {
        let behind = |term: Term| better.points(term) - self.points(term);
        Term::ALL
            .into_iter()
            .filter(|term| behind(*term) > 0)
            .max_by_key(|term| (behind(*term), Reverse(*term)))
    }
}

/// The load that a request adds to a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Added {
    pub bytes: u64,
    pub cores: u32,
    pub slots: u32,
}

/// Computes the score of a placement: the chosen devices, each with the load it would get. A
/// request without devices is scored by the node's CPU.
pub(crate) fn score(
    view: &NodeView,
    policy: &Policy,
    spec: &Spec,
    chosen: &[(u16, Added)],
) -> Score {
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

fn weighted(value: i64, weight: u16) -> i64 {
    value * i64::from(weight)
}

fn ordered(order: Order, fill: i64) -> i64 {
    match order {
        Order::Pack => fill,
        Order::Spread => FULL - fill,
    }
}

/// Returns the fullness of a device with an added load: the weighted mean over memory, compute and
/// slots. Dimensions that the device does not account for are left out, not counted as empty.
#[inline]
pub(crate) fn device_fill(input: &FitInput, added: Added, weights: Weights) -> i64 {
    // Judging calls this for every device that fits; by default only memory counts.
    if weights.cores == 0 && weights.slots == 0 {
        return if input.known { memory_fill(input, added) } else { 0 };
    }
    let mut sum = 0;
    let mut weight = 0;
    if input.known {
        sum += memory_fill(input, added) * i64::from(weights.memory);
        weight += i64::from(weights.memory);
    }
    if input.cores > 0 {
        let fill = count_fill(input.cores, input.cores_free, added.cores);
        sum += fill * i64::from(weights.cores);
        weight += i64::from(weights.cores);
    }
    if let Some(slots) = input.slots {
        let fill = count_fill(slots, slots.saturating_sub(input.slots_used), added.slots);
        sum += fill * i64::from(weights.slots);
        weight += i64::from(weights.slots);
    }
    if weight == 0 { 0 } else { sum / weight }
}

#[inline]
fn memory_fill(input: &FitInput, added: Added) -> i64 {
    share(input.load.get().saturating_add(added.bytes), input.usable.get())
}

fn count_fill(all: u32, free: u32, added: u32) -> i64 {
    share(u64::from(all - free.min(all)) + u64::from(added), u64::from(all))
}

/// Returns `part / whole` in ten-thousandths, at most [`FULL`].
#[inline]
fn share(part: u64, whole: u64) -> i64 {
    if whole == 0 {
        return FULL;
    }
    let part = part.min(whole);
    let full = FULL.unsigned_abs();
    // 64 bits hold the size of any device times 10,000, and divide several times faster than 128.
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
        device_fill(&view.room.fit_inputs()[at], *added, policy.fullness)
    };
    chosen.iter().map(fill).sum::<i64>() / i64::try_from(chosen.len()).unwrap_or(1).max(1)
}

fn node_fill(view: &NodeView, chosen: &[(u16, Added)]) -> i64 {
    let added = chosen.iter().fold(0_u64, |sum, (_, added)| sum.saturating_add(added.bytes));
    let mut load = added;
    let mut usable = 0_u64;
    for input in view.room.fit_inputs() {
        // An overcommitted device counts as full, not as more, so that it hides no free memory.
        load = load.saturating_add(input.load.get().min(input.usable.get()));
        usable = usable.saturating_add(input.usable.get());
    }
    share(load, usable)
}

fn node_cpu_fill(view: &NodeView, need: &NodeNeed) -> i64 {
    let (Some(all), Some(free)) = (view.node.allocatable.cpu, view.room.free_cpu(&view.node))
    else {
        return 0;
    };
    share(all.0.saturating_sub(free.0).saturating_add(need.cpu.0), all.0)
}

/// Returns true if all devices are on one known NUMA node.
pub(crate) fn on_one_numa(node: &Node, ordinals: &[u16]) -> bool {
    let numa = |ordinal: &u16| node.devices[usize::from(*ordinal)].numa;
    let first = ordinals.first().and_then(numa);
    first.is_some() && ordinals.iter().all(|ordinal| numa(ordinal) == first)
}

/// Sums the link quality over all pairs of the devices.
pub(crate) fn links(node: &Node, ordinals: &[u16]) -> i64 {
    let mut sum = 0;
    for (i, from) in ordinals.iter().enumerate() {
        let links = &node.devices[usize::from(*from)].links;
        for to in &ordinals[i + 1..] {
            sum += i64::from(links.get(to).copied().unwrap_or(0));
        }
    }
    sum
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
    let disliked = i64::try_from(disliked).unwrap_or(0) + i64::from(node.failed_starts);
    liked - FULL * disliked
}
