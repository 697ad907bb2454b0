//! Metadata values: numbers, short texts and short lists are kept, longer ones only as a length.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use super::cursor::Cursor;
use super::error::GgufError;

/// The longest list whose numbers are kept. Per-layer lists are shorter, vocabularies are longer.
pub const MAX_KEPT_LIST: u64 = 4096;

/// The longest text that is kept, in bytes.
pub const MAX_KEPT_TEXT: u64 = 4096;

/// The longest list that is accepted. The largest vocabularies and merge lists have less than a
/// million entries.
pub const MAX_LIST: u64 = 1 << 26;

/// The value of a metadata key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer or a boolean.
    Integer(i128),
    Float(f64),
    Text(String),
    Integers(Vec<i128>),
    /// A text or list that was skipped; only its length is known.
    Skipped {
        length: u64,
    },
}

/// The metadata of a header.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata(BTreeMap<String, Value>);

impl Metadata {
    pub(crate) fn insert(&mut self, key: String, value: Value) {
        self.0.insert(key, value);
    }

    /// Returns true if the key exists.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns a text.
    pub fn text(&self, key: &str) -> Result<Option<&str>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(key, "a short text")),
        }
    }

    /// Returns a non-negative integer.
    pub fn number(&self, key: &str) -> Result<Option<u64>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Integer(number)) => non_negative(key, *number).map(Some),
            Some(_) => Err(invalid(key, "an integer")),
        }
    }

    /// Returns one number for each of `layers` layers, from a list or from one number for all.
    pub fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<u64>>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Integer(number)) => Ok(Some(vec![non_negative(key, *number)?; layers])),
            Some(Value::Integers(list)) if list.len() >= layers => {
                let numbers = list.iter().take(layers).map(|number| non_negative(key, *number));
                numbers.collect::<Result<_, _>>().map(Some)
            }
            Some(_) => Err(invalid(key, "an integer, or a list with one integer per layer")),
        }
    }

    /// Returns the leading numbers of a list that may be shorter than the layers; the layers after
    /// it get 0.
    pub fn leading(&self, key: &str, layers: usize) -> Result<Option<Vec<u64>>, GgufError> {
        let Some(Value::Integers(list)) = self.0.get(key) else {
            return self.per_layer(key, layers);
        };
        let numbers = list.iter().take(layers).map(|number| non_negative(key, *number));
        let mut numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        numbers.resize(layers, 0);
        Ok(Some(numbers))
    }

    /// Returns the length of a list.
    pub fn list_length(&self, key: &str) -> Result<Option<u64>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Skipped { length }) => Ok(Some(*length)),
            Some(Value::Integers(list)) => Ok(Some(list.len() as u64)),
            Some(_) => Err(invalid(key, "a list")),
        }
    }
}

fn invalid(key: &str, expected: &'static str) -> GgufError {
    GgufError::InvalidValue { key: key.to_string(), expected }
}

fn non_negative(key: &str, number: i128) -> Result<u64, GgufError> {
    u64::try_from(number).map_err(|_| invalid(key, "a non-negative integer"))
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Reads the value that follows a key.
pub fn read<R: Read + Seek>(from: &mut Cursor<R>, key: &str) -> Result<Value, GgufError> {
    let at = from.position();
    match from.u32(&format!("the type of {key}"))? {
        TEXT => read_text(from, key),
        ARRAY => read_array(from, key),
        kind => read_scalar(from, kind, key, at),
    }
}

fn read_text<R: Read + Seek>(from: &mut Cursor<R>, key: &str) -> Result<Value, GgufError> {
    let start = from.position();
    let text = from.short_text(key, MAX_KEPT_TEXT)?;
    let length_field = size_of::<u64>() as u64;
    let length = from.position() - start - length_field;
    Ok(text.map_or(Value::Skipped { length }, Value::Text))
}

fn read_array<R: Read + Seek>(from: &mut Cursor<R>, key: &str) -> Result<Value, GgufError> {
    let at = from.position();
    let kind = from.u32(&format!("the element type of {key}"))?;
    let length = from.count(&format!("the length of {key}"), MAX_LIST)?;
    if kind == TEXT {
        for _ in 0..length {
            let entry = from.u64(key)?;
            from.skip(entry, key)?;
        }
        return Ok(Value::Skipped { length });
    }
    let width =
        scalar_width(kind).ok_or(GgufError::ValueType { at, field: key.to_string(), kind })?;
    if length > MAX_KEPT_LIST || is_float(kind) {
        from.skip(length.saturating_mul(width), key)?;
        return Ok(Value::Skipped { length });
    }
    from.reserve(length.saturating_mul(size_of::<i128>() as u64), key)?;
    let mut list = Vec::new();
    for _ in 0..length {
        match read_scalar(from, kind, key, at)? {
            Value::Integer(number) => list.push(number),
            _ => return Ok(Value::Skipped { length }),
        }
    }
    Ok(Value::Integers(list))
}

/// Reads one scalar. The type numbers are those of `enum gguf_type`; 7 is a boolean.
fn read_scalar<R: Read + Seek>(
    from: &mut Cursor<R>,
    kind: u32,
    key: &str,
    at: u64,
) -> Result<Value, GgufError> {
    Ok(match kind {
        0 | 7 => Value::Integer(u8::from_le_bytes(from.bytes(key)?).into()),
        1 => Value::Integer(i8::from_le_bytes(from.bytes(key)?).into()),
        2 => Value::Integer(u16::from_le_bytes(from.bytes(key)?).into()),
        3 => Value::Integer(i16::from_le_bytes(from.bytes(key)?).into()),
        4 => Value::Integer(u32::from_le_bytes(from.bytes(key)?).into()),
        5 => Value::Integer(i32::from_le_bytes(from.bytes(key)?).into()),
        6 => Value::Float(f32::from_le_bytes(from.bytes(key)?).into()),
        10 => Value::Integer(u64::from_le_bytes(from.bytes(key)?).into()),
        11 => Value::Integer(i64::from_le_bytes(from.bytes(key)?).into()),
        12 => Value::Float(f64::from_le_bytes(from.bytes(key)?)),
        kind => return Err(GgufError::ValueType { at, field: key.to_string(), kind }),
    })
}

fn scalar_width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn is_float(kind: u32) -> bool {
    matches!(kind, 6 | 12)
}
