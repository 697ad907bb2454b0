//! The stored record of holders, which a process reads to learn what vanished while none watched.
//!
//! A guard keeps it in ConfigMaps of Plimsoll's own namespace, and a watch that writes nothing to
//! the cluster in a file of its data directory. What it means is in `plimsoll_kube::live`.

mod config_maps;
mod file;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::units::Millis;
use plimsoll_engine::engine::{Engine, NoAnswer};
use plimsoll_kube::live::{Recalled, RecordChanges, RecordKey, Watch};

use crate::access::Connection;
use crate::error::ClusterError;

use config_maps::ConfigMaps;
use file::HoldersFile;

/// The interval at which changes are stored. What vanishes in the moment after a start is lost with
/// a crash within that moment.
const INTERVAL: Duration = Duration::from_secs(1);

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// The place of the record.
pub struct HoldersStore(Place);

enum Place {
    ConfigMaps(Box<ConfigMaps>),
    File(HoldersFile),
}

impl HoldersStore {
    /// Returns the record of a guard, in its namespace.
    pub fn in_config_maps(connection: Connection, namespace: &str) -> HoldersStore {
        HoldersStore(Place::ConfigMaps(Box::new(ConfigMaps::new(connection, namespace))))
    }

    /// Returns the record of a watch, in a data directory that this process has for itself.
    pub fn in_directory(dir: &Path) -> HoldersStore {
        HoldersStore(Place::File(HoldersFile::new(dir)))
    }

    /// Reads the record, again while the API server cannot be reached.
    ///
    /// # Errors
    ///
    /// Errors that a retry cannot lift.
    pub async fn recall_when_reachable(&self) -> Result<Recalled, ClusterError> {
        let mut wait = FIRST_RETRY;
        loop {
            match self.recall(None).await {
                Err(error) if error.is_temporary() => {
                    tracing::warn!(%error, "the record of holders cannot be read yet; trying again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LAST_RETRY);
                }
                recalled => return recalled.inspect(report),
            }
        }
    }

    /// Reads the record, to write it in a term from then on.
    pub(crate) async fn recall(&self, term: Option<u64>) -> Result<Recalled, ClusterError> {
        match &self.0 {
            Place::ConfigMaps(maps) => maps.recall(term).await,
            Place::File(file) => file.recall().await,
        }
    }

    /// Stores changes, and returns those that may not have been stored.
    async fn store(&self, changes: RecordChanges) -> Vec<RecordKey> {
        match &self.0 {
            Place::ConfigMaps(maps) => maps.store(changes).await,
            Place::File(file) => file.store(changes).await,
        }
    }
}

/// Logs what was read.
fn report(recalled: &Recalled) {
    let holders: usize = recalled.records.iter().map(|record| record.holders.len()).sum();
    let since = recalled.since.map(timestamp);
    tracing::info!(holders, since, "the record of holders is read");
    for damaged in &recalled.damaged {
        let (place, why) = (&damaged.place, &damaged.why);
        tracing::error!(place, why, "a part of the record of holders is damaged and not used");
    }
}

/// Formats a time as RFC 3339.
pub(crate) fn timestamp(at: Millis) -> String {
    let at = i64::try_from(at.0).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.map_or_else(String::new, |at| format!("{at:.3}"))
}

/// Stores what changes, a moment late, until the engine ends.
pub async fn keep(engine: Engine<Watch>, store: Arc<HoldersStore>) {
    loop {
        let is_ending = tokio::select! {
            () = tokio::time::sleep(INTERVAL) => false,
            () = engine.ending() => true,
        };
        match engine.read(|watch, core| watch.take_records(core)).await {
            Ok(changes) => {
                let missing = store.store(changes).await;
                if !missing.is_empty() && take_back(&engine, missing).await.is_err() {
                    return;
                }
            }
            Err(NoAnswer::Busy) => {}
            Err(NoAnswer::Stopped) => return,
        }
        if is_ending {
            return;
        }
    }
}

async fn take_back(engine: &Engine<Watch>, missing: Vec<RecordKey>) -> Result<(), NoAnswer> {
    loop {
        let missing = missing.clone();
        let taken = engine
            .read(move |watch, _| missing.into_iter().for_each(|key| watch.record_not_stored(key)));
        match taken.await {
            Err(NoAnswer::Busy) => tokio::time::sleep(FIRST_RETRY).await,
            other => return other,
        }
    }
}
