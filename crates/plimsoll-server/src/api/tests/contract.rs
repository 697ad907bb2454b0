//! Every answer of the API, compared with the OpenAPI document.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use axum::http::HeaderValue;

use super::*;

/// Returns the document of the server.
async fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    if let Some(document) = DOCUMENT.get() {
        return document;
    }
    let request = Request::get("/openapi.json").header(header::HOST, "localhost");
    let router = served(AppState::new(schedulerlog::Settings::default()));
    let response = router.oneshot(request.body(Body::empty()).expect("a request")).await;
    let body = to_bytes(response.expect("an answer").into_body(), usize::MAX).await;
    let document = serde_json::from_slice(&body.expect("a body")).expect("JSON");
    DOCUMENT.get_or_init(|| document)
}

/// Fails unless an answer is one that the document has for the route. Returns the operation's id;
/// `None` for a path or method that is not in the document.
pub(super) async fn check(
    (method, path): (&str, &str),
    status: StatusCode,
    kind: Option<&HeaderValue>,
    body: &Value,
) -> Option<&'static str> {
    let document = document().await;
    let paths = document["paths"].as_object().expect("paths");
    let (_, item) = paths.iter().find(|(template, _)| matches(template, path))?;
    let operation = item.get(method.to_ascii_lowercase())?;
    let route = format!("{method} {path}");
    let response = &operation["responses"][status.as_str()];
    assert!(response.is_object(), "{route}: status {status} is not documented: {body}");
    match (response["content"].as_object(), kind) {
        (None, None) => {}
        (Some(content), Some(kind)) => {
            let kind = kind.to_str().expect("text").split(';').next().expect("a media type");
            let schema = content.get(kind).unwrap_or_else(|| panic!("{route}: {kind}"));
            let schema = &schema["schema"];
            if let Err(problem) = (Validator { document }).check(schema, body, "") {
                panic!("{route}: {status}: {problem}\n{body:#}");
            }
        }
        (content, kind) => panic!("{route}: {status}: {kind:?}, but documented is {content:?}"),
    }
    Some(operation["operationId"].as_str().expect("an id"))
}

fn matches(template: &str, path: &str) -> bool {
    let path = path.split('?').next().expect("a path");
    // The name of a model may contain slashes.
    if let Some(models) = template.strip_suffix("{name}").filter(|rest| rest.ends_with("/models/"))
    {
        return path.strip_prefix(models).is_some_and(|name| !name.is_empty());
    }
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(part, found)| part.starts_with('{') || part == found)
}

/// Validates values by the part of JSON Schema that the document uses; another keyword fails.
struct Validator<'a> {
    document: &'a Value,
}

impl<'a> Validator<'a> {
    /// Checks a value, and that an object has no undocumented fields.
    fn check(&self, schema: &'a Value, value: &Value, at: &str) -> Result<(), String> {
        self.conforms(schema, value, at)?;
        let (known, Value::Object(fields)) = (self.fields(schema), value) else { return Ok(()) };
        match fields.keys().find(|name| !known.is_empty() && !known.contains(name.as_str())) {
            Some(name) => Err(format!("{at}.{name} is not documented")),
            None => Ok(()),
        }
    }

