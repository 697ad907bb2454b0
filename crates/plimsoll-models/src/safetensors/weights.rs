//! From the tensors of a safetensors model to its weights by layer.

use super::shards::Tensors;
use crate::shape::{Place, Weights};

/// What stands before the number of a layer in the names of the model's own tensors.
const LAYERS: [&str; 6] = [
    "model.layers.",
    "language_model.model.layers.",
    "model.language_model.layers.",
    "transformer.h.",
    "backbone.layers.",
    "layers.",
];

/// The weights of a model with so many layers; `None` when they are more than can be counted.
pub fn of(tensors: &Tensors, count: usize) -> Option<Weights> {
    let mut weights = Weights::of_layers(count);
    let mut head = false;
    for tensor in &tensors.all {
        let place = place(&tensor.name);
        head |= matches!(place, Place::Output) && tensor.name.contains("lm_head");
        weights.add(&place, tensor.bytes, tensor.shape.len() < 2)?;
    }
    weights.tied = (!head).then_some(weights.embedding);
    Some(weights)
}

fn place(name: &str) -> Place {
    let rest = LAYERS.iter().find_map(|prefix| name.strip_prefix(prefix));
    if let Some((number, _)) = rest.and_then(|rest| rest.split_once('.')) {
        return number.parse().map_or(Place::Other, Place::Layer);
    }
    if name.contains("embed_tokens.")
        || name.ends_with("wte.weight")
        || name.contains("embeddings.weight")
    {
        Place::Embedding
    } else if name.contains("lm_head.") || name.ends_with("model.norm.weight") {
        Place::Output
    } else {
        Place::Other
    }
}
