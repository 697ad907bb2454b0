//! Calm: nothing bad happens any more, and all must come to rest. At the end of a day everybody goes, and nothing may be left.

use std::collections::BTreeSet;

use plimsoll_core::event::Event;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Timespan};

use super::day::Day;
use super::judge;
use super::machine::Link;
use super::wire::Weather;

/// How long it may take until all is at rest, and how long until all is gone.
const REST: u64 = 8 * 3_600_000;
/// How often it is looked whether it is so.
const LOOK: u64 = 1_200_000;

impl Day {
    /// Ends the day, and objects to what does not end with it.
    pub(super) fn end(&mut self) {
        self.rest();
        if self.is_over() {
            return;
        }
        self.everybody_goes();
        self.settle(judge_leaked);
        self.check_cover();
        self.engine.replay();
    }

    /// Nothing bad happens for a while, all comes to rest, and nobody may wait in vain; then the day goes on as it was.
    pub(super) fn pause(&mut self) {
        let (temper, crash_one_in) = (self.temper, self.engine.crash_one_in);
        self.rest();
        self.temper = temper;
        self.engine.crash_one_in = crash_one_in;
    }

    fn rest(&mut self) {
        if self.is_over() {
            return;
        }
        self.rush();
        self.heal();
        self.settle(judge_restless);
        // What time alone allows is looked at when time is told.
        self.take(Event::Tick);
        self.flush();
        if !self.is_over() {
            let vain = judge::waits_in_vain(self.engine.scheduler(), self.clock());
            self.engine.objections.extend(vain);
        }
    }

    /// Everybody comes at once, so that there is somebody to wait.
    fn rush(&mut self) {
        for asker in 0..self.askers.len() {
            if let Some(event) = self.askers.act(asker, self.clock()) {
                self.take(event);
            }
        }
    }

    /// Messages arrive, machines come back, and the machine under test runs.
    fn heal(&mut self) {
        self.temper.weather = Weather::default();
        self.temper.calm = true;
        (self.temper.tick, self.temper.sync) = (60_000, 120_000);
        self.engine.crash_one_in = 0;
        self.restart();
        self.flush();
        for machine in 0..self.machines.len() {
            if self.machines[machine].link == Link::Lost {
                self.bury(machine);
            }
            self.back(machine);
        }
    }

    /// Lets time pass until nothing is wrong any more; what still is after so long is wrong for good.
    fn settle(&mut self, wrong: fn(&Day) -> Option<String>) {
        let end = self.now.after(Timespan::millis(REST));
        loop {
            self.pass_until(Millis(self.now.0 + LOOK));
            self.flush();
            if self.is_over() {
                return;
            }
            match wrong(self) {
                None => return,
                Some(what) if self.now >= end => return self.engine.objections.push(what),
                Some(_) => {}
            }
        }
    }

    fn everybody_goes(&mut self) {
        let scheduler = self.engine.scheduler();
        let held = scheduler.ledger().holdings().map(|(_, holding)| holding.request.clone());
        let waiting = scheduler.queue().iter().map(|waiting| waiting.request.id.clone());
        let everybody: BTreeSet<RequestId> = held.chain(waiting).collect();
        for request in everybody {
            self.take(Event::Withdraw { request });
        }
        self.flush();
    }
}

fn judge_restless(day: &Day) -> Option<String> {
    judge::restless(day.engine.scheduler())
}

fn judge_leaked(day: &Day) -> Option<String> {
    judge::leaked(day.engine.scheduler(), &day.machines)
}
