//! The limits on pending reservations.

use std::num::NonZeroU32;

use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{
    ClientName, DeskConfig, NewReservation, PendingLimit, PendingLimits, ReservationId,
    ReserveError,
};

use crate::world::{World, key};

/// A world with room for one slot of model `m`, with two units, and these limits.
fn world(total: u32, per_namespace: u32) -> World {
    let limit = |number| NonZeroU32::new(number).expect("at least 1");
    let pending = PendingLimits { total: limit(total), per_namespace: limit(per_namespace) };
    let config = DeskConfig { pending, ..DeskConfig::default() };
    let mut world = World::configured(Policy::spread(), config);
    world.model("m", "memory: 60GiB\nconcurrency: 2");
    world.model("other", "memory: 60GiB\neviction: never");
    world.runner("r", &[80]);
    world
}

fn reserve(
    world: &mut World,
    model: &str,
    namespace: Option<&str>,
) -> Result<ReservationId, ReserveError> {
    let name = |namespace: &str| ClientName { namespace: namespace.into(), name: "a".into() };
    let new = NewReservation { client: namespace.map(name), ..NewReservation::of_model(model) };
    world.call(|desk, core| desk.reserve(core, new))
}

fn rejected_by(limit: PendingLimit, most: u32) -> Result<ReservationId, ReserveError> {
    let most = NonZeroU32::new(most).expect("at least 1");
    Err(ReserveError::TooManyPending { limit, most })
}

#[test]
fn a_namespace_has_a_limit_of_its_own_and_all_share_one() {
    let mut world = world(5, 2);
    world.serve("m");
    world.serve("m");
    let team = |name: &str| PendingLimit::Namespace(Some(name.to_string()));
    for namespace in ["a", "b"] {
        for _ in 0..2 {
            reserve(&mut world, "m", Some(namespace)).expect("within the limits");
        }
        assert_eq!(reserve(&mut world, "m", Some(namespace)), rejected_by(team(namespace), 2));
    }
    reserve(&mut world, "m", None).expect("within the limits");
    assert_eq!(reserve(&mut world, "m", None), rejected_by(PendingLimit::Total, 5));
    let error = reserve(&mut world, "m", Some("a")).expect_err("rejected").to_string();
    let said = "too many pending reservations: the limit of namespace a (pending.per_namespace) is 2; \
                retry later, or release reservations that are not needed";
    assert_eq!(error, said);
}

#[test]
fn clients_without_a_namespace_share_one_limit() {
    let mut world = world(5, 1);
    world.serve("m");
    world.serve("m");
    reserve(&mut world, "m", None).expect("within the limits");
    assert_eq!(reserve(&mut world, "m", None), rejected_by(PendingLimit::Namespace(None), 1));
}

#[test]
fn a_served_a_released_or_an_expired_reservation_counts_no_more() {
    let mut world = world(1, 1);
    let (one, _) = (world.serve("m"), world.serve("m"));
    let pending = reserve(&mut world, "m", None).expect("within the limits");
    assert!(reserve(&mut world, "m", None).is_err());
    world.release(one);
    world.assert_ready(&[pending]);
    let second = reserve(&mut world, "m", None).expect("the first is served");
    assert!(reserve(&mut world, "m", None).is_err());
    world.release(second);
    reserve(&mut world, "m", None).expect("the second is released");
    world.pass(600_000);
    assert_eq!(world.view().pending_reservations(), 0, "its lease has expired");
}

#[test]
fn a_reservation_in_a_slot_without_gpus_is_pending_and_stays_counted_after_a_restart() {
    let mut world = world(1, 1);
    world.serve("m");
    let pending = reserve(&mut world, "other", None).expect("within the limits");
    world.assert_pending(pending, "needs 60.0 GiB");
    assert!(reserve(&mut world, "other", None).is_err());
    world.restart();
    assert!(reserve(&mut world, "other", None).is_err());
}

#[test]
fn a_full_backlog_rejects_no_request_that_finds_room_in_a_slot() {
    let mut world = world(1, 1);
    world.serve("m");
    reserve(&mut world, "other", None).expect("within the limits");
    let joined = reserve(&mut world, "m", None).expect("slot-1 has room");
    world.assert_ready(&[joined]);
}

#[test]
fn a_rejected_request_is_not_journalled_and_a_retry_with_a_known_key_is_not_rejected() {
    let mut world = world(1, 1);
    world.serve("m");
    let with_key = NewReservation { key: Some(key("k")), ..NewReservation::of_model("other") };
    let id = world.call(|desk, core| desk.reserve(core, with_key.clone())).expect("within limits");
    world.commit();
    let next = world.host.next_numbers();
    for _ in 0..1_000 {
        assert!(reserve(&mut world, "other", None).is_err());
    }
    assert!(world.host.batch().is_empty());
    assert_eq!(world.host.next_numbers(), next);
    assert_eq!(world.call(|desk, core| desk.reserve(core, with_key)), Ok(id));
}
