//! Every short history of messages between the server and a runner: late, doubled, replayed, lost
//! and out of order, with kill -9 of both sides between any two of them. The desk and the simulated
//! runner are the real ones.
//!
//! A history is a sequence of [`Step`]s. All of them up to a length are run, from several starts.
//! The checks know the machine and the order in which its messages were sent, and ask the ledger
//! for no sum:
//!
//! - a heartbeat that was sent before a restart of the server changes nothing in the ledger, nor
//!   does any message that was sent before one that the server has taken;
//! - no process is started twice, and every process is charged;
//! - nothing is placed on the GPU beyond its memory, counting what the latest report said of
//!   processes of others;
//! - once messages arrive again, the ledger agrees with the machine.

use std::collections::BTreeSet;

use plimsoll_core::charge::{Charge, Stage};
use plimsoll_core::device::Health;
use plimsoll_core::event::Settings;
use plimsoll_core::front::{Core, Front, Host, Recovery};
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Bytes, Millis, Name, Timespan};
use plimsoll_slots::desk::{
    Desk, DeskConfig, DeskView, NewReservation, ReservationId, ReservationStatus, RunnerError,
};
use plimsoll_slots::reconcile::Correction;
use plimsoll_slots::simulated_runner::{Conduct, SimulatedProcess, SimulatedRunner, Telemetry};
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::{Heartbeat, Orders, Registration};

use super::world::{GIB, model};

const RUNNER: &str = "r";
const GPU: u64 = 80;
const FOREIGN: u64 = 60;
/// Two models that do not fit together, and neither beside the memory of others.
const MODELS: [&str; 2] = ["a", "b"];
const SIZE: &str = "memory: 45GiB\nidle_limit: 0s";
/// The latest messages of each direction that can arrive again.
const KEPT: usize = 3;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The runner carries out its orders, reports, and gets its answer at once.
    Exchange,
    /// The same, and the answer stays on the way.
    ExchangeWithoutAnswer,
    /// The runner carries out its orders and reports; the message stays on the way.
    Send,
    /// A message arrives at the server, for the first time or again.
    Deliver(usize),
    /// An answer arrives at the runner, for the first time or again.
    Answer(usize),
    KillServer,
    KillAgent,
    /// A process of others appears on the GPU or ends.
    ToggleForeign,
    /// The health of the GPU changes, so that the runner registers again.
    ToggleHealth,
    /// The client releases its model and reserves the other one.
    Swap,
    /// The process of a slot ends by itself.
    EndProcess,
}

#[derive(Clone, Debug)]
enum Body {
    Register(Registration),
    Heartbeat(Heartbeat),
}

/// A message of the runner.
#[derive(Clone, Debug)]
struct Request {
    body: Body,
    number: u64,
    agent: u64,
    /// The number of starts of the server when it was sent.
    server_starts: u32,
    /// The GiB of others on the GPU when it was sent.
    foreign: u64,
}

#[derive(Clone, Debug)]
struct Response {
    number: u64,
    agent: u64,
    /// The registration that it answers.
    registered: Option<Registration>,
    orders: Result<Orders, RunnerError>,
}

/// The agent and the number of a message, which order the messages of a runner.
type Sent = (u64, u64);

/// The server, the runner and the messages between them.
#[derive(Clone)]
struct World {
    host: Host<Desk>,
    now: u64,
    server_starts: u32,
    runner: SimulatedRunner,
    agent: u64,
    is_registered: bool,
    foreign: u64,
    requests: Vec<Request>,
    responses: Vec<Response>,
    reservation: Option<(usize, ReservationId)>,
    started: BTreeSet<(String, u64)>,
    latest_heartbeat: Sent,
    latest_registration: Sent,
    /// The GiB of others in the latest heartbeat that a server has taken.
    known_foreign: u64,
}

impl World {
    fn new() -> World {
        let settings = Settings {
            policy: Policy::pack(),
            serial_starts: true,
            telemetry_for: None,
            residency: Timespan::ZERO,
            ..Settings::default()
        };
        let config = DeskConfig { lease: Span::seconds(600), ..DeskConfig::default() };
        let mut runner = SimulatedRunner::with_gpus(RUNNER, "NVIDIA A100", &[GPU]);
        runner.conduct = Conduct { telemetry: Telemetry::On, ..Conduct::default() };
        let mut world = World {
            host: Host::new(Desk::new(config), settings),
            now: 1_000_000,
            server_starts: 1,
            runner,
            agent: 1,
            is_registered: false,
            foreign: 0,
            requests: Vec::new(),
            responses: Vec::new(),
            reservation: None,
            started: BTreeSet::new(),
            latest_heartbeat: (0, 0),
            latest_registration: (0, 0),
            known_foreign: 0,
        };
        for name in MODELS {
            let model = model(name, SIZE);
            world.call(|desk, core| desk.declare_model(core, model)).expect("nothing is placed");
        }
        world
    }

