//! Forecasts of pending slots: what is known of their start, and what is not.

use plimsoll_core::evict::Endless;
use plimsoll_core::forecast::{ExpectedStart, Forecast, Pause};
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Millis, Timespan};
use plimsoll_slots::desk::{DeskConfig, ReservationId, ReservationState};

use super::fairness::Stream;
use super::world::World;

/// Returns the forecast of the slot of a reservation; `None` once it has GPUs.
fn forecast(world: &World, id: ReservationId) -> Option<Forecast> {
    let view = world.view();
    let ReservationState::Seated { slot, .. } = &view.reservation(id)?.state else { return None };
    let request = view.slot(slot)?.request();
    view.scheduler().forecasts(Millis(world.now)).of(&request)
}

fn start(world: &World, id: ReservationId) -> ExpectedStart {
    forecast(world, id).expect("it is pending").start
}

#[test]
fn a_wait_behind_a_busy_stream_is_bounded_and_never_overdue() {
    for (clients, large) in [(4, "memory: 74GiB"), (12, "memory: 140GiB\ntensor_parallel: [2]")] {
        let config = DeskConfig::default();
        let mut world = World::with_residency(Policy::spread(), config, Timespan::ZERO);
        let small = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        small.iter().for_each(|name| world.model(name, "memory: 20GiB"));
        world.model("large", large);
        world.runner("r", &[80, 80]);
        let mut stream = Stream::new(world, &small, clients, 1000, 0);
        stream.run(20_000);
        let id = stream.world.reserve("large");
        let mut bounded = 0;
        for _ in 0..100 {
            let Some(forecast) = forecast(&stream.world, id) else { break };
            let start = forecast.start;
            // Only while an older request has the promise of retired holders is there no bound.
            let is_after_another = matches!(start, ExpectedStart::AfterRequest { .. });
            assert!(start.is_bounded() || is_after_another, "{start:?}");
            assert_eq!(start.overdue(Millis(stream.world.now)), Timespan::ZERO, "{start:?}");
            bounded += u32::from(start.is_bounded());
            stream.step();
        }
        assert!(stream.world.is_ready(id) || forecast(&stream.world, id).is_none());
        assert!(bounded > 0, "no forecast had a bound");
    }
}

#[test]
fn holders_that_never_leave_for_a_request_are_named_with_the_reason() {
    for (holder, expected) in [
        ("pinned: true", Endless::Pinned),
        ("priority: 5\nidle_limit: 1h", Endless::HigherPriority { priority: 5 }),
    ] {
        let holder = format!("memory: 60GiB\n{holder}");
        let mut world = World::with(&[("a", &holder), ("b", "memory: 60GiB")], &[80]);
        let first = world.reserve("a");
        world.settle();
        assert!(world.is_ready(first));
        // It is idle, and stays: it may be used again at any time.
        world.release(first);
        let id = world.reserve("b");
        world.pass(1000);
        let ExpectedStart::NoBound { holders, more: 0 } = start(&world, id) else {
            panic!("{:?}", start(&world, id))
        };
        assert_eq!(holders.len(), 1);
        assert_eq!(holders[0].reason, expected);
    }
}

#[test]
fn a_pause_and_a_request_ahead_are_different_answers() {
    let models = [("a", "memory: 60GiB"), ("b", "memory: 60GiB"), ("c", "memory: 60GiB")];
    let mut world =
        World::with_residency(Policy::pack(), DeskConfig::default(), Timespan::seconds(30));
    models.iter().for_each(|(name, rest)| world.model(name, rest));
    world.runner("r", &[80]);
    let a = world.reserve("a");
    world.settle();
    let b = world.reserve("b");
    let c = world.reserve("c");
    assert!(matches!(start(&world, b), ExpectedStart::AfterWork { requests: 1, .. }));
    let slot_of_b = forecast(&world, c).expect("it is pending").ahead.first[0].clone();
    assert_eq!(start(&world, c), ExpectedStart::AfterRequest { request: slot_of_b });
    world.release(a);
    let ExpectedStart::By { at, .. } = start(&world, b) else { panic!("{:?}", start(&world, b)) };
    assert_eq!(at, Millis(world.now).after(Timespan::seconds(10)), "the grace of the model");
    world.release(c);
    world.settle();
    assert!(world.is_ready(b));
    // The model a was evicted, and displaces holders of its priority only after the residency.
    let again = world.reserve("a");
    let ExpectedStart::NotBefore { pause: Pause::Residency, at } = start(&world, again) else {
        panic!("{:?}", start(&world, again))
    };
    assert!(at > Millis(world.now));
}
