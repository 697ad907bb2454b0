//! The demo's runners: their loads take time, fail now and then, and release memory late.

use plimsoll_core::units::{Millis, Timespan};
use plimsoll_engine::engine::NoAnswer;
use plimsoll_slots::reconcile::Correction;
use plimsoll_slots::simulated_runner::{Delay, SimulatedRunner, Telemetry};
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::Order;

use super::Chance;
use crate::SlotEngine as Engine;

const GIB: u64 = 1 << 30;
/// The load speed in bytes per millisecond: faster than real disks, so that a viewer need not wait.
const LOAD_SPEED: u64 = 24 * GIB / 1000;

/// Returns the runners of the demo; `now` is their session.
pub(super) fn fleet(now: Millis) -> Vec<SimulatedRunner> {
    let mut fleet = vec![
        SimulatedRunner::with_gpus("demo-a100", "NVIDIA A100 80GB PCIe", &[80, 80])
            .label("pool", "text"),
        SimulatedRunner::with_gpus("demo-l40s", "NVIDIA L40S", &[48]).label("pool", "images"),
        SimulatedRunner::with_gpus("demo-l4", "NVIDIA L4", &[24]).label("pool", "small"),
    ];
    for runner in &mut fleet {
        runner.restart_agent(now.0);
        runner.registration_mut().version = env!("CARGO_PKG_VERSION").to_string();
        runner.conduct.telemetry = Telemetry::On;
    }
    fleet
}

/// Registers a runner.
pub(super) async fn register(
    engine: &Engine,
    runner: &mut SimulatedRunner,
) -> Result<(), NoAnswer> {
    let (name, registration) = (runner.name().to_string(), runner.registration());
    let orders = engine.write(move |desk, core| desk.register(core, &name, registration)).await?;
    runner.take_orders(orders.unwrap_or_default());
    Ok(())
}

/// Lets a runner carry out its orders, and reports its state.
pub(super) async fn beat(
    engine: &Engine,
    runner: &mut SimulatedRunner,
    now: Millis,
    chance: &mut Chance,
) -> Result<(), NoAnswer> {
    let fails = chance.happens(40);
    runner.conduct.failure =
        fails.then(|| "the simulated server exited with status 1: simulated failure".to_string());
    runner.conduct.load = Delay::Lasts(Span(300));
    runner.conduct.stop = Delay::Lasts(Span(chance.between(600, 2500)));
    for correction in runner.carry_out(now) {
        if let Correction::Start(order) = correction {
            extend_load(runner, &order);
        }
    }
    if chance.happens(10) {
        runner.set_foreign(0, chance.between(0, 4) * GIB, Some("notebook"));
    }
    let (name, beat) = (runner.name().to_string(), runner.heartbeat(now));
    let orders = engine.write(move |desk, core| desk.heartbeat(core, &name, beat)).await?;
    runner.take_orders(orders.unwrap_or_default());
    Ok(())
}

/// Extends the load time of a slot that was just started by the time that its bytes take.
fn extend_load(runner: &mut SimulatedRunner, order: &Order) {
    if let Some(process) = runner.process_mut(&order.slot) {
        let bytes: u64 = process.booked.iter().map(|on| on.bytes).sum();
        process.next =
            process.next.map(|(at, state)| (at.after(Timespan::millis(bytes / LOAD_SPEED)), state));
    }
}
