//! The routes of the output of slots. Runners cannot be reached, so a request waits here until the
//! runner's agent fetches it, and the agent posts the answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use plimsoll_api::rows::{LogRow, ProblemRow};
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::{LogAnswer, LogRequest};
use serde::Deserialize;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Duration, Instant, timeout, timeout_at};
use utoipa::IntoParams;

use super::input::{self, Body, Params};
use super::problem::{Answer, Problem};
use super::state::AppState;

/// The time that an agent has to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The requests that may wait for one runner.
const MAX_WAITING: usize = 64;

const LINES: u32 = 100;
const MAX_LINES: u32 = 10_000;

/// The requests on their way to agents and back.
#[derive(Clone, Default)]
pub(crate) struct LogRelay(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    last_id: u64,
    /// Requests that no agent has fetched yet, by runner.
    requests: BTreeMap<String, Vec<LogRequest>>,
    /// Callers that wait for an answer, with the runner that may give it.
    callers: BTreeMap<u64, (String, oneshot::Sender<LogAnswer>)>,
}

impl LogRelay {
    fn ask(
        &self,
        runner: &str,
        slot: &str,
        from: Option<u64>,
        lines: u32,
    ) -> Answer<(u64, oneshot::Receiver<LogAnswer>)> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.callers.retain(|_, (_, caller)| !caller.is_closed());
        let of_runner = state.callers.values().filter(|(name, _)| name == runner);
        if of_runner.count() >= MAX_WAITING {
            let detail = format!("{MAX_WAITING} requests for output wait for runner {runner}");
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail));
        }
        state.last_id += 1;
        let id = state.last_id;
        let (sender, receiver) = oneshot::channel();
        state.callers.insert(id, (runner.to_string(), sender));
        let request = LogRequest { id, slot: slot.to_string(), from, lines };
        state.requests.entry(runner.to_string()).or_default().push(request);
        drop(state);
        self.0.added.notify_waiters();
        Ok((id, receiver))
    }

    fn take(&self, runner: &str) -> Vec<LogRequest> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut requests = state.requests.remove(runner).unwrap_or_default();
        requests.retain(|request| {
            state.callers.get(&request.id).is_some_and(|(_, caller)| !caller.is_closed())
        });
        requests
    }

    fn answer(&self, runner: &str, id: u64, answer: LogAnswer) -> bool {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.callers.get(&id).is_none_or(|(name, _)| name != runner) {
            return false;
        }
        let (_, caller) = state.callers.remove(&id).expect("it was just seen");
        caller.send(answer).is_ok()
    }
}

/// The query parameters of the output of a slot.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// The offset in bytes from which on it is wanted: `next` of the previous part. Without it, the
    /// last lines.
    from: Option<u64>,
    /// The number of last lines: 100 by default, at most 10000.
    lines: Option<u32>,
}

/// The output of a slot
///
/// At most 128 KiB at once. The runner keeps the output of ended slots for a limited number.
#[utoipa::path(get, path = "/api/v1/scheduler/slots/{id}/log", operation_id = "slot_log", tag = "scheduler",
params(("id" = String, Path, description = "The slot; it may have ended"), LogQuery), responses(
    (status = 200, description = "A part of its output", body = LogRow),
    (status = 400, description = "Invalid parameter", body = ProblemRow),
    (status = 404, description = "No such slot, or it has no output", body = ProblemRow),
    (status = 504, description = "The runner did not answer", body = ProblemRow),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Params(query): Params<LogQuery>,
) -> Answer<Json<LogRow>> {
    let lines = query.lines.unwrap_or(LINES);
    if !(1..=MAX_LINES).contains(&lines) {
        let detail = format!("lines must be 1 to {MAX_LINES}, not {lines}");
        return Err(Problem::bad("lines", detail));
    }
    let name = id.clone();
    let found = app.engine()?.read(move |desk, core| {
        let view = desk.view(core.scheduler());
        let ended = view.ended_slot(&name);
        let slot = view.slot(&name).or_else(|| ended.map(|ended| &*ended.slot))?;
        let held = view.holding(slot).map(|(_, holding)| holding.node.to_string());
        let runner = held.or_else(|| slot.life.runner.as_ref().map(ToString::to_string));
        Some((runner, view.slot(&name).is_none()))
    });
    let Some((runner, has_ended)) = found.await? else {
        let detail = format!("no such slot: {id} (ended ones are kept for a limited time)");
        return Err(Problem::not_found("slot_not_found", detail));
    };
    let Some(runner) = runner else {
        let detail = format!("{id} was never started, so it has no output");
        return Err(Problem::not_found("no_output", detail));
    };
    let on_runner = id.strip_suffix(&format!("@{runner}")).unwrap_or(&id);
    let (_, answered) = app.logs().ask(&runner, on_runner, query.from, lines)?;
    let Ok(Ok(answer)) = timeout(ANSWER, answered).await else {
        let detail = format!(
            "runner {runner} did not send the output within {}s; is its agent running, and of this \
             version?",
            ANSWER.as_secs()
        );
        return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "runner_timeout", detail));
    };
    match answer {
        LogAnswer { problem: Some(problem), .. } => {
            Err(Problem::not_found("no_output", format!("{id}: {problem}")))
        }
        LogAnswer { from, next, text, problem: None } => {
            Ok(Json(LogRow { slot_id: id, runner_id: runner, from, next, text, has_ended }))
        }
    }
}

