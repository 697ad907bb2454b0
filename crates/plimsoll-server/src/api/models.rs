//! Declared models.

use std::fmt;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use plimsoll_core::front::Core;
use plimsoll_slots::desk::{Desk, DeskView};
use plimsoll_slots::model::{Declaration, Model};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::input::{self, Body, Page, Params, RowPage};
use super::memory;
use super::problem::{Answer, Problem};
use super::state::AppState;
use plimsoll_api::rows::{ModelRow, ProblemRow};

/// Every declared model
#[utoipa::path(get, path = "/api/v1/models", operation_id = "list_models", tag = "models", params(Page), responses(
    (status = 200, description = "Models by name", body = Vec<ModelRow>),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    uri: Uri,
    Params(page): Params<Page>,
) -> Answer<Response> {
    let mut listed = RowPage::new(input::rows_wanted(page.limit.as_deref())?);
    let mut after = page.after;
    loop {
        let from = after.take();
        let look = move |desk: &mut Desk, core: &mut Core<'_>| -> Vec<ModelRow> {
            let desk = desk.view(core.scheduler());
            let models = desk.models_after(from.as_deref());
            models.take(AT_ONCE).map(|model| row(desk, model)).collect()
        };
        let rows = app.engine()?.read(look).await?;
        let is_last = rows.len() < AT_ONCE;
        after = rows.last().map(|row| row.name.clone());
        let pushed = rows.iter().try_for_each(|row| listed.push(row, Some(&row.name)));
        if pushed.is_break() || is_last {
            return Ok(listed.answer(&uri));
        }
    }
}

/// The models copied at once for a list. A declaration can be large, so that a page may need few of
/// them.
const AT_ONCE: usize = 16;

/// A declared model
#[utoipa::path(get, path = "/api/v1/models/{*name}", operation_id = "show_model", tag = "models",
params(("name" = String, Path, description = "The model; it may contain `/` and `:`")), responses(
    (status = 200, description = "The declaration", body = ModelRow),
    (status = 404, description = "The model is not declared", body = ProblemRow),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    Path(name): Path<String>,
) -> Answer<Json<ModelRow>> {
    let wanted = name.clone();
    let look = move |desk: &mut Desk, core: &mut Core<'_>| {
        let desk = desk.view(core.scheduler());
        desk.model(&wanted).map(|model| row(desk, model))
    };
    app.engine()?.read(look).await?.map(Json).ok_or_else(|| not_declared(&name))
}

/// The fields of a declaration, each of which is there once.
pub(crate) struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(EachOnce)
    }
}

struct EachOnce;

impl<'de> Visitor<'de> for EachOnce {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of a model")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut read: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = read.next_entry::<String, Value>()? {
            if fields.contains_key(&name) {
                return Err(de::Error::custom(format_args!("duplicate field `{name}`")));
            }
            fields.insert(name, value);
        }
        Ok(Fields(fields))
    }
}

/// Declares a model
///
/// Slots that are there stay as they were made; new ones are made as it says now.
#[utoipa::path(put, path = "/api/v1/models/{*name}", operation_id = "declare_model", tag = "models", request_body = Declaration,
params(("name" = String, Path, description = "The model; the name in the body is optional")), responses(
    (status = 200, description = "The declaration is replaced", body = ModelRow),
    (status = 201, description = "The model is new", body = ModelRow),
    (status = 400, description = "Invalid request body", body = ProblemRow),
    (status = 409, description = "As many models as the server allows are declared", body = ProblemRow),
    (status = 422, description = "Contradictory declaration", body = ProblemRow),
))]
pub(crate) async fn declare(
    State(app): State<AppState>,
    Path(name): Path<String>,
    Body(Fields(mut fields)): Body<Fields>,
) -> Answer<Response> {
    match fields.entry("name").or_insert_with(|| Value::from(name.as_str())) {
        Value::String(inner) if *inner != name => {
            let detail = format!("name is {inner} in the body and {name} in the path");
            return Err(Problem::invalid_model("name", detail));
        }
        _ => {}
    }
    let model = model(input::read_value(Value::Object(fields))?)?;
    let declared = app.engine()?.write(move |desk, core| {
        if let Some(limit) = desk.exceeded_model_limit(&name) {
            return Err(too_many(&name, limit));
        }
        let known = desk.view(core.scheduler()).model(&name).is_some();
        desk.declare_model(core, model);
        let desk = desk.view(core.scheduler());
        Ok((known, desk.model(&name).map(|model| row(desk, model))))
    });
    let (known, row) = declared.await??;
    let status = if known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(row)).into_response())
}

/// A model is no longer declared
#[utoipa::path(delete, path = "/api/v1/models/{*name}", operation_id = "forget_model", tag = "models",
params(("name" = String, Path, description = "The model")), responses(
    (status = 204, description = "Removed; its reservations end and its slots are stopped"),
    (status = 404, description = "The model is not declared", body = ProblemRow),
))]
pub(crate) async fn forget(
    State(app): State<AppState>,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    let wanted = name.clone();
    match app.engine()?.write(move |desk, core| desk.remove_model(core, &wanted)).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(not_declared(&name)),
    }
}

fn too_many(name: &str, limit: usize) -> Problem {
    let detail = format!(
        "cannot declare model {name}: {limit} models are declared, which is the limit of the server (max_models); \
         delete one first"
    );
    Problem::new(StatusCode::CONFLICT, "too_many_models", detail)
}

/// A declaration that makes sense, or the field that does not.
pub(crate) fn model(declared: Declaration) -> Answer<Model> {
    Model::try_from(declared)
        .map_err(|error| Problem::invalid_model(&error.field, error.to_string()))
}

/// Returns the problem of a model that is not declared.
pub(crate) fn not_declared(name: &str) -> Problem {
    Problem::not_found("model_not_found", format!("model {name} is not declared"))
}

fn row(desk: DeskView<'_>, model: &Model) -> ModelRow {
    ModelRow {
        name: model.name().to_string(),
        declaration: model.declared().clone(),
        slots: desk.slots_of(model.name()).count(),
        active_requests: desk.slots_of(model.name()).map(|slot| desk.active_requests(slot)).sum(),
        load_ms: desk.load_time(model.name()).map(|span| span.0),
        memory: memory::memory_rows(desk, model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_field_is_rejected_by_name() {
        let problem = input::read_json::<Fields>(br#"{"memory":"1GiB","memory":"2GiB"}"#).err();
        assert_eq!(
            problem.and_then(|problem| problem.row().field.clone()).as_deref(),
            Some("memory")
        );
        assert!(input::read_json::<Fields>(br#"{"memory":"1GiB","context":2}"#).is_ok());
    }
}