    /// Returns the names of the fields that a schema and its parts document.
    fn fields(&self, schema: &'a Value) -> BTreeSet<&'a str> {
        let own = schema["properties"].as_object().into_iter().flatten();
        let mut names: BTreeSet<&str> = own.map(|(name, _)| name.as_str()).collect();
        let parts = ["allOf", "oneOf", "anyOf"].map(|word| schema[word].as_array());
        let parts = parts.into_iter().flatten().flatten();
        parts.chain(self.referenced(schema)).for_each(|part| names.extend(self.fields(part)));
        names
    }

    fn referenced(&self, schema: &'a Value) -> Option<&'a Value> {
        let pointer = schema["$ref"].as_str()?.strip_prefix('#').expect("within the document");
        self.document.pointer(pointer)
    }

    fn conforms(&self, schema: &'a Value, value: &Value, at: &str) -> Result<(), String> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, wanted) in keywords {
            let list = || wanted.as_array().expect("a list").iter();
            let is_so = match keyword.as_str() {
                "$ref" => {
                    self.conforms(self.referenced(schema).expect("a schema"), value, at)?;
                    true
                }
                "type" => match wanted {
                    Value::Array(kinds) => kinds.iter().any(|kind| is_kind(value, kind)),
                    kind => is_kind(value, kind),
                },
                "enum" => list().any(|one| one == value),
                "const" => wanted == value,
                "minimum" => {
                    number(value).is_none_or(|found| found >= number(wanted).expect("one"))
                }
                "maximum" => {
                    number(value).is_none_or(|found| found <= number(wanted).expect("one"))
                }
                "allOf" => list().all(|part| self.conforms(part, value, at).is_ok()),
                "anyOf" => list().any(|part| self.conforms(part, value, at).is_ok()),
                "oneOf" => list().filter(|part| self.check(part, value, at).is_ok()).count() == 1,
                "required" => {
                    list().all(|name| value.get(name.as_str().expect("a name")).is_some())
                }
                "properties" => {
                    for (name, part) in wanted.as_object().expect("fields") {
                        if let Some(field) = value.get(name) {
                            self.check(part, field, &format!("{at}.{name}"))?;
                        }
                    }
                    true
                }
                "items" => {
                    for (index, element) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(wanted, element, &format!("{at}[{index}]"))?;
                    }
                    true
                }
                "additionalProperties" if wanted.is_object() => {
                    for (name, field) in value.as_object().into_iter().flatten() {
                        self.check(wanted, field, &format!("{at}.{name}"))?;
                    }
                    true
                }
                // `check` takes no field that is not documented.
                "additionalProperties" | "propertyNames" => true,
                "description" | "example" | "examples" | "default" | "format" | "title" => true,
                other => panic!("{at}: the validator does not know {other}"),
            };
            if !is_so {
                return Err(format!("{at}: {value} is not {keyword} {wanted}"));
            }
        }
        Ok(())
    }
}

fn is_kind(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a name") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    }
}

