//! One day: askers, machines and messages in virtual time, around the machine under test.

use plimsoll_core::drive::Output;
use plimsoll_core::event::Event;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name, Timespan};

use super::agenda::{Agenda, Due};
use super::askers::Askers;
use super::chance::Chance;
use super::desk::Desk;
use super::engine::Engine;
use super::fleet::{self, Stock};
use super::judge;
use super::machine::{Link, Machine};
use super::tally::Count;
use super::temper::Temper;
use super::{DayReport, Finding, Options, work};

/// How long a day is.
const DAY: Millis = Millis(24 * 3_600_000);
/// Events after which what runs is compared with what is booked.
const COVERED_AFTER: u64 = 16;

/// One day under way.
#[derive(Debug)]
pub(crate) struct Day {
    pub(super) chance: Chance,
    pub(super) now: Millis,
    /// How far the machine's clock is ahead; it can go back at a restart.
    skew: u64,
    pub(super) agenda: Agenda,
    pub(super) machines: Vec<Machine>,
    pub(super) stock: Stock,
    pub(super) engine: Engine,
    pub(super) desk: Desk,
    pub(super) askers: Askers,
    pub(super) temper: Temper,
    pub(super) options: Options,
    pub(super) strangers: u64,
    log: Vec<String>,
}

impl Day {
    pub(crate) fn new(options: Options) -> Self {
        let mut chance = Chance::new(options.seed);
        let temper = Temper::drawn(&mut chance);
        let mut stock = Stock::default();
        let mut machines: Vec<Machine> = Vec::new();
        for at in 0..chance.between(1, 8) {
            let make = fleet::make(&mut chance);
            let cards = chance.below(9);
            let (node, serials) =
                fleet::node(&mut chance, &mut stock, &format!("node-{at}"), make, cards);
            machines.push(Machine::new(make, node, serials));
        }
        let nodes: Vec<_> = machines.iter().map(|machine| machine.node.clone()).collect();
        let names: Vec<Name> = machines.iter().map(|machine| machine.name().clone()).collect();
        let specs = work::specs(&mut chance, &nodes);
        let (least, each) = if temper.crowded { (8, 6) } else { (3, 3) };
        let askers = chance.between(least, 1 + least + each * machines.len() as u64);
        let askers = usize::try_from(askers).expect("small");
        let patience = if temper.crowded { 15 } else { *chance.pick(&[3, 10, 40]) };
        let mut engine = Engine::new(fleet::settings(&mut chance), chance.fork(), options.sabotage);
        engine.crash_one_in = temper.crash_one_in;
        let mut day = Day {
            now: Millis(0),
            skew: 0,
            agenda: Agenda::default(),
            machines,
            stock,
            engine,
            desk: Desk::default(),
            askers: Askers::new(chance.fork(), specs, names, askers, patience),
            temper,
            options,
            strangers: 0,
            log: Vec::new(),
            chance,
        };
        day.begin();
        day
    }

    /// Writes down what is due first: every machine reports, and then things happen.
    fn begin(&mut self) {
        self.agenda.put(Millis(0), Due::Tick);
        for machine in 0..self.machines.len() {
            self.measure_lines(machine);
            self.agenda.put(Millis(0), Due::Report { machine });
            let mut later =
                |most: u64, due: Due| self.agenda.put(Millis(self.chance.below(most)), due);
            later(self.temper.sync, Due::Sync { machine });
            later(self.temper.trouble, Due::Trouble { machine });
            later(self.temper.stir, Due::Stir { machine });
            if self.temper.measured {
                later(60_000, Due::Measure { machine });
            }
        }
        for asker in 0..self.askers.len() {
            let at = Millis(self.chance.below(self.temper.act * 2));
            self.agenda.put(at, Due::Act { asker });
        }
    }

    /// Lives through the day, and judges what is left of it.
    pub(crate) fn run(mut self) -> DayReport {
        if self.temper.pauses {
            let noon = Millis(self.chance.below(DAY.0));
            self.pass_until(noon);
            self.pause();
        }
        self.pass_until(DAY);
        self.end();
        self.engine.tally.count(Count::Days);
        let mut report = DayReport {
            seed: self.options.seed,
            tally: self.engine.tally,
            fingerprint: self.engine.fingerprint,
            finding: None,
            log: self.log,
        };
        if !self.engine.objections.is_empty() {
            report.tally.count_all(Count::Objections, self.engine.objections.len());
            let event = report.tally.of(Count::Events);
            let what = self.engine.objections;
            report.finding = Some(Finding { seed: self.options.seed, event, at: self.now, what });
        }
        report
    }

    /// Whether somebody has objected: the rest of the day proves nothing.
    pub(super) fn is_over(&self) -> bool {
        !self.engine.objections.is_empty()
    }

    /// Lets time pass until a point, and all happen that is due before.
    pub(super) fn pass_until(&mut self, end: Millis) {
        while !self.is_over() {
            let Some((at, due)) = self.agenda.next() else { break };
            if at > end {
                self.agenda.put(at, due);
                self.now = end;
                break;
            }
            self.now = at;
            self.happens(due);
        }
    }

