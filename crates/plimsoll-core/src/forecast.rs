//! Forecasts: the position of a pending request, the share of its account, and when it is expected
//! to start.
//!
//! Only what is known counts: the limits of stops, the ends of pauses. The end of work in flight is
//! never known, so that a request that waits for it has a bound and no time, and
//! [`ExpectedStart`] says so. The scheduler makes forecasts (`scheduler::Forecasts`), `wording`
//! renders them.

use serde::{Deserialize, Serialize};

use crate::account::AccountRow;
use crate::evict::Endless;
use crate::request::RequestId;
use crate::units::{Millis, Name, Timespan};

/// The number of requests and holders that a forecast lists.
pub const LISTED: usize = 3;

/// The prospects of one pending request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// From 1, in the order in which requests are tried now.
    pub position: u32,
    /// The requests that are tried before it, the first ones first.
    pub ahead: Listed,
    /// The account of the request, also if it has no share.
    pub account: AccountRow,
    pub parent: Option<AccountRow>,
    /// The time at which it was promised memory.
    pub promised_since: Option<Millis>,
    pub start: ExpectedStart,
}

/// The first of several requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// At most [`LISTED`].
    pub first: Vec<RequestId>,
    /// The number of requests that are not listed.
    pub more: u32,
}

impl Listed {
    /// Lists the first of some requests and counts the rest.
    pub fn of<'r>(requests: impl Iterator<Item = &'r RequestId>) -> Listed {
        let mut listed = Listed::default();
        for request in requests {
            match listed.first.len() < LISTED {
                true => listed.first.push(request.clone()),
                false => listed.more = listed.more.saturating_add(1),
            }
        }
        listed
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u32 {
        u32::try_from(self.first.len()).unwrap_or(u32::MAX).saturating_add(self.more)
    }
}

/// The time at which a pending request starts, as far as it is known, and what it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedStart {
    /// It is promised memory whose holders are all stopping, each within a limit.
    By { at: Millis, stopping: Listed },
    /// As above, but a holder has no limit for its stop.
    AfterStop { stopping: Listed },
    /// It is promised memory of holders that take no new work. It starts once their work in flight
    /// has ended and they have stopped; the end of that work is not known.
    AfterWork {
        /// The holders that have work in flight, or start.
        working: Listed,
        /// Their requests in flight, as far as they are reported.
        requests: u32,
        /// The longest limit of a stop; `None` if a holder has none.
        stop_limit: Option<Timespan>,
    },
    /// It is not tried, or displaces no holder of its own priority, before this time.
    NotBefore { at: Millis, pause: Pause },
    /// Room could be made for it, and is made for this request first.
    AfterRequest { request: RequestId },
    /// The account is at its maximum, and has to release something.
    AccountAtMaximum { account: Name },
    /// Room could be made for it, but its account would then hold more than its share beside the
    /// accounts of the holders.
    AccountShareUsed { account: Name },
    /// Its gang needs room together, and none is promised yet.
    GangWaits { gang: Name },
    /// Speculative work starts after all other work.
    BehindRealWork,
    /// It would fit without these holders, and nothing bounds the time until they leave.
    NoBound { holders: Vec<EndlessHolder>, more: u32 },
    /// It would fit on no node even without holders: the fleet must change.
    AfterFleetChange,
    /// It fits now. Only the scheduler that is to place it keeps it pending.
    FitsNow,
    /// It is decided again at the next change that may help.
    AtNextChange,
    /// The search through the fleet was cut off, because many different requests are pending.
    NotSearched,
}

/// The reason of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Back-off after failed starts.
    FailedStarts { failures: u32 },
    /// Its model was evicted, and displaces holders of its priority only after the residency.
    Residency,
}

/// A holder that no limit makes leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndlessHolder {
    pub request: RequestId,
    pub reason: Endless,
    /// The time from which it is evictable if it stays idle until then. It may be used again at any
    /// time, so that this is no bound.
    pub evictable_from: Option<Millis>,
}

impl ExpectedStart {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ExpectedStart::By { .. } => "by",
            ExpectedStart::AfterStop { .. } => "after_stop",
            ExpectedStart::AfterWork { .. } => "after_work",
            ExpectedStart::NotBefore { .. } => "not_before",
            ExpectedStart::AfterRequest { .. } => "after_request",
            ExpectedStart::AccountAtMaximum { .. } => "account_at_maximum",
            ExpectedStart::AccountShareUsed { .. } => "account_share_used",
            ExpectedStart::GangWaits { .. } => "gang_waits",
            ExpectedStart::BehindRealWork => "behind_real_work",
            ExpectedStart::NoBound { .. } => "no_bound",
            ExpectedStart::AfterFleetChange => "after_fleet_change",
            ExpectedStart::FitsNow => "fits_now",
            ExpectedStart::AtNextChange => "at_next_change",
            ExpectedStart::NotSearched => "not_searched",
        }
    }

    /// Returns the time that is expected, or before which it does not start.
    pub fn at(&self) -> Option<Millis> {
        match self {
            ExpectedStart::By { at, .. } | ExpectedStart::NotBefore { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Returns true if the wait is bounded: by limits of stops, and by work that was in flight when
    /// the memory was promised.
    pub fn is_bounded(&self) -> bool {
        matches!(
            self,
            ExpectedStart::By { .. }
                | ExpectedStart::AfterStop { .. }
                | ExpectedStart::AfterWork { .. }
        )
    }

    /// Returns the time by which the request is past its bound; zero if it is not, or if the bound
    /// has no time.
    pub fn overdue(&self, now: Millis) -> Timespan {
        match self {
            ExpectedStart::By { at, .. } => now.since(*at),
            _ => Timespan::ZERO,
        }
    }
}
