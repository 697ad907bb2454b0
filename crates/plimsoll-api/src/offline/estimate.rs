//! The output of `plimsoll estimate -o json`.

use plimsoll_core::units::Bytes;
use plimsoll_models::estimate::Estimate;
use plimsoll_models::settings::KvTypes;
use plimsoll_models::shape::{Format, Shape};
use plimsoll_models::source::Sourced;
use serde::Serialize;

use super::SCHEMA_VERSION;

/// The output of `plimsoll estimate -o json`. It is only written: estimates have no reader.
#[derive(Clone, Debug, Serialize)]
pub struct EstimateOutput {
    pub schema_version: u32,
    pub model: ModelFileRow,
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The settings that fit a device of the given size; null without `--device`.
    pub device: Option<DeviceFitRow>,
}

impl EstimateOutput {
    /// Combines a model, its estimate and what fits a device.
    pub fn new(shape: &Shape, estimate: Estimate, device: Option<DeviceFitRow>) -> EstimateOutput {
        EstimateOutput { schema_version: SCHEMA_VERSION, model: shape.into(), estimate, device }
    }
}

/// A model as its file describes it.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFileRow {
    pub architecture: String,
    pub format: Format,
    /// Null if the file does not name the model.
    pub name: Option<String>,
    /// The type that the weights are stored in, such as `Q4_K_M`; null if unknown.
    pub quantisation: Option<String>,
    /// The number of weights; null if unknown.
    pub parameters: Option<u64>,
    /// Null if neither the caches nor the tensors of the layers are known.
    pub layers: Option<usize>,
    pub embedding: Sourced<u64>,
    pub vocabulary: Sourced<u64>,
    pub trained_context: Sourced<u64>,
    pub experts: Sourced<u64>,
    pub experts_used: Sourced<u64>,
}

impl From<&Shape> for ModelFileRow {
    fn from(shape: &Shape) -> ModelFileRow {
        ModelFileRow {
            architecture: shape.architecture.clone(),
            format: shape.format,
            name: shape.identity.name.clone(),
            quantisation: shape.identity.quantisation.clone(),
            parameters: shape.identity.parameters,
            layers: shape.layer_count(),
            embedding: shape.embedding.clone(),
            vocabulary: shape.vocabulary.clone(),
            trained_context: shape.trained_context.clone(),
            experts: shape.experts.clone(),
            experts_used: shape.experts_used.clone(),
        }
    }
}

/// The settings that fit a device, with all others as requested.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceFitRow {
    /// The memory of one GPU.
    pub bytes: Bytes,
    pub fits: bool,
    pub longest_context: Option<u64>,
    pub largest_parallel: Option<u64>,
    /// The most precise KV cache type.
    pub kv: Option<KvTypes>,
    /// The smallest number of such GPUs, from the requested one on.
    pub fewest_gpus: Option<u64>,
}
