//! From the text of a file to typed objects, with the place of each.
//!
//! JSON (also several documents one after another), YAML (also several documents), lists and lists in lists are read; what
//! `kubectl get … -o json` or `-o yaml` prints works as it is. JSON is the fast way: the text is walked as it stands and only
//! objects of known kinds are built. The first thing that cannot be understood ends the reading with an error that says where.

mod error;
mod json;
mod kind;
mod reader;
mod yaml;

pub use error::{Place, Problem, ReadError};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::object::{Kind, Metadata, Node, ObjectRef, Pod, PodGroup, PriorityClass, Workload};
use reader::Reader;

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

impl Object {
    /// Refers to the object by kind, name and uid.
    pub fn reference(&self) -> ObjectRef {
        let (kind, metadata): (Kind, &Metadata) = match self {
            Object::Node(node) => (Kind::Node, &node.metadata),
            Object::Pod(pod) => (Kind::Pod, &pod.metadata),
            Object::Workload(workload) => (Kind::Workload(workload.kind), &workload.metadata),
            Object::PodGroup(group) => (Kind::PodGroup(group.flavor), &group.metadata),
            Object::PriorityClass(class) => (Kind::PriorityClass, &class.metadata),
        };
        ObjectRef::new(kind, metadata)
    }
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
        write!(out, "{}, document {}, {}", self.source, self.document, self.object)
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
            let place = Box::new(Place::whole(source.into()));
            Err(ReadError { place, problem: Problem::NotUtf8 { at: error.valid_up_to() } })
        }
    }
}

#[cfg(test)]
mod tests;
