//! No request starves: streams of small requests beside requests for whole GPUs, on a virtual
//! clock. The bound is that of `evict::retire`.

use plimsoll_core::policy::Policy;
use plimsoll_core::units::Timespan;
use plimsoll_slots::desk::{DeskConfig, ReservationId};

use super::world::World;

/// The time between two steps of a stream, in which every runner reports once.
pub(crate) const STEP: u64 = 100;

/// The steps that stopping the victims and starting a slot take: the order, the report of the end,
/// the order to start, the report of the start, and one for the tick between them.
pub(crate) const STOP_AND_START: u64 = 8 * STEP;

/// A client that reserves small models one after the other.
#[derive(Clone, Copy)]
struct Client {
    /// The model of the next reservation.
    next: usize,
    seat: Option<Seat>,
    idle_until: u64,
}

#[derive(Clone, Copy)]
struct Seat {
    reservation: ReservationId,
    served_since: Option<u64>,
}

/// Small models that clients use all the time.
pub(crate) struct Stream {
    pub(crate) world: World,
    models: Vec<String>,
    clients: Vec<Client>,
    /// The time that a client uses a reservation.
    hold: u64,
    /// The time between two reservations of a client.
    pause: u64,
    served: usize,
}

impl Stream {
    pub(crate) fn new(
        world: World,
        models: &[&str],
        clients: usize,
        hold: u64,
        pause: u64,
    ) -> Stream {
        let client = |number| Client { next: number, seat: None, idle_until: 0 };
        Stream {
            world,
            models: models.iter().map(ToString::to_string).collect(),
            clients: (0..clients).map(client).collect(),
            hold,
            pause,
            served: 0,
        }
    }

    /// One step: clients end and make reservations, runners report, and time passes.
    pub(crate) fn step(&mut self) {
        for index in 0..self.clients.len() {
            let client = self.advance(self.clients[index]);
            self.clients[index] = client;
        }
        let runners: Vec<String> = self.world.machines.keys().cloned().collect();
        runners.iter().for_each(|runner| self.world.beat(runner));
        self.world.pass(STEP);
    }

    /// Iterates over the reservations of the clients, each with the time since when it is served.
    pub(crate) fn seats(&self) -> impl Iterator<Item = (ReservationId, Option<u64>)> {
        let seats = self.clients.iter().filter_map(|client| client.seat);
        seats.map(|seat| (seat.reservation, seat.served_since))
    }

    fn advance(&mut self, mut client: Client) -> Client {
        let now = self.world.now;
        match client.seat {
            None if client.idle_until <= now => {
                let model = &self.models[client.next % self.models.len()];
                let reservation = self.world.reserve(model);
                client.seat = Some(Seat { reservation, served_since: None });
            }
            None => {}
            Some(seat) => match seat.served_since {
                Some(since) if since + self.hold <= now => {
                    self.world.release(seat.reservation);
                    self.served += 1;
                    client =
                        Client { next: client.next + 1, seat: None, idle_until: now + self.pause };
                }
                None if self.world.is_ready(seat.reservation) => {
                    client.seat = Some(Seat { served_since: Some(now), ..seat });
                }
                _ => {}
            },
        }
        client
    }

    /// Returns the number of requests that were served and have ended.
    pub(crate) fn served(&self) -> usize {
        self.served
    }

    pub(crate) fn run(&mut self, millis: u64) {
        let until = self.world.now + millis;
        while self.world.now < until {
            self.step();
        }
    }

    /// Runs until a reservation is served; returns how long that took, or panics after `limit`.
    fn time_to_serve(&mut self, id: ReservationId, limit: u64) -> u64 {
        let began = self.world.now;
        while !self.world.is_ready(id) {
            let waited = self.world.now - began;
            assert!(waited <= limit, "{id} waits for {waited} ms: {}", self.world.reason(id));
            self.step();
        }
        self.world.now - began
    }
}

const SMALL: &str = "memory: 20GiB";

fn small_models(large: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
        .into_iter()
        .map(|name| (name, SMALL))
        .chain([large])
        .collect()
}

fn world(policy: Policy, large: &'static str) -> World {
    let mut world = World::with_residency(policy, DeskConfig::default(), Timespan::seconds(30));
    for (name, rest) in small_models(("large", large)) {
        world.model(name, rest);
    }
    world.runner("r", &[80, 80]);
    world
}

