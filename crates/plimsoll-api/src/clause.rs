//! The lines about a rejection or a pending request: one topic each, for people.

use plimsoll_core::decide::Decision;
use plimsoll_core::units::Millis;
use plimsoll_core::wording::{Clause, Topic};
use plimsoll_slots::desk::StatusReason;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::named;

named! {
    /// The subject of a line.
    ClauseTopic {
        /// The request as a whole, such as an incomplete gang.
        Reason = "reason",
        Needs = "needs",
        /// The GPU that came nearest to fitting.
        Nearest = "nearest",
        /// The holders of that GPU.
        HeldBy = "held_by",
        /// The number of GPUs and nodes by reason.
        Judged = "judged",
        NotEvictable = "not_evictable",
    }
}

/// One line about a rejection, without the name of its topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClauseRow {
    pub topic: ClauseTopic,
    pub text: String,
}

impl From<Clause> for ClauseRow {
    fn from(clause: Clause) -> ClauseRow {
        let topic = match clause.topic {
            Topic::Reason => ClauseTopic::Reason,
            Topic::Needs => ClauseTopic::Needs,
            Topic::Nearest | Topic::Occupied => ClauseTopic::Nearest,
            Topic::HeldBy => ClauseTopic::HeldBy,
            Topic::Judged => ClauseTopic::Judged,
            Topic::NotEvictable => ClauseTopic::NotEvictable,
        };
        ClauseRow { topic, text: clause.text }
    }
}

/// Converts lines.
pub fn clause_rows(clauses: Vec<Clause>) -> Vec<ClauseRow> {
    clauses.into_iter().map(ClauseRow::from).collect()
}

/// Returns the lines about a rejected decision; none if it was placed. With a time they say how
/// long until a holder is evictable.
pub fn clauses_of(decision: &Decision, now: Option<Millis>) -> Vec<ClauseRow> {
    let rejection = decision.rejection();
    rejection.map(|rejection| clause_rows(rejection.clauses(now))).unwrap_or_default()
}

/// The reason for a state, for people: in a few words, and line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyRow {
    /// The reason in a few words.
    #[serde(default)]
    pub brief: String,
    /// The same with its numbers, one topic each.
    #[serde(default)]
    pub clauses: Vec<ClauseRow>,
    /// The reason for the last failed start, with the last output.
    #[serde(default)]
    pub failure: Option<String>,
}

impl WhyRow {
    /// Converts the reason for the state of a reservation or slot.
    pub fn new(reason: &StatusReason, now: Millis) -> WhyRow {
        WhyRow {
            brief: reason.brief(),
            clauses: clause_rows(reason.clauses(now)),
            failure: reason.failure().map(ToString::to_string),
        }
    }
}
