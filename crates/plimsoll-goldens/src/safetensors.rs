//! Writes a card as a directory of safetensors files: `config.json`, shards and their index.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::card::{Card, Tensor};
use crate::gguf::Body;

/// Writes the directory of a card, with the tensors distributed over `shards` files in order.
pub fn write(card: &Card<'_>, directory: &Path, shards: usize, body: Body) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join("config.json"), card.head.join("\n"))?;
    let per_shard = card.tensors.len().div_ceil(shards.max(1)).max(1);
    let shards: Vec<&[Tensor]> = card.tensors.chunks(per_shard).collect();
    for (index, tensors) in shards.iter().enumerate() {
        write_shard(tensors, &directory.join(shard_name(index, shards.len())), body)?;
    }
    if shards.len() > 1 {
        fs::write(directory.join("model.safetensors.index.json"), index(card, &shards))?;
    }
    Ok(())
}

/// Returns the header of one shard, with its length before it.
pub fn header(tensors: &[Tensor]) -> Vec<u8> {
    let mut entries = Map::new();
    entries.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut start = 0;
    for Tensor { name, shape, dtype, bytes } in tensors {
        let end = start + bytes;
        let entry = json!({"dtype": dtype.name, "shape": shape, "data_offsets": [start, end]});
        entries.insert(name.clone(), entry);
        start = end;
    }
    let text = Value::Object(entries).to_string();
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

fn write_shard(tensors: &[Tensor], path: &Path, body: Body) -> io::Result<()> {
    let header = header(tensors);
    let weights: u64 = tensors.iter().map(|tensor| tensor.bytes).sum();
    let mut file = File::create(path)?;
    file.write_all(&header)?;
    match body {
        Body::Missing => Ok(()),
        Body::Sparse => file.set_len(header.len() as u64 + weights),
    }
}

fn shard_name(index: usize, count: usize) -> String {
    match count {
        1 => "model.safetensors".to_owned(),
        _ => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
    }
}

fn index(card: &Card<'_>, shards: &[&[Tensor]]) -> String {
    let mut weight_map = Map::new();
    for (index, tensors) in shards.iter().enumerate() {
        let file = shard_name(index, shards.len());
        weight_map.extend(tensors.iter().map(|tensor| (tensor.name.clone(), json!(file))));
    }
    json!({"metadata": {"total_size": card.weights()}, "weight_map": weight_map}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_starts_with_the_length_of_its_header_and_lists_offsets() {
        let card =
            Card::parse("# A model.\n{}\n---\na 2 3 BF16\nb 4 F32\n").expect("the card is valid");
        let header = header(&card.tensors);
        assert_eq!(header[..8], (header.len() as u64 - 8).to_le_bytes());
        let entries: Value = serde_json::from_slice(&header[8..]).expect("the header is JSON");
        let a = json!({"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]});
        let b = json!({"dtype": "F32", "shape": [4], "data_offsets": [12, 28]});
        assert_eq!((&entries["a"], &entries["b"]), (&a, &b));
    }
}
