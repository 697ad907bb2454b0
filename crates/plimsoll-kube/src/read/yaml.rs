//! YAML, document by document. Each becomes a tree before its type is known.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

use super::error::{FieldError, Problem, ReadError, without_position};
use super::json;
use super::reader::{Head, Reader, Shape, Tree};

/// Reads all YAML documents of a text. A document that is JSON is read as JSON.
pub(super) fn read(reader: &mut Reader<'_>, text: &str) -> Result<(), ReadError> {
    for part in Documents::new(text) {
        reader.line = Some(part.line);
        reader.progress(part.start);
        if json::looks_like_json(part.text.trim_start_matches("---")) {
            json::read(reader, part.text.trim_start_matches("---"))?;
            continue;
        }
        reader.document += 1;
        match parse(part.text) {
            Ok(Value::Null) => {}
            Ok(tree) => reader.document(tree)?,
            Err(error) => {
                let line = error.location().map_or(0, |at| usize::try_from(at.line()).unwrap_or(0));
                reader.line = Some(part.line + line.saturating_sub(1));
                return Err(reader.error(None, problem(&error)));
            }
        }
    }
    Ok(())
}

/// One document of a text.
struct Document<'a> {
    text: &'a str,
    start: usize,
    line: usize,
}

/// The documents of a text. A line that begins with `---` or `...` ends a document wherever it is:
/// YAML forbids such lines inside of one, also in quotes and blocks.
struct Documents<'a> {
    text: &'a str,
    start: usize,
    line: usize,
}

impl<'a> Documents<'a> {
    fn new(text: &'a str) -> Documents<'a> {
        Documents { text, start: 0, line: 1 }
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = Document<'a>;

    fn next(&mut self) -> Option<Document<'a>> {
        let rest = &self.text[self.start..];
        if rest.is_empty() {
            return None;
        }
        let mut part = Document { text: rest, start: self.start, line: self.line };
        let mut bare = true;
        let mut end = 0;
        for line in rest.split_inclusive('\n') {
            if end > 0 && !bare && is_marker(line, "---") {
                break;
            }
            end += line.len();
            self.line += 1;
            if is_marker(line, "...") {
                break;
            }
            bare &= is_bare(line);
        }
        self.start += end;
        part.text = &rest[..end];
        Some(part)
    }
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Returns true for lines that can precede the first marker of a document: blank lines, comments
/// and directives.
fn is_bare(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '%'])
}

fn parse(text: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, options())
}

/// Returns the parser options. The limits allow the dump of a large cluster, about 200 MB in one
/// document; the defaults are meant for configuration files. The limit on aliases is the default.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 60_000_000,
            max_nodes: 40_000_000,
            max_total_scalar_bytes: 1 << 30,
            max_total_comment_bytes: 1 << 30,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // `yes` and `on` are strings, as in YAML 1.2: such labels need no quotes.
        strict_booleans: true,
        with_snippet: false,
    }
}

fn problem(error: &serde_saphyr::Error) -> Problem {
    let message = without_position(&error.to_string());
    match error.without_snippet() {
        serde_saphyr::Error::Budget { .. } => Problem::Budget { message },
        _ => Problem::Yaml { message },
    }
}

impl Tree for Value {
    fn shape(&self) -> Shape {
        match self {
            Value::Object(_) => Shape::Map,
            Value::Array(_) => Shape::List,
            Value::String(_) => Shape::Other("text"),
            Value::Null => Shape::Other("null"),
            Value::Bool(_) => Shape::Other("true or false"),
            Value::Number(_) => Shape::Other("a number"),
        }
    }

    fn head(&mut self) -> Result<Head<Self>, FieldError> {
        let metadata = self.get("metadata").unwrap_or(&Value::Null);
        let mut head = Head {
            kind: text_at(self, "kind", "kind")?,
            api_version: text_at(self, "apiVersion", "apiVersion")?,
            name: text_at(metadata, "name", "metadata.name")?,
            namespace: text_at(metadata, "namespace", "metadata.namespace")?,
            items: None,
        };
        if head.kind.as_deref().is_some_and(|kind| kind.ends_with("List")) {
            head.items = self.get_mut("items").map(Value::take);
        }
        Ok(head)
    }

    fn elements(self) -> Result<Vec<Self>, FieldError> {
        typed::<Option<Vec<Value>>>(self).map(Option::unwrap_or_default)
    }

    fn typed<T: DeserializeOwned>(self) -> Result<T, FieldError> {
        typed(self)
    }

    fn begins_at(&self, _body: &str) -> Option<usize> {
        None
    }
}

fn text_at(tree: &Value, key: &str, path: &str) -> Result<Option<String>, FieldError> {
    match tree.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => {
            let problem =
                Problem::Field { message: format!("it is {other}, and must be a string") };
            Err(FieldError { field: Some(path.to_owned()), problem })
        }
    }
}

fn typed<'de, T: Deserialize<'de>>(tree: Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(tree).map_err(FieldError::from)
}
