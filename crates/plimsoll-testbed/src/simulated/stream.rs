//! The events of one watch as they happen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{self, Stream};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::path::Path;
use super::store::{Event, Store};

/// The time without events after which a bookmark is sent. A real server takes about a minute.
const BOOKMARK: Duration = Duration::from_secs(5);

struct Watching {
    store: Arc<Store>,
    path: Path,
    /// The version up to which events were sent.
    sent: u64,
    waiting: VecDeque<Event>,
    changes: watch::Receiver<(u64, u64)>,
    /// The number of ends of watches before this one.
    ended: u64,
    until: Instant,
}

/// Streams events after a version, each on a line.
pub(super) fn events(
    store: Arc<Store>,
    path: Path,
    after: u64,
    seconds: u64,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let changes = store.changes();
    let ended = changes.borrow().1;
    let until = Instant::now() + Duration::from_secs(seconds);
    let waiting = VecDeque::new();
    let watching = Watching { store, path, sent: after, waiting, changes, ended, until };
    stream::unfold(watching, |mut watching| async move {
        let line = watching.next().await?;
        Some((Ok(Bytes::from(line)), watching))
    })
}

impl Watching {
    async fn next(&mut self) -> Option<String> {
        loop {
            let (_, ended) = *self.changes.borrow_and_update();
            if ended != self.ended || Instant::now() >= self.until {
                return None;
            }
            if self.waiting.is_empty() {
                let Ok(events) = self.store.events_after(&self.path, self.sent) else {
                    return Some(self.expired());
                };
                self.waiting.extend(events);
            }
            if let Some(event) = self.waiting.pop_front() {
                self.sent = event.version;
                return Some(format!(
                    "{{\"type\":\"{}\",\"object\":{}}}\n",
                    event.kind, event.object
                ));
            }
            let version = self.store.version();
            let quiet = self.until.min(Instant::now() + BOOKMARK);
            if timeout_at(quiet, self.changes.changed()).await.is_err() {
                self.sent = version;
                return Some(self.bookmark());
            }
        }
    }

    fn bookmark(&self) -> String {
        let object = json!({
            "kind": self.path.kind(), "apiVersion": self.path.api_version(),
            "metadata": {"resourceVersion": self.sent.to_string(), "creationTimestamp": null},
        });
        format!("{}\n", json!({"type": "BOOKMARK", "object": object}))
    }

    /// Reports that events were forgotten before they were sent, and ends the watch.
    fn expired(&mut self) -> String {
        self.until = Instant::now();
        let object = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too old resource version", "reason": "Expired", "code": 410,
        });
        format!("{}\n", json!({"type": "ERROR", "object": object}))
    }
}
