//! Writes a card as a folder of safetensors: `config.json`, the shards and their index.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::card::{Card, Tensor};
use crate::gguf::Body;

/// Writes the card's folder; the tensors are dealt to so many shards in order.
pub fn write(card: &Card<'_>, folder: &Path, shards: usize, body: Body) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("config.json"), card.head.join("\n"))?;
    let each = card.tensors.len().div_ceil(shards.max(1)).max(1);
    let parts: Vec<&[Tensor]> = card.tensors.chunks(each).collect();
    for (at, part) in parts.iter().enumerate() {
        write_shard(part, &folder.join(shard_name(at, parts.len())), body)?;
    }
    match parts.len() {
        0 | 1 => Ok(()),
        _ => fs::write(folder.join("model.safetensors.index.json"), index(card, &parts)),
    }
}

/// The bytes of one shard's header, with the length before it.
pub fn header(tensors: &[Tensor]) -> Vec<u8> {
    let mut at = 0;
    let mut entries = vec![r#""__metadata__":{"format":"pt"}"#.to_owned()];
    for tensor in tensors {
        let Tensor { name, shape, dtype, bytes } = tensor;
        let end = at + bytes;
        let dtype = dtype.name;
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{at},{end}]}}"#
        ));
        at = end;
    }
    let text = format!("{{{}}}", entries.join(","));
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

fn shard_name(at: usize, of: usize) -> String {
    match of {
        1 => "model.safetensors".to_owned(),
        _ => format!("model-{:05}-of-{of:05}.safetensors", at + 1),
    }
}

fn index(card: &Card<'_>, parts: &[&[Tensor]]) -> String {
    let mut map = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let shard = shard_name(at, parts.len());
        map.extend(part.iter().map(|tensor| format!(r#""{}":"{shard}""#, tensor.name)));
    }
    format!(
        r#"{{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}}"#,
        card.weights(),
        map.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_says_how_long_its_header_is_and_where_each_tensor_lies() {
        let card =
            Card::read("# A model.\n{}\n---\na 2 3 BF16\nb 4 F32\n").expect("the card is right");
        let header = header(&card.tensors);
        let text = String::from_utf8(header[8..].to_vec()).expect("it is text");
        assert_eq!(header[..8], (text.len() as u64).to_le_bytes());
        assert!(
            text.contains(r#""a":{"dtype":"BF16","shape":[2, 3],"data_offsets":[0,12]}"#),
            "{text}"
        );
        assert!(
            text.contains(r#""b":{"dtype":"F32","shape":[4],"data_offsets":[12,28]}"#),
            "{text}"
        );
    }
}
