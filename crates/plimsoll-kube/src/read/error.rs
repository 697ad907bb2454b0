//! Where reading ended, and why.

use std::fmt;
use std::sync::Arc;

/// Why a text could not be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ReadError {
    /// Where it is.
    pub place: Box<Place>,
    /// What it is.
    pub problem: Problem,
}

/// A place in a text, as exactly as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as the caller named it.
    pub source: Arc<str>,
    /// Which document, from 1.
    pub document: Option<usize>,
    /// Which line of the file, from 1: of the mistake, or of the beginning of its document.
    pub line: Option<usize>,
    /// Kind and name of the object, as far as they are known.
    pub object: Option<String>,
    /// The path of the field, such as `spec.containers[0].name`.
    pub field: Option<String>,
}

impl fmt::Display for Place {
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

impl Place {
    /// The text as a whole.
    pub(super) fn whole(source: Arc<str>) -> Place {
        Place { source, document: None, line: None, object: None, field: None }
    }
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no document with anything in it.
    #[error("it is empty; give the output of kubectl get nodes,pods -A -o json, or manifests")]
    Empty,
    /// It is not UTF-8.
    #[error("it is not UTF-8 text (from byte {at}); save it as UTF-8")]
    NotUtf8 {
        /// The first byte that is not.
        at: usize,
    },
    /// It begins like JSON and is not.
    #[error("this is not valid JSON: {message}")]
    Json {
        /// What the parser says.
        message: String,
    },
    /// It is not YAML.
    #[error(
        "this is not valid YAML: {message}; give manifests, or the output of kubectl with -o json or -o yaml"
    )]
    Yaml {
        /// What the parser says.
        message: String,
    },
    /// It is larger, deeper or has more aliases than is read as YAML.
    #[error(
        "this YAML goes beyond what is read: {message}; use -o json, which has no such limit and is much faster"
    )]
    Budget {
        /// Which limit.
        message: String,
    },
    /// It is valid, but no object.
    #[error("this is {found}, not a Kubernetes object; use kubectl with -o json or -o yaml")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// It has no kind.
    #[error("{} has no kind; is it a Kubernetes object?", .name.as_deref().unwrap_or("this"))]
    NoKind {
        /// Its name, if it has one.
        name: Option<String>,
    },
    /// Its kind exists in several API groups and it names none.
    #[error("a {kind} without apiVersion could be one of several; write its apiVersion")]
    NoApiVersion {
        /// The kind.
        kind: String,
    },
    /// Lists stand in lists too deep.
    #[error("lists stand in lists more than {limit} deep; take them apart")]
    TooDeep {
        /// How deep they may.
        limit: usize,
    },
    /// A field is not what Kubernetes has there.
    #[error("{message}")]
    Field {
        /// What is wrong with it.
        message: String,
    },
}

/// A problem with the path of its field, before the rest of its place is known.
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

/// The message without the position at its end, which counts from the beginning of a part and would mislead.
pub(super) fn without_position(message: &str) -> String {
    message.rfind(" at line ").map_or(message, |end| &message[..end]).to_owned()
}
