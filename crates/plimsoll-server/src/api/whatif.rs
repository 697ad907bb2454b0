//! The what-if route: the planner's own answer for a model or declaration, and remedies.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use plimsoll_core::decide::Decision;
use plimsoll_core::event::Settings;
use plimsoll_core::evict::Plan;
use plimsoll_core::front::Core;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::remedy;
use plimsoll_core::request::{Request, RequestId};
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::Desk;
use plimsoll_slots::memory::{Need, OwnedMemoryFacts};
use plimsoll_slots::model::Model;
use plimsoll_slots::proposals;

use super::input::Body;
use super::problem::{Answer, Problem};
use super::state::AppState;
use super::{decisions, memory, models};
use plimsoll_api::explanation::{self, RemedyRow};
use plimsoll_api::rows::{EvictionRow, ProblemRow, WhatIf, WhatIfRow};

/// Decides for one more slot without doing it
#[utoipa::path(post, path = "/api/v1/scheduler/whatif", operation_id = "what_if", tag = "scheduler", request_body = WhatIf, responses(
    (status = 200, description = "The decision that would be made now, and remedies", body = WhatIfRow),
    (status = 400, description = "Invalid request body", body = ProblemRow),
    (status = 404, description = "The model is not declared", body = ProblemRow),
    (status = 422, description = "Contradictory declaration", body = ProblemRow),
))]
pub(crate) async fn what_if(
    State(app): State<AppState>,
    Body(body): Body<WhatIf>,
) -> Answer<Json<WhatIfRow>> {
    let wanted = match (body.model, body.declaration) {
        (Some(name), None) => Wanted::Declared(name),
        (None, Some(declaration)) => Wanted::Made(Box::new(models::model(declaration)?)),
        _ => return Err(Problem::bad("model", "send either a model or a declaration")),
    };
    let name = wanted.name().to_string();
    let looked = app.engine()?.read(move |desk, core| look(desk, core, &wanted)).await?;
    let looked = looked.ok_or_else(|| models::not_declared(&name))?;
    // Looking for what would help takes its time, and the thread that decides has none.
    let found = tokio::task::spawn_blocking(move || looked.row()).await;
    let failed = |error: tokio::task::JoinError| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", error.to_string())
    };
    found.map(Json).map_err(failed)
}

enum Wanted {
    Declared(String),
    Made(Box<Model>),
}

impl Wanted {
    fn name(&self) -> &str {
        match self {
            Wanted::Declared(name) => name,
            Wanted::Made(model) => model.name(),
        }
    }
}

struct Looked {
    now: Millis,
    decision: Decision,
    request: Request,
    model: Model,
    facts: OwnedMemoryFacts,
    needs: Vec<Need>,
    /// The room that could be made for it.
    plan: Option<Plan>,
    /// The ledger that was looked at, where there is something to look for in it.
    refused_on: Option<(Ledger, Settings)>,
}

fn look(desk: &Desk, core: &mut Core<'_>, wanted: &Wanted) -> Option<Looked> {
    let model = match wanted {
        Wanted::Declared(name) => Model::clone(desk.view(core.scheduler()).model(name)?),
        Wanted::Made(model) => Model::clone(model),
    };
    let decision = desk.what_if(core, &model);
    let scheduler = core.scheduler();
    let desk = desk.view(scheduler);
    let state = || (scheduler.ledger().clone(), scheduler.settings().clone());
    let refused_on = decision.chosen().is_none().then(state);
    let (request, facts) = (desk.what_if_request(&model), desk.memory_facts(&model).into());
    let needs = desk.needs(&model);
    let now = core.now();
    let plan = refused_on.as_ref().and_then(|_| scheduler.plan_room(&request, now));
    Some(Looked { now, decision, request, model, facts, needs, plan, refused_on })
}

impl Looked {
    fn row(self) -> WhatIfRow {
        let mut row = decisions::described(&self.decision, self.now);
        row.memory = memory::of_size(&self.needs, &row);
        let Some((ledger, settings)) = &self.refused_on else {
            return WhatIfRow { decision: row, would_fit_if: Vec::new() };
        };
        if let Some(plan) = self.plan {
            row.evictions = plan.victims.iter().map(|victim| eviction(ledger, victim)).collect();
            let promise = plan.promise(self.now);
            row.explanation.promised = Some(explanation::promise_on(ledger, &promise));
        }
        let mut remedies =
            remedy::remedies(ledger, &settings.policy, &self.request, &self.decision);
        remedies.retain(|remedy| !proposals::is_replaced(&self.model, remedy));
        remedies.extend(proposals::proposals(
            ledger,
            &settings.policy,
            &self.model,
            self.facts.borrow(),
        ));
        remedies.sort_by_key(|remedy| remedy.kind);
        WhatIfRow { decision: row, would_fit_if: remedies.iter().map(RemedyRow::from).collect() }
    }
}

fn eviction(ledger: &Ledger, request: &RequestId) -> EvictionRow {
    EvictionRow {
        slot_id: request.name.to_string(),
        model: request.account.to_string(),
        runner_id: ledger.of_request(request).map(|(_, holding)| holding.node.to_string()),
    }
}
