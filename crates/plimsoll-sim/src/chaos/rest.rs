//! Rest: without faults and calls everything must settle. At the end of a day everything ends, and
//! nothing may be left.

use plimsoll_core::units::{Millis, Name, Timespan};

use super::day::Day;
use super::invariants;
use super::machine::Link;
use super::models;
use super::network::NetworkFaults;
use super::profile::Mode;
use super::schedule::Occurrence;

/// The time in which everything must settle.
const SETTLES_WITHIN: u64 = 8 * 3_600_000;
/// The interval between two looks.
const LOOK_EVERY: u64 = 600_000;

impl Day {
    /// Ends the day, and reports what does not end with it.
    pub(super) fn end(&mut self) {
        self.rest();
        if self.is_over() {
            return;
        }
        self.remove_models();
        // A process that only now reports to the server must be stopped too.
        self.settle(Day::stop_all, |day| {
            let processes = || {
                let mut machines = day.machines.iter();
                machines.find_map(|machine| {
                    let (slot, _) = machine.living().next()?;
                    Some(format!("{slot} still runs on {}", machine.runner.name()))
                })
            };
            invariants::leftover(day.server.view()).or_else(processes)
        });
        self.check_processes();
        self.server.compare();
        self.server.replay();
    }

    /// Pauses the faults until everything has settled; then the day goes on as before.
    pub(super) fn pause(&mut self) {
        let (profile, crash_one_in) = (self.profile, self.server.crash_one_in);
        self.rest();
        self.profile = profile;
        self.server.crash_one_in = crash_one_in;
    }

    fn rest(&mut self) {
        if self.is_over() {
            return;
        }
        // Some reservations must be pending for the check of pending ones to prove something.
        (0..20).for_each(|_| self.reserve());
        self.end_faults();
        self.settle(|_| {}, |day| invariants::unsettled(day.server.view().scheduler()));
        self.tick();
        self.flush();
        if self.is_over() {
            return;
        }
        self.check_desk();
        let (view, now) = (self.server.view(), self.server_time());
        let found = invariants::pending_in_vain(view.scheduler(), now)
            .or_else(|| self.clients.contradicted(view));
        self.server.violations.extend(found);
        self.server.compare();
    }

    /// Messages arrive, the server runs, and machines come back.
    fn end_faults(&mut self) {
        self.profile.network = NetworkFaults::default();
        self.profile.mode = Mode::Quiet;
        self.profile.tick = 30_000;
        self.server.crash_one_in = 0;
        self.start_server();
        self.flush();
        for machine in 0..self.machines.len() {
            if self.machines[machine].link != Link::Lost {
                self.reconnect(machine);
            }
        }
    }

    fn flush(&mut self) {
        let answers = self.server.flush();
        self.deliver(answers);
    }

    /// Lets time pass until nothing is wrong any more. Before each look an operator acts.
    fn settle(&mut self, act: fn(&mut Day), wrong: fn(&Day) -> Option<String>) {
        let end = self.now.after(Timespan::millis(SETTLES_WITHIN));
        loop {
            let now = self.now;
            self.machines.iter_mut().for_each(|machine| machine.end_hung(now));
            self.operate();
            act(self);
            self.advance_to(Millis(self.now.0 + LOOK_EVERY));
            self.flush();
            if self.is_over() {
                return;
            }
            match wrong(self) {
                None => return,
                Some(what) if self.now >= end => return self.server.violations.push(what),
                Some(_) => {}
            }
        }
    }

    /// Does what an operator does about a runner that cannot verify the end of a slot: stops the
    /// agent, removes the runner after its lease, and starts the agent again.
    fn operate(&mut self) {
        let delay = self.server.config().lease.0 * 2;
        for machine in 0..self.machines.len() {
            let at = &mut self.machines[machine];
            if at.link == Link::Up && !at.runner.unverifiable().is_empty() {
                at.link = Link::Down;
                self.restart_agent(machine);
                self.after(delay, Occurrence::RemoveRunner { machine });
                self.reconnect_after(machine, delay + 1);
            }
        }
    }

    fn remove_models(&mut self) {
        for name in models::names() {
            self.call(|desk, core| {
                desk.remove_model(core, name);
                None
            });
        }
    }

    /// Stops every slot.
    fn stop_all(&mut self) {
        let slots: Vec<Name> = self.server.view().slots().map(|slot| slot.id.clone()).collect();
        slots.iter().for_each(|slot| self.stop(slot));
        self.flush();
    }
}
