//! The API in-process: a router, a real store, and runners that follow a script.

mod agents;
mod asking;
mod contract;
mod decisions;
mod events;
mod evictions;
mod incident;
mod leases;
mod log;
mod operating;
mod pages;
mod reservations;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use plimsoll_core::event::Settings;
use plimsoll_core::front::{Core, Front};
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Timespan;
use plimsoll_slots::desk::{Desk, DeskConfig, PendingLimits};
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::{
    Action, DeviceFacts, DeviceStatus, FactsSource, Heartbeat, Launch, OnDevice, Orders,
    Registration, SlotReport, SlotState, Welcome,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use super::AppState;
use crate::SlotEngine as Engine;
use crate::config::http::Limits;
use crate::front::{self, Gate};
use crate::guard::Guard;
use crate::guard::tokens::Tokens;
use crate::schedulerlog;
use plimsoll_engine::recovery;
use plimsoll_engine::store::History;

const GIB: u64 = 1 << 30;

/// A server without a socket.
struct World {
    router: Router,
    app: AppState,
    engine: Engine,
    dir: TempDir,
}

/// Returns the API behind the guard of a server without tokens.
fn served(app: AppState) -> Router {
    served_to(app, Tokens::default())
}

/// Returns the API behind the guard of a server with these tokens.
fn served_to(app: AppState, tokens: Tokens) -> Router {
    let guard = Arc::new(Guard::new(tokens, Limits::default(), Arc::default()));
    let gate = Gate::default();
    gate.open(super::router(super::routes(app, &guard)));
    front::router(gate, guard)
}

/// An answer, read to its end.
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
    /// The id of the operation in the OpenAPI document, if it has one.
    operation: Option<&'static str>,
}

impl World {
    fn new() -> World {
        World::with(&settings(), DeskConfig::default(), schedulerlog::Settings::default())
    }

    /// Spreading instead of packing.
    fn spreading() -> World {
        let settings = Settings { policy: Policy::spread(), ..settings() };
        World::with(&settings, DeskConfig::default(), schedulerlog::Settings::default())
    }

    fn with(settings: &Settings, config: DeskConfig, log: schedulerlog::Settings) -> World {
        let dir = tempfile::tempdir().expect("a directory");
        World::on(dir, settings, config, log)
    }

    fn on(
        dir: TempDir,
        settings: &Settings,
        config: DeskConfig,
        log: schedulerlog::Settings,
    ) -> World {
        let app = AppState::new(log);
        let (desk, clock, store) =
            recovery::open(dir.path(), Desk::new(config), settings).expect("a data directory");
        let (engine, _thread) =
            Engine::start(desk, clock, store, app.observers()).expect("a thread");
        app.open(engine.clone(), History::open(dir.path()).expect("a journal"));
        World { router: served(app.clone()), app, engine, dir }
    }

    async fn send(&self, mut request: Request<Body>) -> Answered {
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
        let (method, path) = (request.method().to_string(), request.uri().to_string());
        let response = self.router.clone().oneshot(request).await.expect("a router answers");
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("a body");
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).expect("JSON")
        };
        if head.status.is_client_error() || head.status.is_server_error() {
            assert_eq!(head.headers[header::CONTENT_TYPE], "application/problem+json", "{body}");
            assert_eq!(body["status"], head.status.as_u16(), "{body}");
            for key in ["type", "title", "detail", "code"] {
                assert!(body[key].is_string(), "{key}: {body}");
            }
        }
        let kind = head.headers.get(header::CONTENT_TYPE);
        let operation = contract::check((&method, &path), head.status, kind, &body).await;
        Answered { status: head.status, headers: head.headers, body, operation }
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answered {
        let request = Request::builder().method(method).uri(path);
        let request = match body {
            Some(body) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_string())),
            None => request.body(Body::empty()),
        };
        self.send(request.expect("a request")).await
    }

    /// Returns the body of an answer that must succeed.
    async fn get(&self, path: &str) -> Value {
        let answered = self.call("GET", path, None).await;
        assert_eq!(answered.status, StatusCode::OK, "{path}: {}", answered.body);
        answered.body
    }

    async fn post(&self, path: &str, body: Value) -> Answered {
        self.call("POST", path, Some(body)).await
    }

    async fn delete(&self, path: &str) -> Answered {
        self.call("DELETE", path, None).await
    }

    /// Declares a model with these fields besides its name and a command.
    async fn declare(&self, name: &str, fields: Value) {
        let mut body = json!({"runtime": {"command": {"argv": ["serve", "--port={port}"]}}});
        body.as_object_mut()
            .expect("an object")
            .extend(fields.as_object().expect("an object").clone());
        let answered = self.call("PUT", &format!("/api/v1/models/{name}"), Some(body)).await;
        assert!(answered.status.is_success(), "{}", answered.body);
    }

    /// Asks for a place, and gets it whatever it is.
    async fn ask(&self, model: &str) -> Value {
        let answered = self.post("/api/v1/scheduler/slots", json!({"model": model})).await;
        assert!(answered.status.is_success(), "{}", answered.body);
        answered.body
    }

    async fn reservation(&self, id: &Value) -> Value {
        self.get(&format!("/api/v1/scheduler/slots/{}", id.as_str().expect("an id"))).await
    }
}

