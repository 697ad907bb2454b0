//! A cluster as Plimsoll understands it: nodes with devices, what already runs, and what waits for a place.

use plimsoll_core::charge::Holding;
use plimsoll_core::device::{DeviceChoice, Node};
use plimsoll_core::request::{PlainRule, Request};
use plimsoll_core::units::{Bytes, Name};

use crate::finding::Finding;

/// How to read what Kubernetes leaves open.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What a device request without a declared amount of memory counts as on a shared card.
    pub plain: PlainRule,
    /// The label by which KAI partitions nodes into pools.
    pub node_pool_key: Name,
}

impl Default for Reading {
    fn default() -> Self {
        Reading { plain: PlainRule::default(), node_pool_key: "kai.scheduler/node-pool".into() }
    }
}

/// A cluster as Plimsoll understands it.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The nodes, in the order of appearance.
    pub nodes: Vec<NodeFacts>,
    /// What already has a node, to be observed as it is.
    pub running: Vec<Holding>,
    /// What waits for a place, in the order in which it is served: by priority, then by appearance.
    pub pending: Vec<Pending>,
    /// Gangs that pending pods belong to.
    pub gangs: Vec<GangFacts>,
    /// What is wrong or contradicts itself, found while reading.
    pub findings: Vec<Finding>,
    /// What was read, in numbers.
    pub understood: Understood,
}

/// A node and what the cluster advertises about its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node as the core sees it.
    pub node: Node,
    /// Devices that the device plugin advertises (`status.capacity`), tokens and all; `None` when it advertises none.
    pub advertised: Option<u64>,
    /// Tokens a physical card, where they are known.
    pub replicas: Option<u32>,
    /// Physical cards; where labels count cards that are cut into MIG instances, another number than the node's devices.
    pub physical: u16,
    /// Memory that is declared to be in use by something nobody booked, by ordinal: what a ledger is told with `measure`.
    pub foreign: Vec<(u16, Bytes)>,
    /// Where the devices and their memory are known from, in words: `label`, `register`, `declared`, `capacity`, or `none`.
    pub capacity_source: &'static str,
    /// Who decides which card a tenant gets, and why that is so.
    pub choice: DeviceChoice,
}

/// A pod without a node.
#[derive(Clone, Debug)]
pub struct Pending {
    /// What it asks.
    pub request: Request,
    /// The gang it belongs to: an index into [`Cluster::gangs`].
    pub gang: Option<usize>,
    /// What it uses that is not understood yet and was not considered, in words.
    pub not_considered: Vec<Name>,
}

/// A gang that pending pods belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangFacts {
    /// Its name, as `namespace/name`.
    pub name: Name,
    /// How many members must be placed together, those that already run included.
    pub minimum: u32,
    /// How many members already run.
    pub running: u32,
}

/// What was read, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Understood {
    /// Pods that already have a node and hold something.
    pub running: usize,
    /// Pods that have a node and are asked to go.
    pub terminating: usize,
    /// Pods that have finished and hold nothing.
    pub finished: usize,
    /// Pods that wait, those made for workloads included.
    pub pending: usize,
    /// Pending pods that were made from the replicas of a workload.
    pub expanded: usize,
    /// Pods that are held back by scheduling gates, and are not placed.
    pub gated: usize,
    /// Who has finished and holds nothing, each as `namespace/name`.
    pub finished_pods: Vec<Name>,
    /// Who is held back by scheduling gates, each as `namespace/name`.
    pub gated_pods: Vec<Name>,
    /// Kinds that were read over, with how often each was met.
    pub ignored: std::collections::BTreeMap<String, usize>,
}
