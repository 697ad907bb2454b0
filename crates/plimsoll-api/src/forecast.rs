//! Forecasts as rows: the position of a pending request, the share of its account, and when it is
//! expected to start.

use plimsoll_core::account::{self, Quota};
use plimsoll_core::forecast::{self, ExpectedStart, Forecast, Listed};
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Bytes, Millis};
use plimsoll_core::wording;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::named;
use crate::time::{Time, time};

/// The prospects of a pending request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastRow {
    /// From 1, in the order in which requests are tried now.
    pub position: u32,
    /// The first three of the requests before it.
    pub ahead: Vec<String>,
    /// The number of requests before it.
    pub ahead_count: u32,
    /// The account of the request, also if it has no share.
    pub account: AccountRow,
    /// The parent of the account.
    pub parent: Option<AccountRow>,
    /// The time at which memory was promised.
    pub promised_since: Option<Time>,
    pub start: ExpectedStartRow,
}

named! {
    /// The code of an expected start.
    StartCode {
        /// Its holders are stopping within known limits; `at` is the last one.
        By = "by",
        /// Its holders are stopping, without a known limit.
        AfterStop = "after_stop",
        /// Its holders take no new work; the end of their work in flight is not known.
        AfterWork = "after_work",
        /// It pauses until `at`.
        NotBefore = "not_before",
        /// Room is made for another request first.
        AfterRequest = "after_request",
        AccountAtMaximum = "account_at_maximum",
        AccountShareUsed = "account_share_used",
        GangWaits = "gang_waits",
        /// Prewarmed work starts after all other work.
        BehindRealWork = "behind_real_work",
        /// Nothing bounds the time until its holders leave.
        NoBound = "no_bound",
        /// No node has room for it even without holders.
        AfterFleetChange = "after_fleet_change",
        /// It fits now; only the scheduler that is to place it keeps it pending.
        FitsNow = "fits_now",
        AtNextChange = "at_next_change",
        /// The search was cut off because many different requests are pending.
        NotSearched = "not_searched",
    }
}

impl From<&ExpectedStart> for StartCode {
    fn from(start: &ExpectedStart) -> StartCode {
        match start {
            ExpectedStart::By { .. } => StartCode::By,
            ExpectedStart::AfterStop { .. } => StartCode::AfterStop,
            ExpectedStart::AfterWork { .. } => StartCode::AfterWork,
            ExpectedStart::NotBefore { .. } => StartCode::NotBefore,
            ExpectedStart::AfterRequest { .. } => StartCode::AfterRequest,
            ExpectedStart::AccountAtMaximum { .. } => StartCode::AccountAtMaximum,
            ExpectedStart::AccountShareUsed { .. } => StartCode::AccountShareUsed,
            ExpectedStart::GangWaits { .. } => StartCode::GangWaits,
            ExpectedStart::BehindRealWork => StartCode::BehindRealWork,
            ExpectedStart::NoBound { .. } => StartCode::NoBound,
            ExpectedStart::AfterFleetChange => StartCode::AfterFleetChange,
            ExpectedStart::FitsNow => StartCode::FitsNow,
            ExpectedStart::AtNextChange => StartCode::AtNextChange,
            ExpectedStart::NotSearched => StartCode::NotSearched,
        }
    }
}

/// When a pending request is expected to start, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExpectedStartRow {
    pub code: StartCode,
    /// The expected time (`by`), or the time before which it does not start (`not_before`); null
    /// if no time is known.
    pub at: Option<Time>,
    /// The wait is bounded by limits of stops and by work that was in flight when memory was
    /// promised.
    pub bounded: bool,
    /// In one sentence, without the words "expected start".
    pub text: String,
    /// In a few words.
    pub brief: String,
    /// The holders or requests that it waits for, at most three.
    pub waits_for: Vec<AwaitedRow>,
    /// The number of others.
    pub waits_for_more: u32,
}

/// A holder or request that a pending request waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AwaitedRow {
    /// As `account/name`.
    pub request: String,
    /// The code of the reason why nothing makes it leave; null if it leaves.
    pub endless: Option<String>,
    /// The time from which it is evictable if it stays idle until then; null if it is not, or in
    /// use.
    pub evictable_from: Option<Time>,
}

