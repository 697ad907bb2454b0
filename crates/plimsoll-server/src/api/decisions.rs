//! The routes of decisions: recent ones in full, older ones as summaries from the journal.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use plimsoll_core::decide::Decision;
use plimsoll_core::event::Answer as CoreAnswer;
use plimsoll_core::front::Core;
use plimsoll_core::rejection::{DecisionSummary, Rejection};
use plimsoll_core::room::{DeviceRoom, NodeView};
use plimsoll_core::units::{Bytes, Millis};
use plimsoll_core::verdict::NodeVerdict;
use plimsoll_core::wording;
use serde::Deserialize;
use utoipa::IntoParams;

use super::input::{self, Params, RowPage};
use super::problem::{Answer, Problem};
use super::state::AppState;
use super::{memory, queue, slots};
use crate::decisions::{CachedDecision, Eviction};
use plimsoll_api::clause::clause_rows;
use plimsoll_api::explanation::{Explanation, charges, explanation};
use plimsoll_api::rows::{DecisionRow, EvictionRow, LoadRow, ProblemRow, time};
use plimsoll_api::verdict;
use plimsoll_engine::store::{DecisionId, Filter, History, Listed, StoreError};
use plimsoll_slots::desk::Desk;
use plimsoll_slots::memory::Need;

/// The query parameters of a list of decisions.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only decisions that chose this runner, or had their nearest miss on it.
    runner_id: Option<String>,
    /// Only those about this model.
    model: Option<String>,
    /// The most rows: 500 by default, at most 5000. A page of very large rows ends earlier.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 5000)]
    limit: Option<String>,
    /// Only those before this one: the list goes back in time. `Link: rel="next"` has it.
    after: Option<String>,
}

/// The most candidates on a page. One decision can have thousands of them.
const CANDIDATES_MOST: usize = 20_000;

/// Decisions, newest first
#[utoipa::path(get, path = "/api/v1/scheduler/decisions", operation_id = "list_decisions", tag = "scheduler", params(Wanted), responses(
    (status = 200, description = "Recent decisions in full, older ones as summaries", body = Vec<DecisionRow>),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    uri: Uri,
    Params(wanted): Params<Wanted>,
) -> Answer<Response> {
    let limit = input::rows_wanted(wanted.limit.as_deref())?;
    let after = wanted.after.as_deref().map(|after| read_id(after, "after")).transpose()?;
    let recent = app.recent(|decisions, _| decisions.newest_first()).await?;
    let page =
        Page { wanted, before: after, rows: Vec::new(), limit, candidates: 0, is_full: false };
    // Rendering thousands of verdicts takes long, so it runs outside the threads that serve
    // requests.
    let filled = tokio::task::spawn_blocking(move || page.filled_from(&recent)).await;
    let failed = |error: tokio::task::JoinError| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", error.to_string())
    };
    let page = filled.map_err(failed)?;
    let page = if page.is_full {
        page
    } else {
        app.history(move |history| page.filled_up(history)).await?
    };
    let mut listed = RowPage::new(limit);
    let taken = page.rows.iter().try_for_each(|row| listed.push(row, row.id.as_deref()));
    // A page can also be full of candidates.
    if page.is_full && taken.is_continue() {
        listed.continue_later();
    }
    Ok(listed.answer(&uri))
}

/// A decision
#[utoipa::path(get, path = "/api/v1/scheduler/decisions/{id}", operation_id = "show_decision", tag = "scheduler",
params(("id" = String, Path, description = "`SEQ.INDEX`: the number of the journal record, and of the decision in it")), responses(
    (status = 200, description = "The decision", body = DecisionRow),
    (status = 404, description = "No such decision, or the journal does not reach back that far", body = ProblemRow),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Answer<Json<DecisionRow>> {
    let wanted = read_id(&id, "id")?;
    if let Some(cached) = app.recent(move |decisions, _| decisions.get(wanted)).await? {
        let request = cached.decision.request.clone();
        let forecast = move |_: &mut Desk, core: &mut Core<'_>| {
            queue::forecast(&mut core.scheduler().forecasts(core.now()), &request)
        };
        let forecast = app.engine()?.read(forecast).await?;
        let mut row = row(&cached);
        // A placed request is pending again after a failed start; that is another decision.
        row.explanation.forecast = forecast.filter(|_| !row.placed);
        return Ok(Json(row));
    }
    let before = DecisionId { seq: wanted.seq, index: wanted.index.saturating_add(1) };
    let listed =
        app.history(move |history| history.decisions(&Filter::default(), Some(before), 1)).await?;
    let found = listed.into_iter().find(|listed| listed.id == wanted);
    let missing = || {
        let detail = format!("no decision {id}, or the journal does not reach back that far");
        Problem::not_found("decision_not_found", detail)
    };
    found.map(|listed| Json(listed_row(listed))).ok_or_else(missing)
}

