//! From the headers of a GGUF model to what the formulas need of it.

use std::path::Path;

use plimsoll_core::units::Bytes;

use super::header::Header;
use super::tensor::Tensor;
use super::value::Metadata;
use super::{GgufError, layers, split};
use crate::shape::{Format, Place, Shape, Weights};
use crate::source::Fact;

/// The most layers. llama.cpp has 512.
pub const LAYERS_MOST: u64 = 4096;

/// Reads the model at `path`, with every other part where it is split.
pub fn read(path: &Path) -> Result<Shape, GgufError> {
    of(&split::read(path)?)
}

/// What the formulas need of a model whose parts have these headers, the first part first.
pub fn of(parts: &[Header]) -> Result<Shape, GgufError> {
    let missing = |key: &str| GgufError::Missing { key: key.to_string() };
    let metadata = &parts.first().ok_or_else(|| missing("general.architecture"))?.metadata;
    let name =
        metadata.text("general.architecture")?.ok_or_else(|| missing("general.architecture"))?;
    let count = layer_count(metadata, name)?;
    let number = |key: &str| fact(metadata, &format!("{name}.{key}"));
    Ok(Shape {
        architecture: name.to_string(),
        format: Format::Gguf,
        layers: layers::read(metadata, name, count)?,
        heads: per_layer(metadata, &format!("{name}.attention.head_count"), count)?,
        embedding: number("embedding_length")?,
        feed_forward: per_layer(metadata, &format!("{name}.feed_forward_length"), count)?,
        vocabulary: vocabulary(metadata, name, parts)?,
        trained_context: number("context_length")?,
        experts: number("expert_count")?,
        experts_used: used(metadata, name, count)?,
        expert_feed_forward: per_layer(
            metadata,
            &format!("{name}.expert_feed_forward_length"),
            count,
        )?,
        weights: Fact::read(weights(parts, count)?, "the list of tensors"),
        remarks: remarks(parts),
    })
}

fn layer_count(metadata: &Metadata, name: &str) -> Result<usize, GgufError> {
    let key = format!("{name}.block_count");
    let value = metadata.number(&key)?.ok_or_else(|| GgufError::Missing { key: key.clone() })?;
    match usize::try_from(value) {
        Ok(count) if (1..=LAYERS_MOST).contains(&value) => Ok(count),
        _ => Err(GgufError::Kind { key, expected: "from 1 to 4096" }),
    }
}

fn fact(metadata: &Metadata, key: &str) -> Result<Fact<u64>, GgufError> {
    Ok(metadata.number(key)?.map_or_else(|| Fact::unknown(key), |number| Fact::read(number, key)))
}

fn per_layer(metadata: &Metadata, key: &str, count: usize) -> Result<Fact<Vec<u64>>, GgufError> {
    Ok(metadata
        .per_layer(key, count)?
        .map_or_else(|| Fact::unknown(key), |list| Fact::read(list, key)))
}

fn used(metadata: &Metadata, name: &str, count: usize) -> Result<Fact<u64>, GgufError> {
    let most = per_layer(metadata, &format!("{name}.expert_used_count"), count)?;
    Ok(most.map(|list| list.into_iter().max().unwrap_or(0)))
}

/// The number of tokens: the list's length, else the key, else the rows of the table of embeddings.
fn vocabulary(metadata: &Metadata, name: &str, parts: &[Header]) -> Result<Fact<u64>, GgufError> {
    let list = "tokenizer.ggml.tokens";
    if let Some(length) = metadata.length(list)? {
        return Ok(Fact::read(length, list));
    }
    let key = format!("{name}.vocab_size");
    if let Some(size) = metadata.number(&key)? {
        return Ok(Fact::read(size, key));
    }
    let table = tensors(parts).find(|tensor| tensor.name == "token_embd.weight");
    let rows = table.and_then(|table| table.shape.get(1).copied());
    Ok(rows.map_or_else(
        || Fact::unknown(list),
        |rows| Fact::read(rows, "the shape of token_embd.weight"),
    ))
}

fn tensors(parts: &[Header]) -> impl Iterator<Item = &Tensor> {
    parts.iter().flat_map(|part| &part.tensors)
}

fn weights(parts: &[Header], count: usize) -> Result<Weights, GgufError> {
    let mut weights = Weights::of_layers(count);
    for tensor in tensors(parts) {
        let is_vector = tensor.shape.iter().skip(1).all(|length| *length == 1);
        let added = weights.add(&place(&tensor.name), tensor.bytes, is_vector);
        added.ok_or_else(|| too_large(tensor))?;
    }
    let has = |name: &str| tensors(parts).any(|tensor| tensor.name == name);
    if !has("output.weight") && !has("cls.weight") {
        weights.tied = tensors(parts)
            .find(|tensor| tensor.name == "token_embd.weight")
            .map(|table| table.bytes);
    }
    Ok(weights)
}

fn too_large(tensor: &Tensor) -> GgufError {
    let problem = "makes the model too large";
    GgufError::TensorShape { name: tensor.name.clone(), shape: tensor.shape.clone(), problem }
}

fn place(name: &str) -> Place {
    if let Some((number, _)) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        return number.parse().map_or(Place::Other, Place::Layer);
    }
    match name.split_once('.').map_or(name, |(first, _)| first) {
        "token_embd" | "token_types" | "position_embd" | "per_layer_token_embd" => Place::Embedding,
        "output" | "output_norm" | "cls" | "token_embd_norm" => Place::Output,
        _ => Place::Other,
    }
}

fn remarks(parts: &[Header]) -> Vec<String> {
    let absent = parts.iter().map(Header::absent).fold(Bytes::ZERO, Bytes::plus);
    if absent.is_zero() {
        return Vec::new();
    }
    vec![format!(
        "{absent} of the tensors' data is not in the file; the sizes are those that the header states"
    )]
}
