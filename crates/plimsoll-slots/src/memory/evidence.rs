//! The use that was measured of a model's slots, and the checks that it must pass to be charged.

use plimsoll_core::units::{Bytes, Millis};
use plimsoll_models::estimate::{Breakdown, Estimate};
use serde::{Deserialize, Serialize};

use super::settings::ServingSettings;
use crate::size::Size;

/// The largest use that was measured of the slots of a model, for one number of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The bytes on each GPU.
    pub bytes: Vec<Bytes>,
    pub at: Millis,
    /// The settings that the slots were served with.
    pub settings: ServingSettings,
    #[serde(default)]
    pub service: Service,
    /// The memory of the GPUs that the slot had to itself; empty if it shared them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<Bytes>,
}

/// The use of a slot by clients up to a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// A reservation is in the ready slot.
    #[default]
    Serving,
    /// A client released its reservation after the slot was ready, so that it has used the slot.
    Served,
}

impl Measured {
    /// Combines a new measurement with an earlier one under the same settings: the larger of each.
    pub(crate) fn peak_with(self, earlier: &Measured) -> Measured {
        Measured {
            bytes: larger_of_each(&self.bytes, &earlier.bytes),
            whole: if self.whole.len() == earlier.whole.len() {
                larger_of_each(&self.whole, &earlier.whole)
            } else {
                std::cmp::max_by_key(self.whole, earlier.whole.clone(), Vec::len)
            },
            service: self.service.max(earlier.service),
            ..self
        }
    }

    /// Returns the charge on each GPU.
    ///
    /// Without an estimate, one slot is all that is known, and another one may use more: a tenth is
    /// added. The GPUs that held the measured slot are enough for it, so the margin does not exceed
    /// them; otherwise a model that fills a GPU could not start again.
    pub(super) fn sizes(&self, estimated: Option<&Estimate>) -> Vec<Size> {
        let charge = |(gpu, measured): (usize, &Bytes)| {
            if total_on(estimated, gpu).is_some() {
                return Size(*measured);
            }
            let margin = Bytes::new(measured.get().div_ceil(MARGIN_PART));
            let charge = measured.plus(margin).ceil_mib();
            let limit = self.whole.get(gpu).copied().unwrap_or(charge);
            Size(charge.min(limit).max(*measured))
        };
        self.bytes.iter().enumerate().map(charge).collect()
    }
}

fn larger_of_each(one: &[Bytes], other: &[Bytes]) -> Vec<Bytes> {
    one.iter().zip(other).map(|(one, other)| *one.max(other)).collect()
}

/// The part of a measurement that is added if there is no estimate to compare it with.
const MARGIN_PART: u64 = 10;

/// A measurement on one GPU that must not be charged.
///
/// A runtime that found no GPU, a probe that sees another process and a model that is not loaded
/// yet all show less memory than the model needs. If it were charged, the next slot would
/// overcommit its device; the estimate is charged instead, or whole GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowMeasurement {
    /// The position of the GPU among those of the slot, from 0.
    pub gpu: usize,
    pub measured: Bytes,
    pub limit: MeasurementLimit,
}

/// The condition that a [`LowMeasurement`] does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementLimit {
    /// A model uses some memory on each of its GPUs.
    AboveZero,
    /// The weights and the KV cache on the GPU, which are computed exactly.
    Contents(Bytes),
    /// The estimate, from which a measurement may be lower by a tenth.
    Estimate(Bytes),
    /// Without an estimate, a client must have used the slot: a program may load its model at its
    /// first request.
    Served,
}

/// A measurement may be lower than the estimate by one part in this many.
const TOLERATED_PART: u64 = 10;

/// Returns the first GPU whose measurement must not be charged.
pub(super) fn low_measurement(
    measured: &Measured,
    estimated: Option<&Estimate>,
) -> Option<LowMeasurement> {
    let gpus = estimated.map_or(&[][..], |estimate| &estimate.gpus);
    measured.bytes.iter().enumerate().find_map(|(gpu, bytes)| {
        let limit = limit_above(*bytes, measured.service, gpus.get(gpu))?;
        Some(LowMeasurement { gpu, measured: *bytes, limit })
    })
}

fn limit_above(
    measured: Bytes,
    service: Service,
    estimated: Option<&Breakdown>,
) -> Option<MeasurementLimit> {
    if measured.is_zero() {
        return Some(MeasurementLimit::AboveZero);
    }
    let contents = estimated.map_or(Bytes::ZERO, contents);
    if measured < contents {
        return Some(MeasurementLimit::Contents(contents));
    }
    let Some(total) = estimated.and_then(|estimated| estimated.total) else {
        return (service < Service::Served).then_some(MeasurementLimit::Served); // mutant: unserved
    };
    let tolerated = Bytes::new(total.get() / TOLERATED_PART);
    (measured < total.less(tolerated)).then_some(MeasurementLimit::Estimate(total))
}

fn contents(estimated: &Breakdown) -> Bytes {
    let [weights, kv] =
        [&estimated.weights, &estimated.kv].map(|part| part.bytes.unwrap_or(Bytes::ZERO));
    weights.plus(kv)
}

fn total_on(estimated: Option<&Estimate>, gpu: usize) -> Option<Bytes> {
    estimated?.gpus.get(gpu)?.total
}
