//! One day: askers, machines and messages in virtual time, around the machine under test.

use plimsoll_core::drive::Output;
use plimsoll_core::event::{Effect, Event};
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};

use super::agenda::{Agenda, Due};
use super::askers::Askers;
use super::chance::Chance;
use super::desk::{self, Desk};
use super::engine::Engine;
use super::fleet::{self, Stock};
use super::judge;
use super::machine::{Link, Machine, Reaction};
use super::tally::Count;
use super::wire::{Order, Weather, Word};
use super::{DayReport, Finding, Options, Sabotage, work};

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

/// What kind of day it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Temper {
    pub weather: Weather,
    /// Whether nothing bad happens any more.
    pub calm: bool,
    /// Whether devices are measured.
    pub measured: bool,
    /// Whether caps move in the day; what a card can hold is then what it physically has.
    pub caps_move: bool,
    pub tick: u64,
    /// Between two reports, and between two lists of orders.
    pub sync: u64,
    /// Between two things that an asker does.
    pub act: u64,
    /// Between two troubles of a machine.
    pub trouble: u64,
    /// Between two things that happen on a machine.
    pub stir: u64,
    crash_one_in: u64,
}

impl Temper {
    fn drawn(chance: &mut Chance) -> Self {
        let wild = chance.percent(30);
        let most = if wild { 25 } else { 8 };
        Temper {
            weather: Weather {
                late: chance.below(most),
                lost: chance.below(most),
                doubled: chance.below(most),
                failed: chance.below(most),
            },
            calm: false,
            measured: chance.percent(50),
            caps_move: chance.percent(20),
            tick: *chance.pick(&[20_000, 60_000, 120_000]),
            sync: *chance.pick(&[60_000, 180_000, 600_000]),
            act: *chance.pick(&[300_000, 600_000, 1_200_000]),
            trouble: if wild { 7_200_000 } else { 28_800_000 },
            stir: *chance.pick(&[120_000, 300_000]),
            crash_one_in: if wild { 60 } else { 250 },
        }
    }
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
            let (node, serials) = fleet::node(&mut chance, &mut stock, &format!("node-{at}"), make, cards);
            machines.push(Machine::new(make, node, serials));
        }
        let nodes: Vec<_> = machines.iter().map(|machine| machine.node.clone()).collect();
        let names: Vec<Name> = machines.iter().map(|machine| machine.name().clone()).collect();
        let specs = work::specs(&mut chance, &nodes);
        let askers = usize::try_from(chance.between(3, 4 + 3 * machines.len() as u64)).expect("small");
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
            askers: Askers::new(chance.fork(), specs, names, askers),
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
            let mut later = |most: u64, due: Due| self.agenda.put(Millis(self.chance.below(most)), due);
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
        self.pass_until(DAY);
        self.calm_down();
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
            Due::GiveUp { asker } => {
                if let Some(event) = self.askers.give_up(asker) {
                    self.take(event);
                }
            }
            Due::Orders { machine, connection, orders } => self.arrive(machine, connection, orders),
            Due::Word { machine, connection, number, word } => self.hear(machine, connection, number, &word),
            Due::Report { machine } => {
                let word = self.machines[machine].report();
                self.say(machine, word);
                self.again(self.temper.sync, Due::Report { machine });
            }
            Due::Sync { machine } => {
                self.sync(machine);
                self.again(self.temper.sync, Due::Sync { machine });
            }
            Due::Loaded { machine, request, generation } => {
                let word = self.machines[machine].loaded(request, generation);
                self.say_if(machine, word);
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
        self.agenda.put(self.now.after(span), due);
    }

    /// The machine's own time.
    pub(super) fn clock(&self) -> Millis {
        self.now.after(self.skew)
    }

    fn act(&mut self, asker: usize) {
        if self.temper.calm {
            return;
        }
        if let Some(event) = self.askers.act(asker, self.clock()) {
            self.take(event);
        }
        // Now and then an operator clears somebody away.
        if self.chance.one_in(60) {
            let held = self.engine.scheduler().ledger().holdings().map(|(_, holding)| &holding.request);
            let held: Vec<RequestId> = held.cloned().collect();
            if !held.is_empty() {
                let request = self.chance.pick(&held).clone();
                self.take(Event::Withdraw { request });
            }
        }
        self.again(self.temper.act, Due::Act { asker });
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

    fn after_a_fall(&mut self) {
        if !self.engine.is_up() {
            let down = if self.chance.percent(50) { 0 } else { self.chance.below(120_000) };
            if self.options.log {
                self.log.push(format!("killed at {} ms", self.now.0));
            }
            self.agenda.put(self.now.after(down), Due::Restart);
        }
    }

    /// Makes durable whatever is not, and lets it out.
    pub(super) fn flush(&mut self) {
        let outputs = self.engine.flush();
        self.let_out(outputs);
    }

    /// What left the machine: orders to runners, answers to askers.
    fn let_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            for effect in &output.outcome.effects {
                self.send_effect(effect);
            }
            for asker in output.outcome.answers.iter().filter_map(|answer| self.askers.hear(answer)) {
                self.agenda.put(self.now.after(self.chance.below(60_000)), Due::GiveUp { asker });
            }
        }
    }

    fn send_effect(&mut self, effect: &Effect) {
        let (node, order) = match effect {
            Effect::Start { request, generation, node, .. } => {
                let ledger = self.engine.scheduler().ledger();
                (node, desk::start(ledger, request, *generation))
            }
            Effect::Stop { request, generation, node } => {
                (node, Some(Order::Stop { request: request.clone(), generation: *generation }))
            }
        };
        let machine = self.machines.iter().position(|machine| machine.name() == node);
        if let (Some(machine), Some(order)) = (machine, order) {
            self.send(machine, vec![order]);
        }
    }

    /// Sends orders, and draws what becomes of them.
    fn send(&mut self, machine: usize, orders: Vec<Order>) {
        let to = &self.machines[machine];
        if to.link != Link::Up || !self.desk.has_heard(machine, to.connection) {
            return;
        }
        let connection = to.connection;
        let fate = self.temper.weather.fate(&mut self.chance);
        self.engine.tally.count_all(fate.of_order(), orders.len());
        for delay in fate.delays(&mut self.chance) {
            let orders = orders.clone();
            self.agenda.put(self.now.after(delay), Due::Orders { machine, connection, orders });
        }
    }

    /// Tells a runner all that it should have, made from what is durable.
    pub(super) fn sync(&mut self, machine: usize) {
        let outputs = if self.engine.is_up() { self.engine.commit() } else { Vec::new() };
        self.let_out(outputs);
        self.after_a_fall();
        if self.engine.is_settled() {
            let orders = desk::orders(self.machines[machine].name(), self.engine.scheduler().ledger());
            self.engine.tally.count_all(Count::OrdersRepeated, orders.len());
            if !orders.is_empty() {
                self.send(machine, orders);
            }
        }
    }

    /// Orders reach a runner, which does as it is told.
    fn arrive(&mut self, machine: usize, connection: u64, orders: Vec<Order>) {
        for order in orders {
            let at = &mut self.machines[machine];
            if at.link != Link::Up || at.connection != connection {
                return;
            }
            let fails = self.chance.percent(self.temper.weather.failed);
            let reactions = at.receive(order, fails, &mut self.chance);
            reactions.into_iter().for_each(|reaction| self.react(machine, reaction));
        }
    }

    fn react(&mut self, machine: usize, reaction: Reaction) {
        match reaction {
            Reaction::Says(word) => self.say(machine, word),
            Reaction::Loads { request, generation } => {
                self.check_start(machine, &request);
                let most = if self.chance.percent(10) { 1_200_000 } else { 60_000 };
                let after = self.chance.between(500, most);
                self.agenda.put(self.now.after(after), Due::Loaded { machine, request, generation });
            }
            Reaction::Stops { request } => {
                let after = self.chance.between(100, 60_000);
                self.agenda.put(self.now.after(after), Due::Left { machine, request: request.clone() });
                self.sabotaged_haste(machine, request);
            }
            Reaction::Stale => self.engine.tally.count(Count::OrdersStale),
            Reaction::Fails => self.engine.tally.count(Count::EffectsFailed),
            Reaction::Twice { running } => {
                self.engine.objections.push(format!("something was started that still runs as {running:?}"));
            }
        }
    }

    /// What was just started runs nowhere else, and its cards can hold it.
    fn check_start(&mut self, machine: usize, request: &RequestId) {
        let elsewhere = (0..self.machines.len())
            .find(|other| *other != machine && self.machines[*other].processes.contains_key(request));
        if let Some(other) = elsewhere {
            let other = self.machines[other].name().clone();
            self.engine.objections.push(format!("{request} was started twice, and runs on {other} too"));
        }
        self.engine.objections.extend(self.machines[machine].overfull(request));
    }

    /// A runner that says a process is gone before it is: what the physical judge is there for.
    fn sabotaged_haste(&mut self, machine: usize, request: RequestId) {
        let generation =
            self.machines[machine].processes.get(&request).and_then(|process| process.generation);
        if let (Some(Sabotage::FreedTooEarly), Some(generation)) = (self.options.sabotage, generation) {
            self.say(machine, Word::Gone { request, generation, card: None });
        }
    }

    fn left(&mut self, machine: usize, request: &RequestId) {
        let in_part = self.chance.percent(50);
        let word = self.machines[machine].leave(request, in_part);
        if matches!(word, Some(Word::Gone { card: Some(_), .. })) {
            let after = self.chance.between(100, 60_000);
            self.agenda.put(self.now.after(after), Due::Left { machine, request: request.clone() });
        }
        self.say_if(machine, word);
    }

    pub(super) fn say_if(&mut self, machine: usize, word: Option<Word>) {
        if let Some(word) = word {
            self.say(machine, word);
        }
    }

    /// A runner says something, and it is drawn what becomes of it.
    pub(super) fn say(&mut self, machine: usize, word: Word) {
        let from = &mut self.machines[machine];
        if from.link != Link::Up {
            return;
        }
        from.words += 1;
        let (connection, number) = (from.connection, from.words);
        let fate = self.temper.weather.fate(&mut self.chance);
        self.engine.tally.count(fate.of_word());
        for delay in fate.delays(&mut self.chance) {
            let word = Box::new(word.clone());
            self.agenda.put(self.now.after(delay), Due::Word { machine, connection, number, word });
        }
    }

    /// A word reaches the machine under test, and becomes events as its ledger stands.
    fn hear(&mut self, machine: usize, connection: u64, number: u64, word: &Word) {
        let from = &self.machines[machine];
        if !self.engine.is_up() || from.link != Link::Up || from.connection != connection {
            return;
        }
        let name = from.name().clone();
        if !self.desk.is_news(machine, connection, number, word) {
            return self.engine.tally.count(Count::WordsStale);
        }
        if let Word::Report { node, running } = word {
            return self.hear_report(machine, &name, node, running);
        }
        let ledger = self.engine.scheduler().ledger();
        let stale = desk::is_stale(word, ledger);
        let event = desk::event(word, &name, ledger);
        self.engine.tally.count_all(Count::WordsStale, usize::from(stale));
        if let Some(event) = event {
            self.take(event);
        }
    }

    fn hear_report(
        &mut self,
        machine: usize,
        name: &Name,
        node: &plimsoll_core::device::Node,
        running: &[super::wire::Seen],
    ) {
        if let Some(event) = self.desk.node(machine, node) {
            self.take(event);
        }
        for process in running {
            let again = self.chance.one_in(20);
            let ledger = self.engine.scheduler().ledger();
            if let Some(event) = desk::seen(process, name, ledger, again, self.clock()) {
                self.take(event);
            }
        }
        for event in desk::absent(name, running, self.engine.scheduler().ledger()) {
            self.take(event);
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
                Link::Lost => self.agenda.put(self.now.after(60_000), Due::Bury { machine }),
            }
        }
    }

    /// A runner connects, and reports at once.
    pub(super) fn connect(&mut self, machine: usize) {
        self.machines[machine].reconnect();
        let word = self.machines[machine].report();
        self.say(machine, word);
    }

    pub(super) fn arm_lease(&mut self, machine: usize) {
        let connection = self.machines[machine].connection;
        let at = self.now.after(self.chance.between(60_000, 600_000));
        self.agenda.put(at, Due::Lease { machine, connection });
    }
}