/// Returns a number exactly.
fn number(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

#[test]
fn the_validator_finds_what_differs() {
    let document = json!({"S": {"type": "object", "required": ["a"], "properties": {
        "a": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
        "b": {"oneOf": [{"type": "null"}, {"type": "array", "items": {"enum": ["x", "y"]}}]},
    }}});
    let schema = json!({"allOf": [{"$ref": "#/S"}, {"properties": {"c": {"type": "string"}}}]});
    let check = |value: Value| Validator { document: &document }.check(&schema, &value, "");
    for right in
        [json!({"a": 9}), json!({"a": null, "b": ["x"], "c": ""}), json!({"a": 0, "b": null})]
    {
        assert_eq!(check(right.clone()), Ok(()), "{right}");
    }
    for wrong in [
        json!(1),
        json!({}),
        json!({"a": 10}),
        json!({"a": -1}),
        json!({"a": "1"}),
        json!({"a": 1, "b": ["z"]}),
        json!({"a": 1, "c": 2}),
        json!({"a": 1, "d": 2}),
    ] {
        assert!(check(wrong.clone()).is_err(), "{wrong}");
    }
}

/// Calls routes, and notes the operations that answered.
struct Caller {
    world: World,
    succeeded: BTreeSet<&'static str>,
    failed: BTreeSet<(&'static str, u16)>,
}

impl Caller {
    async fn expect(&mut self, line: &str, body: Option<Value>, expected: u16) -> Value {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let answered = self.world.call(method, path, body).await;
        assert_eq!(answered.status, expected, "{line}: {}", answered.body);
        let id = answered.operation.unwrap_or_else(|| panic!("{line} is not in the document"));
        if expected < 300 {
            self.succeeded.insert(id);
        } else {
            self.failed.insert((id, expected));
        }
        answered.body
    }
}

#[tokio::test]
async fn every_route_answers_as_documented_also_with_errors() {
    let world = World::new();
    let mut runner = Runner::registered(&world, "gpu-1", &[80, 80]).await;
    let mut caller = Caller { world, succeeded: BTreeSet::new(), failed: BTreeSet::new() };
    let registration = json!(runner.registration());
    caller.expect("PUT /api/v1/runners/gpu-1", Some(registration.clone()), 200).await;
    caller.expect("PUT /api/v1/runners/gpu%2F1", Some(registration), 400).await;
    let command = json!({"command": {"argv": ["serve", "--port={port}"], "ready": "/health"}});
    let declared = json!({"memory": ["20GiB", 21474836480_u64], "runtime": command.clone(), "priority": -1,
        "where": {"required": {"labels": {"pool": "text"}}}, "tensor_parallel": [2]});
    caller.expect("PUT /api/v1/models/org/two:8b", Some(declared), 201).await;
    let declared = json!({"memory": "20GiB", "runtime": command, "concurrency": 2});
    caller.expect("PUT /api/v1/models/one", Some(declared.clone()), 201).await;
    caller.expect("PUT /api/v1/models/one", Some(declared), 200).await;
    caller.expect("PUT /api/v1/models/one", Some(json!({"memory": "x"})), 400).await;
    caller.expect("PUT /api/v1/models/one", Some(json!({"runtime": {"ollama": {}}})), 422).await;
    caller.expect("GET /api/v1/models", None, 200).await;
    caller.expect("GET /api/v1/models?limit=0", None, 400).await;
    caller.expect("GET /api/v1/models/one", None, 200).await;
    caller.expect("GET /api/v1/models/none", None, 404).await;
    let body = json!({"model": "one", "namespace": "n", "name": "p", "key": "k", "lease": "1h"});
    let reservation = caller.expect("POST /api/v1/scheduler/slots", Some(body), 202).await;
    let pending = json!({"model": "org/two:8b"});
    caller.expect("POST /api/v1/scheduler/slots", Some(pending), 202).await;
    caller.expect("POST /api/v1/scheduler/slots", Some(json!({"model": "none"})), 404).await;
    caller.expect("POST /api/v1/scheduler/slots", Some(json!({"modle": "one"})), 400).await;
    runner.settle(&caller.world).await;
    for list in [
        "runners",
        "scheduler/slots",
        "scheduler/queue",
        "scheduler/decisions",
        "scheduler/reservations?status=all",
    ] {
        let rows = caller.expect(&format!("GET /api/v1/{list}"), None, 200).await;
        assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()), "{list}: {rows}");
        let separator = if list.contains('?') { '&' } else { '?' };
        caller.expect(&format!("GET /api/v1/{list}{separator}limit=x"), None, 400).await;
    }
    caller.expect("GET /api/v1/scheduler/accounts", None, 200).await;
    let beat = json!({"session": 1, "sequence": 1, "devices": [{"index": 0, "used": 1}]});
    caller.expect("POST /api/v1/runners/gpu-1/heartbeat", Some(beat.clone()), 200).await;
    caller.expect("POST /api/v1/runners/gpu-9/heartbeat", Some(beat), 404).await;
    caller.expect("GET /api/v1/runners/gpu-1/status", None, 200).await;
    caller.expect("GET /api/v1/runners/gpu-9/status", None, 404).await;
    caller.expect("GET /api/v1/runners/gpu-1/work?session=1", None, 200).await;
    caller.expect("GET /api/v1/runners/gpu-1/work?session=-1", None, 400).await;
    caller.expect("GET /api/v1/runners/gpu-9/work", None, 404).await;
    caller.expect("DELETE /api/v1/runners/gpu-1", None, 409).await;
    caller.expect("GET /api/v1/namespaces/n/pods/p/schedulerlog", None, 200).await;
    caller.expect("GET /api/v1/namespaces/n/pods/q/schedulerlog", None, 404).await;
    let decisions = caller.expect("GET /api/v1/scheduler/decisions?limit=1", None, 200).await;
    let id = decisions[0]["id"].as_str().expect("an id").to_string();
    caller.expect(&format!("GET /api/v1/scheduler/decisions/{id}"), None, 200).await;
    caller.expect("GET /api/v1/scheduler/decisions/999.0", None, 404).await;
    caller.expect("GET /api/v1/scheduler/decisions/x", None, 400).await;
    let whatif = json!({"model": "org/two:8b"});
    caller.expect("POST /api/v1/scheduler/whatif", Some(whatif), 200).await;
    caller.expect("POST /api/v1/scheduler/whatif", Some(json!({"model": "none"})), 404).await;
    let id = reservation["id"].as_str().expect("an id").to_string();
    caller.expect(&format!("GET /api/v1/scheduler/slots/{id}"), None, 200).await;
    caller.expect("GET /api/v1/scheduler/slots/slot-1", None, 200).await;
    caller.expect("GET /api/v1/scheduler/slots/slot-99", None, 404).await;
    operated(&mut caller).await;
    let renew = format!("POST /api/v1/scheduler/reservations/{id}/renew");
    caller.expect(&renew, None, 200).await;
    caller.expect("POST /api/v1/scheduler/reservations/reservation-99/renew", None, 404).await;
    caller.expect(&format!("DELETE /api/v1/scheduler/slots/{id}"), None, 204).await;
    caller.expect(&renew, None, 409).await;
    caller.expect("DELETE /api/v1/scheduler/slots/slot-1", None, 202).await;
    caller.expect("DELETE /api/v1/scheduler/slots/slot-99", None, 404).await;
    caller.expect("DELETE /api/v1/models/one", None, 204).await;
    caller.expect("DELETE /api/v1/models/one", None, 404).await;
    caller.expect("DELETE /api/v1/runners/gpu-9", None, 404).await;
    caller.expect("GET /api/v1/events?after=x", None, 400).await;
    assert!(caller.failed.len() > 20, "{:?}", caller.failed);
    let paths = document().await["paths"].as_object().expect("paths");
    let operations = paths.values().flat_map(|item| item.as_object().expect("operations").values());
    let all: BTreeSet<&str> =
        operations.filter_map(|operation| operation["operationId"].as_str()).collect();
    let missing: Vec<&&str> = all.difference(&caller.succeeded).collect();
    // A stream does not end, and only a runner that is gone can be removed.
    assert_eq!(missing, [&"remove_runner", &"stream_events"]);
}

