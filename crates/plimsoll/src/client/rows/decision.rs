//! A decision as the server shows it: what was chosen, what every GPU said, and what lost.

use plimsoll_core::units::Bytes;
use serde::Deserialize;

use super::{Allocation, Moment};

/// A decision about one slot.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DecisionRow {
    pub(crate) id: Option<String>,
    pub(crate) created: Option<Moment>,
    pub(crate) model: String,
    pub(crate) slot_id: Option<String>,
    pub(crate) placed: bool,
    pub(crate) runner_id: Option<String>,
    pub(crate) summary: String,
    pub(crate) reason: Option<String>,
    pub(crate) gpu_allocation: Option<Allocation>,
    pub(crate) memory: Option<MemoryRow>,
    pub(crate) policy: Option<String>,
    pub(crate) ledger_revision: Option<u64>,
    pub(crate) score: Option<i64>,
    pub(crate) score_parts: Vec<ScorePart>,
    pub(crate) lost_by: Vec<LostRow>,
    pub(crate) candidates: Option<Vec<CandidateRow>>,
    pub(crate) evictions: Vec<EvictionRow>,
    pub(crate) promised: Option<PromisedRow>,
    pub(crate) would_fit_if: Vec<RemedyRow>,
    pub(crate) before: Option<Vec<LoadRow>>,
    pub(crate) after: Option<Vec<LoadRow>>,
    pub(crate) digest: Option<String>,
    pub(crate) replay: Option<String>,
}

impl DecisionRow {
    /// Why it was refused: in full where the server says so, with who may not go.
    pub(crate) fn why(&self) -> &str {
        self.reason.as_deref().unwrap_or(&self.summary)
    }
}

/// What the model needs, and who says so.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MemoryRow {
    pub(crate) source: Option<String>,
    pub(crate) per_gpu: Option<Vec<Bytes>>,
    pub(crate) remarks: Vec<String>,
}

impl MemoryRow {
    /// In a line; nothing where nobody says it, since the refusal does.
    pub(crate) fn words(&self) -> Option<String> {
        let (source, per_gpu) = (self.source.as_ref()?, self.per_gpu.as_ref()?);
        let sizes: Vec<String> = per_gpu.iter().map(ToString::to_string).collect();
        let remarks: String = self.remarks.iter().map(|remark| format!("; {remark}")).collect();
        Some(format!("needs {} ({source}){remarks}", sizes.join(" + ")))
    }
}

/// One term of a score.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScorePart {
    pub(crate) term: String,
    pub(crate) points: i64,
}

/// A place that fits and was not chosen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LostRow {
    pub(crate) node: String,
    pub(crate) device: Option<String>,
    pub(crate) text: String,
}

/// A runner as it was judged for one shape of the request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CandidateRow {
    pub(crate) tensor_parallel_size: Option<u32>,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) score: i64,
    pub(crate) score_parts: Vec<ScorePart>,
    pub(crate) reason: Option<ReasonRow>,
    pub(crate) containers: Vec<ContainerRow>,
}

/// Why a runner itself will not do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReasonRow {
    pub(crate) code: String,
    pub(crate) text: String,
}

/// What was found for a container on a runner.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerRow {
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) devices: Vec<DeviceRow>,
}

/// What one GPU said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceRow {
    pub(crate) uuid: String,
    pub(crate) reason: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) need: Option<Bytes>,
    pub(crate) free: Option<Bytes>,
    pub(crate) short_by: Option<Bytes>,
    pub(crate) held_by: Option<String>,
}

/// A slot that is to go.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EvictionRow {
    pub(crate) slot_id: String,
    pub(crate) model: String,
}

/// A place that will be there later.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PromisedRow {
    pub(crate) node: String,
    pub(crate) devices: Vec<String>,
    pub(crate) after: Vec<String>,
}

impl PromisedRow {
    /// `will fit on GPU-a (runner) once gone: m/slot-1`.
    pub(crate) fn words(&self) -> String {
        format!(
            "will fit on {} ({}) once gone: {}",
            self.devices.join(" and "),
            self.node,
            self.after.join(", ")
        )
    }
}

/// A change that would make it fit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RemedyRow {
    pub(crate) text: String,
}

/// What counts against the line of a GPU.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadRow {
    pub(crate) index: Option<u16>,
    pub(crate) uuid: String,
    pub(crate) usable: Option<Bytes>,
    pub(crate) load: Option<Bytes>,
}