    fn happens(&mut self, due: Due) {
        match due {
            Due::Tick => {
                self.take(Event::Tick);
                self.again(self.temper.tick, Due::Tick);
            }
            Due::Act { asker } => self.act(asker),
            Due::GiveUp { asker } => self.give_up(asker),
            Due::Orders { machine, connection, orders } => self.arrive(machine, connection, orders),
            Due::Word { machine, connection, number, word } => {
                self.hear(machine, connection, number, &word);
            }
            Due::Report { machine } => {
                let word = self.machines[machine].report();
                self.say(machine, &word);
                self.again(self.temper.sync, Due::Report { machine });
            }
            Due::Sync { machine } => {
                self.sync(machine);
                self.again(self.temper.sync, Due::Sync { machine });
            }
            Due::Loaded { machine, request, generation } => {
                self.loaded(machine, request, generation);
            }
            Due::Left { machine, request } => self.left(machine, &request),
            Due::Stir { machine } => self.stir(machine),
            Due::Measure { machine } => self.measure(machine),
            Due::Trouble { machine } => self.trouble(machine),
            Due::Back { machine } => self.back(machine),
            Due::Lease { machine, connection } => self.lease(machine, connection),
            Due::Bury { machine } => self.bury(machine),
            Due::Restart => self.restart(),
        }
    }

    /// Writes something down that is due again after about so long.
    pub(super) fn again(&mut self, span: u64, due: Due) {
        let span = if self.temper.calm { span } else { self.chance.around(span).max(1) };
        self.agenda.put(self.now.after(Timespan::millis(span)), due);
    }

    /// The machine's own time.
    pub(super) fn clock(&self) -> Millis {
        self.now.after(Timespan::millis(self.skew))
    }

    fn act(&mut self, asker: usize) {
        if self.temper.calm {
            return self.again(self.temper.act, Due::Act { asker });
        }
        if let Some(event) = self.askers.act(asker, self.clock()) {
            self.take(event);
        }
        // Now and then an operator clears somebody away.
        if self.chance.one_in(60) {
            let held =
                self.engine.scheduler().ledger().holdings().map(|(_, holding)| &holding.request);
            let held: Vec<RequestId> = held.cloned().collect();
            if !held.is_empty() {
                let request = self.chance.pick(&held).clone();
                self.take(Event::Withdraw { request });
            }
        }
        self.again(self.temper.act, Due::Act { asker });
    }

    /// Nobody gives up while it is calm: those who wait are what is looked at.
    fn give_up(&mut self, asker: usize) {
        if self.temper.calm {
            return self.again(3_600_000, Due::GiveUp { asker });
        }
        if let Some(event) = self.askers.give_up(asker) {
            self.take(event);
        }
    }

    /// Hands an event to the machine under test, if it runs.
    pub(super) fn take(&mut self, event: Event) {
        if !self.engine.is_up() {
            return;
        }
        if self.options.log {
            let number = self.engine.tally.of(Count::Events) + 1;
            self.log.push(format!("event {number} at {} ms: {event:?}", self.clock().0));
        }
        let outputs = self.engine.take(self.clock(), event);
        self.let_out(outputs);
        if self.engine.tally.of(Count::Events).is_multiple_of(COVERED_AFTER) {
            self.check_cover();
        }
        self.after_a_fall();
    }

    pub(super) fn check_cover(&mut self) {
        if self.engine.is_up() {
            let uncovered = judge::uncovered(&self.machines, self.engine.scheduler().ledger());
            self.engine.objections.extend(uncovered);
        }
    }

    pub(super) fn after_a_fall(&mut self) {
        if !self.engine.is_up() {
            let down = if self.chance.percent(50) { 0 } else { self.chance.below(120_000) };
            if self.options.log {
                self.log.push(format!("killed at {} ms", self.now.0));
            }
            self.agenda.put(self.now.after(Timespan::millis(down)), Due::Restart);
        }
    }

    /// Makes durable whatever is not, and lets it out.
    pub(super) fn flush(&mut self) {
        let outputs = self.engine.flush();
        self.let_out(outputs);
    }

    /// What left the machine: orders to runners, answers to askers.
    pub(super) fn let_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            for effect in &output.outcome.effects {
                self.send_effect(effect);
            }
            for asker in output.outcome.answers.iter().filter_map(|answer| self.askers.hear(answer))
            {
                self.agenda.put(
                    self.now.after(Timespan::millis(self.chance.below(60_000))),
                    Due::GiveUp { asker },
                );
            }
        }
    }

    /// The machine under test starts again, and every runner that can be reached connects and reports.
    pub(super) fn restart(&mut self) {
        if self.engine.is_up() {
            return;
        }
        self.engine.restart();
        self.desk.clear();
        self.skew = self.chance.below(10_000);
        self.check_cover();
        if self.options.log {
            self.log.push(format!("started again at {} ms", self.now.0));
        }
        for machine in 0..self.machines.len() {
            match self.machines[machine].link {
                Link::Up => self.connect(machine),
                Link::Cut => self.arm_lease(machine),
                Link::Lost => {
                    self.agenda
                        .put(self.now.after(Timespan::millis(60_000)), Due::Bury { machine });
                }
            }
        }
    }

    /// A runner connects, and reports at once.
    pub(super) fn connect(&mut self, machine: usize) {
        self.machines[machine].reconnect();
        let word = self.machines[machine].report();
        self.say(machine, &word);
    }

    pub(super) fn arm_lease(&mut self, machine: usize) {
        let connection = self.machines[machine].connection;
        let at = self.now.after(Timespan::millis(self.chance.between(60_000, 600_000)));
        self.agenda.put(at, Due::Lease { machine, connection });
    }
}