const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Loads of about 30, 60 and 95 percent: the clients, and their pause after each use of a second.
const LOADS: [(usize, u64); 3] = [(4, 700), (6, 300), (12, 0)];

fn policies() -> [Policy; 2] {
    [Policy::pack(), Policy::spread()]
}

#[test]
fn h1_a_request_for_a_whole_gpu_starts_after_the_longest_request_in_flight() {
    for (clients, pause) in LOADS {
        for policy in policies() {
            let large = "memory: 74GiB";
            let mut stream = Stream::new(world(policy, large), &NAMES, clients, 1000, pause);
            stream.run(20_000);
            let id = stream.world.reserve("large");
            stream.time_to_serve(id, stream.hold + STOP_AND_START);
        }
    }
}

#[test]
fn h1_a_request_for_two_gpus_starts_after_the_longest_request_in_flight() {
    for (clients, pause) in LOADS.into_iter().chain([(1, 0)]) {
        for policy in policies() {
            let large = "memory: 140GiB\ntensor_parallel: [2]";
            let mut stream = Stream::new(world(policy, large), &NAMES, clients, 1000, pause);
            stream.run(20_000);
            let id = stream.world.reserve("large");
            stream.time_to_serve(id, stream.hold + STOP_AND_START);
            let served = stream.served;
            stream.world.release(id);
            // Their models were evicted, and wait for the residency.
            stream.run(35_000);
            assert!(stream.served > served, "the small requests are served again");
        }
    }
}

#[test]
fn several_large_requests_start_one_after_the_other() {
    for policy in policies() {
        let large = "memory: 74GiB\nmax_slots: 4";
        let mut stream = Stream::new(world(policy, large), &NAMES, 12, 1000, 0);
        stream.run(20_000);
        let ids = [(); 4].map(|()| stream.world.reserve("large"));
        for id in ids {
            stream.time_to_serve(id, 4 * (stream.hold + STOP_AND_START));
            stream.run(stream.hold);
            stream.world.release(id);
        }
    }
}

#[test]
fn nothing_is_evicted_on_the_node_for_later_requests_while_the_first_one_waits() {
    let mut stream = Stream::new(
        world(Policy::spread(), "memory: 140GiB\ntensor_parallel: [2]"),
        &NAMES,
        12,
        1000,
        0,
    );
    stream.run(20_000);
    let id = stream.world.reserve("large");
    // Memory that is being released was promised to the requests ahead of it.
    let promised = stream.world.view().scheduler().ledger().promises().len() as u64;
    let started = stream.world.starts();
    stream.time_to_serve(id, stream.hold + STOP_AND_START);
    assert!(stream.world.starts() <= started + promised, "only the large model was started");
}

#[test]
fn two_models_that_do_not_fit_together_take_turns() {
    let residency = 5_000;
    let config = DeskConfig::default();
    let mut world = World::with_residency(Policy::pack(), config, Timespan::millis(residency));
    world.model("a", "memory: 60GiB");
    world.model("b", "memory: 60GiB");
    world.runner("r", &[80]);
    let mut stream = Stream::new(world, &["a"], 2, 500, 0);
    stream.run(10_000);
    let first = stream.world.reserve("b");
    stream.time_to_serve(first, stream.hold + STOP_AND_START);
    stream.world.release(first);
    // From here on both are wanted all the time.
    stream.models = vec!["a".to_string(), "b".to_string()];
    stream.clients[1].next += 1;
    let (began, started) = (stream.world.now, stream.world.starts());
    stream.run(60_000);
    let swaps = stream.world.starts() - started;
    let most = 2 * (stream.world.now - began).div_ceil(residency);
    assert!((4..=most).contains(&swaps), "{swaps} swaps, at most {most} expected");
}

#[test]
fn a_pinned_slot_is_never_retired() {
    let models = [("a", "memory: 60GiB\npinned: true"), ("b", "memory: 60GiB")];
    let mut stream = Stream::new(World::with(&models, &[80]), &["a"], 1, 500, 0);
    stream.run(5_000);
    let id = stream.world.reserve("b");
    stream.run(20_000);
    stream.world.assert_pending(id, "pinned");
    assert!(stream.served > 30, "{} were served", stream.served);
}
