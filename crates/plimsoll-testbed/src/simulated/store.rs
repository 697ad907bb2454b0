//! Objects by resource and name, the events about them, and snapshots of lists in pages.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::path::{Key, Path};
use super::write::{self, Deletion, Refusal};

/// The most events of one resource that are kept for watches.
const EVENTS: usize = 100_000;

/// The most lists that can be continued.
const SNAPSHOTS: usize = 16;

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

/// A request that changes something, or only asks what it would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Real,
    Dry,
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
    pub(super) fn put(&self, path: &Path, object: Value) -> Option<Value> {
        let name = path.name.clone().or_else(|| text(&object["metadata"]["name"]))?;
        let path = Path { name: Some(name), ..path.clone() };
        let stored = self.content().store(&path, object)?;
        self.notify();
        Some(stored)
    }

    /// Creates an object if there is none of its name.
    pub(super) fn create(&self, path: &Path, object: Value, run: Run) -> Result<Value, Refusal> {
        let object = write::created(path, object)?;
        let path = Path { name: text(&object["metadata"]["name"]), ..path.clone() };
        let mut content = self.content();
        if content.read(&path).is_some() {
            return Err(Refusal::AlreadyExists);
        }
        if run == Run::Dry {
            return Ok(object);
        }
        let stored = content.store(&path, object).expect("the path has a name");
        drop(content);
        self.notify();
        Ok(stored)
    }

    /// Changes an object; nothing is written between the look at it and the change.
    pub(super) fn change(
        &self,
        path: &Path,
        run: Run,
        change: impl FnOnce(&Value) -> Result<Value, Refusal>,
    ) -> Result<Value, Refusal> {
        let mut content = self.content();
        let known = content.read(path).ok_or(Refusal::NotFound)?;
        let changed = change(&known)?;
        if run == Run::Dry || changed == known {
            return Ok(changed);
        }
        let stored = content.store(path, changed).ok_or(Refusal::NotFound)?;
        drop(content);
        self.notify();
        Ok(stored)
    }

    /// Deletes an object, and returns its last form.
    pub(super) fn delete(&self, path: &Path, options: &Value) -> Result<Value, Refusal> {
        let mut content = self.content();
        let known = content.read(path).ok_or(Refusal::NotFound)?;
        let last = match write::deleted(path, &known, options) {
            Deletion::Terminating(changed) => content.store(path, changed),
            Deletion::Removed(last) => {
                last.and_then(|last| content.store(path, last));
                content.remove(path)
            }
        };
        drop(content);
        self.notify();
        last.ok_or(Refusal::NotFound)
    }

    /// Tells watches of the last change.
    fn notify(&self) {
        let version = self.version();
        self.changed.send_modify(|(last, _)| *last = version);
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
    fn read(&self, path: &Path) -> Option<Value> {
        let text = self.collections.get(&path.resource)?.objects.get(&path.key()?)?;
        serde_json::from_str(text).ok()
    }

    /// Stores an object under a new version; `None` if the path has no name.
    fn store(&mut self, path: &Path, mut object: Value) -> Option<Value> {
        let key = path.key()?;
        self.version += 1;
        let version = self.version;
        let collection = self.collections.entry(path.resource).or_default();
        let is_new = !collection.objects.contains_key(&key);
        object["kind"] = json!(path.kind());
        object["apiVersion"] = json!(path.api_version());
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(key.1);
        metadata["resourceVersion"] = json!(version.to_string());
        if !key.0.is_empty() {
            metadata["namespace"] = json!(key.0);
        }
        if is_new && !metadata["uid"].is_string() {
            metadata["uid"] = json!(format!("uid-{version}"));
        }
        if is_new && !metadata["creationTimestamp"].is_string() {
            metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let stored: Text = object.to_string().into();
        let namespace = key.0.clone();
        collection.objects.insert(key, stored.clone());
        let kind = if is_new { "ADDED" } else { "MODIFIED" };
        collection.log(Event { version, kind, namespace, object: stored });
        Some(object)
    }

    /// Removes an object, and returns its last form.
    fn remove(&mut self, path: &Path) -> Option<Value> {
        let key = path.key()?;
        let version = self.version + 1;
        let collection = self.collections.get_mut(&path.resource)?;
        let last = collection.objects.remove(&key)?;
        let mut object: Value = serde_json::from_str(&last).ok()?;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let text = object.to_string().into();
        collection.log(Event { version, kind: "DELETED", namespace: key.0, object: text });
        self.version = version;
        Some(object)
    }

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
