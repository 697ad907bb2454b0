//! The record of a guard: one ConfigMap for each node with holders, or a few where they are many.
//!
//! Every write names the version that this replica read in its term. A replica that lost the lease
//! without knowing cannot replace what the next one wrote.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use plimsoll_core::checksum::checksum;
use plimsoll_core::units::Millis;
use plimsoll_kube::live::{
    DamagedRecord, HoldersRecord, Recalled, RecordChange, RecordChanges, RecordKey,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::timestamp;
use crate::access::Connection;
use crate::error::ClusterError;
use crate::single::SingleError;

/// The name of the ConfigMap that says since when the record is kept, and the prefix of the others.
const NAME: &str = "plimsoll-holders";

/// The label by which all of them are listed.
const LABEL: (&str, &str) = ("plimsoll.dev/record", "holders");

/// The keys of their data.
const RECORD: &str = "record";
const SINCE: &str = "since";

/// Requests at the same time.
const AT_ONCE: usize = 8;

pub(super) struct ConfigMaps {
    connection: Connection,
    namespace: String,
    known: Mutex<Known>,
}

/// The ConfigMaps as they were last read or written.
#[derive(Debug, Default)]
struct Known {
    /// The term for which they were read.
    term: Option<u64>,
    /// Versions by name.
    versions: BTreeMap<String, String>,
    since: Option<Millis>,
    is_failing: bool,
}

/// The result of one write.
enum Written {
    /// The object has this version now; `None` if it is gone.
    Done(Option<String>),
    /// Another process wrote it. It has this version now.
    Conflict(Option<String>),
    Failed(ClusterError),
}

impl ConfigMaps {
    pub(super) fn new(connection: Connection, namespace: &str) -> ConfigMaps {
        ConfigMaps { connection, namespace: namespace.to_owned(), known: Mutex::default() }
    }

    pub(super) async fn recall(&self, term: Option<u64>) -> Result<Recalled, ClusterError> {
        let mut known = self.known.lock().await;
        let (key, value) = LABEL;
        let path = format!("{}?labelSelector={key}%3D{value}", self.collection());
        let list = match self.connection.list_objects(&path).await {
            Ok(list) => list,
            Err(SingleError::Other(error)) => return Err(error),
            Err(other) => return Err(self.failed("list the record of holders", &other)),
        };
        let mut recalled = Recalled::default();
        *known = Known { term, ..Known::default() };
        for item in list["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            known.versions.extend(version_of(item).map(|version| (name.clone(), version)));
            let read = match name == NAME {
                true => read_since(&item["data"]).map(|since| known.since = Some(since)),
                false => read_record(&name, &item["data"]).map(|one| recalled.records.push(one)),
            };
            if let Err(why) = read {
                recalled.damaged.push(DamagedRecord { place: self.place(&name), why });
            }
        }
        if known.since.is_none() && !recalled.records.is_empty() && recalled.damaged.is_empty() {
            let why = "it is missing, and it says since when the record is complete".to_owned();
            recalled.damaged.push(DamagedRecord { place: self.place(NAME), why });
        }
        recalled.since = known.since;
        Ok(recalled)
    }

    pub(super) async fn store(&self, changes: RecordChanges) -> Vec<RecordKey> {
        let mut known = self.known.lock().await;
        let RecordChanges { term, since, changes } = changes;
        // What was taken in an earlier term may be older than what is stored.
        if term != known.term {
            return Vec::new();
        }
        let mut failed = None;
        if let Some(at) = since.filter(|at| known.since != Some(*at)) {
            match self.write(NAME, known.versions.get(NAME), Some((SINCE, timestamp(at)))).await {
                Written::Done(version) => {
                    note(&mut known.versions, NAME, version);
                    known.since = Some(at);
                }
                Written::Conflict(version) => note(&mut known.versions, NAME, version),
                Written::Failed(error) => failed = Some(error),
            }
        }
        let mut missing = Vec::new();
        let written = stream::iter(changes).map(|RecordChange { key, line }| {
            let name = object_name(&key);
            let version = known.versions.get(&name).cloned();
            async move {
                let data = line.map(|line| (RECORD, line));
                let written = self.write(&name, version.as_ref(), data).await;
                (key, name, written)
            }
        });
        let written: Vec<_> = written.buffer_unordered(AT_ONCE).collect().await;
        for (key, name, written) in written {
            match written {
                Written::Done(version) => note(&mut known.versions, &name, version),
                Written::Conflict(version) => {
                    note(&mut known.versions, &name, version);
                    missing.push(key);
                }
                Written::Failed(error) => {
                    missing.push(key);
                    failed = Some(error);
                }
            }
        }
        known.report(failed);
        missing
    }

    /// Creates, replaces or deletes an object of which this version is known.
    async fn write(
        &self,
        name: &str,
        version: Option<&String>,
        data: Option<(&str, String)>,
    ) -> Written {
        let path = format!("{}/{name}", self.collection());
        let (key, value) = LABEL;
        let object = data.map(|(field, text)| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "resourceVersion": version,
                    "labels": {key: value, "app.kubernetes.io/name": crate::manifests::NAME},
                },
                "data": {field: text},
            })
        });
        let answer = match (object, version) {
            (Some(object), Some(_)) => self.connection.replace(&path, &object).await.map(Some),
            (Some(object), None) => {
                self.connection.create(&self.collection(), &object).await.map(Some)
            }
            (None, Some(version)) => {
                self.connection.delete_version(&path, version).await.map(|()| None)
            }
            (None, None) => return Written::Done(None),
        };
        match answer {
            Ok(object) => Written::Done(object.as_ref().and_then(version_of)),
            Err(SingleError::NotFound) => Written::Conflict(None),
            Err(SingleError::Conflict) => match self.connection.get(&path).await {
                Ok(object) => Written::Conflict(version_of(&object)),
                Err(SingleError::NotFound) => Written::Conflict(None),
                Err(SingleError::Other(error)) => Written::Failed(error),
                Err(other) => Written::Failed(self.failed("read the record of holders", &other)),
            },
            Err(SingleError::Other(error)) => Written::Failed(error),
        }
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    fn place(&self, name: &str) -> String {
        format!("ConfigMap {}/{name}", self.namespace)
    }

    fn failed(&self, what: &str, error: &SingleError) -> ClusterError {
        ClusterError::Answer {
            server: self.connection.server().to_owned(),
            what: what.to_owned(),
            why: error.to_string(),
        }
    }
}

