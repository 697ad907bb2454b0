//! The explanation of a decision as a row, the same offline and from a server.

use std::collections::BTreeSet;

use plimsoll_core::account::Allowance;
use plimsoll_core::charge::Charge;
use plimsoll_core::decide::Decision;
use plimsoll_core::fit;
use plimsoll_core::ledger::{Ledger, Promise};
use plimsoll_core::remedy::{Remedy, RemedyKind};
use plimsoll_core::units::Name;
use plimsoll_core::wording;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clause::{ClauseRow, clauses_of};
use crate::forecast::ForecastRow;
use crate::lost_by::{LostBy, lost_by};
use crate::verdict::{self, CandidateRow, ScorePart};

/// The data that a decision was made from. Server and offline commands fill it by [`explanation`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The decision in one sentence.
    pub summary: String,
    /// The rejection in a few words, for lists; empty if it was placed.
    #[serde(default)]
    pub brief: String,
    /// The rejection line by line; empty if it was placed.
    #[serde(default)]
    pub clauses: Vec<ClauseRow>,
    /// The policy that decided; null if only the summary is available, or without a decision.
    pub policy: Option<String>,
    /// The ledger revision that was judged; null likewise.
    pub ledger_revision: Option<u64>,
    /// The alternatives of the request in order of preference, in words.
    pub shapes: Vec<String>,
    /// The score of the chosen placement; higher is better.
    pub score: Option<i64>,
    pub score_parts: Vec<ScorePart>,
    /// Placements that fit and were not chosen.
    pub lost_by: Vec<LostBy>,
    /// Every node that was judged, for every shape that was tried, with the first rule that failed
    /// and its numbers; null if only the summary is available.
    pub candidates: Option<Vec<CandidateRow>>,
    /// A future placement that is kept from later requests.
    pub promised: Option<PromisedRow>,
    /// The prospects of a request that is pending now; null for a decision of the past.
    #[serde(default)]
    pub forecast: Option<ForecastRow>,
}

/// Returns the explanation of a decision. Promises are not part of the decision itself.
pub fn explanation(decision: &Decision) -> Explanation {
    let chosen = decision.chosen();
    Explanation {
        summary: decision.summary().to_string(),
        brief: decision.rejection().map(|rejection| rejection.brief()).unwrap_or_default(),
        clauses: clauses_of(decision, None),
        policy: Some(decision.policy.name.to_string()),
        ledger_revision: Some(decision.revision),
        shapes: decision.spec.shapes().iter().map(wording::describe_needs).collect(),
        score: chosen.map(|found| found.score.total()),
        score_parts: chosen.map(|found| verdict::score_parts(&found.score)).unwrap_or_default(),
        lost_by: lost_by(decision),
        candidates: Some(verdict::candidates(decision)),
        promised: None,
        forecast: None,
    }
}

/// Returns the charges of the chosen placement: the answer of the function that the commit calls,
/// for the accounts that were judged.
pub fn charges(decision: &Decision) -> Vec<Charge> {
    let placement = decision.chosen().map(|found| &found.placement);
    let judged = placement.and_then(|placement| verdict::verdict_on(decision, &placement.node));
    let admitted = placement.zip(judged).and_then(|(placement, judged)| {
        fit::admit(judged.view, &Allowance::default(), &decision.spec, placement).ok()
    });
    admitted.unwrap_or_default()
}

/// A change that would make the request fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemedyRow {
    /// `plain_rule`, `other_node`, `more_devices`, `fewer_devices`, `lower_context`,
    /// `smaller_cache`, `ask_less` or `give_up`.
    #[schema(value_type = String)]
    pub kind: RemedyKind,
    /// The change in words, reading after "it would fit if".
    pub text: String,
    /// The rule, node or holders to change; empty if the request changes.
    #[schema(value_type = Vec<String>)]
    pub target: Vec<Name>,
    /// Bytes to request or to release; a number of devices for `more_devices` and `fewer_devices`.
    pub amount: Option<u64>,
    /// Always true: only changes that were tried and fit are proposed.
    pub verified: bool,
}

impl From<&Remedy> for RemedyRow {
    fn from(remedy: &Remedy) -> RemedyRow {
        let Remedy { kind, text, target, amount } = remedy.clone();
        RemedyRow { kind, text, target, amount, verified: true }
    }
}

/// A placement that becomes possible when memory being released is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromisedRow {
    /// The node; a runner is a node.
    #[schema(value_type = String)]
    pub node: Name,
    /// All devices that it may use.
    pub devices: Vec<String>,
    /// The number of devices that it gets.
    pub devices_wanted: usize,
    /// The holders that must leave first.
    pub after: Vec<String>,
}

/// Converts a promise on a ledger.
pub fn promise_on(ledger: &Ledger, promise: &Promise) -> PromisedRow {
    promised_row(promise, &ledger.promised_device_labels(promise))
}

/// Converts a promise, given the names of the devices of each of its charges.
pub fn promised_row(promise: &Promise, devices: &[Vec<String>]) -> PromisedRow {
    let mut seen = BTreeSet::new();
    PromisedRow {
        node: promise.placement.node.clone(),
        devices: devices.iter().flatten().filter(|name| seen.insert(*name)).cloned().collect(),
        devices_wanted: devices.len(),
        after: promise.after.iter().map(ToString::to_string).collect(),
    }
}