/// Settings without a minimum residency, so that no test waits for a clock.
fn settings() -> Settings {
    Settings { residency: Timespan::ZERO, ..Settings::default() }
}

/// A runner that follows its orders at once, unless configured otherwise.
struct Runner {
    id: String,
    session: u64,
    sequence: u64,
    gpus: Vec<u64>,
    slots: BTreeMap<String, SlotReport>,
    used: BTreeMap<u16, u64>,
    /// Models whose start fails, with the reason.
    failing: BTreeMap<String, String>,
    /// Slots ignore orders to stop.
    lingers: bool,
    /// Slots stay starting.
    slow: bool,
}

impl Runner {
    /// A runner with GPUs of the given numbers of GiB.
    fn new(id: &str, gpus: &[u64]) -> Runner {
        Runner {
            id: id.to_string(),
            session: 1,
            sequence: 0,
            gpus: gpus.iter().map(|gib| gib * GIB).collect(),
            slots: BTreeMap::new(),
            used: BTreeMap::new(),
            failing: BTreeMap::new(),
            lingers: false,
            slow: false,
        }
    }

    /// One that has registered and said that nothing runs on it.
    async fn registered(world: &World, id: &str, gpus: &[u64]) -> Runner {
        let mut runner = Runner::new(id, gpus);
        runner.register(world).await;
        runner.beat(world).await;
        runner
    }

    fn registration(&self) -> Registration {
        let device = |(index, total): (usize, &u64)| DeviceFacts {
            model: Some("NVIDIA A100 80GB PCIe".to_string()),
            source: FactsSource::Nvml,
            ..DeviceFacts::new(format!("GPU-{}-{index}", self.id), *total)
        };
        Registration {
            session: self.session,
            sequence: self.sequence,
            version: "0.1.0".to_string(),
            labels: BTreeMap::new(),
            devices: self.gpus.iter().enumerate().map(device).collect(),
        }
    }

    async fn register(&self, world: &World) -> Welcome {
        let body = serde_json::to_value(self.registration()).expect("JSON");
        let answered = world.call("PUT", &format!("/api/v1/runners/{}", self.id), Some(body)).await;
        assert_eq!(answered.status, StatusCode::OK, "{}", answered.body);
        serde_json::from_value(answered.body).expect("a welcome")
    }

    /// Says what is so now, and gets what to do.
    async fn beat(&mut self, world: &World) -> Orders {
        self.sequence += 1;
        let device = |(index, used): (&u16, &u64)| DeviceStatus {
            index: *index,
            used: Some(*used),
            utilisation: Some(7),
            foreign: Vec::new(),
            stale_for: None,
        };
        let devices = self.used.iter().map(device).collect();
        let slots = self.slots.values().cloned().collect();
        let beat =
            Heartbeat { devices, ..Heartbeat::with_slots(self.session, self.sequence, slots) };
        let path = format!("/api/v1/runners/{}/heartbeat", self.id);
        let answered = world.post(&path, serde_json::to_value(beat).expect("JSON")).await;
        assert_eq!(answered.status, StatusCode::OK, "{}", answered.body);
        serde_json::from_value(answered.body).expect("orders")
    }

    /// Follows orders until none are left.
    async fn settle(&mut self, world: &World) {
        for _ in 0..8 {
            let orders = self.beat(world).await;
            let before = self.slots.clone();
            self.obey(&orders);
            if self.slots == before {
                return;
            }
        }
        panic!("{} does not come to rest", self.id);
    }

    fn obey(&mut self, orders: &Orders) {
        self.slots.retain(|slot, report| {
            !report.state.is_over() || orders.orders.iter().any(|order| order.slot == *slot)
        });
        for order in &orders.orders {
            let known = self.slots.get(&order.slot).map(|report| (report.state, report.generation));
            let state = match order.action {
                Action::Start
                    if known
                        .is_some_and(|(state, of)| state.is_over() && of == order.generation) =>
                {
                    continue;
                }
                Action::Start if self.failing.contains_key(&order.model) => SlotState::Failed,
                Action::Start if self.slow => SlotState::Starting,
                Action::Start | Action::Keep => SlotState::Running,
                Action::Stop if self.lingers => SlotState::Stopping,
                Action::Stop => SlotState::Gone,
            };
            let before = || self.slots.get(&order.slot).map(|report| report.booked.clone());
            let booked = order.launch.as_ref().map(Launch::booked).or_else(before);
            let report = SlotReport {
                slot: order.slot.clone(),
                generation: order.generation,
                model: order.model.clone(),
                state,
                reason: self.failing.get(&order.model).cloned(),
                endpoint: (state == SlotState::Running).then(|| format!("http://{}:8000", self.id)),
                booked: booked.expect("a slot that was not reported is ordered"),
                used: Vec::new(),
            };
            self.slots.insert(order.slot.clone(), report);
        }
    }
}

/// The strings at a key of each element.
fn column<'a>(rows: &'a Value, key: &str) -> Vec<&'a str> {
    let rows = rows.as_array().expect("a list");
    rows.iter().map(|row| row[key].as_str().unwrap_or_else(|| panic!("{key} of {row}"))).collect()
}

/// Waits until something is so, but not for ever.
async fn eventually(mut so: impl AsyncFnMut() -> bool) {
    for _ in 0..200 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never came to be so");
}
