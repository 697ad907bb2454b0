//! Converts the headers of a GGUF model into a [`Shape`].

use std::path::Path;

use plimsoll_core::units::Bytes;

use super::architectures::{self, OutputMatrix, PredictionLayers};
use super::error::{GgufError, ShapeProblem};
use super::header::Header;
use super::tensor::Tensor;
use super::value::Metadata;
use super::{additions, identity, layers, split, split_inputs};
use crate::shape::{Contents, Format, Gate, LayerPasses, Shape, TensorRank, TensorRole, Weights};
use crate::source::Sourced;

/// The largest number of layers. llama.cpp accepts 512 (`LLAMA_MAX_LAYERS`).
pub const MAX_LAYERS: u64 = 4096;

const EMBEDDING_TENSOR: &str = "token_embd.weight";
const ARCHITECTURE_KEY: &str = "general.architecture";

/// Reads the model at `path`, with all parts if it is split.
pub fn read(path: &Path) -> Result<Shape, GgufError> {
    from_headers(&split::read(path)?)
}

/// Builds the shape of a model from the headers of its parts, the first part first.
pub fn from_headers(parts: &[Header]) -> Result<Shape, GgufError> {
    let metadata = &parts.first().ok_or_else(missing_architecture)?.metadata;
    let name = metadata.text(ARCHITECTURE_KEY)?.ok_or_else(missing_architecture)?;
    if let Some(addition) = additions::read(parts, name)? {
        return Ok(addition);
    }
    let count = layer_count(metadata, name)?;
    let row = architectures::find(name);
    let (weights, unloaded) = loaded_weights(parts, name, count)?;
    let number = |key: &str| sourced_number(metadata, &format!("{name}.{key}"));
    let per_layer = |key: &str| sourced_per_layer(metadata, &format!("{name}.{key}"), count);
    Ok(Shape {
        architecture: name.to_string(),
        format: Format::Gguf,
        identity: identity::read(parts)?,
        layers: layers::read(metadata, name, count)?,
        heads: per_layer("attention.head_count")?,
        embedding: number("embedding_length")?,
        feed_forward: per_layer("feed_forward_length")?,
        vocabulary: vocabulary(metadata, name, parts)?,
        trained_context: number("context_length")?,
        experts: number("expert_count")?,
        experts_used: per_layer("expert_used_count")?
            .map(|layers| layers.into_iter().max().unwrap_or(0)),
        expert_feed_forward: per_layer("expert_feed_forward_length")?,
        weights: Sourced::read(weights, "the tensor list"),
        output: row.map(|row| row.output).unwrap_or_default(),
        flash_attention: row.map(|row| row.flash_attention).unwrap_or_default(),
        gate: gate(metadata, name, count, parts)?,
        split_inputs: split_inputs::read(metadata, name)?,
        absent: absent(parts),
        remarks: remarks(parts, unloaded),
        passes: passes(metadata, name)?,
        contents: Contents::Model,
        additions: Vec::new(),
    })
}

/// Returns the passes through the layers, whose number is under a key of its own.
fn passes(metadata: &Metadata, name: &str) -> Result<LayerPasses, GgufError> {
    let key = architectures::find(name).and_then(|row| row.passes);
    let passes = key.map(|key| metadata.number(&format!("{name}.{key}"))).transpose()?.flatten();
    Ok(match passes {
        Some(2..) => LayerPasses::Several,
        Some(_) | None => LayerPasses::Once,
    })
}

fn missing_architecture() -> GgufError {
    GgufError::MissingKey { key: ARCHITECTURE_KEY.to_string() }
}

fn layer_count(metadata: &Metadata, name: &str) -> Result<usize, GgufError> {
    let key = format!("{name}.block_count");
    let Some(value) = metadata.number(&key)? else { return Err(GgufError::MissingKey { key }) };
    match usize::try_from(value) {
        Ok(count) if (1..=MAX_LAYERS).contains(&value) => Ok(count),
        _ => Err(GgufError::InvalidValue { key, expected: "from 1 to 4096" }),
    }
}

fn sourced_number(metadata: &Metadata, key: &str) -> Result<Sourced<u64>, GgufError> {
    let number = metadata.number(key)?;
    Ok(number.map_or_else(|| Sourced::unknown(key), |number| Sourced::read(number, key)))
}

fn sourced_per_layer(
    metadata: &Metadata,
    key: &str,
    count: usize,
) -> Result<Sourced<Vec<u64>>, GgufError> {
    let list = metadata.per_layer(key, count)?;
    Ok(list.map_or_else(|| Sourced::unknown(key), |list| Sourced::read(list, key)))
}

/// Returns the vocabulary size: the length of the token list, else the key, else the rows of the
/// embedding matrix.
fn vocabulary(
    metadata: &Metadata,
    name: &str,
    parts: &[Header],
) -> Result<Sourced<u64>, GgufError> {
    let list = "tokenizer.ggml.tokens";
    if let Some(length) = metadata.list_length(list)? {
        return Ok(Sourced::read(length, list));
    }
    let key = format!("{name}.vocab_size");
    if let Some(size) = metadata.number(&key)? {
        return Ok(Sourced::read(size, key));
    }
    match find_tensor(parts, EMBEDDING_TENSOR).and_then(|matrix| matrix.shape.get(1)) {
        Some(rows) => Ok(Sourced::read(*rows, format!("the shape of {EMBEDDING_TENSOR}"))),
        None => Ok(Sourced::unknown(list)),
    }
}