/// Calls the routes for operators, while slot-1 is busy on gpu-1.
async fn operated(caller: &mut Caller) {
    caller.expect("GET /api/v1/activity", None, 200).await;
    caller.expect("GET /api/v1/activity?after=x", None, 400).await;
    for verb in ["cordon", "drain", "uncordon"] {
        caller.expect(&format!("POST /api/v1/runners/gpu-1/{verb}"), Some(json!({})), 200).await;
        caller.expect(&format!("POST /api/v1/runners/gpu-9/{verb}"), Some(json!({})), 404).await;
    }
    caller.expect("DELETE /api/v1/scheduler/slots/slot-1?if_idle=true", None, 409).await;
    caller.expect("GET /api/v1/scheduler/slots?ended=true", None, 200).await;
    caller.expect("GET /api/v1/scheduler/slots/slot-1/log?lines=0", None, 400).await;
    caller.expect("GET /api/v1/scheduler/slots/slot-99/log", None, 404).await;
    caller.expect("GET /api/v1/runners/gpu-1/log-requests", None, 200).await;
    let answer = Some(json!({"from": 0, "next": 3, "text": "hi\n"}));
    caller.expect("POST /api/v1/runners/gpu-1/log-requests/99", answer.clone(), 204).await;
    let world = &caller.world;
    let agent = async {
        let path = "/api/v1/runners/gpu-1/log-requests?wait=10s";
        let requests = world.call("GET", path, None).await.body;
        let path = format!("/api/v1/runners/gpu-1/log-requests/{}", requests[0]["id"]);
        world.call("POST", &path, answer).await
    };
    let log = world.call("GET", "/api/v1/scheduler/slots/slot-1/log", None);
    let (log, _) = tokio::join!(log, agent);
    assert_eq!(log.body["text"], "hi\n");
    caller.succeeded.extend(log.operation);
}

#[tokio::test]
async fn an_integer_beyond_the_documented_bounds_is_rejected_with_its_field() {
    let world = World::new();
    let document = document().await;
    let of = |schema: &str, field: &str| {
        document["components"]["schemas"][schema]["properties"][field].clone()
    };
    assert_eq!(of("Declaration", "concurrency")["maximum"], u32::MAX);
    assert_eq!(of("Heartbeat", "sequence")["maximum"], u64::MAX);
    for (field, value) in [
        ("concurrency", json!(u64::from(u32::MAX) + 1)),
        ("concurrency", json!(-1)),
        ("gpus", json!(70_000)),
        ("priority", json!(i64::from(i32::MAX) + 1)),
        ("context", json!(-1)),
    ] {
        let mut body = json!({"memory": "1GiB", "runtime": {"command": {"argv": ["serve"]}}});
        body[field] = value;
        let answered = world.call("PUT", "/api/v1/models/m", Some(body)).await;
        assert_eq!((answered.status.as_u16(), &answered.body["field"]), (400, &field.into()));
    }
}
