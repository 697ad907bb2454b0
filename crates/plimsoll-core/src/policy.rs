//! A policy is plain data: which of the places that fit is the best one.

use serde::{Deserialize, Serialize};

use crate::request::{Leaning, Order, Weights};
use crate::units::Name;

/// Which of the places that fit is the best one, and how long to search for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What people call it.
    pub name: Name,
    /// Whether the fuller or the emptier node is better.
    pub nodes: Order,
    /// Whether the fuller or the emptier device is better.
    pub devices: Order,
    /// What fullness means.
    pub fullness: Weights,
    /// Whether several devices should hang on one NUMA node where they can.
    pub prefer_one_numa: bool,
    /// Whether several devices should be well linked where that is known.
    pub prefer_links: bool,
    /// How much each term of the score counts.
    pub terms: TermWeights,
    /// Steps after which a search says "not found" instead of going on.
    pub search_steps: u32,
}

/// How much each term of a score counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TermWeights {
    /// The node's fullness.
    pub node: u16,
    /// The fullness of the devices chosen.
    pub device: u16,
    /// One NUMA node for all.
    pub numa: u16,
    /// Links between the devices.
    pub link: u16,
    /// Terms that the request likes, and taints that it would rather avoid.
    pub preferred: u16,
}

impl Policy {
    /// Fill what is begun, so that large gaps stay open.
    pub fn pack() -> Self {
        Policy::named("pack", Order::Pack)
    }

    /// Use the emptiest, so that load stays even.
    pub fn spread() -> Self {
        Policy::named("spread", Order::Spread)
    }

    /// The policies that have a name of their own.
    pub fn all() -> [Policy; 4] {
        let mixed = |name, nodes, devices| Policy { nodes, devices, ..Policy::named(name, nodes) };
        [
            Policy::pack(),
            Policy::spread(),
            mixed("pack-nodes", Order::Pack, Order::Spread),
            mixed("spread-nodes", Order::Spread, Order::Pack),
        ]
    }

    /// The policy that people call so.
    pub fn called(name: &str) -> Option<Self> {
        Policy::all().into_iter().find(|policy| &*policy.name == name)
    }

    /// The policy as a request would like it.
    #[must_use]
    pub fn leaning(&self, leaning: &Leaning) -> Policy {
        Policy {
            nodes: leaning.nodes.unwrap_or(self.nodes),
            devices: leaning.devices.unwrap_or(self.devices),
            fullness: leaning.weights.unwrap_or(self.fullness),
            ..self.clone()
        }
    }

    fn named(name: &str, order: Order) -> Self {
        Policy {
            name: name.into(),
            nodes: order,
            devices: order,
            fullness: Weights { slots: 0, cores: 0, memory: 1 },
            prefer_one_numa: true,
            prefer_links: true,
            terms: TermWeights { node: 1, device: 1, numa: 1, link: 1, preferred: 1 },
            search_steps: 20_000,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::pack()
    }
}
