//! The reasons of a holder to stay.

use serde::{Deserialize, Serialize};

use crate::units::Millis;

/// The reason why a holder cannot be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotEvictable {
    /// The pending request may not evict.
    RequesterMayNotEvict,
    Pinned,
    /// It serves the model that the pending request asks for.
    SameModel,
    Starting,
    Releasing,
    /// It started recently. Evicting it at once would only thrash.
    RecentlyStarted {
        until: Millis,
    },
    Active {
        requests: u32,
    },
    /// Its front end does not report whether it is active.
    ActivityUnknown,
    NoIdleLimit,
    /// It has not been idle for long enough.
    NotIdleYet {
        until: Millis,
    },
}

impl NotEvictable {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            NotEvictable::RequesterMayNotEvict => "requester_may_not_evict",
            NotEvictable::Pinned => "pinned",
            NotEvictable::SameModel => "same_model",
            NotEvictable::Starting => "starting",
            NotEvictable::Releasing => "releasing",
            NotEvictable::RecentlyStarted { .. } => "recently_started",
            NotEvictable::Active { .. } => "active",
            NotEvictable::ActivityUnknown => "activity_unknown",
            NotEvictable::NoIdleLimit => "no_idle_limit",
            NotEvictable::NotIdleYet { .. } => "not_idle_yet",
        }
    }

    /// Returns the time at which it becomes evictable, if time alone decides that.
    pub fn until(&self) -> Option<Millis> {
        match self {
            NotEvictable::RecentlyStarted { until } | NotEvictable::NotIdleYet { until } => {
                Some(*until)
            }
            _ => None,
        }
    }
}
