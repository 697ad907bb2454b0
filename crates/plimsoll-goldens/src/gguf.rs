//! Writes a card as a GGUF file: version 3, little-endian, 32-byte alignment.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::card::{Card, Tensor};

/// The content of a file after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing: the file ends after the header.
    Missing,
    /// A hole of the real length, which uses no disk space.
    Sparse,
}

const ALIGNMENT: u64 = 32;
const TOKENS: &str = "tokenizer.ggml.tokens";

/// Writes the file of a card.
pub fn write(card: &Card<'_>, path: &Path, body: Body) -> io::Result<()> {
    let header = header(card);
    let mut file = File::create(path)?;
    file.write_all(&header)?;
    match body {
        Body::Missing => Ok(()),
        Body::Sparse => file.set_len(aligned(header.len() as u64) + data_layout(card).length),
    }
}

/// Returns the bytes of the header.
pub fn header(card: &Card<'_>) -> Vec<u8> {
    let entries: Vec<(&str, Value<'_>)> =
        card.head.iter().flat_map(|line| parse_entries(line, card)).collect();
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    put_length(&mut out, card.tensors.len());
    put_length(&mut out, entries.len());
    for (key, value) in &entries {
        put_text(&mut out, key);
        value.put(&mut out);
    }
    for (tensor, offset) in card.tensors.iter().zip(data_layout(card).offsets) {
        put_tensor(&mut out, tensor, offset);
    }
    out
}

/// A metadata value, in the type that conversion scripts write.
enum Value<'a> {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'a str),
    I32List(Vec<i32>),
    F32List(Vec<f32>),
    BoolList(Vec<bool>),
    TextList(Vec<String>),
}

impl Value<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::U32(number) => put(out, 4, number.to_le_bytes()),
            Value::F32(number) => put(out, 6, number.to_le_bytes()),
            Value::Bool(flag) => put(out, 7, [u8::from(*flag)]),
            Value::Text(text) => {
                put(out, 8, []);
                put_text(out, text);
            }
            Value::I32List(list) => {
                put_list(out, 5, list, |out, number| out.extend(number.to_le_bytes()));
            }
            Value::F32List(list) => {
                put_list(out, 6, list, |out, number| out.extend(number.to_le_bytes()));
            }
            Value::BoolList(list) => put_list(out, 7, list, |out, flag| out.push(u8::from(*flag))),
            Value::TextList(list) => put_list(out, 8, list, |out, text| put_text(out, text)),
        }
    }
}

/// Returns the metadata entries of a line: one, or a whole vocabulary for the number of tokens.
fn parse_entries<'a>(line: &'a str, card: &Card<'_>) -> Vec<(&'a str, Value<'a>)> {
    let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
    match value.parse() {
        Ok(count) if key == TOKENS => vocabulary(count, card),
        _ => vec![(key, parse_value(value))],
    }
}

fn parse_value(text: &str) -> Value<'_> {
    if let Some(list) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let parts: Vec<&str> = list.split_whitespace().collect();
        let flags: Result<Vec<bool>, _> = parts.iter().map(|part| part.parse()).collect();
        let integers: Result<Vec<i32>, _> = parts.iter().map(|part| part.parse()).collect();
        return match (flags, integers) {
            (Ok(flags), _) => Value::BoolList(flags),
            (Err(_), Ok(integers)) => Value::I32List(integers),
            (Err(_), Err(_)) => {
                Value::F32List(parts.iter().filter_map(|part| part.parse().ok()).collect())
            }
        };
    }
    if let Ok(number) = text.parse() {
        return Value::U32(number);
    }
    if let Ok(number) = text.parse() {
        return Value::F32(number);
    }
    text.parse().map_or(Value::Text(text), Value::Bool)
}

/// Generates a vocabulary of the real size. The embedding and output matrices have one row per
/// token, so the number of tokens matters for memory, and their text does not.
fn vocabulary(count: u32, card: &Card<'_>) -> Vec<(&'static str, Value<'static>)> {
    let length = count as usize;
    let tokens = (0..count).map(|token| format!("t{token}")).collect();
    let mut entries = vec![
        (TOKENS, Value::TextList(tokens)),
        ("tokenizer.ggml.token_type", Value::I32List(vec![1; length])),
    ];
    if card.head.contains(&"tokenizer.ggml.model = gpt2") {
        entries.push(("tokenizer.ggml.merges", Value::TextList(vec!["t 0".to_owned()])));
    } else {
        entries.push(("tokenizer.ggml.scores", Value::F32List(vec![0.0; length])));
    }
    entries
}

/// The positions of the tensors in the data section.
struct DataLayout {
    offsets: Vec<u64>,
    length: u64,
}

fn data_layout(card: &Card<'_>) -> DataLayout {
    let mut layout = DataLayout { offsets: Vec::with_capacity(card.tensors.len()), length: 0 };
    for tensor in &card.tensors {
        layout.offsets.push(layout.length);
        layout.length += aligned(tensor.bytes);
    }
    layout
}

fn aligned(length: u64) -> u64 {
    length.next_multiple_of(ALIGNMENT)
}

fn put_tensor(out: &mut Vec<u8>, tensor: &Tensor, offset: u64) {
    put_text(out, &tensor.name);
    let sides = u32::try_from(tensor.shape.len()).expect("a line of a card has few words");
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
    for entry in list {
        item(out, entry);
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

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "# A model.\ngeneral.architecture = llama\nllama.block_count = 2\n---\nout 256 2 q4_K\nnorm 3 f32\n";

    #[test]
    fn a_header_has_counts_keys_and_offsets() {
        let card = Card::parse(CARD).expect("the card is valid");
        let header = header(&card);
        assert_eq!(header[..8], *b"GGUF\x03\0\0\0");
        assert_eq!(header[8..24], [2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(header[header.len() - 8..], 288u64.to_le_bytes());
    }

    #[test]
    fn values_have_the_types_that_conversion_scripts_write() {
        assert!(matches!(parse_value("128"), Value::U32(128)));
        assert!(matches!(parse_value("1e-05"), Value::F32(_)));
        assert!(matches!(parse_value("true"), Value::Bool(true)));
        assert!(matches!(parse_value("llama"), Value::Text("llama")));
        assert!(matches!(parse_value("[0 8]"), Value::I32List(list) if list == [0, 8]));
        assert!(matches!(parse_value("[0.5 8]"), Value::F32List(list) if list == [0.5, 8.0]));
        assert!(
            matches!(parse_value("[true false]"), Value::BoolList(list) if list == [true, false])
        );
    }
}