    /// Returns the world after these steps.
    fn after(steps: &[Step]) -> World {
        let mut world = World::new();
        for step in steps {
            world.take(*step).expect("the start of the histories is right");
        }
        world.keep_latest();
        world
    }

    fn view(&self) -> DeskView<'_> {
        self.host.front().view(self.host.scheduler())
    }

    /// Returns the steps that are possible now.
    fn steps(&self) -> Vec<Step> {
        let always = [
            Step::Exchange,
            Step::ExchangeWithoutAnswer,
            Step::Send,
            Step::KillServer,
            Step::KillAgent,
            Step::ToggleForeign,
            Step::ToggleHealth,
            Step::Swap,
        ];
        let mut steps = always.to_vec();
        if self.living().next().is_some() {
            steps.push(Step::EndProcess);
        }
        steps.extend((0..self.requests.len()).map(Step::Deliver));
        steps.extend((0..self.responses.len()).map(Step::Answer));
        steps
    }

    /// Takes one step; returns what is wrong with it.
    fn take(&mut self, step: Step) -> Result<(), String> {
        self.now += 100;
        self.call(Front::tick)?;
        match step {
            Step::Exchange => {
                self.exchange_without_answer()?;
                self.answer(self.responses.len() - 1);
            }
            Step::ExchangeWithoutAnswer => self.exchange_without_answer()?,
            Step::Send => self.send()?,
            Step::Deliver(index) => self.deliver(index)?,
            Step::Answer(index) => self.answer(index),
            Step::KillServer => self.kill_server()?,
            Step::KillAgent => {
                self.agent += 1;
                self.is_registered = false;
                self.runner.restart_agent(self.agent);
            }
            Step::ToggleForeign => {
                self.foreign = FOREIGN - self.foreign;
                self.runner.set_foreign(0, self.foreign * GIB, Some("python"));
            }
            Step::ToggleHealth => {
                let gpu = &mut self.runner.registration_mut().devices[0];
                gpu.healthy = !gpu.healthy;
                self.is_registered = false;
            }
            Step::Swap => self.swap()?,
            Step::EndProcess => {
                let slot = self.living().next().map(|(slot, _)| slot.clone());
                self.runner.end_process(&slot.expect("a process lives"), "exit status 137");
            }
        }
        self.check_machine()
    }

    fn exchange_without_answer(&mut self) -> Result<(), String> {
        self.send()?;
        self.deliver(self.requests.len() - 1)
    }

    fn send(&mut self) -> Result<(), String> {
        let now = Millis(self.now);
        for correction in self.runner.carry_out(now) {
            if let Correction::Start(order) = correction
                && !self.started.insert((order.slot.clone(), order.generation))
            {
                return Err(format!("{} is started twice", order.slot));
            }
        }
        self.runner.advance(now);
        let body = if self.is_registered {
            Body::Heartbeat(self.runner.report())
        } else {
            self.runner.send_request();
            Body::Register(self.runner.registration())
        };
        self.requests.push(Request {
            body,
            number: self.runner.last_request(),
            agent: self.agent,
            server_starts: self.server_starts,
            foreign: self.foreign,
        });
        Ok(())
    }

    /// The server takes a message and makes it durable before its answer leaves.
    fn deliver(&mut self, index: usize) -> Result<(), String> {
        let Request { body, number, agent, server_starts, foreign } = self.requests[index].clone();
        let sent = (agent, number);
        let (orders, registered, is_outdated) = match body {
            Body::Heartbeat(beat) => {
                let is_outdated =
                    sent <= self.latest_heartbeat || server_starts < self.server_starts;
                if !is_outdated && self.is_heard(&beat) {
                    (self.latest_heartbeat, self.known_foreign) = (sent, foreign);
                }
                let before = self.host.scheduler().snapshot();
                let orders = self.call(|desk, core| desk.heartbeat(core, RUNNER, beat))?;
                (orders, None, is_outdated && before != self.host.scheduler().snapshot())
            }
            Body::Register(registration) => {
                let is_outdated = sent < self.latest_registration;
                self.latest_registration = self.latest_registration.max(sent);
                let registered = Some(registration.clone());
                let before = self.host.scheduler().snapshot();
                let orders = self.call(|desk, core| desk.register(core, RUNNER, registration))?;
                (orders, registered, is_outdated && before != self.host.scheduler().snapshot())
            }
        };
        self.responses.push(Response { number, agent, registered, orders });
        match is_outdated {
            true => Err(format!("message {number} of agent {agent} is outdated and was believed")),
            false => Ok(()),
        }
    }

    /// Returns true if the server takes a heartbeat: its session is registered, and the runner has
    /// an answer of this start of the server.
    fn is_heard(&self, beat: &Heartbeat) -> bool {
        let (now, epoch) = (Millis(self.now), beat.epoch);
        let mut host = self.host.clone();
        let orders = host.with(now, |desk, core| desk.heartbeat(core, RUNNER, beat.clone()));
        orders.is_ok_and(|orders| epoch == Some(orders.epoch))
    }

    fn answer(&mut self, index: usize) {
        let Response { number, agent, registered, orders } = self.responses[index].clone();
        if agent != self.agent {
            return;
        }
        match orders {
            Ok(orders) => {
                self.is_registered |= registered == Some(self.runner.registration());
                self.runner.take_answer(number, orders);
            }
            Err(RunnerError::NotRegistered) => self.is_registered = false,
            Err(_) => {}
        }
    }

    /// Everything that was answered is durable. The server comes back with that, and with nothing
    /// else.
    fn kill_server(&mut self) -> Result<(), String> {
        let config = self.view().config().clone();
        let recovery = Recovery::from_checkpoint(Desk::new(config), self.host.checkpoint());
        self.host = recovery.map_err(|error| error.to_string())?.finish();
        self.server_starts += 1;
        Ok(())
    }

    fn swap(&mut self) -> Result<(), String> {
        let next = match self.reservation.take() {
            Some((model, id)) => {
                self.call(|desk, core| desk.release(core, id))?;
                1 - model
            }
            None => 0,
        };
        let new = NewReservation::of_model(MODELS[next]);
        let id = self.call(|desk, core| desk.reserve(core, new))?;
        self.reservation = Some((next, id.map_err(|error| error.to_string())?));
        Ok(())
    }

    /// Makes a call durable; returns what is wrong with what it placed.
    fn call<R>(&mut self, call: impl FnOnce(&mut Desk, &mut Core<'_>) -> R) -> Result<R, String> {
        let before = self.unstarted();
        let result = self.host.with(Millis(self.now), call);
        let _ = self.host.batch();
        self.host.committed();
        if let Some(placed) = self.unstarted().difference(&before).next() {
            let holdings = self.host.scheduler().ledger().holdings();
            let charges = holdings.flat_map(|(_, holding)| &holding.charges);
            let held: u64 = charges.filter_map(Charge::bytes).map(Bytes::get).sum();
            let known = self.known_foreign * GIB;
            if held + known > GPU * GIB {
                return Err(format!("{placed} is placed with {held} held and {known} of others"));
            }
        }
        Ok(result)
    }

    /// Returns the slots that are placed and have not been seen running.
    fn unstarted(&self) -> BTreeSet<Name> {
        let holdings = self.host.scheduler().ledger().holdings();
        let unstarted =
            holdings.filter(|(_, one)| matches!(one.stage, Stage::Queued | Stage::Sent));
        unstarted.map(|(_, holding)| holding.request.name.clone()).collect()
    }

    fn living(&self) -> impl Iterator<Item = (&String, &SimulatedProcess)> {
        self.runner.processes().iter().filter(|(_, process)| !process.state.is_over())
    }

    fn check_machine(&self) -> Result<(), String> {
        let booked = self.living().flat_map(|(_, process)| &process.booked);
        let booked: u64 = booked.map(|on| on.bytes).sum();
        if booked > GPU * GIB {
            return Err(format!("the ordered processes use {booked} bytes"));
        }
        let view = self.view();
        let is_charged = |slot: &str| view.slot(slot).is_some_and(|s| view.holding(s).is_some());
        match self.living().find(|(slot, _)| !is_charged(slot)) {
            Some((slot, _)) => Err(format!("{slot} runs and holds nothing")),
            None => Ok(()),
        }
    }

    /// Messages arrive again; then the ledger must agree with the machine.
    fn check_settled(mut self) -> Result<(), String> {
        for _ in 0..10 {
            self.take(Step::Exchange)?;
        }
        let view = self.view();
        let ledger = view.scheduler().ledger();
        let node = ledger.view_of(RUNNER).ok_or("the runner is not known")?;
        let foreign = node.room.devices()[0].foreign().get();
        if foreign != self.foreign * GIB {
            return Err(format!("the ledger has {foreign} bytes of others, not {}", self.foreign));
        }
        if (node.node.devices[0].health == Health::Healthy) != self.is_healthy() {
            return Err("the ledger has another health of the GPU than the runner".to_string());
        }
        let living: BTreeSet<&str> = self.living().map(|(slot, _)| slot.as_str()).collect();
        let held: BTreeSet<&str> = ledger.holdings().map(|(_, one)| &*one.request.name).collect();
        if living != held {
            return Err(format!("{living:?} run and {held:?} are charged"));
        }
        let is_open = self.foreign == 0 && self.is_healthy();
        match self.reservation.and_then(|(_, id)| view.reservation_status(id)) {
            Some(ReservationStatus::Pending | ReservationStatus::Starting { .. }) if is_open => {
                Err("a reservation is not served although its slot fits".to_string())
            }
            _ => Ok(()),
        }
    }

    fn is_healthy(&self) -> bool {
        self.runner.registration().devices[0].healthy
    }

    /// Forgets the messages that cannot arrive any more.
    fn keep_latest(&mut self) {
        let requests = self.requests.len().saturating_sub(KEPT);
        self.requests.drain(..requests);
        let responses = self.responses.len().saturating_sub(KEPT);
        self.responses.drain(..responses);
    }
}

