//! Groups the tensors of a safetensors model by layer.

use super::shards::Tensors;
use crate::shape::{TensorRank, TensorRole, Weights};

/// The prefixes of layer tensors, before the number of the layer.
const LAYER_PREFIXES: [&str; 6] = [
    "model.layers.",
    "language_model.model.layers.",
    "model.language_model.layers.",
    "transformer.h.",
    "backbone.layers.",
    "layers.",
];

/// Returns the weights of a model with `count` layers, or `None` on overflow.
pub fn sum_by_layer(tensors: &Tensors, count: usize) -> Option<Weights> {
    let mut weights = Weights::with_layers(count);
    let mut has_output_matrix = false;
    for tensor in &tensors.all {
        let role = role(&tensor.name);
        has_output_matrix |= matches!(role, TensorRole::Output) && tensor.name.contains("lm_head");
        let rank = if tensor.shape.len() < 2 { TensorRank::Vector } else { TensorRank::Matrix };
        weights.add(&role, rank, tensor.bytes)?;
    }
    weights.tied = (!has_output_matrix).then_some(weights.embedding);
    Some(weights)
}

fn role(name: &str) -> TensorRole {
    let rest = LAYER_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    if let Some((number, _)) = rest.and_then(|rest| rest.split_once('.')) {
        return number.parse().map_or(TensorRole::Other, TensorRole::Layer);
    }
    if name.contains("embed_tokens.")
        || name.ends_with("wte.weight")
        || name.contains("embeddings.weight")
    {
        TensorRole::Embedding
    } else if name.contains("lm_head.") || name.ends_with("model.norm.weight") {
        TensorRole::Output
    } else {
        TensorRole::Other
    }
}
