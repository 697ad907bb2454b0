//! The walk over documents, lists and objects, for every format.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::object::Kind;

use super::error::{FieldError, Position, Problem, ReadError};
use super::kind;
use super::{Origin, Sink, Summary};

/// The maximum nesting of lists. It bounds work and stack; real output has no nested lists.
const MAX_NESTING: usize = 8;

/// Progress is reported each time this many more bytes are read.
const PROGRESS_STEP: usize = 1 << 20;

/// A document or a part of it, as its format represents it.
pub(super) trait Tree: Sized {
    fn shape(&self) -> Shape;
    /// Returns the fields that identify an object.
    fn head(&mut self) -> Result<Head<Self>, FieldError>;
    /// Returns the elements of a list.
    fn elements(self) -> Result<Vec<Self>, FieldError>;
    /// Deserializes the tree.
    fn typed<T: DeserializeOwned>(self) -> Result<T, FieldError>;
    /// Returns the offset in the body, if known.
    fn begins_at(&self, body: &str) -> Option<usize>;
}

pub(super) enum Shape {
    Map,
    List,
    Other(&'static str),
}

/// The fields that identify an object.
pub(super) struct Head<T> {
    pub(super) kind: Option<String>,
    pub(super) api_version: Option<String>,
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) items: Option<T>,
}

impl<T> Head<T> {
    /// Returns kind and name, as far as known.
    fn describe(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or("object without kind");
        match (self.namespace.as_deref(), self.name.as_deref()) {
            (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
            (None, Some(name)) => format!("{kind} {name}"),
            _ => kind.to_owned(),
        }
    }
}

/// Kind and version that the elements of a typed list (`PodList`) leave out.
#[derive(Clone, Copy, Default)]
struct Implied<'a> {
    kind: Option<&'a str>,
    api_version: Option<&'a str>,
}

/// The state of reading one text.
pub(super) struct Reader<'a> {
    source: Arc<str>,
    body: &'a str,
    sink: &'a mut dyn Sink,
    summary: Summary,
    /// The current document, from 1.
    pub(super) document: usize,
    /// The first line of the current document, from 1; known for YAML only.
    pub(super) line: Option<usize>,
    told: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &str, body: &'a str, sink: &'a mut dyn Sink) -> Reader<'a> {
        Reader {
            source: source.into(),
            body,
            sink,
            summary: Summary::default(),
            document: 0,
            line: None,
            told: 0,
        }
    }

    pub(super) fn finish(self, bytes: usize) -> Result<Summary, ReadError> {
        if self.summary.documents == 0 {
            let position = Box::new(Position::whole(self.source));
            return Err(ReadError { position, problem: Problem::Empty });
        }
        self.sink.progress(bytes);
        Ok(self.summary)
    }

    pub(super) fn document<T: Tree>(&mut self, tree: T) -> Result<(), ReadError> {
        self.summary.documents += 1;
        self.tree(tree, Implied::default(), 0)
    }

    fn tree<T: Tree>(
        &mut self,
        mut tree: T,
        implied: Implied<'_>,
        depth: usize,
    ) -> Result<(), ReadError> {
        if let Some(bytes) = tree.begins_at(self.body) {
            self.progress(bytes);
        }
        match tree.shape() {
            Shape::Map => {
                let mut head = tree.head().map_err(|error| self.error(None, error))?;
                head.kind = head.kind.or_else(|| implied.kind.map(str::to_owned));
                head.api_version =
                    head.api_version.or_else(|| implied.api_version.map(str::to_owned));
                self.object(tree, head, depth)
            }
            Shape::List => self.list(tree, implied, depth, None),
            Shape::Other(found) => Err(self.error(None, Problem::NotAnObject { found })),
        }
    }

    fn list<T: Tree>(
        &mut self,
        list: T,
        implied: Implied<'_>,
        depth: usize,
        name: Option<&str>,
    ) -> Result<(), ReadError> {
        if depth == MAX_NESTING {
            return Err(self.error(name, Problem::TooDeep { limit: MAX_NESTING }));
        }
        let elements = list.elements().map_err(|error| self.error(name, error))?;
        elements.into_iter().try_for_each(|element| self.tree(element, implied, depth + 1))
    }

    fn object<T: Tree>(
        &mut self,
        tree: T,
        mut head: Head<T>,
        depth: usize,
    ) -> Result<(), ReadError> {
        let Some(kind) = head.kind.clone() else {
            return Err(self.error(None, Problem::NoKind { name: head.name }));
        };
        if let (Some(of), Some(items)) = (kind.strip_suffix("List"), head.items.take()) {
            let implied = match of {
                "" => Implied::default(),
                of => Implied { kind: Some(of), api_version: head.api_version.as_deref() },
            };
            return self.list(items, implied, depth, Some(&kind));
        }
        let known = kind::known(&kind, head.api_version.as_deref());
        match known.map_err(|problem| self.error(Some(&head.describe()), problem))? {
            Some(known) => self.known(tree, &head, known, kind),
            None => {
                *self.summary.ignored.entry(kind).or_default() += 1;
                Ok(())
            }
        }
    }

    fn known<T: Tree>(
        &mut self,
        tree: T,
        head: &Head<T>,
        known: Kind,
        kind: String,
    ) -> Result<(), ReadError> {
        let name = head.describe();
        let object = kind::build(known, tree).map_err(|error| self.error(Some(&name), error))?;
        let origin = Origin { source: self.source.clone(), document: self.document, object: name };
        self.sink.object(origin, object);
        *self.summary.understood.entry(kind).or_default() += 1;
        Ok(())
    }

    pub(super) fn progress(&mut self, bytes: usize) {
        if bytes >= self.told + PROGRESS_STEP {
            self.told = bytes;
            self.sink.progress(bytes);
        }
    }

    pub(super) fn error(&self, object: Option<&str>, problem: impl Into<FieldError>) -> ReadError {
        let FieldError { field, problem } = problem.into();
        let position = Position {
            source: self.source.clone(),
            document: Some(self.document),
            line: self.line,
            object: object.map(str::to_owned),
            field,
        };
        ReadError { position: Box::new(position), problem }
    }
}
