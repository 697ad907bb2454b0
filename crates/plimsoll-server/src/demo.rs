//! The demo: simulated runners and a changing load on the real engine.

mod chance;
mod crowd;
mod narrator;
mod rig;

use std::fs::DirBuilder;
use std::io::Write;
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
    config.data = Some(dir.clone());
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
    Crowd::settle(&engine).await?;
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

/// The slot that is pending from the beginning to the end: the demo starts a slot in advance, and
/// then those of the residents.
const PENDING_SLOT: &str = "slot-3";

/// Prints what to try while the demo runs.
pub(crate) fn print_hints(url: &str) {
    // A closed standard output must not stop the demo.
    let _ = anstream::stdout().write_all(hints(url).as_bytes());
}

fn hints(url: &str) -> String {
    let server = match url {
        "http://127.0.0.1:8080" => String::new(),
        url => format!(" --server {url}"),
    };
    format!(
        "\nTry in another terminal:
  plimsoll top{server}
  plimsoll queue{server}
  plimsoll explain{server} {PENDING_SLOT}
or open {url}/docs. Ctrl-C stops the demo and deletes its data.\n\n"
    )
}

/// Returns the time of the simulated runners.
fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::event::Settings;
    use plimsoll_core::front::Host;
    use plimsoll_core::policy::Policy;
    use plimsoll_slots::desk::{Desk, DeskConfig, SlotStage};

    use super::*;

    #[test]
    fn the_slot_that_the_hints_name_is_pending_and_stays_so() {
        let settings = Settings { policy: Policy::spread(), ..Settings::default() };
        let mut host = Host::new(Desk::new(DeskConfig::default()), settings);
        let mut at = now();
        host.with(at, |desk, core| {
            models().into_iter().for_each(|model| desk.declare_model(core, model));
        });
        let mut runners = rig::fleet(at);
        for runner in &mut runners {
            let (name, facts) = (runner.name().to_string(), runner.registration());
            host.with(at, |desk, core| desk.register(core, &name, facts)).expect("it is new");
        }
        let beat = |host: &mut Host<Desk>, runners: &mut Vec<_>, at: Millis| {
            for runner in runners.iter_mut() {
                let runner: &mut plimsoll_slots::simulated_runner::SimulatedRunner = runner;
                let _ = runner.carry_out(at);
                let (name, beat) = (runner.name().to_string(), runner.heartbeat(at));
                let orders = host.with(at, |desk, core| desk.heartbeat(core, &name, beat));
                runner.take_orders(orders.expect("it is registered"));
            }
        };
        beat(&mut host, &mut runners, at);
        for model in crowd::RESIDENTS {
            host.with(at, |desk, core| desk.reserve(core, crowd::resident(model)))
                .expect("declared");
        }
        for _ in 0..600 {
            at = Millis(at.0 + 1000);
            beat(&mut host, &mut runners, at);
            host.tick(at);
            let desk = host.front().view(host.scheduler());
            let slot = desk.slot(PENDING_SLOT).expect("it is there");
            assert_eq!(
                (slot.model.as_str(), desk.stage(slot)),
                ("video-studio", Some(SlotStage::Pending))
            );
        }
        assert!(hints("http://127.0.0.1:8080").contains("\n  plimsoll explain slot-3\n"));
        assert!(hints("http://h:9").contains("\n  plimsoll top --server http://h:9\n"));
    }
}