fn read_id(text: &str, field: &str) -> Answer<DecisionId> {
    text.parse().map_err(|problem| Problem::bad(field, format!("{field} is {text:?}: {problem}")))
}

struct Page {
    wanted: Wanted,
    /// Only what was decided before this is still to come.
    before: Option<DecisionId>,
    rows: Vec<DecisionRow>,
    limit: usize,
    candidates: usize,
    /// True if there was one more row than the page holds.
    is_full: bool,
}

impl Page {
    /// Fills the page with decisions that are still in memory, newest first.
    fn filled_from(mut self, recent: &[Arc<CachedDecision<Vec<Need>>>]) -> Page {
        for cached in recent {
            let model = &*cached.decision.request.account;
            if self.before.is_some_and(|before| cached.id >= before) {
                continue;
            }
            let runner = || runner(&cached.decision).map(|verdict| &*verdict.view.node.name);
            if self.wants_model(model) && self.wants_runner(runner) && !self.take(|| row(cached)) {
                return self;
            }
        }
        self.before = recent.last().map(|oldest| oldest.id).into_iter().chain(self.before).min();
        self
    }

    /// The page with what only the journal has.
    fn filled_up(mut self, history: &History) -> Result<Page, StoreError> {
        let model = self.wanted.model.clone();
        let filter = Filter { account: model.as_deref(), name: None };
        let chunk = u32::try_from(self.limit + 1).unwrap_or(u32::MAX);
        loop {
            let listed = history.decisions(&filter, self.before, chunk)?;
            let is_last = listed.len() <= self.limit;
            self.before = listed.last().map(|listed| listed.id);
            for listed in listed {
                let row = listed_row(listed);
                if self.wants_runner(|| row.runner_id.as_deref()) && !self.take(|| row.clone()) {
                    return Ok(self);
                }
            }
            if is_last {
                return Ok(self);
            }
        }
    }

    /// Takes one more row; not when the page is full.
    fn take(&mut self, row: impl FnOnce() -> DecisionRow) -> bool {
        self.is_full = self.rows.len() == self.limit || self.candidates > CANDIDATES_MOST;
        if self.is_full {
            return false;
        }
        let row = row();
        self.candidates += row.explanation.candidates.as_ref().map_or(0, Vec::len);
        self.rows.push(row);
        true
    }

    fn wants_model(&self, model: &str) -> bool {
        self.wanted.model.as_ref().is_none_or(|wanted| wanted == model)
    }

    fn wants_runner<'a>(&self, runner: impl FnOnce() -> Option<&'a str>) -> bool {
        self.wanted.runner_id.as_ref().is_none_or(|wanted| runner() == Some(wanted.as_str()))
    }
}

/// Converts a decision that is still in memory.
pub(crate) fn row(cached: &CachedDecision<Vec<Need>>) -> DecisionRow {
    let described = described(&cached.decision, cached.at);
    let answered = cached.answer.as_ref().and_then(answered_rejection);
    let clauses = match answered {
        Some(rejection) => clause_rows(rejection.clauses(Some(cached.at))),
        None => described.explanation.clauses.clone(),
    };
    DecisionRow {
        memory: memory::of_size(&cached.facts, &described),
        id: Some(cached.id.to_string()),
        slot_id: Some(cached.decision.request.name.to_string()),
        reason: cached.answer.as_ref().and_then(wording::answer_reason),
        explanation: Explanation {
            promised: cached.promised.clone(),
            clauses,
            ..described.explanation
        },
        evictions: cached.evictions.iter().map(eviction).collect(),
        digest: Some(plimsoll_engine::store::hexadecimal(cached.digest)),
        ..described
    }
}

