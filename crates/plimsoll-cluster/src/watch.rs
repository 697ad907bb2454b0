//! A cluster, followed: lists first, then watches, and a list again after a watch was lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{AsyncBufReadExt, StreamExt};
use http::Request;
use plimsoll_core::units::{Millis, Name};
use plimsoll_kube::live::{Observation, narrow};
use plimsoll_kube::read::{self, Object, Origin};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;

use crate::access::Connection;
use crate::error::ClusterError;
use crate::list::{Page, list_pages};
use crate::served::{Content, Resource, served_for_watch};

/// The time after which the API server ends a watch, which is then continued.
const WATCH_SECONDS: u32 = 290;

/// The interval of looks for resources that the cluster begins to serve.
const DISCOVERY: Duration = Duration::from_secs(30);

/// The most events that are handed on together.
const TOGETHER: usize = 256;

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// The answers that a resource is not served before that is believed.
const NOT_SERVED: u32 = 3;

/// The name of the cluster in messages about its objects.
const SOURCE: &str = "the cluster";

/// A resource, and the version of its list from which to watch it.
#[derive(Clone, Debug)]
pub struct Position {
    resource: Resource,
    version: String,
}

/// The state of the watches: a watch that was lost hides changes until everything is listed again.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    lost: Arc<AtomicUsize>,
}

