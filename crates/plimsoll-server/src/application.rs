//! The standalone server: the slots front end on a data directory, with its routes, and optionally
//! a simulated fleet.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use plimsoll_api::rows::{ReservationEndedRow, SlotNames};
use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::steps::Vocabulary;
use plimsoll_core::units::{Millis, Name};
use plimsoll_engine::recovery;
use plimsoll_engine::store::{History, Store};
use plimsoll_slots::desk::{Desk, Topic};
use plimsoll_slots::memory::Need;
use plimsoll_slots::model::Model;

use super::api::{self, AppState};
use super::config::Config;
use super::demo::{self, Narrator};
use super::guard::Guard;
use super::life::{Rebuilt, Service};
use super::metrics::slots::{EndingCounter, SlotGauges};
use super::metrics::waits::WaitTimes;
use super::served::{FrontGauges, ServedFront};
use crate::SlotEngine;

impl ServedFront for Desk {
    const VOCABULARY: Vocabulary = Vocabulary::Slots;

    type DecisionFacts = Vec<Need>;

    /// Returns the memory of a slot's model as it was declared when the slot was created, or as it
    /// is declared now if the slot was rejected at once and does not exist any more.
    fn decision_facts(&self, scheduler: &Scheduler, request: &RequestId) -> Vec<Need> {
        let desk = self.view(scheduler);
        let made_from = desk.slot(&request.name).and_then(|slot| slot.made_from.as_ref());
        let model = made_from.or_else(|| desk.model(&request.account));
        model.map(|model| desk.needs(model)).unwrap_or_default()
    }

    fn slot_names(request: Option<&RequestId>, node: Option<&Name>) -> SlotNames {
        SlotNames {
            model: request.map(|request| request.account.to_string()),
            slot_id: request.map(|request| request.name.to_string()),
            runner_id: node.map(ToString::to_string),
        }
    }

    fn start_failure(&self, scheduler: &Scheduler, request: &RequestId) -> Option<String> {
        let desk = self.view(scheduler);
        desk.slot(&request.name)?.life.failure.as_ref().map(ToString::to_string)
    }

    fn ended_reservations(
        &self,
        scheduler: &Scheduler,
        changed: &BTreeSet<Topic>,
    ) -> Vec<ReservationEndedRow> {
        let desk = self.view(scheduler);
        let changed = changed.iter().filter_map(|topic| match topic {
            Topic::Reservation(id) => desk.reservation(*id),
            Topic::Runner(_) => None,
        });
        changed.filter_map(api::ended_row).collect()
    }

    fn gauges(&self, scheduler: &Scheduler, now: Millis) -> Box<dyn FrontGauges> {
        Box::new(SlotGauges::copy(self, scheduler, now))
    }
}

/// The runners of a standalone server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fleet {
    /// Agents that connect to it.
    Real,
    /// Simulated runners and clients, for a demonstration.
    Simulated,
}

/// Returns the standalone server of a configuration.
///
/// # Errors
///
/// There is no data directory.
pub fn service(config: &Config, fleet: Fleet) -> Result<Service<Desk, Store>> {
    let app = AppState::new(config.schedulerlog);
    let mut observers = app.observers();
    if fleet == Fleet::Simulated {
        observers.push(Box::new(Narrator::to_stdout()));
    }
    let (endings, rejections) = (EndingCounter::default(), app.rejections().clone());
    observers.push(Box::new(endings.clone()));
    let waits = WaitTimes::default();
    observers.push(Box::new(waits.clone()));
    let (dir, desk) = (config.data_dir()?, config.desk.clone());
    let data = dir.clone();
    let (settings, models) = (config.settings.clone(), config.models.clone());
    let rebuild = move || {
        let (mut host, mut clock, journal) = recovery::open(&data, Desk::new(desk), &settings)?;
        let now = clock.now();
        host.configure(now, settings);
        if let Some(models) = &models {
            host.with(now, |desk, core| declare(desk, core, models));
        }
        host.audit(now);
        Ok(Rebuilt { host, clock, journal })
    };
    let data = dir.clone();
    let routes =
        move |engine: SlotEngine, guard: &Arc<Guard>| open(app, engine, &data, fleet, guard);
    Ok(Service {
        rebuild: Box::new(rebuild),
        observers,
        routes: Box::new(routes),
        counters: Box::new(move |registry| {
            endings.register(registry);
            rejections.register(registry);
            waits.register(registry);
        }),
        data: Some(dir),
        announce: match fleet {
            Fleet::Real => |_| (),
            Fleet::Simulated => demo::print_hints,
        },
        reviewer: None,
    })
}

fn open(
    app: AppState,
    engine: SlotEngine,
    data: &Path,
    fleet: Fleet,
    guard: &Arc<Guard>,
) -> Result<super::routes::Routes> {
    app.open(engine.clone(), History::open(data)?);
    if fleet == Fleet::Simulated {
        tokio::spawn(demo::play(engine));
    }
    Ok(api::routes(app, guard))
}

/// Declares the models of the configuration, and warns about other ones that an earlier run left.
fn declare(desk: &mut Desk, core: &mut Core<'_>, models: &[Model]) {
    for model in models {
        desk.declare_model(core, model.clone());
    }
    let desk = desk.view(core.scheduler());
    let others: Vec<&str> = desk
        .models()
        .map(|model| model.name())
        .filter(|name| models.iter().all(|model| model.name() != *name))
        .collect();
    if !others.is_empty() {
        let models = others.join(", ");
        tracing::warn!(
            models,
            "models are declared that are not in the configuration; delete them through the API"
        );
    }
}