fn eviction(eviction: &Eviction) -> EvictionRow {
    EvictionRow {
        slot_id: eviction.victim.name.to_string(),
        model: eviction.victim.account.to_string(),
        runner_id: Some(eviction.node.to_string()),
    }
}

/// Returns the row of a decision by itself.
pub(crate) fn described(decision: &Decision, at: Millis) -> DecisionRow {
    let verdict = runner(decision);
    let charges = charges(decision);
    let taken = |index: u16| {
        let on = charges.iter().filter(|charge| charge.on.contains(&index));
        on.filter_map(plimsoll_core::charge::Charge::bytes).fold(Bytes::ZERO, Bytes::plus)
    };
    let loads = |more: &dyn Fn(u16) -> Bytes| {
        verdict.map(|verdict| loads(verdict.view, more)).unwrap_or_default()
    };
    DecisionRow {
        id: None,
        created: time(at),
        model: decision.request.account.to_string(),
        slot_id: None,
        placed: decision.chosen().is_some(),
        runner_id: verdict.map(|verdict| verdict.view.node.name.to_string()),
        reason: None,
        gpu_allocation: verdict.and_then(|verdict| slots::allocation(&verdict.view.node, &charges)),
        memory: None,
        explanation: explanation(decision),
        evictions: Vec::new(),
        before: Some(loads(&|_| Bytes::ZERO)),
        after: Some(loads(&taken)),
        digest: None,
        replay: None,
    }
}

/// Returns the verdict that represents a decision: of the chosen runner, else of the nearest miss,
/// else the first.
pub(crate) fn runner(decision: &Decision) -> Option<NodeVerdict<'_>> {
    let table = decision.table()?;
    match decision.summary().node() {
        Some(name) => table.unordered().find(|verdict| verdict.node == *name),
        None => verdict::ordered_in(table).first().copied(),
    }
}

fn loads(view: &NodeView, more: &dyn Fn(u16) -> Bytes) -> Vec<LoadRow> {
    let row = |(index, room): (u16, &Arc<DeviceRoom>)| {
        let load = (!room.has_undeclared()).then(|| room.load().plus(more(index)));
        LoadRow {
            index,
            uuid: view.node.device_label(usize::from(index)),
            usable: room.usable(),
            load,
            free: room.usable().zip(load).map(|(usable, load)| usable.less(load)),
        }
    };
    (0_u16..).zip(view.room.devices()).map(row).collect()
}

/// Returns the rejection in an answer, which also names the holders that are not evictable.
fn answered_rejection(answer: &CoreAnswer) -> Option<&Arc<Rejection>> {
    match answer {
        CoreAnswer::Pending { reason, .. } => reason.rejection(),
        CoreAnswer::Impossible { rejection, .. } => Some(rejection),
        _ => None,
    }
}

fn listed_explanation(summary: &DecisionSummary, at: Millis) -> Explanation {
    let rejection = summary.rejection();
    let clauses = rejection.map(|rejection| clause_rows(rejection.clauses(Some(at))));
    Explanation {
        summary: summary.to_string(),
        brief: rejection.map(|rejection| rejection.brief()).unwrap_or_default(),
        clauses: clauses.unwrap_or_default(),
        ..Explanation::default()
    }
}

/// Converts a decision of which only the journal's summary is left.
fn listed_row(listed: Listed) -> DecisionRow {
    let id = listed.id.to_string();
    DecisionRow {
        replay: Some(format!("plimsoll replay DIR --decision {id}")),
        id: Some(id),
        created: time(listed.now),
        model: listed.request.account.to_string(),
        slot_id: Some(listed.request.name.to_string()),
        placed: listed.summary.is_placed(),
        runner_id: listed.summary.node().map(ToString::to_string),
        reason: None,
        gpu_allocation: None,
        memory: None,
        explanation: listed_explanation(&listed.summary, listed.now),
        evictions: Vec::new(),
        before: None,
        after: None,
        digest: Some(listed.digest),
    }
}