/// An account: its holdings and its share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountRow {
    pub account: String,
    pub parent: Option<String>,
    pub held: AmountsRow,
    pub guaranteed: QuotaRow,
    pub maximum: QuotaRow,
    pub weight: u32,
    /// Held beyond the guarantee. Without a guarantee that is everything.
    pub borrowed: AmountsRow,
    /// Pending requests.
    pub pending: u32,
    /// In one sentence.
    pub text: String,
}

/// Memory and devices that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AmountsRow {
    #[schema(value_type = u64)]
    pub memory: Bytes,
    /// Parts of the same device count each.
    pub devices: u32,
}

/// Limits of memory and devices; null where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaRow {
    #[schema(value_type = Option<u64>)]
    pub memory: Option<Bytes>,
    pub devices: Option<u32>,
}

impl From<account::Account> for AmountsRow {
    fn from(amounts: account::Account) -> AmountsRow {
        AmountsRow { memory: amounts.bytes, devices: amounts.devices }
    }
}

impl From<Quota> for QuotaRow {
    fn from(quota: Quota) -> QuotaRow {
        QuotaRow { memory: quota.memory, devices: quota.devices }
    }
}

impl From<&account::AccountRow> for AccountRow {
    fn from(row: &account::AccountRow) -> AccountRow {
        AccountRow {
            account: row.account.to_string(),
            parent: row.parent.as_ref().map(ToString::to_string),
            held: row.held.into(),
            guaranteed: row.guaranteed.into(),
            maximum: row.maximum.into(),
            weight: row.weight.get(),
            borrowed: row.borrowed.into(),
            pending: row.pending,
            text: row.to_string(),
        }
    }
}

impl ExpectedStartRow {
    /// Converts an expected start; its text counts from `now`.
    pub fn new(start: &ExpectedStart, now: Millis) -> ExpectedStartRow {
        let (waits_for, waits_for_more) = waits_for(start);
        ExpectedStartRow {
            code: start.into(),
            at: start.at().map(time),
            bounded: start.is_bounded(),
            text: wording::expected_start(start, now),
            brief: wording::expected_start_briefly(start, now),
            waits_for,
            waits_for_more,
        }
    }
}

fn waits_for(start: &ExpectedStart) -> (Vec<AwaitedRow>, u32) {
    match start {
        ExpectedStart::By { stopping: listed, .. }
        | ExpectedStart::AfterStop { stopping: listed }
        | ExpectedStart::AfterWork { working: listed, .. } => leaving(listed),
        ExpectedStart::AfterRequest { request } => (vec![AwaitedRow::leaving(request)], 0),
        ExpectedStart::NoBound { holders, more } => {
            let row = |holder: &forecast::EndlessHolder| AwaitedRow {
                request: holder.request.to_string(),
                endless: Some(holder.reason.code().to_string()),
                evictable_from: holder.evictable_from.map(time),
            };
            (holders.iter().map(row).collect(), *more)
        }
        _ => (Vec::new(), 0),
    }
}

fn leaving(listed: &Listed) -> (Vec<AwaitedRow>, u32) {
    (listed.first.iter().map(AwaitedRow::leaving).collect(), listed.more)
}

impl AwaitedRow {
    fn leaving(request: &RequestId) -> AwaitedRow {
        AwaitedRow { request: request.to_string(), endless: None, evictable_from: None }
    }
}

impl ForecastRow {
    /// Converts a forecast; its texts count from `now`.
    pub fn new(forecast: &Forecast, now: Millis) -> ForecastRow {
        ForecastRow {
            position: forecast.position,
            ahead: forecast.ahead.first.iter().map(ToString::to_string).collect(),
            ahead_count: forecast.ahead.count(),
            account: AccountRow::from(&forecast.account),
            parent: forecast.parent.as_ref().map(AccountRow::from),
            promised_since: forecast.promised_since.map(time),
            start: ExpectedStartRow::new(&forecast.start, now),
        }
    }
}