pub(super) fn tensors(parts: &[Header]) -> impl Iterator<Item = &Tensor> {
    parts.iter().flat_map(|part| &part.tensors)
}

fn find_tensor<'a>(parts: &'a [Header], name: &str) -> Option<&'a Tensor> {
    tensors(parts).find(|tensor| tensor.name == name)
}

/// Returns the weights that llama.cpp loads, and the bytes of those that it leaves in the file.
fn loaded_weights(
    parts: &[Header],
    name: &str,
    count: usize,
) -> Result<(Weights, Bytes), GgufError> {
    let mut weights = weights(parts, name, count)?;
    let metadata = &parts.first().ok_or_else(missing_architecture)?.metadata;
    let prediction = match architectures::find(name).map(|row| row.prediction_layers) {
        Some(PredictionLayers::Left) => {
            metadata.number(&format!("{name}.nextn_predict_layers"))?.unwrap_or(0)
        }
        Some(PredictionLayers::Loaded) | None => 0,
    };
    let prediction = usize::try_from(prediction).unwrap_or(count);
    let last = weights.layers.iter_mut().rev().take(prediction);
    let unloaded = last.map(std::mem::take).fold(Bytes::ZERO, Bytes::plus);
    Ok((weights, unloaded))
}

fn weights(parts: &[Header], name: &str, count: usize) -> Result<Weights, GgufError> {
    let mut weights = Weights::with_layers(count);
    for tensor in tensors(parts) {
        add_tensor(&mut weights, &role(&tensor.name), tensor)?;
    }
    // llama.cpp uses the embedding matrix as output matrix if the file has none.
    let has_output =
        ["output.weight", "cls.weight"].iter().any(|name| find_tensor(parts, name).is_some());
    let matrix = architectures::find(name).map(|row| row.matrix);
    if !has_output && matches!(matrix, None | Some(OutputMatrix::Embeddings)) {
        weights.tied = find_tensor(parts, EMBEDDING_TENSOR).map(|matrix| matrix.bytes);
    }
    Ok(weights)
}

pub(super) fn add_tensor(
    weights: &mut Weights,
    role: &TensorRole,
    tensor: &Tensor,
) -> Result<(), GgufError> {
    let added = weights.add(role, rank(&tensor.shape), tensor.bytes);
    added.ok_or_else(|| GgufError::TensorShape {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        problem: ShapeProblem::ModelTooLarge,
    })
}

fn rank(shape: &[u64]) -> TensorRank {
    if shape.iter().skip(1).all(|length| *length == 1) {
        TensorRank::Vector
    } else {
        TensorRank::Matrix
    }
}

/// Returns the role of a tensor by its name. llama.cpp puts the `Embedding` group on the host.
pub(super) fn role(name: &str) -> TensorRole {
    if let Some((number, _)) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        return number.parse().map_or(TensorRole::Other, TensorRole::Layer);
    }
    match name.split_once('.').map_or(name, |(first, _)| first) {
        "token_embd" | "token_types" | "position_embd" | "per_layer_token_embd" => {
            TensorRole::Embedding
        }
        "token_embd_norm" | "per_layer_model_proj" | "per_layer_proj_norm" => TensorRole::Input,
        "output" | "output_norm" | "cls" | "altup_proj" | "altup_unembd_proj" => TensorRole::Output,
        _ => TensorRole::Other,
    }
}

/// Returns the gate of the networks. Some models have gate and up in one matrix, which then has
/// more rows than the network is wide.
fn gate(
    metadata: &Metadata,
    name: &str,
    count: usize,
    parts: &[Header],
) -> Result<Gate, GgufError> {
    let widths = metadata.per_layer(&format!("{name}.feed_forward_length"), count)?;
    let widest = widths.into_iter().flatten().max().unwrap_or(0);
    let has_gate = tensors(parts).any(|tensor| tensor.name.contains(".ffn_gate"));
    let mut up = tensors(parts).filter(|tensor| tensor.name.ends_with(".ffn_up.weight")).peekable();
    let is_single = up.peek().is_some()
        && up.all(|tensor| tensor.shape.get(1).is_some_and(|rows| *rows <= widest));
    Ok(if is_single && !has_gate { Gate::Absent } else { Gate::Present })
}

pub(super) fn absent(parts: &[Header]) -> Bytes {
    parts.iter().map(Header::absent).fold(Bytes::ZERO, Bytes::plus)
}

fn remarks(parts: &[Header], unloaded: Bytes) -> Vec<String> {
    let remarks = [
        (absent(parts), "of tensor data is not in the file; the sizes come from the header"),
        (unloaded, "of layers for multi-token prediction are not loaded"),
    ];
    let remarks = remarks.into_iter().filter(|(bytes, _)| !bytes.is_zero());
    remarks.map(|(bytes, text)| format!("{bytes} {text}")).collect()
}
