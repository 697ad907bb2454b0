//! JSON, read lazily: a part is a slice of the text until its type is known.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::object::nullable;

use super::error::{FieldError, Problem, ReadError};
use super::reader::{Head, Reader, Shape, Tree};

/// Returns true if a text begins as only JSON does. YAML can begin with a brace too, but not with a
/// brace and a quote.
pub(super) fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('{') {
        return rest.trim_start().starts_with(['"', '}']);
    }
    text.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with(['{', ']']))
}

/// Reads one JSON document after another.
pub(super) fn read(reader: &mut Reader<'_>, text: &str) -> Result<(), ReadError> {
    for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        reader.document += 1;
        match document {
            Ok(document) => reader.document(document)?,
            Err(error) => {
                return Err(reader.error(None, Problem::Json { message: error.to_string() }));
            }
        }
    }
    Ok(())
}

impl Tree for &RawValue {
    fn shape(&self) -> Shape {
        match self.get().as_bytes().first() {
            Some(b'{') => Shape::Map,
            Some(b'[') => Shape::List,
            Some(b'"') => Shape::Other("text"),
            Some(b'n') => Shape::Other("null"),
            Some(b't' | b'f') => Shape::Other("true or false"),
            _ => Shape::Other("a number"),
        }
    }

    fn head(&mut self) -> Result<Head<Self>, FieldError> {
        let head: JsonHead<'_> = parse(self.get())?;
        Ok(Head {
            kind: head.kind,
            api_version: head.api_version,
            name: head.metadata.name,
            namespace: head.metadata.namespace,
            items: head.items,
        })
    }

    fn elements(self) -> Result<Vec<Self>, FieldError> {
        parse::<Option<Vec<Self>>>(self.get()).map(Option::unwrap_or_default)
    }

    fn typed<T: DeserializeOwned>(self) -> Result<T, FieldError> {
        parse(self.get())
    }

    fn begins_at(&self, body: &str) -> Option<usize> {
        // Both are slices of the same text: their addresses differ by the offset.
        (self.get().as_ptr().addr())
            .checked_sub(body.as_ptr().addr())
            .filter(|at| *at <= body.len())
    }
}

/// Parses fast, and on failure again with the path recorded: recording costs time for every key.
fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, FieldError> {
    serde_json::from_str(text).or_else(|_| {
        let mut from = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut from).map_err(FieldError::from)
    })
}

/// The fields that identify an object. All others are skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonHead<'a> {
    kind: Option<String>,
    api_version: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    metadata: JsonMetadata,
    #[serde(borrow)]
    items: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct JsonMetadata {
    name: Option<String>,
    namespace: Option<String>,
}
