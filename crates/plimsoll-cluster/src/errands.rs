//! Errands of the guard, carried out at the API server.

use plimsoll_core::request::RequestId;
use plimsoll_kube::live::{Errand, ErrandOutcome, Observation, TOUCHED};
use plimsoll_kube::object::Pod;
use serde_json::{Value, json};

use crate::access::Connection;
use crate::error::ClusterError;
use crate::holders::HoldersStore;
use crate::single::SingleError;
use crate::watch;

/// Carries out one errand. A missing right is logged, and the errand is repeated.
pub(crate) async fn carry_out(
    connection: &Connection,
    holders: &HoldersStore,
    errand: &Errand,
) -> ErrandOutcome {
    match errand {
        Errand::List { term } => list(connection, holders, *term).await,
        Errand::Read { pod } => pod_outcome(connection.get(&path(pod)).await),
        Errand::Touch { pod, version, mark } => {
            // With uid and version: what the leader knew is what gets the later version.
            let patch = json!({"metadata": {
                "uid": pod.uid.as_str(),
                "resourceVersion": version,
                "annotations": {TOUCHED: mark},
            }});
            pod_outcome(connection.merge(&path(pod), &patch).await)
        }
    }
}

/// Lists everything, and reads what the leader before recorded: this process may have begun to
/// watch after a holder vanished.
async fn list(connection: &Connection, holders: &HoldersStore, term: u64) -> ErrandOutcome {
    let listed = async {
        let (mut learnt, _) = watch::start(connection).await?;
        learnt.push(Observation::Recalled(holders.recall(Some(term)).await?));
        Ok::<_, ClusterError>(learnt)
    };
    match listed.await {
        Ok(learnt) => ErrandOutcome::Listed(learnt),
        Err(error) => {
            tracing::warn!(%error, "the cluster cannot be listed; trying again");
            ErrandOutcome::Unknown
        }
    }
}

fn path(pod: &RequestId) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.account, pod.name)
}

fn pod_outcome(answer: Result<Value, SingleError>) -> ErrandOutcome {
    match answer {
        Ok(object) => match serde_json::from_value::<Pod>(object) {
            Ok(pod) => ErrandOutcome::Object(Box::new(pod)),
            Err(error) => {
                tracing::error!(%error, "a pod cannot be read");
                ErrandOutcome::Unknown
            }
        },
        Err(SingleError::NotFound) => ErrandOutcome::Gone,
        Err(SingleError::Conflict) => ErrandOutcome::Conflict,
        Err(SingleError::Other(error)) => {
            log(&error);
            ErrandOutcome::Unknown
        }
    }
}

fn log(error: &ClusterError) {
    if error.is_temporary() {
        tracing::warn!(%error, "an errand has no answer; it is repeated");
    } else {
        tracing::error!(%error, "an errand is not possible; it is repeated");
    }
}
