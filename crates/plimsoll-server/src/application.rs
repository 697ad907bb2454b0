//! What is served once the ledger is rebuilt: the API, and where it is wanted a fleet to look at.

use std::sync::Arc;

use anyhow::Result;

use super::api::{self, Parts};
use super::config::Config;
use super::demo::{self, Narrator};
use super::guard::Guard;
use super::life::Application;
use crate::SlotEngine as Engine;
use plimsoll_engine::store::History;

/// The API over a configuration; with simulated runners and users where a demonstration is wanted.
pub fn application(config: &Config, is_demo: bool) -> Result<Application> {
    let parts = Parts::new(config.schedulerlog);
    let mut observers = parts.observers();
    if is_demo {
        observers.push(Box::new(Narrator::default()));
    }
    let data = config.data.clone();
    let routes = move |engine: Engine, guard: &Arc<Guard>| {
        parts.open(engine.clone(), History::open(&data)?);
        if is_demo {
            tokio::spawn(demo::play(engine));
        }
        Ok(api::routes(parts, guard))
    };
    Ok(Application { observers, routes: Box::new(routes) })
}
