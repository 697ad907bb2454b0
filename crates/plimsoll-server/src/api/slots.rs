//! The routes of slots: their memory, their stage, and whether they are evictable.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use plimsoll_core::charge::{Charge, Holding};
use plimsoll_core::device::Node;
use plimsoll_core::reason;
use plimsoll_core::scheduler::Forecasts;
use plimsoll_core::units::{Bytes, Millis};
use plimsoll_slots::desk::{DeskView, EndedSlot, Evictable, Slot};
use serde::Deserialize;
use utoipa::IntoParams;

use super::input::{self, Params};
use super::problem::Answer;
use super::queue;
use super::state::AppState;
use plimsoll_api::clause::{WhyRow, clause_rows};
use plimsoll_api::rows::{
    EndedRow, EvictionStatusRow, GpuAllocation, GpuShare, MemorySource, NotEvictable, SlotRow,
    SlotStage, time,
};

/// The query parameters of a list of slots.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only those on this runner.
    runner_id: Option<String>,
    /// `true`: the slots that have ended, newest first, instead of those that exist.
    ended: Option<bool>,
    /// The most rows: 500 by default, at most 5000.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 5000)]
    limit: Option<String>,
    /// Only rows after this one; the `Link: rel="next"` header has it.
    after: Option<String>,
}

/// Every slot
#[utoipa::path(get, path = "/api/v1/scheduler/slots", operation_id = "list_slots", tag = "scheduler", params(Wanted), responses(
    (status = 200, description = "Slots by id", body = Vec<SlotRow>),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    uri: Uri,
    Params(wanted): Params<Wanted>,
) -> Answer<Response> {
    let limit = input::rows_wanted(wanted.limit.as_deref())?;
    let rows = app
        .engine()?
        .read(move |desk, core| some(desk.view(core.scheduler()), core.now(), &wanted, limit + 1))
        .await?;
    Ok(input::page(&uri, &rows, limit, |row| Some(&row.id)))
}

fn some(desk: DeskView<'_>, now: Millis, wanted: &Wanted, most: usize) -> Vec<SlotRow> {
    let after = wanted.after.as_deref();
    if wanted.ended == Some(true) {
        return ended(desk, now, wanted, most);
    }
    let mut forecasts = desk.scheduler().forecasts(now);
    let Some(runner) = &wanted.runner_id else {
        let slots = desk.slots_after(after).take(most);
        return slots.map(|slot| row(desk, slot, &mut forecasts)).collect();
    };
    let ledger = desk.scheduler().ledger();
    let there = ledger.node_id(runner).into_iter().flat_map(|node| ledger.holdings_on(node));
    let mut slots: Vec<&Slot> =
        there.filter_map(|(_, holding)| desk.slot(&holding.request.name)).collect();
    slots.sort_by(|one, other| one.id.cmp(&other.id));
    let slots = slots.into_iter().filter(|slot| after.is_none_or(|after| &*slot.id > after));
    slots.take(most).map(|slot| row(desk, slot, &mut forecasts)).collect()
}

fn ended(desk: DeskView<'_>, now: Millis, wanted: &Wanted, most: usize) -> Vec<SlotRow> {
    let all = desk
        .ended_slots()
        .skip_while(|ended| wanted.after.as_deref().is_some_and(|after| &*ended.slot.id != after));
    let runner = wanted.runner_id.as_deref();
    let selected = all
        .skip(usize::from(wanted.after.is_some()))
        .filter(|ended| runner.is_none_or(|name| ended.slot.life.runner.as_deref() == Some(name)));
    selected.take(most).map(|ended| ended_row(desk, ended, now)).collect()
}

/// Returns a slot that has ended as a row.
pub(crate) fn ended_row(desk: DeskView<'_>, ended: &EndedSlot, now: Millis) -> SlotRow {
    let slot = &ended.slot;
    SlotRow {
        runner_id: slot.life.runner.as_ref().map(ToString::to_string),
        stage: SlotStage::Gone,
        last_activity: time(ended.at),
        active_requests: 0,
        endpoint: None,
        reason: ended.ending.brief(),
        why: WhyRow {
            brief: ended.ending.brief(),
            clauses: clause_rows(ended.ending.clauses(now)),
            failure: slot.life.failure.as_ref().map(ToString::to_string),
        },
        failures: 0,
        retry_at: None,
        ended: Some(EndedRow { at: time(ended.at), cause: ended.ending.name().to_string() }),
        ..row(desk, slot, &mut desk.scheduler().forecasts(now))
    }
}