/// The time to wait.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RequestsQuery {
    /// The longest time to wait for a request, such as `30s`.
    #[param(value_type = Option<String>)]
    wait: Option<Span>,
}

/// Returns the requests for output of slots on a runner
#[utoipa::path(get, path = "/api/v1/runners/{id}/log-requests", operation_id = "log_requests", tag = "agents",
params(("id" = String, Path, description = "The runner"), RequestsQuery), responses(
    (status = 200, description = "The requests; none if none came in time", body = Vec<LogRequest>),
    (status = 400, description = "Invalid parameter", body = ProblemRow),
))]
pub(crate) async fn requests(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Params(query): Params<RequestsQuery>,
) -> Answer<Json<Vec<LogRequest>>> {
    let engine = app.engine()?;
    let wait = input::waiting(query.wait)?.map_or(0, |wait| wait.0);
    let until = Instant::now() + Duration::from_millis(wait);
    loop {
        // Before the look, so that no request is missed between the look and the wait.
        let added = app.logs().0.added.notified();
        let requests = app.logs().take(&id);
        if !requests.is_empty() || Instant::now() >= until || engine.is_ending() {
            return Ok(Json(requests));
        }
        tokio::select! {
            _ = timeout_at(until, added) => {}
            () = engine.ending() => {}
        }
    }
}

/// A runner sends output of a slot
#[utoipa::path(post, path = "/api/v1/runners/{id}/log-requests/{request}", operation_id = "answer_log_request", tag = "agents", request_body = LogAnswer,
params(("id" = String, Path, description = "The runner"), ("request" = u64, Path, description = "The number of the request")), responses(
    (status = 204, description = "Passed on, or no caller waits for it any more"),
    (status = 400, description = "Invalid request body", body = ProblemRow),
))]
pub(crate) async fn answer(
    State(app): State<AppState>,
    Path((id, request)): Path<(String, u64)>,
    Body(answer): Body<LogAnswer>,
) -> Answer<StatusCode> {
    app.engine()?;
    app.logs().answer(&id, request, answer);
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_runner_that_was_asked_can_answer() {
        let relay = LogRelay::default();
        let (id, answered) = relay.ask("gpu-a", "slot-1", None, 10).expect("few wait");
        assert!(relay.take("gpu-b").is_empty());
        let requests = relay.take("gpu-a");
        assert_eq!(requests.len(), 1);
        assert_eq!((requests[0].id, requests[0].slot.as_str()), (id, "slot-1"));
        assert!(!relay.answer("gpu-b", id, LogAnswer::default()));
        let text = LogAnswer { text: "hello".to_string(), ..LogAnswer::default() };
        assert!(relay.answer("gpu-a", id, text.clone()));
        assert_eq!(answered.await, Ok(text));
    }

    #[test]
    fn requests_are_bounded_and_forgotten_with_their_caller() {
        let relay = LogRelay::default();
        let waiting: Vec<_> =
            (0..MAX_WAITING).map(|_| relay.ask("gpu-a", "slot-1", None, 10)).collect();
        assert!(relay.ask("gpu-a", "slot-1", None, 10).is_err());
        assert!(relay.ask("gpu-b", "slot-1", None, 10).is_ok());
        drop(waiting);
        assert!(relay.ask("gpu-a", "slot-1", None, 10).is_ok());
    }
}
