//! Errors of reading, with their position.

use std::fmt;
use std::sync::Arc;

/// An error and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {problem}")]
pub struct ReadError {
    pub position: Box<Position>,
    pub problem: Problem,
}

/// A position in a text, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file, as the caller named it.
    pub source: Arc<str>,
    /// The number of the document, from 1.
    pub document: Option<usize>,
    /// The line of the file, from 1: of the error, or of the beginning of its document.
    pub line: Option<usize>,
    /// Kind and name of the object.
    pub object: Option<String>,
    /// The path of the field, such as `spec.containers[0].name`.
    pub field: Option<String>,
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.source)?;
        if let Some(document) = self.document {
            write!(out, ", document {document}")?;
        }
        if let Some(line) = self.line {
            write!(out, " (line {line})")?;
        }
        if let Some(object) = &self.object {
            write!(out, ", {object}")?;
        }
        if let Some(field) = &self.field {
            write!(out, ", field {field}")?;
        }
        Ok(())
    }
}

impl Position {
    pub(super) fn whole(source: Arc<str>) -> Position {
        Position { source, document: None, line: None, object: None, field: None }
    }
}

/// The kinds of reading errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it is empty; give the output of kubectl get nodes,pods -A -o json, or manifests")]
    Empty,
    #[error("it is not UTF-8 text (from byte {at}); save it as UTF-8")]
    NotUtf8 { at: usize },
    #[error("this is not valid JSON: {message}")]
    Json { message: String },
    #[error(
        "this is not valid YAML: {message}; give manifests, or the output of kubectl with -o json or -o yaml"
    )]
    Yaml { message: String },
    #[error(
        "this YAML goes beyond what is read: {message}; use -o json, which has no such limit and is much faster"
    )]
    Budget { message: String },
    #[error("this is {found}, not a Kubernetes object; use kubectl with -o json or -o yaml")]
    NotAnObject { found: &'static str },
    #[error(
        "{} has no kind; is it a Kubernetes object? `plimsoll plan -f` reads declarations of models",
        .name.as_deref().unwrap_or("this")
    )]
    NoKind { name: Option<String> },
    #[error("a {kind} without apiVersion could be one of several; write its apiVersion")]
    NoApiVersion { kind: String },
    #[error("lists stand in lists more than {limit} deep; take them apart")]
    TooDeep { limit: usize },
    #[error("{message}")]
    Field { message: String },
}

/// A problem and the path of its field, before the rest of its position is known.
#[derive(Debug)]
pub(super) struct FieldError {
    pub(super) field: Option<String>,
    pub(super) problem: Problem,
}

impl From<Problem> for FieldError {
    fn from(problem: Problem) -> FieldError {
        FieldError { field: None, problem }
    }
}

impl From<serde_path_to_error::Error<serde_json::Error>> for FieldError {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> FieldError {
        let path = error.path().to_string();
        let field = (path != ".").then_some(path);
        FieldError {
            field,
            problem: Problem::Field { message: without_position(&error.inner().to_string()) },
        }
    }
}

/// Removes the parser's position from a message: it counts from the beginning of a part. The names
/// of types, of which an operator knows nothing, become "an object".
pub(super) fn without_position(message: &str) -> String {
    const TYPE: &str = "expected struct ";
    let message = message.rfind(" at line ").map_or(message, |end| &message[..end]);
    match message.split_once(TYPE) {
        Some((before, rest)) => {
            let name = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            format!("{before}expected an object{}", &rest[name..])
        }
        None => message.to_owned(),
    }
}

impl Problem {
    /// Returns whether a text is valid and something other than Kubernetes objects.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Problem::NotAnObject { .. } | Problem::NoKind { .. })
    }
}
