//! One day: clients, machines and messages in virtual time around the server under test.

use plimsoll_core::units::{Millis, Timespan};
use plimsoll_slots::desk::{ReservationId, RunnerError};
use plimsoll_slots::wire::Orders;

use super::clients::Clients;
use super::counters::Counter;
use super::fleet::{Fleet, GpuIdentity};
use super::leases::LeaseWatch;
use super::machine::Machine;
use super::profile::{self, Mode, Profile};
use super::random::Random;
use super::schedule::{Occurrence, RequestKind, Schedule};
use super::server::Server;
use super::{DayReport, Finding, Log, Options, Sabotage, invariants, models};

const DAY: Millis = Millis(24 * 3_600_000);
/// Events between two checks of what runs against what is charged.
const CHECK_PROCESSES_EVERY: u64 = 16;
/// Events between two checks of the desk's invariants.
const CHECK_DESK_EVERY: u64 = 128;

/// An answer that leaves the server.
#[derive(Debug)]
pub(super) enum Answer {
    Reserved(ReservationId),
    Released(ReservationId),
    Orders {
        kind: RequestKind,
        machine: usize,
        agent: u64,
        number: u64,
        orders: Box<Result<Orders, RunnerError>>,
    },
}

/// One day.
#[derive(Debug)]
pub(crate) struct Day {
    pub(super) random: Random,
    pub(super) now: Millis,
    /// The difference of the server's clock, which grows with every start of the server.
    skew: u64,
    /// The number of starts of the server.
    pub(super) starts: u64,
    pub(super) schedule: Schedule,
    pub(super) machines: Vec<Machine>,
    pub(super) fleet: Fleet,
    pub(super) server: Server<Answer>,
    pub(super) clients: Clients,
    pub(super) leases: LeaseWatch,
    client_count: usize,
    pub(super) profile: Profile,
    pub(super) options: Options,
    /// The last session of an agent.
    pub(super) agents: u64,
    pub(super) unknown_processes: u64,
    log: Vec<String>,
}

impl Day {
    pub(crate) fn new(options: Options) -> Self {
        let mut random = Random::new(options.seed);
        let profile = Profile::draw(&mut random);
        let config = profile::draw_config(&mut random, &profile);
        let settings = profile::draw_settings(&mut random);
        let mut fleet = Fleet::default();
        let count = random.between(1, 7);
        let mut machines = Vec::new();
        for index in 0..count {
            let identity = if random.percent(80) { GpuIdentity::Uuid } else { GpuIdentity::Index };
            let runner = fleet.runner(&mut random, &format!("r{index}"), identity);
            machines.push(Machine::new(runner, identity, index + 1));
        }
        let client_count = usize::try_from(count * profile.clients).expect("a small number");
        let mut server = Server::new(random.fork(), config, settings, options.sabotage);
        server.crash_one_in = profile.crash_one_in;
        let mut day = Day {
            random,
            now: Millis(0),
            skew: 0,
            starts: 1,
            schedule: Schedule::default(),
            machines,
            fleet,
            server,
            clients: Clients::default(),
            leases: LeaseWatch::default(),
            client_count,
            profile,
            options,
            agents: count,
            unknown_processes: 0,
            log: Vec::new(),
        };
        day.begin();
        day
    }

    /// Declares models and schedules what happens first.
    fn begin(&mut self) {
        for name in models::names() {
            if self.random.percent(70) {
                self.declare(name);
            }
        }
        self.schedule.add(Millis(0), Occurrence::Tick);
        for machine in 0..self.machines.len() {
            let first = [
                (1_000, Occurrence::Heartbeat { machine }),
                (self.profile.heartbeat * 4, Occurrence::Poll { machine }),
                (self.profile.machine_fault, Occurrence::MachineFault { machine }),
                (self.profile.process_event, Occurrence::ProcessEvent { machine }),
            ];
            for (within, occurrence) in first {
                self.schedule.add(Millis(self.random.below(within)), occurrence);
            }
        }
        for client in 0..self.client_count {
            let at = Millis(self.random.below(self.profile.client_call * 2));
            self.schedule.add(at, Occurrence::ClientCall { client });
        }
    }

    /// Simulates the day, and checks what is left of it.
    pub(crate) fn run(mut self) -> DayReport {
        if self.random.percent(40) {
            let pause = Millis(self.random.below(DAY.0));
            self.advance_to(pause);
            self.pause();
        }
        self.advance_to(DAY);
        self.end();
        let server = self.server;
        let mut counters = server.counters;
        counters.increment(Counter::Days);
        counters.add(Counter::Violations, server.violations.len());
        let finding = (!server.violations.is_empty()).then(|| Finding {
            seed: self.options.seed,
            event: counters.get(Counter::Events),
            at: self.now,
            violations: server.violations,
        });
        let (seed, fingerprint) = (self.options.seed, server.fingerprint);
        DayReport { seed, counters, fingerprint, finding, log: self.log }
    }

    /// Returns true once a violation was found: the rest of the day proves nothing.
    pub(super) fn is_over(&self) -> bool {
        !self.server.violations.is_empty()
    }

    /// Simulates everything that happens until a time.
    pub(super) fn advance_to(&mut self, end: Millis) {
        while !self.is_over() {
            let Some((at, occurrence)) = self.schedule.next_until(end) else {
                self.now = end.max(self.now);
                return;
            };
            self.now = at.max(self.now);
            self.server.counters.increment(Counter::Events);
            let number = self.server.counters.get(Counter::Events);
            if self.options.log == Log::Events {
                self.log.push(format!("event {number} at {} ms: {occurrence:?}", self.now.0));
            }
            self.happen(occurrence);
            if number.is_multiple_of(CHECK_PROCESSES_EVERY) {
                self.check_processes();
            }
            if number.is_multiple_of(CHECK_DESK_EVERY) {
                self.check_desk();
            }
        }
    }

