//! Which tensors are on which GPU, as each runtime places them.

use plimsoll_core::units::Bytes;

use super::EstimateError;
use super::parts::Part;
use crate::settings::{RuntimeKind, Settings};
use crate::shape::{Shape, Weights};
use crate::source::Source;

/// Where the weights are.
pub(super) struct Placed {
    /// On each GPU.
    pub(super) gpus: Vec<Part>,
    /// In the host's memory.
    pub(super) host: Part,
    /// The GPU of each layer, where layers are not split themselves.
    pub(super) layers_of: Option<Vec<usize>>,
}

pub(super) fn place(shape: &Shape, settings: &Settings) -> Result<Placed, EstimateError> {
    let gpus = usize::try_from(settings.gpus).unwrap_or(usize::MAX);
    let whole_layers = settings.runtime != RuntimeKind::Vllm;
    let count = shape.layers.get().map(Vec::len);
    let count =
        count.or_else(|| shape.weights.get().map(|weights| weights.layers.len())).unwrap_or(0);
    let layers_of = whole_layers.then(|| gpu_of_layers(count, gpus));
    let Some(weights) = shape.weights.get() else {
        let unknown = Part::unknown_as(shape.weights.source());
        return Ok(Placed { gpus: vec![unknown.clone(); gpus], host: unknown, layers_of });
    };
    let (sums, host) = match &layers_of {
        Some(layers_of) => (by_layer(weights, layers_of, gpus)?, host(weights)),
        None => (vec![shared(weights, settings)?; gpus], Bytes::ZERO),
    };
    let part = |bytes| Part { bytes: Some(bytes), source: shape.weights.source().clone() };
    Ok(Placed { gpus: sums.into_iter().map(part).collect(), host: kept(host, shape), layers_of })
}

fn kept(host: Bytes, shape: &Shape) -> Part {
    match shape.weights.source() {
        Source::Computed { from } => Part::computed(host, from),
        Source::Read { from }
        | Source::Table { what: from }
        | Source::Unknown { missing: from } => Part::read(host, from),
    }
}

/// llama.cpp deals out the layers and then the output in equal runs: number `i` of `n` goes to GPU `i * gpus / n`.
pub(super) fn gpu_of_layers(count: usize, gpus: usize) -> Vec<usize> {
    (0..=count).map(|layer| layer.saturating_mul(gpus) / (count + 1)).collect()
}

/// The token embeddings stay with the host. A model that uses them as its output matrix too has a copy on the last GPU.
fn by_layer(
    weights: &Weights,
    layers_of: &[usize],
    gpus: usize,
) -> Result<Vec<Bytes>, EstimateError> {
    let mut sums = vec![weights.other; gpus];
    for (layer, bytes) in weights.layers.iter().enumerate() {
        add(&mut sums, layers_of.get(layer).copied(), *bytes)?;
    }
    let output = layers_of.last().copied();
    add(&mut sums, output, weights.output)?;
    add(&mut sums, output, weights.tied.unwrap_or(Bytes::ZERO))?;
    Ok(sums)
}

fn add(sums: &mut [Bytes], gpu: Option<usize>, bytes: Bytes) -> Result<(), EstimateError> {
    let last = sums.len().saturating_sub(1);
    if let Some(sum) = sums.get_mut(gpu.unwrap_or(last)) {
        *sum = sum.checked_add(bytes).ok_or(OVERFLOW)?;
    }
    Ok(())
}

const OVERFLOW: EstimateError = EstimateError::Overflow { what: "the weights" };

fn host(weights: &Weights) -> Bytes {
    weights.embedding
}

/// vLLM has everything on the GPUs: matrices are shared out, vectors are on each.
fn shared(weights: &Weights, settings: &Settings) -> Result<Bytes, EstimateError> {
    let sum = [weights.embedding, weights.output, weights.other].into_iter();
    let sum = sum.chain(weights.layers.iter().copied()).try_fold(Bytes::ZERO, Bytes::checked_add);
    let sum = sum.ok_or(OVERFLOW)?;
    let matrices = sum.less(weights.vectors);
    let share = Bytes::new(matrices.get().div_ceil(settings.gpus.max(1)));
    share.checked_add(weights.vectors).ok_or(OVERFLOW)
}
