//! Files that llama-server loads beside a model: projectors and LoRA adapters.
//!
//! Both are GGUF files with tensors and without the keys of a model. Draft models are models.

use super::error::GgufError;
use super::header::Header;
use super::identity;
use super::projectors;
use super::shape::{self, absent, add_tensor, tensors};
use super::value::Metadata;
use crate::shape::{Adapter, Contents, Format, Shape, TensorRole, Weights};
use crate::source::Sourced;

/// The architecture of a projector.
pub(super) const PROJECTOR: &str = "clip";

/// Returns the shape of a file that is no model; `None` for a model.
pub(super) fn read(parts: &[Header], architecture: &str) -> Result<Option<Shape>, GgufError> {
    let Some(first) = parts.first() else { return Ok(None) };
    if architecture == PROJECTOR {
        return projector(parts, &first.metadata).map(Some);
    }
    match first.metadata.text("general.type")? {
        Some("adapter") => adapter(parts, architecture).map(Some),
        _ => Ok(None),
    }
}

fn projector(parts: &[Header], metadata: &Metadata) -> Result<Shape, GgufError> {
    let mut weights = Weights::default();
    for tensor in tensors(parts) {
        add_tensor(&mut weights, &TensorRole::Other, tensor)?;
    }
    let contents = Contents::Projector(projectors::read(parts, metadata)?);
    let what = "a model; the file is a projector";
    addition(parts, PROJECTOR, weights, contents, what)
}

/// Reads an adapter. Its tensors are beside those that they change, and so on the same GPUs.
/// llama.cpp leaves those of norms in the file.
fn adapter(parts: &[Header], architecture: &str) -> Result<Shape, GgufError> {
    let loaded = || tensors(parts).filter(|tensor| !tensor.name.ends_with("_norm.weight"));
    let layer = |name: &str| match shape::role(name) {
        TensorRole::Layer(layer) => layer + 1,
        _ => 0,
    };
    let count = loaded().map(|tensor| layer(&tensor.name)).max().unwrap_or(0);
    if count as u64 > shape::MAX_LAYERS {
        let key = "the number of the last layer".to_string();
        return Err(GgufError::InvalidValue { key, expected: "from 1 to 4096" });
    }
    let mut weights = Weights::with_layers(count);
    let mut facts = Adapter::default();
    for tensor in loaded() {
        add_tensor(&mut weights, &shape::role(&tensor.name), tensor)?;
        let rows = tensor.shape.get(1).copied().unwrap_or(1);
        let is_output = matches!(shape::role(&tensor.name), TensorRole::Output);
        match tensor.name.ends_with(".lora_a") {
            true => facts.rank = facts.rank.max(rows),
            false if is_output => {}
            false => facts.widest = facts.widest.max(rows),
        }
    }
    let what = "a model; the file is a LoRA adapter";
    addition(parts, architecture, weights, Contents::Adapter(facts), what)
}

fn addition(
    parts: &[Header],
    architecture: &str,
    weights: Weights,
    contents: Contents,
    what: &str,
) -> Result<Shape, GgufError> {
    let absent = absent(parts);
    Ok(Shape {
        identity: identity::read(parts)?,
        weights: Sourced::read(weights, "the tensor list"),
        contents,
        absent,
        ..Shape::unknown(architecture, Format::Gguf, what)
    })
}
