//! Simulates a cluster: the scheduler observes what runs, then decides each pending pod in its
//! turn.
//!
//! There is no second scheduler here. A cluster becomes the events that a server would see, the
//! scheduler of the servers handles them, and placements, rejections and promises are read from its
//! outcomes. It adds only advice: changes that would make a rejected pod fit, tried on the ledger
//! that rejected it.

mod advice;

mod plain;

mod run;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use plimsoll_core::decide::Decision;
use plimsoll_core::event::Settings;
use plimsoll_core::ledger::{Ledger, LedgerError, Promise};
use plimsoll_core::policy::Policy;
use plimsoll_core::remedy::Remedy;
use plimsoll_core::request::RequestId;
use plimsoll_core::room::Measured;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_core::verdict::Candidate;
use plimsoll_kube::cluster::{Cluster, NodeFacts};

/// The time of a simulation: nothing expires and nothing becomes stale while pods are placed.
pub const NOW: Millis = Millis(0);

/// A cluster after every pending pod has had its turn.
#[derive(Debug)]
pub struct Simulation {
    /// The machine that decided, as the last pod left it.
    pub scheduler: Scheduler,
    /// Pods that were placed, in the order of their turns.
    pub placed: Vec<Placed>,
    /// Pods that were rejected, in the order of their turns.
    pub rejected: Vec<Rejected>,
    /// Pods that were not shown to the scheduler.
    pub uncounted: Vec<Uncounted>,
}

impl Simulation {
    /// The ledger as the last pod left it.
    pub fn ledger(&self) -> &Ledger {
        self.scheduler.ledger()
    }

    /// The policy that chose.
    pub fn policy(&self) -> &Policy {
        &self.scheduler.settings().policy
    }
}

/// A pending pod that was placed.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The pod's index among [`Cluster::pending`].
    pub pending: usize,
    /// The placement, and its score.
    pub found: Candidate,
}

/// A pending pod that was rejected.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The pod's index among [`Cluster::pending`].
    pub pending: usize,
    /// The decision, with the data it was made from.
    pub decision: Decision,
    pub advice: Arc<Advice>,
    pub outlook: Outlook,
}

/// The prospects of a pod that was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It may be placed later.
    Pending,
    /// It would not fit even if nothing else were placed.
    Impossible,
}

/// Changes that would let a rejected pod in, and the place that it was promised.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    /// Verified changes, the harmless ones first.
    pub would_fit_if: Vec<Remedy>,
    pub promised: Option<Promised>,
}

/// Memory that the scheduler promised to a pod.
#[derive(Clone, Debug)]
pub struct Promised {
    pub promise: Promise,
    /// For each charge the names of its devices: several where the device plugin picks the card.
    pub devices: Vec<Vec<String>>,
}

/// A pod that was not shown to the scheduler.
#[derive(Clone, Debug)]
pub struct Uncounted {
    pub request: RequestId,
    pub why: WhyUncounted,
}

/// Reasons for not showing a pod to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyUncounted {
    /// It runs on a node or a device that was not read.
    #[error("not counted: {0}")]
    Unobservable(LedgerError),
    /// A pod of the same name and uid runs, or was submitted before it.
    #[error("not placed: a pod of the same name was counted already")]
    SameName,
    /// The scheduler defers speculative work while other work is pending.
    #[error("not placed: it is speculative, and other pods are pending")]
    Deferred,
}

/// The rejected pods for which remedies are searched, and the bound of one search.
#[derive(Clone, Debug)]
pub struct Advising {
    pub pods: Advised,
    pub search_steps: u32,
}

/// A choice of rejected pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advised {
    All,
    Only(RequestId),
    None,
}

impl Advising {
    /// Advises all pods, with fewer steps for each than a decision takes. Where rejections and
    /// placements alternate, each rejection is searched for by itself, and with a decision's own
    /// steps that is most of the time of a large simulation.
    pub fn all() -> Self {
        Advising { pods: Advised::All, search_steps: 2_000 }
    }

    /// Advises one pod, with all the steps of the policy.
    pub fn only(pod: RequestId, policy: &Policy) -> Self {
        Advising { pods: Advised::Only(pod), search_steps: policy.search_steps }
    }

    fn none() -> Self {
        Advising { pods: Advised::None, search_steps: 0 }
    }

    fn includes(&self, pod: &RequestId) -> bool {
        match &self.pods {
            Advised::All => true,
            Advised::Only(only) => only == pod,
            Advised::None => false,
        }
    }
}

/// Observes what runs, then submits each pending pod in its turn. `watch` is shown every decision.
pub fn simulate(
    cluster: &Cluster,
    policy: &Policy,
    advising: &Advising,
    watch: &mut dyn FnMut(&Decision),
) -> Simulation {
    let settings = Settings { policy: policy.clone(), ..Settings::default() };
    simulate_with(cluster, &settings, advising, watch)
}

/// Simulates as [`simulate`] does, with the shares of accounts and all other settings.
pub fn simulate_with(
    cluster: &Cluster,
    settings: &Settings,
    advising: &Advising,
    watch: &mut dyn FnMut(&Decision),
) -> Simulation {
    let mut simulation = run::run(cluster, settings, advising, watch);
    advice::update_promises(cluster, &mut simulation);
    plain::propose(cluster, &mut simulation, advising);
    simulation
}

/// Observes what runs, and places nothing.
pub fn observe(cluster: &Cluster) -> (Scheduler, Vec<Uncounted>) {
    run::observe(cluster, &Settings::default())
}

/// Lists the memory that processes outside the cluster use, as declared for a node's devices.
pub fn foreign(facts: &NodeFacts) -> impl Iterator<Item = (Name, u16, Measured)> + '_ {
    let measured = |foreign: Bytes| Measured { foreign, ..Measured::default() };
    facts
        .foreign
        .iter()
        .map(move |(ordinal, bytes)| (facts.node.name.clone(), *ordinal, measured(*bytes)))
}
