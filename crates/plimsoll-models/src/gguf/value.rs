//! The values of a header's keys: numbers, short texts and short lists are kept, of the rest only how long it is.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use super::GgufError;
use super::cursor::Cursor;

/// The longest list whose numbers are kept: lists with a number for each layer are short, vocabularies are not.
pub const LIST_MOST: u64 = 4096;

/// The longest text that is kept.
pub const TEXT_MOST: u64 = 4096;

/// The longest list. The largest vocabularies and their merges have less than a million entries.
pub const ARRAY_MOST: u64 = 1 << 26;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number, or whether something is so.
    Number(i128),
    /// A number with a fraction.
    Fraction(f64),
    /// A short text.
    Text(String),
    /// A short list of whole numbers.
    Numbers(Vec<i128>),
    /// Something of which only the length is kept.
    Length(u64),
}

/// The keys of a header with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata(BTreeMap<String, Value>);

impl Metadata {
    /// Adds a key; `false` when it was there already.
    pub(crate) fn insert(&mut self, key: String, value: Value) -> bool {
        self.0.insert(key, value).is_none()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<Option<&str>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(kind(key, "a short text")),
        }
    }

    /// A whole number that is not negative.
    pub fn number(&self, key: &str) -> Result<Option<u64>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) => whole(key, *number).map(Some),
            Some(_) => Err(kind(key, "a whole number")),
        }
    }

    /// One number for each of `layers` layers: a list, or one number for all.
    pub fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<u64>>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(vec![whole(key, *number)?; layers])),
            Some(Value::Numbers(list)) if list.len() >= layers => list
                .iter()
                .take(layers)
                .map(|number| whole(key, *number))
                .collect::<Result<_, _>>()
                .map(Some),
            Some(_) => Err(kind(key, "a whole number, or a list with one for each layer")),
        }
    }

    /// How many entries a list has.
    pub fn length(&self, key: &str) -> Result<Option<u64>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Length(length)) => Ok(Some(*length)),
            Some(Value::Numbers(list)) => Ok(Some(list.len() as u64)),
            Some(_) => Err(kind(key, "a list")),
        }
    }
}

fn kind(key: &str, expected: &'static str) -> GgufError {
    GgufError::Kind { key: key.to_string(), expected }
}

fn whole(key: &str, number: i128) -> Result<u64, GgufError> {
    u64::try_from(number).map_err(|_| kind(key, "a number that is not negative"))
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Reads the value that follows a key.
pub fn read<R: Read + Seek>(from: &mut Cursor<R>, key: &str) -> Result<Value, GgufError> {
    let at = from.at();
    match from.u32(&format!("the type of {key}"))? {
        TEXT => text(from, key),
        ARRAY => array(from, key),
        kind => scalar(from, kind, key, at),
    }
}

fn text<R: Read + Seek>(from: &mut Cursor<R>, key: &str) -> Result<Value, GgufError> {
    let start = from.at();
    let kept = from.short_text(key, TEXT_MOST)?;
    Ok(kept.map_or(Value::Length(from.at() - start - 8), Value::Text))
}

fn array<R: Read + Seek>(from: &mut Cursor<R>, key: &str) -> Result<Value, GgufError> {
    let at = from.at();
    let kind = from.u32(&format!("the type of {key}'s entries"))?;
    let length = from.count(&format!("the length of {key}"), ARRAY_MOST)?;
    if kind == TEXT {
        for _ in 0..length {
            let entry = from.u64(key)?;
            from.skip(entry, key)?;
        }
        return Ok(Value::Length(length));
    }
    let width = width(kind).ok_or(GgufError::ValueType { at, field: key.to_string(), kind })?;
    if length > LIST_MOST || is_fraction(kind) {
        from.skip(length.saturating_mul(width), key)?;
        return Ok(Value::Length(length));
    }
    from.keep(length.saturating_mul(16), key)?;
    let mut list = Vec::new();
    for _ in 0..length {
        match scalar(from, kind, key, at)? {
            Value::Number(number) => list.push(number),
            _ => return Ok(Value::Length(length)),
        }
    }
    Ok(Value::Numbers(list))
}

fn scalar<R: Read + Seek>(
    from: &mut Cursor<R>,
    kind: u32,
    key: &str,
    at: u64,
) -> Result<Value, GgufError> {
    Ok(match kind {
        0 | 7 => Value::Number(u8::from_le_bytes(from.bytes(key)?).into()),
        1 => Value::Number(i8::from_le_bytes(from.bytes(key)?).into()),
        2 => Value::Number(u16::from_le_bytes(from.bytes(key)?).into()),
        3 => Value::Number(i16::from_le_bytes(from.bytes(key)?).into()),
        4 => Value::Number(u32::from_le_bytes(from.bytes(key)?).into()),
        5 => Value::Number(i32::from_le_bytes(from.bytes(key)?).into()),
        6 => Value::Fraction(f32::from_le_bytes(from.bytes(key)?).into()),
        10 => Value::Number(u64::from_le_bytes(from.bytes(key)?).into()),
        11 => Value::Number(i64::from_le_bytes(from.bytes(key)?).into()),
        12 => Value::Fraction(f64::from_le_bytes(from.bytes(key)?)),
        kind => return Err(GgufError::ValueType { at, field: key.to_string(), kind }),
    })
}

fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn is_fraction(kind: u32) -> bool {
    matches!(kind, 6 | 12)
}
