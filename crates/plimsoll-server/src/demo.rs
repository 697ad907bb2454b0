//! The demo: simulated runners and a changing load on the real engine.

mod chance;
mod crowd;
mod narrator;
mod rig;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use plimsoll_core::units::Millis;
use plimsoll_slots::model::{Declaration, Model};
use plimsoll_slots::size::Span;

use super::config::Config;
use crate::SlotEngine as Engine;
use plimsoll_engine::engine::NoAnswer;

pub(crate) use narrator::Narrator;

use chance::Chance;
use crowd::Crowd;

/// The interval at which simulated runners and clients act.
const PACE: Duration = Duration::from_millis(200);

/// The minimum residency of a slot in the demo.
const RESIDENCY: Span = Span::seconds(2);

/// Returns the declared models of the demo.
fn models() -> Vec<Model> {
    const MODELS: &str = include_str!("demo/models.yaml");
    let declared: Vec<Declaration> =
        serde_saphyr::from_str(MODELS).expect("the demo's models are well formed");
    declared
        .into_iter()
        .map(|model| Model::try_from(model).expect("the demo's models make sense"))
        .collect()
}

/// A directory that goes when this does.
pub struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed is left to the system's cleanup of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Turns a configuration into that of the demo: its models, a quick pace, and a temporary data
/// directory, so that simulated data never mixes with real data.
pub fn prepare(config: &mut Config) -> Result<Scratch> {
    config.models.get_or_insert_with(models);
    config.settings.residency = RESIDENCY.into();
    let dir = std::env::temp_dir().join(format!("plimsoll-demo-{}", std::process::id()));
    DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("could not create {} for the demo's data", dir.display()))?;
    config.data.clone_from(&dir);
    Ok(Scratch(dir))
}

/// Plays runners and users until the server stops.
pub(crate) async fn play(engine: Engine) -> Result<(), NoAnswer> {
    let mut chance = Chance::new(7);
    let mut runners = rig::fleet(now());
    // Users come once every runner has reported what runs on it.
    for runner in &mut runners {
        rig::register(&engine, runner).await?;
        rig::beat(&engine, runner, now(), &mut chance).await?;
    }
    let mut crowd = Crowd::default();
    let mut pace = tokio::time::interval(PACE);
    loop {
        pace.tick().await;
        for runner in &mut runners {
            rig::beat(&engine, runner, now(), &mut chance).await?;
        }
        crowd.act(&engine, &mut chance).await?;
    }
}

/// Returns the time of the simulated runners.
fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