/// The histories that were run.
#[derive(Debug, Default)]
struct Explored {
    histories: usize,
    steps: usize,
    restarts: usize,
    replays: usize,
}

impl Explored {
    /// Runs all histories of a length from a world.
    fn explore(&mut self, world: &World, path: &mut Vec<Step>, length: usize) {
        if length == 0 {
            self.histories += 1;
            let settled = world.clone().check_settled();
            return settled.unwrap_or_else(|wrong| panic!("{wrong}\nafter {path:?}"));
        }
        for step in world.steps() {
            path.push(step);
            let mut next = world.clone();
            next.take(step).unwrap_or_else(|wrong| panic!("{wrong}\nafter {path:?}"));
            next.keep_latest();
            self.steps += 1;
            self.restarts += usize::from(matches!(step, Step::KillServer | Step::KillAgent));
            self.replays += usize::from(matches!(step, Step::Deliver(_) | Step::Answer(_)));
            self.explore(&next, path, length - 1);
            path.pop();
        }
    }
}

/// Returns the length of the histories. `PLIMSOLL_TRIES` makes them longer, by one step for each
/// power of ten.
fn length() -> usize {
    let tries = std::env::var("PLIMSOLL_TRIES").ok().and_then(|tries| tries.parse::<u32>().ok());
    3 + tries.and_then(u32::checked_ilog10).unwrap_or(0) as usize
}

