//! The content of orders, and what they leave out.

use plimsoll_slots::wire::{Action, Order};

use crate::world::World;

fn order(world: &World) -> Order {
    let mut orders = world.orders("r").orders;
    assert_eq!(orders.len(), 1);
    orders.remove(0)
}

#[test]
fn a_launch_record_is_sent_until_the_runner_reports_the_slot_and_again_to_a_new_agent() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    world.reserve("m");
    let start = order(&world);
    assert_eq!((start.action, start.model.as_str()), (Action::Start, "m"));
    assert!(start.launch.is_some());
    world.report("r");
    assert_eq!(order(&world), start, "it is not reported yet");
    world.beat("r");
    let kept = order(&world);
    assert_eq!(kept, Order { action: Action::Keep, launch: None, ..start.clone() });
    world.restart();
    assert_eq!(order(&world).launch, start.launch, "the server has heard nothing since it started");
    world.report("r");
    assert_eq!(order(&world).launch, None);
    // Another agent may have lost the records of the one before it.
    let later = world.now + 1;
    world.machine("r").restart_agent(later);
    let registration = world.machine("r").registration();
    world.register("r", registration).expect("the registration is valid");
    assert_eq!(order(&world).launch, start.launch);
    world.report("r");
    assert_eq!(order(&world), kept);
}

#[test]
fn the_launch_record_of_a_slot_that_is_reported_no_more_is_sent_again() {
    let mut world = World::with(&[("m", "memory: 10GiB")], &[80]);
    world.reserve("m");
    world.beat("r");
    assert_eq!(order(&world).launch, None);
    world.machine("r").reset_machine();
    world.report("r");
    assert!(order(&world).launch.is_some());
}
