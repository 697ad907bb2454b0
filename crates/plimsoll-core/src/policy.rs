//! Policies as plain data: the preference among placements that fit.

use serde::{Deserialize, Serialize};

use crate::request::{Order, PlacementHints, Weights};
use crate::units::Name;

/// The preference among placements that fit, and the bound of the search.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub name: Name,
    pub nodes: Order,
    pub devices: Order,
    /// The weights of memory, compute and slots in a device's fullness.
    pub fullness: Weights,
    /// Prefer one NUMA node for several devices.
    pub prefer_one_numa: bool,
    /// Prefer well linked devices where links are known.
    pub prefer_links: bool,
    pub terms: TermWeights,
    /// The bound of each search. Beyond it the answer is "not found in N steps", not a rejection.
    pub search_steps: u32,
}

/// The weight of each term of a score (`score::Term`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TermWeights {
    pub node: u16,
    pub device: u16,
    pub numa: u16,
    pub link: u16,
    pub preferred: u16,
}

impl Policy {
    /// Returns the policy that fills used nodes and devices first, so that large gaps stay open.
    pub fn pack() -> Self {
        Policy::named("pack", Order::Pack)
    }

    /// Returns the policy that uses the emptiest nodes and devices first, so that load stays even.
    pub fn spread() -> Self {
        Policy::named("spread", Order::Spread)
    }

    /// Returns the predefined policies.
    pub fn all() -> [Policy; 4] {
        [
            Policy::pack(),
            Policy::spread(),
            Policy { devices: Order::Spread, ..Policy::named("pack-nodes", Order::Pack) },
            Policy { devices: Order::Pack, ..Policy::named("spread-nodes", Order::Spread) },
        ]
    }

    /// Finds a predefined policy by name.
    pub fn called(name: &str) -> Option<Self> {
        Policy::all().into_iter().find(|policy| &*policy.name == name)
    }

    /// Applies a request's overrides.
    #[must_use]
    pub fn with_hints(&self, hints: &PlacementHints) -> Policy {
        Policy {
            nodes: hints.nodes.unwrap_or(self.nodes),
            devices: hints.devices.unwrap_or(self.devices),
            fullness: hints.weights.unwrap_or(self.fullness),
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
