//! Messages between runners and the server.

use plimsoll_core::units::Timespan;
use plimsoll_slots::desk::RunnerError;
use plimsoll_slots::reconcile::Correction;
use plimsoll_slots::simulated_runner::{Conduct, Delay, MemoryUse, Telemetry};
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::{Heartbeat, Orders, SlotState};

use super::Sabotage;
use super::counters::Counter;
use super::day::{Answer, Day};
use super::machine::{Link, RegistrationState};
use super::profile::{Measuring, Mode};
use super::schedule::{Occurrence, RequestBody, RequestKind};

impl Day {
    /// A runner carries out its orders, and reports or registers.
    pub(super) fn heartbeat(&mut self, machine: usize) {
        if self.machines[machine].link == Link::Lost {
            return;
        }
        self.carry_out(machine);
        if self.machines[machine].link == Link::Down {
            return;
        }
        let at = &mut self.machines[machine];
        if at.registration == RegistrationState::Confirmed {
            let mut beat = at.runner.report();
            let number = at.runner.last_request();
            self.falsify(&mut beat);
            return self.send(machine, number, RequestBody::Heartbeat(beat));
        }
        let number = at.runner.send_request();
        let registration = at.runner.registration();
        if at.registration == RegistrationState::New {
            at.registration = RegistrationState::Sent { first: number };
        }
        self.send(machine, number, RequestBody::Register(registration));
    }

    /// A runner asks for its orders.
    pub(super) fn poll(&mut self, machine: usize) {
        let at = &mut self.machines[machine];
        if at.link == Link::Up && at.registration == RegistrationState::Confirmed {
            let number = at.runner.send_request();
            let session = at.agent;
            self.send(machine, number, RequestBody::Poll(session));
        }
    }

    fn carry_out(&mut self, machine: usize) {
        let conduct = self.draw_conduct();
        let fails = conduct.failure.is_some();
        let hangs = [conduct.load, conduct.stop].contains(&Delay::Forever);
        let at = &mut self.machines[machine];
        at.runner.conduct = conduct;
        let corrections = at.runner.carry_out(self.now);
        at.runner.advance(self.now);
        let mut starts = 0;
        for correction in &corrections {
            if let Correction::Start(order) = correction {
                starts += 1;
                if self.options.sabotage == Some(Sabotage::StartsTooLarge)
                    && let Some(process) = at.runner.process_mut(&order.slot)
                {
                    process.booked.iter_mut().for_each(|on| on.bytes *= 2);
                }
            }
        }
        let counters = &mut self.server.counters;
        counters.add(Counter::FailedStarts, if fails { starts } else { 0 });
        counters.add(Counter::HungProcesses, if hangs { corrections.len() } else { 0 });
        if starts > 0 {
            let found = self.machines[machine].overcommitted();
            self.server.violations.extend(found);
        }
    }

    fn draw_conduct(&mut self) -> Conduct {
        let telemetry = match self.profile.measuring {
            Measuring::On => Telemetry::On,
            Measuring::Off => Telemetry::Off,
        };
        if self.profile.mode == Mode::Quiet {
            let second = Delay::Lasts(Span::seconds(1));
            return Conduct { load: second, stop: second, telemetry, ..Conduct::default() };
        }
        let random = &mut self.random;
        let mut delay = || match random.below(60) {
            0 => Delay::Forever,
            1..20 => Delay::None,
            _ => Delay::Lasts(Span(random.between(1_000, 240_000))),
        };
        let (load, stop) = (delay(), delay());
        let fails = random.percent(self.profile.failed_starts);
        let memory = match random.below(20) {
            0 => MemoryUse::Percent(125),
            1..3 => MemoryUse::Percent(60),
            3 => MemoryUse::Unmeasured,
            _ => MemoryUse::AsBooked,
        };
        let telemetry = match random.below(20) {
            0 if telemetry == Telemetry::On => Telemetry::Stale(Span::seconds(900)),
            _ => telemetry,
        };
        Conduct {
            load,
            stop,
            failure: fails.then(|| "exit status 1".to_string()),
            memory,
            telemetry,
        }
    }

