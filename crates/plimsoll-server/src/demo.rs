//! A fleet to look at: simulated runners and a load that changes, on the real engine, so that a newcomer sees it decide.

mod chance;
mod crowd;
mod narrator;
mod rig;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_slots::model::{Declaration, Model};
use plimsoll_slots::size::Span;

use super::Engine;
use super::config::Config;
use plimsoll_engine::engine::NoAnswer;

pub(crate) use narrator::Narrator;

use chance::Chance;
use crowd::Crowd;
use rig::Rig;

/// How often the simulated runners and users do something.
const PACE: Duration = Duration::from_millis(200);

/// How long a slot of the demo stays before it may be swapped out again.
const RESIDENCY: Span = Span::seconds(2);

/// The models of the demo, as anybody could declare them.
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
        // What cannot be removed is left to whoever cleans the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Turns a configuration into that of the demo: its models, a quick pace, and data that goes when it ends. It has a directory of
/// its own, so that nothing simulated gets among what is real.
pub fn prepare(config: &mut Config) -> Result<Scratch> {
    config.models.get_or_insert_with(models);
    config.settings.residency = RESIDENCY.0;
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
    let mut rigs = Rig::fleet();
    // Nobody asks before every runner has said what runs on it.
    for rig in &mut rigs {
        rig.register(&engine).await?;
        rig.beat(&engine, &mut chance).await?;
    }
    let mut crowd = Crowd::default();
    let mut pace = tokio::time::interval(PACE);
    loop {
        pace.tick().await;
        for rig in &mut rigs {
            rig.beat(&engine, &mut chance).await?;
        }
        crowd.act(&engine, &mut chance).await?;
    }
}
