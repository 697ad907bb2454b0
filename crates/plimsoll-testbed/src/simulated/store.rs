//! Objects by resource and name, the events about them, and snapshots of lists in pages.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

/// The resources that are served: group and version, plural, kind.
pub(super) const RESOURCES: &[(&str, &str, &str)] = &[
    ("v1", "nodes", "Node"),
    ("v1", "pods", "Pod"),
    ("v1", "namespaces", "Namespace"),
    ("coordination.k8s.io/v1", "leases", "Lease"),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
];

/// The most events of one resource that are kept for watches.
const EVENTS: usize = 100_000;

/// The most lists that can be continued.
const SNAPSHOTS: usize = 16;

/// The parts of a path: `/api/v1/namespaces/default/pods/web/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) resource: usize,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Path {
    pub(super) fn parse(path: &str) -> Option<Path> {
        let rest = path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/"))?;
        let served = RESOURCES.iter().position(|(version, ..)| {
            rest.strip_prefix(version).is_some_and(|rest| rest.starts_with('/'))
        });
        let version = RESOURCES[served?].0;
        let mut parts: Vec<&str> = rest[version.len() + 1..].split('/').collect();
        let mut namespace = None;
        // `namespaces/NAME` alone is an object.
        if parts.len() > 2 && parts[0] == "namespaces" {
            namespace = Some(parts[1].to_owned());
            parts.drain(..2);
        }
        let resource = RESOURCES
            .iter()
            .position(|(known, plural, _)| *known == version && *plural == parts[0])?;
        let part = |at: usize| parts.get(at).map(|part| (*part).to_owned());
        Some(Path { resource, namespace, name: part(1), subresource: part(2) })
    }

    pub(super) fn kind(&self) -> &'static str {
        RESOURCES[self.resource].2
    }

    pub(super) fn api_version(&self) -> &'static str {
        RESOURCES[self.resource].0
    }

    fn key(&self) -> Option<Key> {
        Some((self.namespace.clone().unwrap_or_default(), self.name.clone()?))
    }
}

/// Namespace, empty for none, and name.
type Key = (String, String);

/// A stored object as it is sent.
pub(super) type Text = Arc<str>;

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) object: Text,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<Key, Text>,
    events: VecDeque<Event>,
    /// The version up to which events are forgotten.
    compacted: u64,
}

#[derive(Default)]
struct Content {
    version: u64,
    collections: BTreeMap<usize, Collection>,
    snapshots: VecDeque<(u64, usize, Vec<Text>)>,
}

/// All objects. A change notifies all watches.
pub(super) struct Store {
    content: Mutex<Content>,
    /// The version of the last change, and the number of times that watches were ended.
    changed: watch::Sender<(u64, u64)>,
}

impl Default for Store {
    fn default() -> Self {
        let content = Content { version: 1, ..Content::default() };
        Store { content: Mutex::new(content), changed: watch::Sender::new((1, 0)) }
    }
}

/// One page of a list.
pub(super) struct Page {
    pub(super) version: u64,
    pub(super) items: Vec<Text>,
    pub(super) rest: Option<String>,
    pub(super) remaining: usize,
}

