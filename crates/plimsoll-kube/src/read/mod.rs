//! From the text of a file to typed objects, with the place of each.
//!
//! JSON (also several documents one after another), YAML (also several documents), lists and lists in lists are read; what
//! `kubectl get … -o json` or `-o yaml` prints works as it is. JSON is the fast way: the text is walked as it stands and only
//! objects of known kinds are built. The first thing that cannot be understood ends the reading with an error that says where.

mod error;
mod json;
mod kind;
mod yaml;

pub use error::{Place, Problem, ReadError};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::object::{Node, Pod, PodGroup, PriorityClass, Workload};
use error::FieldError;
use kind::Known;

/// Lists may stand in lists this deep. Nobody nests them; the bound keeps the work and the stack small.
const MAX_NESTING: usize = 8;

/// Progress is told each time this many bytes more are done.
const PROGRESS_STEP: usize = 1 << 20;

/// An object of a kind that placement reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A node.
    Node(Box<Node>),
    /// A pod.
    Pod(Box<Pod>),
    /// A Deployment, ReplicaSet, ReplicationController, StatefulSet or Job.
    Workload(Box<Workload>),
    /// A group of pods that is placed whole.
    PodGroup(Box<PodGroup>),
    /// A class of priority.
    PriorityClass(Box<PriorityClass>),
}

/// Where an object comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file, as the caller named it.
    pub source: Arc<str>,
    /// Which document of the file, from 1. Empty YAML documents count.
    pub document: usize,
    /// Kind and name, such as `Pod default/web-0` or `Node gpu-1`.
    pub object: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}, document {}, {}",
            self.source, self.document, self.object
        )
    }
}

/// What was read from one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Documents with something in them.
    pub documents: usize,
    /// Objects handed on, by kind.
    pub understood: BTreeMap<String, usize>,
    /// Objects of kinds that placement does not read, by kind.
    pub ignored: BTreeMap<String, usize>,
}

/// Who takes the objects, one after another.
pub trait Sink {
    /// Takes an object.
    fn object(&mut self, origin: Origin, object: Object);

    /// Is told now and then how many bytes of the text are done; the last time, all of them.
    fn progress(&mut self, _bytes: usize) {}
}

impl Sink for Vec<(Origin, Object)> {
    fn object(&mut self, origin: Origin, object: Object) {
        self.push((origin, object));
    }
}

/// Reads all objects of a text. `source` names it in errors and origins.
pub fn read(source: &str, text: &str, sink: &mut dyn Sink) -> Result<Summary, ReadError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::new(source, body, sink);
    // A line break cannot stand in a JSON string, so that a line of dashes is always a separator of documents.
    if json::looks_like_json(body) && !body.contains("\n---") {
        json::read(&mut reader, body)?;
    } else {
        yaml::read(&mut reader, body)?;
    }
    reader.finish(text.len())
}

/// Reads all objects of a text that is not known to be UTF-8.
pub fn read_bytes(source: &str, bytes: &[u8], sink: &mut dyn Sink) -> Result<Summary, ReadError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(source, text, sink),
        Err(error) => {
            let place = Place {
                source: source.into(),
                document: None,
                line: None,
                object: None,
                field: None,
            };
            Err(ReadError {
                place,
                problem: Problem::NotUtf8 {
                    at: error.valid_up_to(),
                },
            })
        }
    }
}

/// A document or a part of it, as its format holds it.
trait Tree: Sized {
    /// What it is.
    fn shape(&self) -> Shape;
    /// What says which object it is.
    fn head(&mut self) -> Result<Head<Self>, FieldError>;
    /// The elements of a list.
    fn elements(self) -> Result<Vec<Self>, FieldError>;
    /// The whole as a type.
    fn typed<T: DeserializeOwned>(self) -> Result<T, FieldError>;
    /// How far into the body it begins, if that is known.
    fn begins_at(&self, body: &str) -> Option<usize>;
}

/// What a tree is.
enum Shape {
    Map,
    List,
    Other(&'static str),
}

/// What says which object a tree is.
struct Head<T> {
    kind: Option<String>,
    api_version: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    items: Option<T>,
}

impl<T> Head<T> {
    /// Kind and name, as far as they are known.
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
struct Reader<'a> {
    source: Arc<str>,
    body: &'a str,
    sink: &'a mut dyn Sink,
    summary: Summary,
    /// The document being read, from 1.
    document: usize,
    /// The line of the body that it begins on, from 1; only known for YAML.
    line: Option<usize>,
    told: usize,
}

impl<'a> Reader<'a> {
    fn new(source: &str, body: &'a str, sink: &'a mut dyn Sink) -> Reader<'a> {
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

    fn finish(self, bytes: usize) -> Result<Summary, ReadError> {
        if self.summary.documents == 0 {
            let place = Place {
                source: self.source,
                document: None,
                line: None,
                object: None,
                field: None,
            };
            return Err(ReadError {
                place,
                problem: Problem::Empty,
            });
        }
        self.sink.progress(bytes);
        Ok(self.summary)
    }

    fn document<T: Tree>(&mut self, tree: T) -> Result<(), ReadError> {
        self.summary.documents += 1;
        self.tree(tree, Implied::default(), 0)
    }

    fn tree<T: Tree>(&mut self, mut tree: T, implied: Implied<'_>, depth: usize) -> Result<(), ReadError> {
        if let Some(bytes) = tree.begins_at(self.body) {
            self.progress(bytes);
        }
        match tree.shape() {
            Shape::Map => {
                let mut head = tree.head().map_err(|error| self.error(None, error))?;
                head.kind = head.kind.or_else(|| implied.kind.map(str::to_owned));
                head.api_version = head
                    .api_version
                    .or_else(|| implied.api_version.map(str::to_owned));
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
        elements
            .into_iter()
            .try_for_each(|element| self.tree(element, implied, depth + 1))
    }

    fn object<T: Tree>(&mut self, tree: T, mut head: Head<T>, depth: usize) -> Result<(), ReadError> {
        let Some(kind) = head.kind.clone() else {
            return Err(self.error(None, Problem::NoKind { name: head.name }));
        };
        if let (Some(of), Some(items)) = (kind.strip_suffix("List"), head.items.take()) {
            let implied = match of {
                "" => Implied::default(),
                of => Implied {
                    kind: Some(of),
                    api_version: head.api_version.as_deref(),
                },
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
        known: Known,
        kind: String,
    ) -> Result<(), ReadError> {
        let name = head.describe();
        let object = known
            .build(tree)
            .map_err(|error| self.error(Some(&name), error))?;
        let origin = Origin {
            source: self.source.clone(),
            document: self.document,
            object: name,
        };
        self.sink.object(origin, object);
        *self.summary.understood.entry(kind).or_default() += 1;
        Ok(())
    }

    fn progress(&mut self, bytes: usize) {
        if bytes >= self.told + PROGRESS_STEP {
            self.told = bytes;
            self.sink.progress(bytes);
        }
    }

    fn error(&self, object: Option<&str>, problem: impl Into<FieldError>) -> ReadError {
        let FieldError { field, problem } = problem.into();
        let place = Place {
            source: self.source.clone(),
            document: Some(self.document),
            line: self.line,
            object: object.map(str::to_owned),
            field,
        };
        ReadError { place, problem }
    }
}

#[cfg(test)]
mod tests;