    fn happen(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Tick => {
                self.tick();
                self.again(self.profile.tick, Occurrence::Tick);
            }
            Occurrence::ClientCall { client } => {
                if self.profile.mode == Mode::Faulty {
                    self.client_call();
                }
                self.again(self.profile.client_call, Occurrence::ClientCall { client });
            }
            Occurrence::Heartbeat { machine } => {
                self.heartbeat(machine);
                self.again(self.profile.heartbeat, Occurrence::Heartbeat { machine });
            }
            Occurrence::Poll { machine } => {
                self.poll(machine);
                self.again(self.profile.heartbeat * 2, Occurrence::Poll { machine });
            }
            Occurrence::Request { machine, agent, number, starts, body } => {
                self.receive_request(machine, agent, number, starts, *body);
            }
            Occurrence::Response { machine, agent, number, orders } => {
                self.receive_response(machine, agent, number, *orders);
            }
            Occurrence::ProcessEvent { machine } => {
                if self.profile.mode == Mode::Faulty {
                    self.process_event(machine);
                }
                self.again(self.profile.process_event, Occurrence::ProcessEvent { machine });
            }
            Occurrence::MachineFault { machine } => {
                if self.profile.mode == Mode::Faulty {
                    self.machine_fault(machine);
                }
                self.again(self.profile.machine_fault, Occurrence::MachineFault { machine });
            }
            Occurrence::Reconnect { machine, agent } => {
                if self.machines[machine].agent == agent {
                    self.reconnect(machine);
                }
            }
            Occurrence::RemoveRunner { machine } => self.remove_runner(machine),
            Occurrence::ServerStart => self.start_server(),
        }
    }

    /// Lets the server notice that time has passed.
    pub(super) fn tick(&mut self) {
        let now = self.server_time();
        let sabotage = self.options.sabotage;
        self.call(|desk, core| {
            if sabotage == Some(Sabotage::RenewsVanished) {
                let view = desk.view(core.scheduler());
                let all: Vec<ReservationId> = view.reservations().map(|one| one.id).collect();
                for id in all {
                    // One that has ended stays so.
                    let _ = desk.renew(core, id);
                }
            }
            plimsoll_core::front::Front::tick(desk, core);
            None
        });
        if self.server.is_up() {
            self.leases.on_tick(now);
        }
    }

    /// Schedules an occurrence after about this many milliseconds.
    pub(super) fn again(&mut self, mean: u64, occurrence: Occurrence) {
        let delay = match self.profile.mode {
            Mode::Faulty => self.random.around(mean),
            Mode::Quiet => mean,
        };
        self.after(delay, occurrence);
    }

    /// Schedules an occurrence after this many milliseconds.
    pub(super) fn after(&mut self, delay: u64, occurrence: Occurrence) {
        self.schedule.add(self.now.after(Timespan::millis(delay)), occurrence);
    }

    /// Returns the time of the server.
    pub(super) fn server_time(&self) -> Millis {
        self.now.after(Timespan::millis(self.skew))
    }

    /// Makes a call on the desk, if the server is up, and delivers the answers that leave.
    pub(super) fn call(
        &mut self,
        call: impl FnOnce(
            &mut plimsoll_slots::desk::Desk,
            &mut plimsoll_core::front::Core<'_>,
        ) -> Option<Answer>,
    ) {
        if !self.server.is_up() {
            return;
        }
        let answers = self.server.call(self.server_time(), call);
        self.deliver(answers);
        if !self.server.is_up() {
            let down = if self.random.percent(50) { 0 } else { self.random.below(300_000) };
            self.after(down, Occurrence::ServerStart);
        }
    }

    /// Delivers answers that have left the server.
    pub(super) fn deliver(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            match answer {
                Answer::Reserved(id) => {
                    self.server.counters.increment(Counter::Reservations);
                    self.clients.confirm(id);
                }
                Answer::Released(id) => self.clients.confirm_release(id),
                Answer::Orders { kind, machine, agent, number, orders } => {
                    if kind == RequestKind::Heartbeat && orders.is_ok() {
                        self.machines[machine].on_heard(agent);
                    }
                    self.respond(machine, agent, number, *orders);
                }
            }
        }
    }

    /// Starts the server after a crash; every confirmation that a client received must still hold.
    pub(super) fn start_server(&mut self) {
        if self.server.is_up() {
            return;
        }
        self.server.start();
        self.starts += 1;
        self.skew += self.random.below(10_000);
        self.leases.on_start(self.server_time());
        let contradiction = self.clients.contradicted(self.server.view());
        self.server.violations.extend(contradiction);
        self.check_processes();
        self.check_desk();
    }

    /// Checks that every ordered process is charged.
    pub(super) fn check_processes(&mut self) {
        if self.server.is_up() {
            let view = self.server.view();
            let found = self.machines.iter().find_map(|machine| machine.uncharged(view));
            self.server.violations.extend(found);
        }
    }

    /// Checks that reservations, slots and the ledger agree.
    pub(super) fn check_desk(&mut self) {
        if self.server.is_up() {
            let view = self.server.view();
            let found = invariants::disagreement(view).or_else(|| self.leases.contradicted(view));
            let expired = self.leases.newly_expired(view);
            self.server.counters.add(Counter::LeasesExpired, expired);
            self.server.violations.extend(found);
        }
    }
}
