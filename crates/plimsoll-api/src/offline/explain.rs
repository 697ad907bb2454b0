//! The output of `plimsoll explain -o json` from files: one object for every pod, whether it is
//! placed, pending, impossible, running, gated or finished.

use plimsoll_core::charge::Holding;
use plimsoll_core::decide::Decision;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;
use serde::{Deserialize, Serialize};

use super::{ChosenDevices, InputRow, SCHEMA_VERSION, UnplacedStatus};
use crate::explanation::{Explanation, RemedyRow, charges, explanation};
use crate::names::named;
use crate::verdict;

named! {
    /// The status of a pod.
    ExplainStatus {
        Placed = "placed",
        /// Not placed now; it may be later.
        Pending = "pending",
        /// It would not fit even without any other pod.
        Impossible = "impossible",
        /// It was rejected, in a journal that does not say for how long.
        Rejected = "rejected",
        /// It already has a node.
        Running = "running",
        /// Scheduling gates hold it back.
        Gated = "gated",
        Finished = "finished",
    }
}

impl From<UnplacedStatus> for ExplainStatus {
    fn from(status: UnplacedStatus) -> ExplainStatus {
        match status {
            UnplacedStatus::Pending => ExplainStatus::Pending,
            UnplacedStatus::Impossible => ExplainStatus::Impossible,
        }
    }
}

/// The output of `plimsoll explain -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainOutput {
    pub schema_version: u32,
    pub namespace: Name,
    pub pod: Name,
    pub status: ExplainStatus,
    pub node: Option<Name>,
    /// The devices that the pod holds or gets; null if it is not placed.
    pub chosen: Option<ChosenDevices>,
    #[serde(flatten)]
    pub explanation: Explanation,
    pub nodes_considered: usize,
    /// Verified changes that would make it fit; those that affect no other pod come first.
    pub would_fit_if: Vec<RemedyRow>,
    /// Parts of the pod that were not considered.
    pub not_considered: Vec<Name>,
    /// Omitted for a decision from a journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputRow>,
}

impl ExplainOutput {
    /// Explains a decision, made here or recorded in a journal.
    pub fn decided(decision: &Decision) -> ExplainOutput {
        let (placement, charges) =
            (decision.chosen().map(|found| &found.placement), charges(decision));
        let chosen = placement.and_then(|placement| {
            let shape = decision.spec.shapes().get(usize::from(placement.shape));
            let node = &verdict::verdict_on(decision, &placement.node)?.view.node;
            Some(ChosenDevices::new(node, shape, &charges))
        });
        let status =
            if placement.is_some() { ExplainStatus::Placed } else { ExplainStatus::Rejected };
        ExplainOutput {
            node: placement.map(|placement| placement.node.clone()),
            chosen,
            nodes_considered: decision.table().map_or(0, |table| table.unordered().count()),
            explanation: explanation(decision),
            ..ExplainOutput::undecided(&decision.request, status, String::new())
        }
    }

    /// Describes a pod that already runs.
    pub fn running(holding: &Holding, ledger: &Ledger) -> ExplainOutput {
        let shape = holding.spec.as_ref().and_then(|spec| spec.shapes().first());
        let view = ledger.view_of(&holding.node);
        let chosen = view.map(|view| ChosenDevices::new(&view.node, shape, &holding.charges));
        let summary = format!("{} on {}", holding.stage.name(), holding.node);
        ExplainOutput {
            node: Some(holding.node.clone()),
            chosen,
            ..ExplainOutput::undecided(&holding.request, ExplainStatus::Running, summary)
        }
    }

    /// Describes a pod without a decision.
    pub fn undecided(pod: &RequestId, status: ExplainStatus, summary: String) -> ExplainOutput {
        ExplainOutput {
            schema_version: SCHEMA_VERSION,
            namespace: pod.account.clone(),
            pod: pod.name.clone(),
            status,
            node: None,
            chosen: None,
            explanation: Explanation { summary, ..Explanation::default() },
            nodes_considered: 0,
            would_fit_if: Vec::new(),
            not_considered: Vec::new(),
            input: None,
        }
    }
}