impl Sight {
    /// Returns true while every watch is open.
    pub fn is_clear(&self) -> bool {
        self.lost.load(Ordering::SeqCst) == 0
    }

    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }

    fn regain(&self) {
        self.lost.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lists everything once. Returns what was learnt, and from where to follow each resource.
pub async fn start(
    connection: &Connection,
) -> Result<(Vec<Observation>, Vec<Position>), ClusterError> {
    let (mut learnt, mut positions, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let resources = served_for_watch(connection).await?;
    // At the same time: a new leader decides only after two of these.
    let lists = join_all(resources.iter().map(|resource| list(connection, resource))).await;
    for (resource, listed) in resources.into_iter().zip(lists) {
        match listed {
            Ok((observations, version)) => {
                learnt.extend(observations);
                positions.push(Position { resource, version });
            }
            Err(ClusterError::MissingRights { rights, .. }) => missing.extend(rights),
            Err(other) => return Err(other),
        }
    }
    if missing.is_empty() {
        return Ok((learnt, positions));
    }
    Err(ClusterError::MissingRights { server: connection.server.clone(), rights: missing })
}

/// Follows one resource until `send` fails, which it does when the receiver has gone.
pub async fn follow<S, F, E>(connection: Connection, position: Position, sight: Sight, mut send: S)
where
    S: FnMut(Vec<Observation>) -> F,
    F: Future<Output = Result<(), E>>,
{
    let Position { resource, mut version } = position;
    loop {
        match watch(&connection, &resource, &mut version, &mut send).await {
            Ended::ByServer => {}
            Ended::Receiver => return,
            Ended::Lost(why) => {
                sight.lose();
                tracing::warn!(resource = resource.name(), why, "watch lost; listing again");
                let listed = list_again(&connection, &resource).await;
                let (observations, is_served) = match listed {
                    Some((observations, listed)) => {
                        version = listed;
                        (observations, true)
                    }
                    None => (nothing_of(&resource), false),
                };
                if send(observations).await.is_err() {
                    return;
                }
                sight.regain();
                if !is_served {
                    tracing::info!(resource = resource.name(), "no longer served by the cluster");
                    return;
                }
            }
        }
    }
}

/// Follows everything that the cluster serves, also what it begins to serve later, until `send`
/// fails. A resource comes with its operator, and goes with it.
pub async fn follow_all<S, F, E>(
    connection: Connection,
    positions: impl IntoIterator<Item = Position>,
    sight: Sight,
    send: S,
) where
    S: Fn(Vec<Observation>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Send + 'static,
{
    let mut followed: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
    let spawned = |position: Position| {
        let name = position.resource.name();
        let follow = follow(connection.clone(), position, sight.clone(), send.clone());
        (name, tokio::spawn(follow))
    };
    followed.extend(positions.into_iter().map(spawned));
    loop {
        tokio::time::sleep(DISCOVERY).await;
        followed.retain(|_, task| !task.is_finished());
        let served = match served_for_watch(&connection).await {
            Ok(served) => served,
            Err(error) => {
                tracing::warn!(%error, "the resources of the cluster cannot be looked for");
                continue;
            }
        };
        for resource in served {
            if followed.contains_key(&resource.name()) {
                continue;
            }
            match list(&connection, &resource).await {
                Ok((observations, version)) => {
                    tracing::info!(resource = resource.name(), "newly served by the cluster");
                    if send(observations).await.is_err() {
                        return;
                    }
                    followed.extend([spawned(Position { resource, version })]);
                }
                Err(error) => tracing::warn!(%error, "a new resource cannot be followed yet"),
            }
        }
    }
}

/// Returns the list of a resource that is no longer served. Its objects are gone with it.
fn nothing_of(resource: &Resource) -> Vec<Observation> {
    match resource.content {
        Content::Objects(kind) => {
            vec![Observation::Listed { kind, objects: Vec::new(), version: None }]
        }
        Content::Heartbeats => Vec::new(),
    }
}

/// Lists a resource after a pause, and again until it succeeds; `None` if it is no longer served.
async fn list_again(
    connection: &Connection,
    resource: &Resource,
) -> Option<(Vec<Observation>, String)> {
    let (mut wait, mut not_served) = (FIRST_RETRY, 0);
    loop {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
        match list(connection, resource).await {
            Ok(listed) => return Some(listed),
            // An API server that starts may not know it yet.
            Err(ClusterError::NotServed { .. })
                if resource.can_vanish() && not_served >= NOT_SERVED =>
            {
                return None;
            }
            Err(error @ ClusterError::NotServed { .. }) => {
                not_served += 1;
                tracing::warn!(%error, "cannot list");
            }
            Err(error) => tracing::warn!(%error, "cannot list"),
        }
    }
}

/// The end of one watch.
enum Ended {
    /// In time; the next watch continues it.
    ByServer,
    /// The receiver has gone.
    Receiver,
    /// Events may be missing.
    Lost(String),
}

async fn watch<S, F, E>(
    connection: &Connection,
    resource: &Resource,
    version: &mut String,
    send: &mut S,
) -> Ended
where
    S: FnMut(Vec<Observation>) -> F,
    F: Future<Output = Result<(), E>>,
{
    let uri = format!(
        "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}",
        resource.path()
    );
    let request = Request::get(uri).body(Vec::new()).expect("a path of constants is valid");
    let lines = match connection.client.request_stream(request).await {
        Ok(lines) => lines.lines(),
        Err(error) => {
            let what = format!("watch {}", resource.name());
            let error = ClusterError::from_request(connection.server(), &what, &error);
            return Ended::Lost(error.to_string());
        }
    };
    let mut lines = std::pin::pin!(lines.ready_chunks(TOGETHER));
    while let Some(chunk) = lines.next().await {
        let mut learnt = Vec::new();
        let mut lost = None;
        for line in chunk {
            let event = line
                .map_err(|error| error.to_string())
                .and_then(|line| read_event(resource, &line, version));
            match event {
                Ok(event) => learnt.extend(event),
                Err(why) => lost = Some(why),
            }
        }
        if !learnt.is_empty() && send(learnt).await.is_err() {
            return Ended::Receiver;
        }
        if let Some(why) = lost {
            return Ended::Lost(why);
        }
    }
    Ended::ByServer
}

/// A line of a watch. The object stays text: it is read once, into the fields that are needed.
#[derive(Deserialize)]
struct EventLine<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The fields of an object by which a watch is continued, and those of a `Status`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventHead {
    metadata: EventMetadata,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventMetadata {
    resource_version: Option<String>,
}

/// Reads a line, and notes the version that it brings. An error ends the watch.
fn read_event(
    resource: &Resource,
    line: &str,
    version: &mut String,
) -> Result<Option<Observation>, String> {
    let event: EventLine<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let text = event.object.get();
    let head: EventHead = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if event.kind == "ERROR" {
        return Err(head.message.unwrap_or_else(|| text.to_owned()));
    }
    if let Some(known) = head.metadata.resource_version {
        *version = known;
    }
    Ok(match event.kind {
        "ADDED" | "MODIFIED" => applied(resource, text),
        "DELETED" => deleted(resource, text),
        // A bookmark, or a kind of event that is not known.
        _ => None,
    })
}

async fn list(
    connection: &Connection,
    resource: &Resource,
) -> Result<(Vec<Observation>, String), ClusterError> {
    let Content::Objects(kind) = resource.content else {
        let mut learnt = Vec::new();
        let version = list_pages(connection, resource, |page| {
            match page {
                Page::First => learnt.clear(),
                Page::Text(text) => {
                    let list: Value = serde_json::from_str(text).unwrap_or_default();
                    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                    learnt.extend(items.iter().filter_map(heartbeat));
                }
            }
            Ok(())
        });
        let version = version.await?;
        return Ok((learnt, version));
    };
    let mut objects = Vec::new();
    // Narrowed page by page: all pods at once in full are several times as large.
    let version = list_pages(connection, resource, |page| {
        match page {
            Page::First => objects.clear(),
            Page::Text(text) => {
                let mut found: Vec<(Origin, Object)> = Vec::new();
                read::read(SOURCE, text, &mut found)?;
                objects.extend(found.into_iter().map(|(_, object)| narrow(object)));
            }
        }
        Ok(())
    });
    let version = version.await?;
    let revision = version.parse().ok();
    Ok((vec![Observation::Listed { kind, objects, version: revision }], version))
}

fn applied(resource: &Resource, object: &str) -> Option<Observation> {
    match resource.content {
        Content::Heartbeats => heartbeat(&serde_json::from_str(object).ok()?),
        Content::Objects(_) => readable(object).map(Observation::Applied),
    }
}

fn deleted(resource: &Resource, object: &str) -> Option<Observation> {
    match resource.content {
        // A lease that goes is no heartbeat.
        Content::Heartbeats => None,
        Content::Objects(_) => readable(object).map(Observation::Deleted),
    }
}

/// Reads an object. One that cannot be read is logged, and its last readable form stays.
fn readable(object: &str) -> Option<Object> {
    let mut objects = Vec::new();
    match read::read(SOURCE, object, &mut objects) {
        Ok(_) => objects.pop().map(|(_, object)| narrow(object)),
        Err(error) => {
            tracing::error!(%error, "an object cannot be read; its last form stays");
            None
        }
    }
}

/// Reads the lease of a node as a heartbeat of its kubelet.
fn heartbeat(lease: &Value) -> Option<Observation> {
    let node = Name::from(lease["metadata"]["name"].as_str()?);
    let renewed: jiff::Timestamp = lease["spec"]["renewTime"].as_str()?.parse().ok()?;
    let renewed = Millis(u64::try_from(renewed.as_millisecond()).ok()?);
    Some(Observation::Heartbeat { node, renewed })
}

/// Retries until a cluster can be listed. Errors that a retry cannot lift end it.
pub async fn start_when_reachable(
    connection: &Connection,
) -> Result<(Vec<Observation>, Vec<Position>), ClusterError> {
    let mut wait = FIRST_RETRY;
    loop {
        match start(connection).await {
            Err(error) if error.is_temporary() => {
                tracing::warn!(%error, "the cluster cannot be read yet; trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LAST_RETRY);
            }
            other => return other,
        }
    }
}