    /// Falsifies a heartbeat, if that is the day's sabotage.
    fn falsify(&self, beat: &mut Heartbeat) {
        match self.options.sabotage {
            Some(Sabotage::GoneTooEarly) => {
                let stopping =
                    beat.slots.iter_mut().filter(|slot| slot.state == SlotState::Stopping);
                stopping.for_each(|slot| slot.state = SlotState::Gone);
            }
            Some(Sabotage::GoneNeverReported) => {
                beat.slots.retain(|slot| slot.state != SlotState::Gone);
            }
            _ => {}
        }
    }

    /// Sends a request of a runner.
    fn send(&mut self, machine: usize, number: u64, body: RequestBody) {
        let (agent, starts) = (self.machines[machine].agent, self.starts);
        let delivery = self.profile.network.draw(&mut self.random);
        self.server.counters.increment(delivery.request_counter());
        let body = Box::new(body);
        for delay in delivery.delays(&mut self.random) {
            let body = body.clone();
            self.schedule.add(
                self.now.after(Timespan::millis(delay)),
                Occurrence::Request { machine, agent, number, starts, body },
            );
        }
    }

    /// The server receives a request of a runner.
    pub(super) fn receive_request(
        &mut self,
        machine: usize,
        agent: u64,
        number: u64,
        starts: u64,
        body: RequestBody,
    ) {
        let name = self.machines[machine].runner.name().to_string();
        let is_outdated = starts < self.starts && body.kind() == RequestKind::Heartbeat;
        let mut kind = body.kind();
        let is_sabotaged = self.options.sabotage == Some(Sabotage::EveryEpoch);
        let (mut is_rejected, mut is_believed) = (false, false);
        self.call(|desk, core| {
            let before = core.ledger().revision();
            let orders = match body {
                RequestBody::Register(registration) => desk.register(core, &name, registration),
                RequestBody::Heartbeat(mut beat) => {
                    if is_sabotaged {
                        beat.epoch = Some(desk.view(core.scheduler()).orders(&name).epoch);
                    }
                    let registered = desk.view(core.scheduler()).runner(&name).map(|one| one.epoch);
                    let epoch = beat.epoch.or(registered);
                    let orders = desk.heartbeat(core, &name, beat);
                    // A heartbeat of an earlier epoch only fetches the new one.
                    if !orders.as_ref().is_ok_and(|orders| epoch == Some(orders.epoch)) {
                        kind = RequestKind::Poll;
                    }
                    orders
                }
                RequestBody::Poll(session) => desk.work(core, &name, Some(session)),
            };
            is_rejected = orders.is_err();
            is_believed = core.ledger().revision() != before;
            Some(Answer::Orders { kind, machine, agent, number, orders: Box::new(orders) })
        });
        if is_outdated && is_believed {
            let what = format!("a heartbeat of {name} from before a restart was believed after it");
            self.server.violations.push(what);
        }
        self.server.counters.add(Counter::RequestsRejected, usize::from(is_rejected));
    }

    /// Sends the response of the server.
    pub(super) fn respond(
        &mut self,
        machine: usize,
        agent: u64,
        number: u64,
        orders: Result<Orders, RunnerError>,
    ) {
        let delivery = self.profile.network.draw(&mut self.random);
        self.server.counters.increment(delivery.response_counter());
        let orders = Box::new(orders);
        for delay in delivery.delays(&mut self.random) {
            let orders = orders.clone();
            self.after(delay, Occurrence::Response { machine, agent, number, orders });
        }
    }

    /// A runner receives a response.
    pub(super) fn receive_response(
        &mut self,
        machine: usize,
        agent: u64,
        number: u64,
        orders: Result<Orders, RunnerError>,
    ) {
        let at = &mut self.machines[machine];
        if at.agent != agent || at.link != Link::Up {
            return;
        }
        match orders {
            Ok(orders) => {
                if let RegistrationState::Sent { first } = at.registration
                    && number >= first
                {
                    at.registration = RegistrationState::Confirmed;
                }
                let is_new = match self.options.sabotage {
                    Some(Sabotage::LateOrders) => {
                        at.runner.take_orders(orders);
                        true
                    }
                    _ => at.runner.take_answer(number, orders),
                };
                let stale = usize::from(!is_new);
                self.server.counters.add(Counter::ResponsesStale, stale);
            }
            Err(RunnerError::NotRegistered) => at.registration = RegistrationState::New,
            Err(RunnerError::Superseded { .. } | RunnerError::Removed { .. }) => {
                self.restart_agent(machine);
            }
            Err(_) => {}
        }
    }
}