/// The worlds that histories start from.
const STARTS: [&[Step]; 5] = [
    &[Step::Swap, Step::Send],
    // A slot runs.
    &[Step::Exchange, Step::Exchange, Step::Swap, Step::Exchange, Step::Exchange],
    // Another slot waits for its end.
    &[
        Step::Exchange,
        Step::Exchange,
        Step::Swap,
        Step::Exchange,
        Step::Exchange,
        Step::Swap,
        Step::ExchangeWithoutAnswer,
    ],
    // Memory of others has come and gone, and the message that says so was overtaken.
    &[Step::Exchange, Step::Exchange, Step::Send, Step::ToggleForeign, Step::Exchange, Step::Swap],
    // The GPU has become unhealthy, and an earlier registration is on the way.
    &[Step::Send, Step::Exchange, Step::Exchange, Step::ToggleHealth, Step::Exchange, Step::Swap],
];

#[test]
fn no_outdated_message_is_believed_in_any_short_history() {
    let mut explored = Explored::default();
    for start in STARTS {
        explored.explore(&World::after(start), &mut Vec::new(), length());
    }
    assert!(explored.histories > 1_000 && explored.restarts > 100, "{explored:?}");
    assert!(explored.replays > 500, "{explored:?}");
    println!("{explored:?}");
}
