//! Leases: a reservation whose client does not renew it ends, and a restart gives one full lease.

use plimsoll_slots::desk::{
    Ending, IdempotencyKey, NewReservation, RenewError, ReservationId, ReservationStatus,
};
use plimsoll_slots::lease::Lease;
use plimsoll_slots::size::Span;

use crate::world::{World, key};

const MODELS: [(&str, &str); 1] = [("m", "memory: 60GiB\nconcurrency: 2")];
const MINUTE: u64 = 60_000;

fn reserve_with(world: &mut World, lease: &str) -> ReservationId {
    let lease = Some(lease.parse().expect("a lease"));
    let new = NewReservation { lease, ..NewReservation::of_model("m") };
    world.call(|desk, core| desk.reserve(core, new)).expect("the model is declared")
}

fn renew(world: &mut World, id: ReservationId) -> Result<(), RenewError> {
    world.call(|desk, core| desk.renew(core, id))
}

/// Minutes pass; the runner goes on reporting.
fn pass_minutes(world: &mut World, minutes: u64) {
    for _ in 0..minutes * 6 {
        world.report("r");
        world.pass(MINUTE / 6);
    }
}

fn has_expired(world: &World, id: ReservationId) -> bool {
    matches!(world.status(id), ReservationStatus::Ended(Ending::LeaseExpired { .. }))
}

#[test]
fn a_reservation_ends_when_its_client_does_not_renew_its_lease() {
    let mut world = World::with(&MODELS, &[80]);
    let (gone, alive) = (world.serve("m"), world.serve("m"));
    for _ in 0..3 {
        pass_minutes(&mut world, 4);
        renew(&mut world, alive).expect("it has not ended");
    }
    assert!(has_expired(&world, gone), "{:?}", world.status(gone));
    assert_eq!(world.reason(gone), "released: the client did not renew its lease of 10m");
    assert_eq!(renew(&mut world, gone), Err(RenewError::Ended));
    assert_eq!(renew(&mut world, ReservationId(99)), Err(RenewError::Unknown));
    world.assert_ready(&[alive]);
    let slot = world.slot_of(alive);
    let view = world.view();
    let taken = view.slot(&slot).map(|slot| view.active_requests(slot));
    assert_eq!(taken, Some(1), "its unit of the slot is free again");
}

#[test]
fn the_unit_of_an_expired_reservation_goes_to_the_next_in_the_queue() {
    let mut world = World::with(&[("m", "memory: 60GiB")], &[80]);
    let gone = world.serve("m");
    let next = world.reserve_pending("m", "");
    for _ in 0..11 {
        pass_minutes(&mut world, 1);
        renew(&mut world, next).expect("it has not ended");
    }
    assert!(has_expired(&world, gone));
    world.assert_ready(&[next]);
}

#[test]
fn a_pending_reservation_has_a_lease_too_and_leaves_nothing_in_the_queue() {
    let mut world = World::with(&[("m", "memory: 60GiB"), ("n", "memory: 60GiB")], &[80]);
    let served = reserve_with(&mut world, "off");
    world.settle();
    world.assert_ready(&[served]);
    let gone = world.reserve_pending("n", "");
    pass_minutes(&mut world, 11);
    assert!(has_expired(&world, gone));
    assert!(world.host.scheduler().queue().is_empty(), "its slot is withdrawn");
}

#[test]
fn a_request_chooses_its_lease_or_none() {
    let mut world = World::with(&MODELS, &[80]);
    let (short, forever) = (reserve_with(&mut world, "90s"), reserve_with(&mut world, "off"));
    world.settle();
    let view = world.view();
    let lease = |id| view.reservation(id).map(|reservation| reservation.lease);
    assert_eq!(lease(short), Some(Lease::For(Span::seconds(90))));
    assert_eq!((lease(forever), view.lease_expiry(forever)), (Some(Lease::Off), None));
    let left = view.lease_expiry(short).map(|expiry| expiry.since(world.now()).as_millis());
    assert_eq!(left, Some(90_000 - 600), "settling takes 600 ms");
    pass_minutes(&mut world, 2);
    assert!(has_expired(&world, short));
    assert_eq!(world.view().lease_expiry(short), None);
    pass_minutes(&mut world, 60);
    world.assert_ready(&[forever]);
}

#[test]
fn a_restart_gives_every_client_one_full_lease() {
    let mut world = World::with(&MODELS, &[80]);
    let id = world.serve("m");
    pass_minutes(&mut world, 9);
    world.restart();
    // The server was down for much longer than the lease.
    world.now += 60 * MINUTE;
    world.runner("r", &[80]);
    pass_minutes(&mut world, 9);
    world.assert_ready(&[id]);
    pass_minutes(&mut world, 2);
    assert!(has_expired(&world, id));
}

#[test]
fn a_repeated_request_with_the_same_key_renews_the_lease() {
    let mut world = World::with(&MODELS, &[80]);
    let repeat = |world: &mut World| {
        let new = NewReservation { key: Some(key("k")), ..NewReservation::of_model("m") };
        world.call(|desk, core| desk.reserve(core, new)).expect("the model is declared")
    };
    let id = repeat(&mut world);
    world.settle();
    pass_minutes(&mut world, 9);
    assert_eq!(repeat(&mut world), id);
    pass_minutes(&mut world, 9);
    world.assert_ready(&[id]);
}

#[test]
fn the_same_key_of_another_caller_is_another_key_also_after_a_restart() {
    let mut world = World::with(&MODELS, &[80]);
    let reserve = |world: &mut World, caller: Option<&str>| {
        let key = IdempotencyKey { caller: caller.map(String::from), ..key("k") };
        let new = NewReservation { key: Some(key), ..NewReservation::of_model("m") };
        world.call(|desk, core| desk.reserve(core, new)).expect("the model is declared")
    };
    let callers = [None, Some("team-a"), Some("team-b")];
    let ids = callers.map(|caller| reserve(&mut world, caller));
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    world.restart();
    assert_eq!(callers.map(|caller| reserve(&mut world, caller)), ids);
}

#[test]
fn renewals_are_not_journalled() {
    let mut world = World::with(&MODELS, &[80]);
    let id = world.serve("m");
    world.commit();
    for _ in 0..100 {
        world.now += 10;
        renew(&mut world, id).expect("it has not ended");
    }
    assert!(world.host.batch().is_empty());
}
