//! Writes a card as a GGUF file: version 3, little endian, aligned to 32 bytes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::card::{Card, Tensor};

/// How much of a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing but the header.
    Missing,
    /// As long as the real one; the weights are a hole that takes no room on the disk.
    Sparse,
}

const ALIGNMENT: u64 = 32;
const TOKENS: &str = "tokenizer.ggml.tokens";

/// Writes the card's file.
pub fn write(card: &Card<'_>, path: &Path, body: Body) -> io::Result<()> {
    let header = header(card);
    let mut file = File::create(path)?;
    file.write_all(&header)?;
    match body {
        Body::Missing => Ok(()),
        Body::Sparse => file.set_len(aligned(length(&header)) + offsets(card).1),
    }
}

/// The header's bytes.
pub fn header(card: &Card<'_>) -> Vec<u8> {
    let entries: Vec<(&str, Value<'_>)> =
        card.head.iter().flat_map(|line| entries(line, card)).collect();
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    put_length(&mut out, card.tensors.len());
    put_length(&mut out, entries.len());
    for (key, value) in &entries {
        put_text(&mut out, key);
        value.put(&mut out);
    }
    for (tensor, offset) in card.tensors.iter().zip(offsets(card).0) {
        put_tensor(&mut out, tensor, offset);
    }
    out
}

/// A value of the metadata, by the type that converters give it.
enum Value<'a> {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'a str),
    Numbers(Vec<i32>),
    Floats(Vec<f32>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
}

impl Value<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::U32(number) => put(out, 4, number.to_le_bytes()),
            Value::F32(number) => put(out, 6, number.to_le_bytes()),
            Value::Bool(yes) => put(out, 7, [u8::from(*yes)]),
            Value::Text(text) => {
                put(out, 8, []);
                put_text(out, text);
            }
            Value::Numbers(list) => {
                put_list(out, 5, list, |out, number| out.extend(number.to_le_bytes()))
            }
            Value::Floats(list) => {
                put_list(out, 6, list, |out, number| out.extend(number.to_le_bytes()))
            }
            Value::Bools(list) => put_list(out, 7, list, |out, yes| out.push(u8::from(*yes))),
            Value::Texts(list) => put_list(out, 8, list, |out, text| put_text(out, text)),
        }
    }
}

/// The entries that a line stands for: itself, or a whole vocabulary.
fn entries<'a>(line: &'a str, card: &Card<'_>) -> Vec<(&'a str, Value<'a>)> {
    let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
    match value.parse() {
        Ok(count) if key == TOKENS => vocabulary(count, card),
        _ => vec![(key, value_of(value))],
    }
}

fn value_of(text: &str) -> Value<'_> {
    if let Some(list) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let parts: Vec<&str> = list.split_whitespace().collect();
        let bools: Result<Vec<bool>, _> = parts.iter().map(|part| part.parse()).collect();
        let numbers = || parts.iter().filter_map(|part| part.parse().ok()).collect();
        return bools.map_or_else(|_| Value::Numbers(numbers()), Value::Bools);
    }
    let number = text.parse().map(Value::U32);
    let float = || text.parse().map(Value::F32);
    let yes = || text.parse().map(Value::Bool);
    number.or_else(|_| float()).or_else(|_| yes()).unwrap_or(Value::Text(text))
}

/// As many tokens as the model has, for its largest tensors have a row for each; which words they are costs nothing.
fn vocabulary(count: u32, card: &Card<'_>) -> Vec<(&'static str, Value<'static>)> {
    let all = || 0..count;
    let tokens = all().map(|token| format!("t{token}")).collect();
    let mut entries = vec![
        (TOKENS, Value::Texts(tokens)),
        ("tokenizer.ggml.token_type", Value::Numbers(all().map(|_| 1).collect())),
    ];
    if card.head.contains(&"tokenizer.ggml.model = gpt2") {
        entries.push(("tokenizer.ggml.merges", Value::Texts(vec!["t 0".to_owned()])));
    } else {
        entries.push(("tokenizer.ggml.scores", Value::Floats(all().map(|_| 0.0).collect())));
    }
    entries
}

/// Where each tensor starts after the header, and where the last one ends.
fn offsets(card: &Card<'_>) -> (Vec<u64>, u64) {
    let mut end = 0;
    let mut starts = Vec::with_capacity(card.tensors.len());
    for tensor in &card.tensors {
        starts.push(end);
        end += aligned(tensor.bytes);
    }
    (starts, end)
}

fn aligned(length: u64) -> u64 {
    length.next_multiple_of(ALIGNMENT)
}

fn put_tensor(out: &mut Vec<u8>, tensor: &Tensor, offset: u64) {
    put_text(out, &tensor.name);
    let sides = u32::try_from(tensor.shape.len()).expect("a card's line is shorter than that");
    out.extend(sides.to_le_bytes());
    for side in &tensor.shape {
        out.extend(side.to_le_bytes());
    }
    out.extend(tensor.dtype.code.to_le_bytes());
    out.extend(offset.to_le_bytes());
}

fn put_list<T>(out: &mut Vec<u8>, code: u32, list: &[T], item: impl Fn(&mut Vec<u8>, &T)) {
    put(out, 9, code.to_le_bytes());
    put_length(out, list.len());
    for one in list {
        item(out, one);
    }
}

fn put<const N: usize>(out: &mut Vec<u8>, code: u32, bytes: [u8; N]) {
    out.extend(code.to_le_bytes());
    out.extend(bytes);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend(text.as_bytes());
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.extend((length as u64).to_le_bytes());
}

fn length(header: &[u8]) -> u64 {
    header.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "# A model.\ngeneral.architecture = llama\nllama.block_count = 2\n---\nout 256 2 q4_K\nnorm 3 f32\n";

    #[test]
    fn a_header_has_its_counts_keys_and_offsets() {
        let card = Card::read(CARD).expect("the card is right");
        let header = header(&card);
        assert_eq!(header[..8], *b"GGUF\x03\0\0\0");
        assert_eq!(header[8..24], [2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(header[header.len() - 8..], 288u64.to_le_bytes());
    }

    #[test]
    fn values_have_the_types_that_converters_write() {
        assert!(matches!(value_of("128"), Value::U32(128)));
        assert!(matches!(value_of("1e-05"), Value::F32(_)));
        assert!(matches!(value_of("true"), Value::Bool(true)));
        assert!(matches!(value_of("llama"), Value::Text("llama")));
        assert!(matches!(value_of("[0 8]"), Value::Numbers(list) if list == [0, 8]));
        assert!(matches!(value_of("[true false]"), Value::Bools(list) if list == [true, false]));
    }
}
