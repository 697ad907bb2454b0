//! What orders hold, and what they leave out.

use plimsoll_core::policy::Policy;
use plimsoll_slots::wire::{Action, Order};

use crate::world::{World, registration};

fn order(world: &World) -> Order {
    let mut orders = world.desk.orders("r").orders;
    assert_eq!(orders.len(), 1);
    orders.remove(0)
}

#[test]
fn how_to_start_a_slot_is_told_until_its_runner_reports_it_and_again_to_an_agent_that_comes_anew() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let _ = world.ask("m");
    let told = order(&world);
    assert_eq!((told.action, told.model.as_str()), (Action::Start, "m"));
    assert!(told.launch.is_some());
    world.say("r");
    assert_eq!(order(&world), told, "it is not reported yet");
    world.beat("r");
    let kept = order(&world);
    assert_eq!(kept, Order { action: Action::Keep, launch: None, ..told.clone() });
    world.restart();
    assert_eq!(
        order(&world).launch,
        told.launch,
        "nobody has said anything yet since the server started"
    );
    world.say("r");
    assert_eq!(order(&world).launch, None);
    // Another agent may have lost what the one before it was told.
    let later = world.now + 1;
    world
        .desk
        .register(world.now(), "r", registration("r", later, &[80]))
        .expect("it may register");
    assert_eq!(order(&world).launch, told.launch);
    let machine = world.machines.get_mut("r").expect("there");
    (machine.session, machine.sequence) = (later, 0);
    world.say("r");
    assert_eq!(order(&world), kept);
}

#[test]
fn a_slot_that_is_reported_no_more_is_told_again() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB");
    world.runner("r", &[80]);
    let _ = world.ask("m");
    world.beat("r");
    assert_eq!(order(&world).launch, None);
    world.machines.get_mut("r").expect("there").processes.clear();
    world.say("r");
    assert!(order(&world).launch.is_some());
}
