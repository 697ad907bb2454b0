//! The pending pods of a live cluster as rows: in turn, with their accounts and expected starts.
//!
//! Other schedulers place these pods. They are not in the queue of the core, so that this module
//! puts them in order, by the same rule.

use std::collections::BTreeMap;

use plimsoll_api::forecast::{AccountRow, ExpectedStartRow, ForecastRow};
use plimsoll_api::rows::{PendingPodRow, RequestRow};
use plimsoll_core::account::{self, Levels};
use plimsoll_core::forecast::{ExpectedStart, LISTED};
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::rejection::DecisionSummary;
use plimsoll_core::scheduler::{Forecasts, Scheduler, Turns};
use plimsoll_core::units::{Millis, Name};
use plimsoll_kube::live::{PendingPod, Watch};

/// A pending pod with the entry that orders it.
struct InTurn<'a> {
    pod: &'a PendingPod,
    entry: PendingRequest,
}

impl AsRef<PendingRequest> for InTurn<'_> {
    fn as_ref(&self) -> &PendingRequest {
        &self.entry
    }
}

/// Returns the rows of the pending pods in turn.
pub(super) fn pending_rows(
    watch: &Watch,
    scheduler: &Scheduler,
    now: Millis,
) -> Vec<PendingPodRow> {
    let entries = watch.pending().map(|pod| {
        let entry = PendingRequest::new(now, pod.request.clone());
        InTurn { pod, entry }
    });
    let mut turns = Turns::new(scheduler, entries);
    let mut forecasts = scheduler.forecasts(now);
    let waiting = Waiting::count(watch, scheduler);
    let mut rows: Vec<PendingPodRow> = Vec::new();
    while let Some(InTurn { pod, .. }) = turns.next(scheduler) {
        let forecast = forecast(pod, &rows, &waiting, &mut forecasts);
        rows.push(row(pod, rows.len() + 1, forecast));
    }
    rows
}

fn row(pod: &PendingPod, position: usize, forecast: ForecastRow) -> PendingPodRow {
    let opinion = pod.opinion.as_ref();
    PendingPodRow {
        position: Some(position),
        id: format!("{}/{}", pod.request.id.account, pod.request.id.name),
        request: RequestRow::from(&pod.request.id),
        created: pod.created.clone(),
        priority: pod.request.terms.priority,
        scheduler: pod.scheduler.clone(),
        reported: pod.reported.clone(),
        gates: Vec::new(),
        fits: opinion.map(DecisionSummary::is_placed),
        node: opinion.and_then(DecisionSummary::node).map(ToString::to_string),
        reason: opinion.map_or("not judged yet".to_owned(), ToString::to_string),
        not_considered: pod.not_considered.iter().map(ToString::to_string).collect(),
        forecast: Some(forecast),
    }
}

fn forecast(
    pod: &PendingPod,
    before: &[PendingPodRow],
    waiting: &Waiting,
    forecasts: &mut Forecasts<'_>,
) -> ForecastRow {
    let start = match &pod.opinion {
        None => ExpectedStart::AtNextChange,
        Some(DecisionSummary::Placed(_)) => ExpectedStart::FitsNow,
        Some(DecisionSummary::Rejected(rejection)) => {
            forecasts.start_without(&pod.request, rejection)
        }
    };
    let (account, parent) = forecasts.accounts_of(&pod.request);
    let ahead_count = u32::try_from(before.len()).unwrap_or(u32::MAX);
    ForecastRow {
        position: ahead_count.saturating_add(1),
        ahead: before.iter().take(LISTED).map(|row| row.id.clone()).collect(),
        ahead_count,
        account: waiting.row(account),
        parent: parent.map(|parent| waiting.row(parent)),
        promised_since: None,
        start: ExpectedStartRow::new(&start, forecasts.now()),
    }
}

/// Returns the rows of the accounts with a share.
pub(super) fn account_rows(watch: &Watch, scheduler: &Scheduler) -> Vec<AccountRow> {
    let waiting = Waiting::count(watch, scheduler);
    scheduler.account_rows().into_iter().map(|row| waiting.row(row)).collect()
}

/// The number of pending pods by account, at both levels.
struct Waiting(BTreeMap<Name, u32>);

impl Waiting {
    fn count(watch: &Watch, scheduler: &Scheduler) -> Waiting {
        let shares = scheduler.ledger().shares();
        let mut counts: BTreeMap<Name, u32> = BTreeMap::new();
        for pod in watch.pending() {
            let Levels { top, account } = shares.levels(pod.request.account());
            *counts.entry(account.clone()).or_default() += 1;
            if top != account {
                *counts.entry(top.clone()).or_default() += 1;
            }
        }
        Waiting(counts)
    }

    /// Converts the row of an account. The core has no queue of these pods.
    fn row(&self, row: account::AccountRow) -> AccountRow {
        let pending = self.0.get(&row.account).copied().unwrap_or(0);
        AccountRow::from(&account::AccountRow { pending, ..row })
    }
}
