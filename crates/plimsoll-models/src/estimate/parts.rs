//! The parts of an estimate and their sums: exact, or unknown when a part is.

use plimsoll_core::units::Bytes;
use serde::Serialize;

use super::{EstimateError, fixed};
use crate::source::Source;

/// One part of what a model takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// How much; `None` exactly when the source is [`Source::Unknown`].
    pub bytes: Option<Bytes>,
    /// Where the number comes from.
    pub source: Source,
}

impl Part {
    pub(super) fn read(bytes: Bytes, from: &str) -> Part {
        Part { bytes: Some(bytes), source: Source::Read { from: from.to_string() } }
    }

    pub(super) fn computed(bytes: Bytes, from: &str) -> Part {
        Part { bytes: Some(bytes), source: Source::Computed { from: from.to_string() } }
    }

    pub(super) fn table(bytes: Bytes, what: &str) -> Part {
        Part { bytes: Some(bytes), source: Source::Table { what: what.to_string() } }
    }

    pub(super) fn unknown(missing: &str) -> Part {
        Part { bytes: None, source: Source::Unknown { missing: missing.to_string() } }
    }

    /// Unknown, because what it follows from is.
    pub(super) fn unknown_as(source: &Source) -> Part {
        match source {
            Source::Unknown { missing } => Part::unknown(missing),
            Source::Read { from } | Source::Computed { from } | Source::Table { what: from } => {
                Part::unknown(from)
            }
        }
    }
}

/// The parts of what a model takes, and their sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The model's tensors.
    pub weights: Part,
    /// What is kept for the tokens of running requests.
    pub kv: Part,
    /// Buffers for the numbers in between.
    pub compute: Part,
    /// What the runtime takes before it has loaded anything.
    pub fixed: Part,
    /// What is added so that small things which nobody counts do not exceed the sum.
    pub reserve: Part,
    /// The sum; unknown when a part is.
    pub total: Option<Bytes>,
}

impl Parts {
    /// One GPU's parts. The reserve follows from the others.
    pub(super) fn new(
        weights: Part,
        kv: Part,
        compute: Part,
        fixed: Part,
    ) -> Result<Parts, EstimateError> {
        let reserve = fixed::reserve([&weights, &kv, &compute])?;
        let total = total([&weights, &kv, &compute, &fixed, &reserve])?;
        Ok(Parts { weights, kv, compute, fixed, reserve, total })
    }

    /// The parts of all GPUs together.
    pub(super) fn sum(gpus: &[Parts]) -> Result<Parts, EstimateError> {
        let weights = column(gpus, |parts| &parts.weights)?;
        let kv = column(gpus, |parts| &parts.kv)?;
        let compute = column(gpus, |parts| &parts.compute)?;
        let fixed = column(gpus, |parts| &parts.fixed)?;
        let reserve = column(gpus, |parts| &parts.reserve)?;
        let total = total([&weights, &kv, &compute, &fixed, &reserve])?;
        Ok(Parts { weights, kv, compute, fixed, reserve, total })
    }

    /// The parts with their names, in order.
    pub fn named(&self) -> [(&'static str, &Part); 5] {
        let Parts { weights, kv, compute, fixed, reserve, total: _ } = self;
        [
            ("weights", weights),
            ("kv", kv),
            ("compute", compute),
            ("fixed", fixed),
            ("reserve", reserve),
        ]
    }

    /// The field that the first unknown part misses.
    pub fn missing(&self) -> Option<&str> {
        self.named().into_iter().find_map(|(_, part)| match &part.source {
            Source::Unknown { missing } => Some(missing.as_str()),
            Source::Read { .. } | Source::Computed { .. } | Source::Table { .. } => None,
        })
    }
}

const OVERFLOW: EstimateError = EstimateError::Overflow { what: "the sum" };

fn column(gpus: &[Parts], of: impl Fn(&Parts) -> &Part) -> Result<Part, EstimateError> {
    let Some(first) = gpus.first() else { return Ok(Part::unknown("gpus")) };
    let bytes = total(gpus.iter().map(&of))?;
    let unknown = gpus.iter().map(&of).find(|part| part.bytes.is_none());
    Ok(Part { bytes, source: unknown.unwrap_or_else(|| of(first)).source.clone() })
}

/// The sum of parts; unknown when one is.
pub(super) fn total<'a>(
    parts: impl IntoIterator<Item = &'a Part>,
) -> Result<Option<Bytes>, EstimateError> {
    let mut sum = Bytes::ZERO;
    for part in parts {
        let Some(bytes) = part.bytes else { return Ok(None) };
        sum = sum.checked_add(bytes).ok_or(OVERFLOW)?;
    }
    Ok(Some(sum))
}
