//! From the text of a file to typed objects, each with its origin.
//!
//! Reads JSON and YAML, several documents, and nested lists: the output of `kubectl get … -o json`
//! or `-o yaml` as it is. JSON is fast: only objects of known kinds are built. The first error ends
//! the reading and names its position.

mod error;
mod json;
mod kind;
mod reader;
mod yaml;

pub use error::{Position, Problem, ReadError};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::object::{
    BindRequest, DeviceClass, Kind, Metadata, Namespace, Node, ObjectRef, Pod, PodGroup,
    PriorityClass, ResourceClaim, ResourceSlice, Workload,
};
use reader::Reader;

/// An object of a kind that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Namespace(Box<Namespace>),
    Node(Box<Node>),
    Pod(Box<Pod>),
    /// A Deployment, ReplicaSet, ReplicationController, StatefulSet or Job.
    Workload(Box<Workload>),
    PodGroup(Box<PodGroup>),
    PriorityClass(Box<PriorityClass>),
    ResourceClaim(Box<ResourceClaim>),
    ResourceSlice(Box<ResourceSlice>),
    DeviceClass(Box<DeviceClass>),
    BindRequest(Box<BindRequest>),
}

impl Object {
    /// Returns the object's kind, name and uid.
    pub fn reference(&self) -> ObjectRef {
        let (kind, metadata): (Kind, &Metadata) = match self {
            Object::Namespace(namespace) => (Kind::Namespace, &namespace.metadata),
            Object::Node(node) => (Kind::Node, &node.metadata),
            Object::Pod(pod) => (Kind::Pod, &pod.metadata),
            Object::Workload(workload) => (Kind::Workload(workload.kind), &workload.metadata),
            Object::PodGroup(group) => (Kind::PodGroup(group.flavor), &group.metadata),
            Object::PriorityClass(class) => (Kind::PriorityClass, &class.metadata),
            Object::ResourceClaim(claim) => (Kind::ResourceClaim, &claim.metadata),
            Object::ResourceSlice(slice) => (Kind::ResourceSlice, &slice.metadata),
            Object::DeviceClass(class) => (Kind::DeviceClass, &class.metadata),
            Object::BindRequest(request) => (Kind::BindRequest, &request.metadata),
        };
        ObjectRef::new(kind, metadata)
    }
}

/// The file and document that an object was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file, as the caller named it.
    pub source: Arc<str>,
    /// The document's number in the file, from 1. Empty YAML documents count.
    pub document: usize,
    /// Kind and name, such as `Pod default/web-0` or `Node gpu-1`.
    pub object: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, document {}, {}", self.source, self.document, self.object)
    }
}

/// Counts of what one text contained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Documents that are not empty.
    pub documents: usize,
    /// Objects that were read, by kind.
    pub understood: BTreeMap<String, usize>,
    /// Objects of kinds that are not read, by kind.
    pub ignored: BTreeMap<String, usize>,
}

/// Receives the objects of a text, in order.
pub trait Sink {
    /// Receives an object.
    fn object(&mut self, origin: Origin, object: Object);

    /// Receives the number of bytes read so far; in the end, all of them.
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
    // A JSON string contains no line break, so that a line of dashes always separates documents.
    if json::looks_like_json(body) && !body.contains("\n---") {
        json::read(&mut reader, body)?;
    } else {
        yaml::read(&mut reader, body)?;
    }
    reader.finish(text.len())
}

/// Reads all objects of a text that may not be UTF-8.
pub fn read_bytes(source: &str, bytes: &[u8], sink: &mut dyn Sink) -> Result<Summary, ReadError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(source, text, sink),
        Err(error) => {
            let position = Box::new(Position::whole(source.into()));
            Err(ReadError { position, problem: Problem::NotUtf8 { at: error.valid_up_to() } })
        }
    }
}

#[cfg(test)]
mod tests;
