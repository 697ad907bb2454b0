//! Rejections: their text, and the last one of each pod.

use std::sync::Arc;

use plimsoll_core::rejection::Rejection;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};

use super::Guard;

/// The last rejection of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastRejection {
    pub(super) node: Name,
    pub(super) rejection: Arc<Rejection>,
}

impl Guard {
    pub(in crate::live) fn forget_rejection(&mut self, id: &RequestId) {
        self.rejected.remove(id);
    }
}

/// The reason why a review cannot be decided now. The caller retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    NotLeading,
    Blind { since: Option<Millis>, now: Millis },
    PodUnknown,
    OtherVersion { named: String, known: String },
    VersionUnknown,
    NodeUnknown { node: Name },
    InFlight { node: Name },
    LeaseTooShort,
}

impl std::fmt::Display for NotNow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotNow::NotLeading => f.write_str("this replica of plimsoll does not decide"),
            NotNow::Blind { since: None, .. } => {
                f.write_str("plimsoll has not seen the cluster yet")
            }
            NotNow::Blind { since: Some(since), now } => {
                let seconds = now.0.saturating_sub(since.0) / 1000;
                write!(f, "plimsoll has not seen the cluster for {seconds}s")
            }
            NotNow::PodUnknown => f.write_str("plimsoll has not seen the pod yet"),
            NotNow::OtherVersion { named, known } => {
                write!(f, "it names version {named} of the pod, and plimsoll knows {known}")
            }
            NotNow::VersionUnknown => f.write_str("the pod has no version that can be compared"),
            NotNow::NodeUnknown { node } => write!(f, "plimsoll has not seen the node {node} yet"),
            NotNow::InFlight { node } => {
                write!(
                    f,
                    "an earlier binding to {node} is in flight, and is settled within seconds"
                )
            }
            NotNow::LeaseTooShort => {
                f.write_str("the lease of this replica of plimsoll is about to expire")
            }
        }
    }
}
