//! A fleet to look at: simulated runners and a load that changes, on the real engine, so that a newcomer sees it decide.

mod chance;
mod crowd;
mod narrator;
mod rig;

use std::time::Duration;

use plimsoll_slots::model::{Declaration, Model};
use plimsoll_slots::size::Span;

use super::engine::{Engine, NoAnswer};

pub(crate) use narrator::Narrator;

use chance::Chance;
use crowd::Crowd;
use rig::Rig;

/// How often the simulated runners and users do something.
const PACE: Duration = Duration::from_millis(200);

/// How long a slot of the demo stays before it may be swapped out again.
pub(crate) const RESIDENCY: Span = Span::seconds(4);

/// The models of the demo, as anybody could declare them.
pub(crate) fn models() -> Vec<Model> {
    const MODELS: &str = include_str!("demo/models.yaml");
    let declared: Vec<Declaration> =
        serde_saphyr::from_str(MODELS).expect("the demo's models are well formed");
    declared.into_iter().map(|model| Model::try_from(model).expect("the demo's models make sense")).collect()
}

/// Plays runners and users until the server stops.
pub(crate) async fn play(engine: Engine) -> Result<(), NoAnswer> {
    let mut chance = Chance::new(7);
    let mut rigs = Rig::fleet();
    for rig in &mut rigs {
        rig.register(&engine).await?;
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