impl Known {
    /// Logs that writing fails, once, and that it succeeds again.
    fn report(&mut self, failed: Option<ClusterError>) {
        let was_failing = std::mem::replace(&mut self.is_failing, failed.is_some());
        match failed {
            Some(error) if !was_failing => {
                tracing::error!(%error, "the record of holders cannot be written; trying again");
            }
            None if was_failing => tracing::info!("the record of holders is written again"),
            _ => {}
        }
    }
}

fn note(versions: &mut BTreeMap<String, String>, name: &str, version: Option<String>) {
    match version {
        Some(version) => versions.insert(name.to_owned(), version),
        None => versions.remove(name),
    };
}

fn version_of(object: &Value) -> Option<String> {
    object["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

/// Returns the name of the object of a record: names of nodes are too long to be a part of it.
fn object_name(key: &RecordKey) -> String {
    format!("{NAME}-{}-{}", checksum([key.node.as_bytes()]), key.part)
}

fn read_record(name: &str, data: &Value) -> Result<HoldersRecord, String> {
    let line = data[RECORD].as_str().ok_or_else(|| format!("it has no field data.{RECORD}"))?;
    let record = HoldersRecord::decode(line).map_err(|error| error.to_string())?;
    match object_name(&record.key()) == name {
        true => Ok(record),
        false => Err(format!("it has the record of {}, which has another name", record.key())),
    }
}

fn read_since(data: &Value) -> Result<Millis, String> {
    let text = data[SINCE].as_str().ok_or_else(|| format!("it has no field data.{SINCE}"))?;
    let at: jiff::Timestamp =
        text.parse().map_err(|error| format!("data.{SINCE} is {text:?}: {error}"))?;
    u64::try_from(at.as_millisecond())
        .map(Millis)
        .map_err(|_| format!("data.{SINCE} is {text:?}, which is before 1970"))
}
