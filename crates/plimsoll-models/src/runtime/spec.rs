//! The record of what is charged for a slot and how its model is served.

use std::collections::BTreeMap;

use plimsoll_core::units::Bytes;
use serde::Serialize;

use super::overhead::Overhead;
use crate::estimate::LayerCounts;
use crate::settings::Settings;
use crate::shape::{Cache, Shape};

/// The record of what is charged for a slot and how its model is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchSpec {
    /// The program, if it is not found under its usual name.
    pub program: Option<String>,
    /// The model's file or directory, or its name in the runtime's own store.
    pub model: String,
    /// The serving parameters. `gpus` is the number of `devices`.
    pub settings: Settings,
    pub devices: Vec<DeviceCharge>,
    pub memory: MemoryBasis,
    /// The memory that the runtime uses outside its own pool.
    pub overhead: Overhead,
    /// The files that llama-server loads beside the model.
    pub additions: AddedPaths,
    /// The model's heads, if they are known.
    pub heads: Option<Heads>,
    /// The layers on each GPU, for the runtimes that split by layers.
    pub layers: LayerSplit,
}

/// The paths of the files that llama-server loads beside a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AddedPaths {
    pub projector: Option<String>,
    pub adapters: Vec<String>,
    pub draft: Option<String>,
}

/// The origin of the charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum MemoryBasis {
    /// The declaration, which can include what the user's arguments load besides the model.
    Declared,
    /// An estimate from the model's file, or a measurement.
    Known,
}

/// The division of a model's layers over its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum LayerSplit {
    /// The counts that the estimate charges.
    Counted(LayerCounts),
    /// Equal runs of an unknown number of layers. llama.cpp then assigns the same layers as with
    /// the counts of equal runs.
    Equal,
    /// In proportion to different charges that were declared for each GPU.
    ByCharge,
}

/// The charge on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceCharge {
    pub charge: Bytes,
    /// The memory of the GPU as the runtime sees it.
    pub total: Option<Bytes>,
}

/// The numbers of heads that decide how a model can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Heads {
    pub attention: u64,
    /// KV heads, if they are known and the same in all layers.
    pub kv: Option<u64>,
}

impl Heads {
    /// Returns the heads of a model whose file was read.
    pub fn from_shape(shape: &Shape) -> Option<Heads> {
        Heads::common(shape.heads.get()?, shape.layers.get().map_or(&[], Vec::as_slice))
    }

    /// Combines the heads of all layers. A number of GPUs divides the heads of every layer exactly
    /// if it divides their greatest common divisor.
    pub(super) fn common(heads: &[u64], layers: &[Cache]) -> Option<Heads> {
        let attention = heads.iter().copied().filter(|heads| *heads > 0).reduce(gcd)?;
        let mut kv = layers.iter().filter_map(|cache| match cache {
            Cache::Grouped { kv_heads, .. }
            | Cache::GroupedWithState { kv_heads, .. }
            | Cache::GroupedWithIndexer { kv_heads, .. } => Some(*kv_heads),
            Cache::Latent { .. }
            | Cache::Compressed { .. }
            | Cache::Recurrent { .. }
            | Cache::Shared { .. }
            | Cache::None => None,
        });
        let first = kv.next();
        Some(Heads { attention, kv: first.filter(|first| kv.all(|other| other == *first)) })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The arguments and variables that the user adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserOptions {
    /// Arguments after Plimsoll's own.
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}
