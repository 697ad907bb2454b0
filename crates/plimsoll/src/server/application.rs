//! What is served once the ledger is rebuilt: the API, and where it is wanted a fleet to look at.

use std::num::NonZeroUsize;

use anyhow::{Context, Result};

use super::api::{self, Parts};
use super::config::Config;
use super::demo::{self, Narrator};
use super::engine::Engine;
use super::life::Application;
use super::schedulerlog::Settings;
use crate::store::History;

/// The API over a configuration; with simulated runners and users where a demonstration is wanted.
pub(crate) fn application(config: &Config, is_demo: bool) -> Result<Application> {
    let most = NonZeroUsize::new(config.schedulerlog.max_pods);
    let max_pods = most.context("schedulerlog.max_pods is 0; write enabled: false to keep none")?;
    let parts = Parts::new(Settings { enabled: config.schedulerlog.enabled, max_pods });
    let mut observers = parts.observers();
    if is_demo {
        observers.push(Box::new(Narrator));
    }
    let data = config.data.clone();
    let router = move |engine: Engine| {
        parts.open(engine.clone(), History::open(&data)?);
        if is_demo {
            tokio::spawn(demo::play(engine));
        }
        Ok(api::router(parts))
    };
    Ok(Application { observers, router: Box::new(router) })
}