/// A version whose events or pages are forgotten.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Store {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, path: &Path) -> Option<Text> {
        let content = self.content();
        content.collections.get(&path.resource)?.objects.get(&path.key()?).cloned()
    }

    /// Creates or replaces an object; `None` without a name.
    pub(super) fn put(&self, path: &Path, mut object: Value) -> Option<Value> {
        let name = path.name.clone().or_else(|| text(&object["metadata"]["name"]))?;
        let namespace = path.namespace.clone().unwrap_or_default();
        let mut content = self.content();
        content.version += 1;
        let version = content.version;
        let collection = content.collections.entry(path.resource).or_default();
        let key = (namespace.clone(), name.clone());
        let is_new = !collection.objects.contains_key(&key);
        object["kind"] = json!(path.kind());
        object["apiVersion"] = json!(path.api_version());
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name);
        metadata["resourceVersion"] = json!(version.to_string());
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        if is_new && !metadata["uid"].is_string() {
            metadata["uid"] = json!(format!("uid-{version}"));
        }
        if is_new && !metadata["creationTimestamp"].is_string() {
            metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let stored: Text = object.to_string().into();
        collection.objects.insert(key, stored.clone());
        let kind = if is_new { "ADDED" } else { "MODIFIED" };
        collection.log(Event { version, kind, namespace, object: stored });
        drop(content);
        self.changed.send_modify(|(last, _)| *last = version);
        Some(object)
    }

    /// Deletes an object, and returns its last form.
    pub(super) fn delete(&self, path: &Path) -> Option<Value> {
        let mut content = self.content();
        let key = path.key()?;
        let version = content.version + 1;
        let collection = content.collections.get_mut(&path.resource)?;
        let last = collection.objects.remove(&key)?;
        let mut object: Value = serde_json::from_str(&last).ok()?;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let (kind, namespace) = ("DELETED", key.0);
        collection.log(Event { version, kind, namespace, object: object.to_string().into() });
        content.version = version;
        drop(content);
        self.changed.send_modify(|(last, _)| *last = version);
        Some(object)
    }

    /// Lists a page; the pages of a list are of one moment.
    pub(super) fn list(
        &self,
        path: &Path,
        limit: Option<usize>,
        rest: Option<&str>,
    ) -> Result<Page, Gone> {
        let mut content = self.content();
        let (version, items, from) = match rest {
            None => (content.version, content.items(path), 0),
            Some(rest) => {
                let (version, from) = rest.split_once('.').ok_or(Gone)?;
                let version: u64 = version.parse().map_err(|_| Gone)?;
                let is_meant =
                    |one: &&(u64, usize, Vec<Text>)| (one.0, one.1) == (version, path.resource);
                let found = content.snapshots.iter().find(is_meant).ok_or(Gone)?;
                (version, found.2.clone(), from.parse().map_err(|_| Gone)?)
            }
        };
        let until = limit.map_or(items.len(), |limit| items.len().min(from + limit));
        let remaining = items.len() - until;
        let page = items[from..until].to_vec();
        if rest.is_none() && remaining > 0 {
            content.snapshots.push_back((version, path.resource, items));
            if content.snapshots.len() > SNAPSHOTS {
                content.snapshots.pop_front();
            }
        }
        let rest = (remaining > 0).then(|| format!("{version}.{until}"));
        Ok(Page { version, items: page, rest, remaining })
    }

    /// Returns the events after a version.
    pub(super) fn events_after(&self, path: &Path, version: u64) -> Result<Vec<Event>, Gone> {
        let content = self.content();
        let Some(collection) = content.collections.get(&path.resource) else {
            return Ok(Vec::new());
        };
        if version < collection.compacted {
            return Err(Gone);
        }
        let first = collection.events.partition_point(|event| event.version <= version);
        let is_meant = |event: &&Event| {
            let namespace = path.namespace.as_ref();
            namespace.is_none_or(|namespace| *namespace == event.namespace)
        };
        Ok(collection.events.range(first..).filter(is_meant).cloned().collect())
    }

    pub(super) fn version(&self) -> u64 {
        self.content().version
    }

    /// Returns a receiver that is notified of every change, and of the end of watches.
    pub(super) fn changes(&self) -> watch::Receiver<(u64, u64)> {
        self.changed.subscribe()
    }

    pub(super) fn compact(&self) {
        let mut content = self.content();
        let version = content.version;
        content.snapshots.clear();
        for collection in content.collections.values_mut() {
            collection.events.clear();
            collection.compacted = version;
        }
    }

    pub(super) fn end_watches(&self) {
        self.changed.send_modify(|(_, ended)| *ended += 1);
    }
}

impl Content {
    fn items(&self, path: &Path) -> Vec<Text> {
        let Some(collection) = self.collections.get(&path.resource) else { return Vec::new() };
        let objects = &collection.objects;
        match &path.namespace {
            None => objects.values().cloned().collect(),
            Some(namespace) => {
                let from = Bound::Included((namespace.clone(), String::new()));
                let after = objects.range((from, Bound::Unbounded));
                let own = after.take_while(|((of, _), _)| of == namespace);
                own.map(|(_, object)| object.clone()).collect()
            }
        }
    }
}

impl Collection {
    fn log(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > EVENTS
            && let Some(oldest) = self.events.pop_front()
        {
            self.compacted = oldest.version;
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_resource_and_an_object() {
        let parse = |path: &str| Path::parse(path).expect(path);
        let pod = parse("/api/v1/namespaces/default/pods/web/status");
        assert_eq!((pod.kind(), pod.namespace.as_deref()), ("Pod", Some("default")));
        assert_eq!(
            (pod.name.as_deref(), pod.subresource.as_deref()),
            (Some("web"), Some("status"))
        );
        let namespace = parse("/api/v1/namespaces/default");
        assert_eq!((namespace.kind(), namespace.name.as_deref()), ("Namespace", Some("default")));
        let lease = parse("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
        assert_eq!((lease.kind(), lease.name), ("Lease", None));
        assert_eq!(Path::parse("/api/v1/secrets"), None);
    }
}
