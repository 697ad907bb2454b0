//! Runners that report what nobody expected: whatever it is, it is counted, and nothing else is harmed.

use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{PlaceStatus, RunnerError};
use plimsoll_slots::wire::{DeviceStatus, OnDevice, Process as Seen, SlotState};

use crate::world::{GIB, Machine, Process, World, registration};

fn running(model: &str, generation: u64, used: &[(u16, u64)]) -> Process {
    let used =
        used.iter().map(|(index, gib)| OnDevice { index: *index, bytes: gib * GIB }).collect();
    Process {
        generation,
        model: model.to_string(),
        state: SlotState::Running,
        booked: Vec::new(),
        used,
    }
}

fn put(world: &mut World, runner: &str, slot: &str, process: Process) {
    world.machines.get_mut(runner).expect("a runner").processes.insert(slot.to_string(), process);
}

#[test]
fn a_report_does_not_take_the_place_of_a_slot_that_waits_under_the_same_name() {
    let mut world = World::new(Policy::spread());
    world.model("b", "memory: 60GiB");
    let place = world.ask("b");
    world.machines.insert("r".to_string(), Machine::default());
    put(&mut world, "r", "slot-1", running("a", 57, &[(0, 70)]));
    world.runner("r", &[80]);
    world.settle();
    assert_eq!(
        world.status(place),
        PlaceStatus::Waiting,
        "it is not served by what serves another model"
    );
    assert_eq!(world.load("r", 0), 70 * GIB);
    assert_eq!(
        world.desk.orders("r").orders[0].generation,
        57,
        "it is ordered under the number that its runner knows"
    );
    world.machines.get_mut("r").expect("there").processes.get_mut("slot-1").expect("there").state =
        SlotState::Gone;
    world.settle();
    world.restart();
    world.settle();
    assert!(world.status(place).is_ready());
}

#[test]
fn nothing_new_goes_to_a_runner_before_it_has_said_what_it_has() {
    let mut world = World::new(Policy::spread());
    world.model("b", "memory: 70GiB");
    let place = world.ask("b");
    let now = world.now();
    let orders =
        world.desk.register(now, "r", registration("r", world.now, &[80])).expect("it registers");
    assert!(orders.orders.is_empty());
    assert_eq!(world.status(place), PlaceStatus::Waiting);
}

#[test]
fn foreign_memory_stays_counted_beside_a_slot_whose_use_is_not_measured() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 50GiB");
    world.runner("r", &[80]);
    world.machines.get_mut("r").expect("there").measured = Some(vec![30 * GIB]);
    world.settle();
    world.ask("m");
    let orders = world.desk.orders("r");
    world.machines.get_mut("r").expect("there").obey(&orders, true);
    world
        .machines
        .get_mut("r")
        .expect("there")
        .processes
        .get_mut("slot-1")
        .expect("there")
        .used
        .clear();
    world.say("r");
    assert_eq!(world.load("r", 0), 80 * GIB, "30 foreign and 50 booked");
}

#[test]
fn what_a_slot_uses_on_a_device_that_it_was_not_booked_on_is_counted_there() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 10GiB\nwhere: {required: {indices: [0]}}");
    world.runner("r", &[80, 80]);
    world.machines.get_mut("r").expect("there").measured = Some(vec![0, 0]);
    world.ask("m");
    world.settle();
    let used = &mut world
        .machines
        .get_mut("r")
        .expect("there")
        .processes
        .get_mut("slot-1")
        .expect("there")
        .used;
    used.push(OnDevice { index: 1, bytes: 40 * GIB });
    world.settle();
    assert_eq!((world.load("r", 0), world.load("r", 1)), (10 * GIB, 40 * GIB));
}

#[test]
fn declared_foreign_memory_counts_where_nothing_is_measured() {
    let mut world = World::new(Policy::spread());
    world.runner("r", &[80]);
    let mut beat = world.machines.get_mut("r").expect("there").heartbeat();
    let process = Seen { pid: 0, name: Some("declared".to_string()), bytes: Some(50 * GIB) };
    let (used, utilisation, stale_for) = (None, None, None);
    beat.devices =
        vec![DeviceStatus { index: 0, used, utilisation, foreign: vec![process], stale_for }];
    world.desk.beat(world.now(), "r", beat).expect("it is registered");
    assert_eq!(world.load("r", 0), 50 * GIB);
}

#[test]
fn a_slot_on_a_device_that_is_not_there_is_charged_where_it_is_and_closes_the_rest() {
    let mut world = World::new(Policy::spread());
    world.model("m", "memory: 1GiB");
    world.runner("r", &[80]);
    put(&mut world, "r", "odd", running("odd", 1, &[(0, 70), (7, 5)]));
    world.settle();
    assert_eq!(world.load("r", 0), 70 * GIB);
    let place = world.ask("m");
    assert_eq!(world.status(place), PlaceStatus::Waiting);
}

#[test]
fn two_runners_with_a_slot_of_one_name_each_keep_their_own() {
    let mut world = World::new(Policy::spread());
    world.runner("r1", &[80]);
    world.runner("r2", &[80]);
    put(&mut world, "r1", "y", running("m", 1, &[(0, 30)]));
    put(&mut world, "r2", "y", running("m", 1, &[(0, 20)]));
    world.settle();
    assert_eq!((world.load("r1", 0), world.load("r2", 0)), (30 * GIB, 20 * GIB));
    for runner in ["r1", "r2"] {
        world
            .machines
            .get_mut(runner)
            .expect("there")
            .processes
            .get_mut("y")
            .expect("there")
            .state = SlotState::Gone;
        world.settle();
    }
    assert_eq!((world.load("r1", 0), world.load("r2", 0), world.desk.slots().count()), (0, 0, 0));
}

#[test]
fn a_slot_with_an_absurd_number_or_name_does_not_spoil_those_to_come() {
    let mut world = World::new(Policy::spread());
    world.model("d", "memory: 1GiB");
    world.model("e", "memory: 1GiB");
    world.runner("r", &[80]);
    put(&mut world, "r", "slot-18446744073709551615", running("odd", 1, &[(0, 1)]));
    world.settle();
    let (d, e) = (world.ask("d"), world.ask("e"));
    world.settle();
    assert!(world.status(d).is_ready() && world.status(e).is_ready());
    assert!(world.desk.slot("slot-1").is_some() && world.desk.slot("slot-2").is_some());
    put(&mut world, "r", "", running("odd", 1, &[]));
    assert!(refused(&mut world).contains("slots[].slot"));
}

fn refused(world: &mut World) -> String {
    let beat = world.machines.get_mut("r").expect("there").heartbeat();
    match world.desk.beat(world.now(), "r", beat) {
        Err(RunnerError::BadReport { problem }) => problem,
        other => panic!("it is taken: {other:?}"),
    }
}

#[test]
fn a_runner_that_makes_names_up_without_end_is_refused() {
    let mut world = World::new(Policy::spread());
    world.runner("r", &[80]);
    for crowd in 0..4 {
        world.machines.get_mut("r").expect("there").processes.clear();
        for number in 0..1024 {
            put(&mut world, "r", &format!("s-{crowd}-{number}"), running("odd", 1, &[]));
        }
        world.say("r");
    }
    put(&mut world, "r", "one-more", running("odd", 1, &[]));
    world.machines.get_mut("r").expect("there").processes.remove("s-3-0");
    assert!(
        refused(&mut world).contains("1 slots are reported that nobody knows, beside 4096 others")
    );
    assert_eq!(world.desk.slots().count(), 4096);
}