/// A slot as a row.
pub(crate) fn row(desk: DeskView<'_>, slot: &Slot, forecasts: &mut Forecasts<'_>) -> SlotRow {
    let now = forecasts.now();
    let held = desk.holding(slot);
    let holding = held.map(|(_, holding)| holding);
    let waiting = desk.scheduler().queue().get(&slot.request());
    let speculative = holding.map(|holding| holding.terms.speculative);
    let reason = desk.slot_reason(slot);
    SlotRow {
        id: slot.id.to_string(),
        model: slot.model.clone(),
        runner_id: holding.map(|holding| holding.node.to_string()),
        gpu_allocation: holding.and_then(|holding| allocation_of(desk, holding)),
        stage: desk.stage(slot).map_or(SlotStage::Gone, SlotStage::from),
        created: time(slot.created),
        last_activity: time(desk.last_activity(slot)),
        active_requests: desk.active_requests(slot),
        concurrency: desk.concurrency(slot),
        eviction: desk.evictable(slot, now).map(evictable),
        memory_source: holding.and_then(|holding| source(slot, holding)),
        endpoint: slot.life.endpoint.clone(),
        reason: reason.to_string(),
        why: WhyRow::new(&reason, now),
        failures: desk.scheduler().queue().failures(&slot.request()),
        retry_at: waiting
            .and_then(|waiting| waiting.backoff.as_ref())
            .map(|backoff| time(backoff.until)),
        generation: held.map(|(id, _)| id.0),
        prewarmed: speculative
            .or(waiting.map(|waiting| waiting.request.terms.speculative))
            .unwrap_or(false),
        adopted: slot.made_from.is_none(),
        forecast: queue::forecast(forecasts, &slot.request()),
        ended: None,
        used: desk.report(slot).map(|report| report.used.clone()).unwrap_or_default(),
        outgrown: holding.is_some_and(|holding| outgrown(slot, holding)),
    }
}

/// Returns the source of a slot's charge.
fn source(slot: &Slot, holding: &Holding) -> Option<MemorySource> {
    let gpus = u16::try_from(holding.charges.len()).ok()?;
    slot.basis.get(&gpus).map(|source| MemorySource::from(*source))
}

/// Returns true if a slot is charged more than its model was declared to need.
fn outgrown(slot: &Slot, holding: &Holding) -> bool {
    let gpus = u16::try_from(holding.charges.len()).unwrap_or(u16::MAX);
    let declared = slot.made_from.as_ref().and_then(|model| model.memory_on(gpus));
    let declared =
        declared.map(|sizes| sizes.iter().fold(Bytes::ZERO, |sum, size| sum.plus(size.0)));
    declared.zip(holding.bytes()).is_some_and(|(declared, held)| held > declared)
}

/// Returns the GPUs of a holding, by the names of its runner.
pub(crate) fn allocation_of(desk: DeskView<'_>, holding: &Holding) -> Option<GpuAllocation> {
    let ledger = desk.scheduler().ledger();
    let view = ledger.view_of(&holding.node)?;
    allocation(&view.node, &holding.charges)
}

/// Charges on a runner's GPUs, in the words of the API; `None` where there are none.
pub(crate) fn allocation(node: &Node, charges: &[Charge]) -> Option<GpuAllocation> {
    let mut gpus: Vec<GpuShare> = Vec::new();
    for charge in charges {
        for index in &charge.on {
            let uuid = node.device_label(usize::from(*index));
            gpus.push(GpuShare { index: *index, uuid, bytes: charge.bytes() });
        }
    }
    gpus.sort_by_key(|gpu| gpu.index);
    let bytes: Option<Vec<Bytes>> = gpus.iter().map(|gpu| gpu.bytes).collect();
    (!gpus.is_empty()).then(|| GpuAllocation {
        gpu_count: gpus.len(),
        memory_per_gpu: bytes.as_ref().and_then(|bytes| bytes.iter().max().copied()),
        total_memory_required: bytes.map(|bytes| bytes.into_iter().fold(Bytes::ZERO, Bytes::plus)),
        tensor_parallel_size: gpus.len(),
        gpus,
    })
}

fn evictable(evictable: Evictable) -> EvictionStatusRow {
    match evictable {
        Evictable::Since(since) => EvictionStatusRow {
            evictable: true,
            since: Some(time(since)),
            from: None,
            code: None,
            reason: None,
        },
        Evictable::No(reason) => EvictionStatusRow {
            evictable: false,
            since: None,
            from: reason.until().map(time),
            code: Some(code(&reason)),
            reason: Some(reason.to_string()),
        },
    }
}

fn code(reason: &reason::NotEvictable) -> NotEvictable {
    match reason {
        reason::NotEvictable::RequesterMayNotEvict => NotEvictable::RequesterMayNotEvict,
        reason::NotEvictable::Pinned => NotEvictable::Pinned,
        reason::NotEvictable::SameModel => NotEvictable::SameModel,
        reason::NotEvictable::Starting => NotEvictable::Starting,
        reason::NotEvictable::Releasing => NotEvictable::Releasing,
        reason::NotEvictable::RecentlyStarted { .. } => NotEvictable::RecentlyStarted,
        reason::NotEvictable::Active { .. } => NotEvictable::Active,
        reason::NotEvictable::ActivityUnknown => NotEvictable::ActivityUnknown,
        reason::NotEvictable::NoIdleLimit => NotEvictable::NoIdleLimit,
        reason::NotEvictable::NotIdleYet { .. } => NotEvictable::NotIdleYet,
    }
}
