//! The answer of `plimsoll estimate -o json`.

use plimsoll_core::units::Bytes;
use plimsoll_models::estimate::Estimate;
use plimsoll_models::settings::KvTypes;
use plimsoll_models::shape::{Format, Shape};
use plimsoll_models::source::Sourced;
use serde::Serialize;

use super::SCHEMA_VERSION;
use crate::commands::{Asked, Room};

/// What a model takes, and what would fit a device.
#[derive(Serialize)]
pub(crate) struct EstimateSheet<'a> {
    schema_version: u32,
    model: ModelRow<'a>,
    #[serde(flatten)]
    estimate: &'a Estimate,
    device: Option<DeviceRow>,
}

#[derive(Serialize)]
struct ModelRow<'a> {
    architecture: &'a str,
    format: Format,
    layers: Option<usize>,
    embedding: &'a Sourced<u64>,
    vocabulary: &'a Sourced<u64>,
    trained_context: &'a Sourced<u64>,
    experts: &'a Sourced<u64>,
    experts_used: &'a Sourced<u64>,
}

#[derive(Serialize)]
struct DeviceRow {
    bytes: Bytes,
    fits: bool,
    longest_context: Option<u64>,
    largest_parallel: Option<u64>,
    kv: Option<KvTypes>,
}

/// What a model takes, and what would fit a device.
pub(crate) fn estimate(asked: &Asked) -> EstimateSheet<'_> {
    EstimateSheet {
        schema_version: SCHEMA_VERSION,
        model: model(&asked.shape),
        estimate: &asked.estimate,
        device: asked.room.as_ref().map(device),
    }
}

fn model(shape: &Shape) -> ModelRow<'_> {
    ModelRow {
        architecture: &shape.architecture,
        format: shape.format,
        layers: shape.layers.get().map(Vec::len),
        embedding: &shape.embedding,
        vocabulary: &shape.vocabulary,
        trained_context: &shape.trained_context,
        experts: &shape.experts,
        experts_used: &shape.experts_used,
    }
}

fn device(room: &Room) -> DeviceRow {
    DeviceRow {
        bytes: room.device,
        fits: room.fits,
        longest_context: room.context,
        largest_parallel: room.parallel,
        kv: room.kv,
    }
}
