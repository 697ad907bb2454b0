//! Errors of the ledger's verbs.

use serde::{Deserialize, Serialize};

use crate::charge::Stage;
use crate::fit::AdmissionError;
use crate::request::RequestId;
use crate::units::Name;

/// The reason why a verb of the ledger was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum LedgerError {
    #[error("{request} has no holding")]
    NotHeld { request: RequestId },
    /// The verb is not allowed in the holding's stage.
    #[error("{request} is {} and cannot be {}", stage.name(), verb.past())]
    WrongStage { request: RequestId, stage: Stage, verb: Verb },
    #[error("there is no node {node}")]
    NoSuchNode { node: Name },
    /// The placement does not fit.
    #[error(transparent)]
    NotAdmitted(#[from] AdmissionError),
}

/// A verb that needs a certain stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Take,
    Queue,
    Confirm,
    Fail,
    Release,
    FreeInPart,
    Place,
}

impl Verb {
    fn past(self) -> &'static str {
        match self {
            Verb::Take => "taken",
            Verb::Queue => "queued",
            Verb::Confirm => "confirmed",
            Verb::Fail => "undone",
            Verb::Release => "released again",
            Verb::FreeInPart => "freed in part",
            Verb::Place => "placed again",
        }
    }
}

pub(super) fn wrong_stage(request: &RequestId, stage: Stage, verb: Verb) -> LedgerError {
    LedgerError::WrongStage { request: request.clone(), stage, verb }
}
