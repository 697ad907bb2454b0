//! A cluster as values of the core: nodes with devices, running pods and pending pods.

use std::collections::BTreeSet;

use plimsoll_core::charge::Holding;
use plimsoll_core::device::{DeviceChoice, Node};
use plimsoll_core::request::{PlainRule, Request};
use plimsoll_core::units::{Bytes, Name};

use crate::finding::{Finding, PodProblem, Problem, Severity};

/// Options for reading what Kubernetes leaves open.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The charge of a device request without a declared amount of memory on a shared card.
    pub plain: PlainRule,
    /// The label by which KAI partitions nodes into pools.
    pub node_pool_key: Name,
    /// Resources that another component accounts for, so that what a node advertises of them does
    /// not limit requests.
    pub ignored_resources: BTreeSet<Name>,
}

impl Default for Reading {
    fn default() -> Self {
        Reading {
            plain: PlainRule::default(),
            node_pool_key: "kai.scheduler/node-pool".into(),
            ignored_resources: BTreeSet::new(),
        }
    }
}

/// A cluster, translated.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// In order of appearance.
    pub nodes: Vec<NodeFacts>,
    /// Pods that have a node.
    pub running: Vec<Holding>,
    /// Pods without a node, by priority and then by order of appearance.
    pub pending: Vec<Pending>,
    /// Gangs that pending pods belong to.
    pub gangs: Vec<GangFacts>,
    /// Problems found while reading.
    pub findings: Vec<Finding>,
    pub understood: Understood,
}

impl Cluster {
    /// Iterates over the errors and warnings about pods: pods that are not counted, or not as
    /// written.
    pub fn pod_problems(&self) -> impl Iterator<Item = (&Finding, &PodProblem)> {
        self.findings.iter().filter_map(|finding| match &finding.problem {
            Problem::Pod(problem) if finding.severity() != Severity::Note => {
                Some((finding, problem))
            }
            _ => None,
        })
    }
}

/// A node, and the facts about its devices that the core does not need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    pub node: Node,
    /// Devices in `status.capacity`, tokens included; `None` if it lists none.
    pub advertised: Option<u64>,
    /// Tokens per physical card, where known.
    pub replicas: Option<u32>,
    /// Physical cards. Differs from the number of devices where cards are cut into MIG instances.
    pub physical: u16,
    /// Memory declared to be in use by processes without a booking, by ordinal.
    pub foreign: Vec<(u16, Bytes)>,
    /// The source of devices and memory: `label`, `register`, `declared`, `capacity`,
    /// `slice` or `none`.
    pub capacity_source: &'static str,
    pub choice: DeviceChoice,
}

/// A pod without a node.
#[derive(Clone, Debug)]
pub struct Pending {
    pub request: Request,
    /// The pod's gang, as an index into [`Cluster::gangs`].
    pub gang: Option<usize>,
    /// Features that the pod uses and that are not considered.
    pub not_considered: Vec<Name>,
}

/// A gang that pending pods belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangFacts {
    /// `namespace/name`.
    pub name: Name,
    /// The number of members that must run together, running ones included.
    pub minimum: u32,
    pub running: u32,
}

/// Counts of what was read.
#[derive(Clone, Debug, Default)]
pub struct Understood {
    /// Pods that have a node and hold something.
    pub running: usize,
    pub terminating: usize,
    pub finished: usize,
    /// Pods without a node, those created for workloads included.
    pub pending: usize,
    /// Pending pods created for the missing replicas of workloads.
    pub expanded: usize,
    /// Pods held back by scheduling gates.
    pub gated: usize,
    /// Each as `namespace/name`.
    pub finished_pods: Vec<Name>,
    /// Each as `namespace/name`.
    pub gated_pods: Vec<Name>,
    /// Kinds that are not read, with the number of objects.
    pub ignored: std::collections::BTreeMap<String, usize>,
}
