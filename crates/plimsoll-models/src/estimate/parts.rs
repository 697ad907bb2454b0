//! The parts of an estimate and their sums: exact, or unknown if a part is unknown.

use plimsoll_core::units::Bytes;
use serde::{Deserialize, Serialize};

use super::error::EstimateError;
use crate::source::Source;

/// One part of an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The size; `None` exactly when the source is [`Source::Unknown`].
    pub bytes: Option<Bytes>,
    pub source: Source,
}

impl Part {
    pub(super) fn with_source(bytes: Bytes, source: &Source) -> Part {
        Part { bytes: Some(bytes), source: source.clone() }
    }

    pub(super) fn computed(bytes: Bytes, from: &str) -> Part {
        Part { bytes: Some(bytes), source: Source::Computed { from: from.to_string() } }
    }

    pub(super) fn table(bytes: Bytes, what: &str) -> Part {
        Part { bytes: Some(bytes), source: Source::Table { what: what.to_string() } }
    }

    /// Adds another part and keeps the source of this one.
    pub(super) fn plus(&self, other: &Part) -> Result<Part, EstimateError> {
        match (self.bytes, other.bytes) {
            (Some(bytes), Some(more)) => {
                let overflow = EstimateError::Overflow { what: "the sum" };
                let bytes = Some(bytes.checked_add(more).ok_or(overflow)?);
                Ok(Part { bytes, source: self.source.clone() })
            }
            (None, _) => Ok(self.clone()),
            (_, None) => Ok(other.clone()),
        }
    }

    /// Returns an unknown part that misses the same field as an unknown input.
    pub(super) fn unknown_like(source: &Source) -> Part {
        let (Source::Unknown { missing }
        | Source::Read { from: missing }
        | Source::Computed { from: missing }
        | Source::Table { what: missing }) = source;
        Part { bytes: None, source: Source::Unknown { missing: missing.clone() } }
    }
}

/// The parts of an estimate, for one GPU or for all, and their sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// The model's tensors.
    pub weights: Part,
    /// The state of the running requests.
    pub kv: Part,
    /// The buffers for intermediate results of one forward pass.
    pub compute: Part,
    /// The memory that the runtime uses before it loads a model.
    pub fixed: Part,
    /// The margin for allocator rounding and small allocations that no formula covers.
    pub reserve: Part,
    /// The sum; `None` if a part is unknown.
    pub total: Option<Bytes>,
}

impl Breakdown {
    /// Builds the breakdown of one GPU and adds the reserve.
    pub(super) fn new(
        weights: Part,
        kv: Part,
        compute: Part,
        fixed: Part,
    ) -> Result<Breakdown, EstimateError> {
        let reserve = reserve([&weights, &kv, &compute])?;
        let total = total([&weights, &kv, &compute, &fixed, &reserve])?;
        Ok(Breakdown { weights, kv, compute, fixed, reserve, total })
    }

    /// Adds up the breakdowns of all GPUs.
    pub(super) fn sum(gpus: &[Breakdown]) -> Result<Breakdown, EstimateError> {
        let weights = sum_column(gpus, |gpu| &gpu.weights)?;
        let kv = sum_column(gpus, |gpu| &gpu.kv)?;
        let compute = sum_column(gpus, |gpu| &gpu.compute)?;
        let fixed = sum_column(gpus, |gpu| &gpu.fixed)?;
        let reserve = sum_column(gpus, |gpu| &gpu.reserve)?;
        let total = total([&weights, &kv, &compute, &fixed, &reserve])?;
        Ok(Breakdown { weights, kv, compute, fixed, reserve, total })
    }

    /// Returns the parts with their names, in order.
    pub fn named(&self) -> [(&'static str, &Part); 5] {
        let Breakdown { weights, kv, compute, fixed, reserve, total: _ } = self;
        [
            ("weights", weights),
            ("kv", kv),
            ("compute", compute),
            ("fixed", fixed),
            ("reserve", reserve),
        ]
    }

    /// Returns the field that the first unknown part misses.
    pub fn missing(&self) -> Option<&str> {
        self.named().into_iter().find_map(|(_, part)| match &part.source {
            Source::Unknown { missing } => Some(missing.as_str()),
            Source::Read { .. } | Source::Computed { .. } | Source::Table { .. } => None,
        })
    }
}

/// Returns the margin on top of the counted parts: 2 percent, rounded up to a MiB.
///
/// Allocators round buffers up, and a newer runtime adds small buffers before its formula is known
/// here. The fixed overhead is not part of the base, because its table is already rounded up. A
/// larger margin would waste memory on every slot; without one, an estimate that is short by a few
/// MiB would overcommit the device.
fn reserve(parts: [&Part; 3]) -> Result<Part, EstimateError> {
    if let Some(unknown) = parts.into_iter().find(|part| part.bytes.is_none()) {
        return Ok(Part::unknown_like(&unknown.source));
    }
    let sum = total(parts)?.unwrap_or(Bytes::ZERO);
    let reserve = Bytes::new(sum.get().div_ceil(50)).ceil_mib();
    Ok(Part::computed(reserve, "2 percent of weights, KV cache and compute buffers"))
}

fn sum_column(
    gpus: &[Breakdown],
    column: impl Fn(&Breakdown) -> &Part,
) -> Result<Part, EstimateError> {
    let bytes = total(gpus.iter().map(&column))?;
    let unknown = gpus.iter().map(&column).find(|part| part.bytes.is_none());
    match unknown.or_else(|| gpus.first().map(&column)) {
        Some(part) => Ok(Part { bytes, source: part.source.clone() }),
        // `MAX_GPUS` and the check for 0 GPUs make this unreachable for an estimate.
        None => Ok(Part { bytes: None, source: Source::Unknown { missing: "gpus".to_string() } }),
    }
}

/// Adds up parts; `None` if one is unknown.
fn total<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Result<Option<Bytes>, EstimateError> {
    let mut sum = Bytes::ZERO;
    for part in parts {
        let Some(bytes) = part.bytes else { return Ok(None) };
        sum = sum.checked_add(bytes).ok_or(EstimateError::Overflow { what: "the sum" })?;
    }
    Ok(Some(sum))
}
