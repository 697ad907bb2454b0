//! Messages between the machine under test and the runners: sent, drawn a fate, received, acted upon.

use plimsoll_core::charge::Activity;
use plimsoll_core::device::Node;
use plimsoll_core::event::Effect;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Name, Timespan};

use super::Sabotage;
use super::agenda::Due;
use super::day::Day;
use super::desk;
use super::machine::{Link, Reaction};
use super::tally::Count;
use super::wire::{Order, Seen, Word};

impl Day {
    /// Makes an order of an effect that may leave.
    pub(super) fn send_effect(&mut self, effect: &Effect) {
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
            self.send(machine, &[order]);
        }
    }

    /// Sends orders, and draws what becomes of them.
    fn send(&mut self, machine: usize, orders: &[Order]) {
        let to = &self.machines[machine];
        if to.link != Link::Up || !self.desk.has_heard(machine, to.connection) {
            return;
        }
        let connection = to.connection;
        let fate = self.temper.weather.fate(&mut self.chance);
        self.engine.tally.count_all(fate.of_order(), orders.len());
        for delay in fate.delays(&mut self.chance) {
            let orders = orders.to_vec();
            self.agenda.put(
                self.now.after(Timespan::millis(delay)),
                Due::Orders { machine, connection, orders },
            );
        }
    }

    /// Tells a runner all that it should have, made from what is durable.
    pub(super) fn sync(&mut self, machine: usize) {
        let outputs = if self.engine.is_up() { self.engine.commit() } else { Vec::new() };
        self.let_out(outputs);
        self.after_a_fall();
        if self.engine.is_settled() {
            let orders =
                desk::orders(self.machines[machine].name(), self.engine.scheduler().ledger());
            self.engine.tally.count_all(Count::OrdersRepeated, orders.len());
            if !orders.is_empty() {
                self.send(machine, &orders);
            }
        }
    }

    /// Orders reach a runner, which does as it is told.
    pub(super) fn arrive(&mut self, machine: usize, connection: u64, orders: Vec<Order>) {
        for mut order in orders {
            let at = &mut self.machines[machine];
            if at.link != Link::Up || at.connection != connection {
                return;
            }
            match self.options.sabotage {
                Some(Sabotage::LateOrdersCount) => at.forget_what_is_over(),
                Some(Sabotage::StartsTooLarge) => order.double(),
                _ => {}
            }
            let fails = self.chance.percent(self.temper.weather.failed);
            let reactions = at.receive(order, fails, &mut self.chance);
            reactions.into_iter().for_each(|reaction| self.react(machine, reaction));
        }
    }

    fn react(&mut self, machine: usize, reaction: Reaction) {
        match reaction {
            Reaction::Says(word) => self.say(machine, &word),
            Reaction::Loads { request, generation } => {
                self.check_start(machine, &request);
                let most = if self.chance.percent(10) { 1_200_000 } else { 60_000 };
                let after = self.chance.between(500, most);
                self.agenda.put(
                    self.now.after(Timespan::millis(after)),
                    Due::Loaded { machine, request, generation },
                );
            }
            Reaction::Stops { request } => {
                let after = self.chance.between(100, 60_000);
                self.agenda.put(
                    self.now.after(Timespan::millis(after)),
                    Due::Left { machine, request: request.clone() },
                );
                self.sabotaged_haste(machine, request);
            }
            Reaction::Stale => self.engine.tally.count(Count::OrdersStale),
            Reaction::Fails => self.engine.tally.count(Count::EffectsFailed),
            Reaction::Twice { running } => {
                self.engine
                    .objections
                    .push(format!("something was started that still runs as {running:?}"));
            }
        }
    }

    /// What was just started runs nowhere else, and its cards can hold it.
    fn check_start(&mut self, machine: usize, request: &RequestId) {
        let elsewhere = (0..self.machines.len()).find(|other| {
            *other != machine && self.machines[*other].processes.contains_key(request)
        });
        if let Some(other) = elsewhere {
            let other = self.machines[other].name().clone();
            self.engine
                .objections
                .push(format!("{request} was started twice, and runs on {other} too"));
        }
        self.engine.objections.extend(self.machines[machine].overfull(request));
    }

    /// A runner that says a process is gone before it is: what the physical judge is there for.
    fn sabotaged_haste(&mut self, machine: usize, request: RequestId) {
        let generation =
            self.machines[machine].processes.get(&request).and_then(|process| process.generation);
        if let (Some(Sabotage::FreedTooEarly), Some(generation)) =
            (self.options.sabotage, generation)
        {
            self.say(machine, &Word::Gone { request, generation, card: None });
        }
    }

    /// A process has finished loading, and most say at once that they have nothing to do.
    pub(super) fn loaded(&mut self, machine: usize, request: RequestId, generation: u64) {
        if let Some(started) = self.machines[machine].loaded(request.clone(), generation) {
            self.say(machine, &started);
            if self.chance.percent(70) {
                let activity = Activity::Idle { since: self.clock() };
                self.say(machine, &Word::Acted { request, generation: Some(generation), activity });
            }
        }
    }

    /// A process that was stopped goes from a card, or altogether.
    pub(super) fn left(&mut self, machine: usize, request: &RequestId) {
        let in_part = self.chance.percent(50);
        let word = self.machines[machine].leave(request, in_part);
        if matches!(word, Some(Word::Gone { card: Some(_), .. })) {
            let after = self.chance.between(100, 60_000);
            self.agenda.put(
                self.now.after(Timespan::millis(after)),
                Due::Left { machine, request: request.clone() },
            );
        }
        self.say_if(machine, word);
    }

    pub(super) fn say_if(&mut self, machine: usize, word: Option<Word>) {
        if let Some(word) = word {
            self.say(machine, &word);
        }
    }

    /// A runner says something, and it is drawn what becomes of it.
    pub(super) fn say(&mut self, machine: usize, word: &Word) {
        let from = &mut self.machines[machine];
        let unsaid = self.options.sabotage == Some(Sabotage::GoneUnsaid);
        if from.link != Link::Up || (unsaid && matches!(word, Word::Gone { .. })) {
            return;
        }
        from.words += 1;
        let (connection, number) = (from.connection, from.words);
        let fate = self.temper.weather.fate(&mut self.chance);
        self.engine.tally.count(fate.of_word());
        for delay in fate.delays(&mut self.chance) {
            let word = Box::new(word.clone());
            self.agenda.put(
                self.now.after(Timespan::millis(delay)),
                Due::Word { machine, connection, number, word },
            );
        }
    }

    /// A word reaches the machine under test, and becomes events as its ledger stands.
    pub(super) fn hear(&mut self, machine: usize, connection: u64, number: u64, word: &Word) {
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

    fn hear_report(&mut self, machine: usize, name: &Name, node: &Node, running: &[Seen]) {
        if let Some(event) = self.desk.node(machine, node) {
            self.take(event);
        }
        for process in running {
            let again = !self.temper.calm && self.chance.one_in(20);
            let ledger = self.engine.scheduler().ledger();
            if let Some(event) = desk::seen(process, name, ledger, again, self.clock()) {
                self.take(event);
            }
        }
        for event in desk::absent(name, running, self.engine.scheduler().ledger()) {
            self.take(event);
        }
    }
}
