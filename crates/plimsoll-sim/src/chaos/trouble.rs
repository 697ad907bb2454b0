//! What happens to machines and on them: cuts, reboots, cards that move, fail and vanish, growth, strangers, deaths.

use plimsoll_core::charge::Activity;
use plimsoll_core::event::Event;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Bytes, Timespan};

use super::agenda::Due;
use super::day::Day;
use super::fleet::{self, Make};
use super::machine::{Link, Machine, Part, Phase, Process};
use super::tally::Count;
use super::wire::Word;

impl Day {
    /// Works out what the cards of a machine can physically hold.
    pub(super) fn measure_lines(&mut self, machine: usize) {
        let caps_move = self.temper.caps_move;
        let at = &mut self.machines[machine];
        for (device, serial) in at.node.devices.iter().zip(&at.serials) {
            at.lines.insert(*serial, fleet::physical_line(device, caps_move));
        }
    }

    /// Something happens to a machine.
    pub(super) fn trouble(&mut self, machine: usize) {
        if self.machines[machine].link == Link::Up && !self.temper.calm {
            match self.chance.below(20) {
                0..5 => self.cut(machine),
                5..9 => self.reboot(machine),
                9..12 => self.list_anew(machine),
                12..14 => self.lose_card(machine),
                14 => self.burn(machine),
                _ => {
                    let (node, caps_move) =
                        (&mut self.machines[machine].node, self.temper.caps_move);
                    fleet::tend(&mut self.chance, node, caps_move);
                    let word = self.machines[machine].report();
                    self.say(machine, &word);
                }
            }
        }
        self.again(self.temper.trouble, Due::Trouble { machine });
    }

    /// Nobody can talk to it for a while; what runs there runs on.
    fn cut(&mut self, machine: usize) {
        self.engine.tally.count(Count::NodesCut);
        self.machines[machine].link = Link::Cut;
        self.arm_lease(machine);
        let most = *self.chance.pick(&[10_000, 300_000, 7_200_000]);
        let back = self.now.after(Timespan::millis(self.chance.between(1_000, most)));
        self.agenda.put(back, Due::Back { machine });
    }

    /// All that ran is gone, and it may come back with other cards than it had.
    fn reboot(&mut self, machine: usize) {
        self.engine.tally.count(Count::NodesRebooted);
        let at = &mut self.machines[machine];
        at.link = Link::Cut;
        at.lose_everything();
        if at.make.has_uuids() {
            self.change_cards(machine);
        }
        self.arm_lease(machine);
        let back = self.now.after(Timespan::millis(self.chance.between(30_000, 900_000)));
        self.agenda.put(back, Due::Back { machine });
    }

    /// Cards are moved, swapped for others or taken out while a machine is off.
    fn change_cards(&mut self, machine: usize) {
        if self.chance.percent(30) {
            self.reorder(machine);
        }
        let count = self.machines[machine].serials.len();
        if self.chance.percent(20) && count > 0 {
            let at = self.chance.index(count);
            self.machines[machine].lose_card(at);
            self.engine.tally.count(Count::CardsLost);
        }
        if self.chance.percent(30) && self.machines[machine].serials.len() < 8 {
            self.add_card(machine);
            self.engine.tally.count(Count::CardsSwapped);
        }
    }

    fn add_card(&mut self, machine: usize) {
        let (make, serial) = (self.machines[machine].make, self.stock.next());
        let model = fleet::card_model(&mut self.chance, make);
        let at = &mut self.machines[machine];
        at.node.devices.push(fleet::card(&model, make, serial));
        at.serials.push(serial);
        self.measure_lines(machine);
    }

    fn reorder(&mut self, machine: usize) {
        let at = &mut self.machines[machine];
        let mut cards: Vec<_> = at.node.devices.drain(..).zip(at.serials.drain(..)).collect();
        self.chance.shuffle(&mut cards);
        (at.node.devices, at.serials) = cards.into_iter().unzip();
        self.engine.tally.count(Count::CardsMoved);
    }

    /// The runner starts again and finds its cards in another order; what runs there runs on.
    fn list_anew(&mut self, machine: usize) {
        if self.machines[machine].make.has_uuids() {
            self.reorder(machine);
        }
        self.connect(machine);
    }

    /// A card falls off, and what was on it with it.
    fn lose_card(&mut self, machine: usize) {
        let count = self.machines[machine].serials.len();
        if count > 0 && self.machines[machine].make.has_uuids() {
            let at = self.chance.index(count);
            let words = self.machines[machine].lose_card(at);
            self.engine.tally.count(Count::CardsLost);
            words.iter().for_each(|word| self.say(machine, word));
            let word = self.machines[machine].report();
            self.say(machine, &word);
        }
    }

    /// A machine is lost for good, and an operator says so; another of its name may come later.
    fn burn(&mut self, machine: usize) {
        self.engine.tally.count(Count::NodesLost);
        let at = &mut self.machines[machine];
        at.link = Link::Lost;
        at.lose_everything();
        self.agenda.put(
            self.now.after(Timespan::millis(self.chance.below(3_600_000))),
            Due::Bury { machine },
        );
    }

    /// An operator says that a machine is gone with all that it held.
    pub(super) fn bury(&mut self, machine: usize) {
        if self.machines[machine].link != Link::Lost || !self.engine.is_up() {
            return;
        }
        let name = self.machines[machine].name().clone();
        let ledger = self.engine.scheduler().ledger();
        let held = ledger.node_id(&name).into_iter().flat_map(|id| ledger.holdings_on(id));
        let freed: Vec<Event> = held
            .map(|(held, holding)| Event::Freed {
                request: holding.request.clone(),
                generation: Some(held.0),
                ordinal: None,
            })
            .collect();
        freed.into_iter().for_each(|event| self.take(event));
        self.take(Event::NodeGone { name });
        if self.engine.is_up() {
            self.desk.forget(machine);
            let later = self.now.after(Timespan::millis(self.chance.between(600_000, 14_400_000)));
            self.agenda.put(later, Due::Back { machine });
        }
    }

    /// A machine can be reached again; one that was lost is another now.
    pub(super) fn back(&mut self, machine: usize) {
        match self.machines[machine].link {
            Link::Up => return,
            Link::Lost => {
                let (make, cards) = (self.machines[machine].make, self.chance.between(1, 8));
                let name = self.machines[machine].name().clone();
                let (node, serials) =
                    fleet::node(&mut self.chance, &mut self.stock, &name, make, cards);
                let connection = self.machines[machine].connection;
                self.machines[machine] = Machine::new(make, node, serials);
                self.machines[machine].connection = connection;
                self.measure_lines(machine);
            }
            Link::Cut => {}
        }
        self.machines[machine].link = Link::Up;
        self.connect(machine);
    }

    /// A machine has been silent for too long, and its node is given up for now.
    pub(super) fn lease(&mut self, machine: usize, connection: u64) {
        let at = &self.machines[machine];
        if at.link == Link::Cut && at.connection == connection && self.engine.is_up() {
            let name = at.name().clone();
            self.desk.forget(machine);
            self.take(Event::NodeGone { name });
        }
    }

    /// The devices of a machine are measured.
    pub(super) fn measure(&mut self, machine: usize) {
        let serials = self.machines[machine].serials.clone();
        for serial in serials {
            let at = &self.machines[machine];
            let Some(card) = at.card(serial) else { continue };
            let foreign = Bytes::new(at.foreign.get(&serial).copied().unwrap_or(0));
            let closed = !self.temper.calm && self.chance.one_in(100);
            self.engine.tally.count_all(Count::Foreign, usize::from(!foreign.is_zero()));
            let word = Word::Measured { card, foreign, at: self.clock(), closed };
            self.say(machine, &word);
        }
        self.agenda.put(self.now.after(Timespan::millis(280_000)), Due::Measure { machine });
    }

    /// Something happens on a machine.
    pub(super) fn stir(&mut self, machine: usize) {
        if self.temper.calm {
            return self.again(self.temper.stir, Due::Stir { machine });
        }
        match self.chance.below(80) {
            0..72 => self.stir_process(machine),
            72..78 => self.stir_foreign(machine),
            78 => self.stranger(machine),
            _ => {}
        }
        self.again(self.temper.stir, Due::Stir { machine });
    }

    /// A process works, rests, grows or dies.
    fn stir_process(&mut self, machine: usize) {
        let now = self.clock();
        let running = |process: &&Process| process.phase == Phase::Running;
        let at = &self.machines[machine];
        let ids: Vec<RequestId> =
            at.processes.iter().filter(|(_, p)| running(p)).map(|(id, _)| id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let request = self.chance.pick(&ids).clone();
        match self.chance.below(20) {
            0 => {
                let word = self.machines[machine].die(&request);
                self.say_if(machine, word);
            }
            1 => self.grow(machine, request),
            _ => {
                let busy = u32::try_from(self.chance.between(1, 8)).expect("small");
                let activity = if self.chance.percent(40) {
                    Activity::Active { requests: busy }
                } else {
                    Activity::Idle { since: now }
                };
                let generation = self.machines[machine].processes[&request].generation;
                self.say(machine, &Word::Acted { request, generation, activity });
            }
        }
    }

    fn grow(&mut self, machine: usize, request: RequestId) {
        let at = &self.machines[machine];
        let process = &at.processes[&request];
        let Some(part) = process.parts.first() else { return };
        if let Some(card) = at.card(part.serial) {
            self.engine.tally.count(Count::Grown);
            let bytes = Bytes::new(part.bytes + part.bytes / 100 * self.chance.between(1, 40) + 1);
            let generation = process.generation;
            self.say(machine, &Word::Grew { request, generation, card, bytes });
        }
    }

    /// Memory that nobody placed comes, changes or goes.
    fn stir_foreign(&mut self, machine: usize) {
        if !self.temper.measured || self.machines[machine].serials.is_empty() {
            return;
        }
        let at = &mut self.machines[machine];
        let serial = *self.chance.pick(&at.serials);
        let bytes = if self.chance.percent(40) { 0 } else { self.chance.below(20 << 30) };
        at.foreign.insert(serial, bytes);
    }

    /// Somebody starts something by hand.
    fn stranger(&mut self, machine: usize) {
        if self.machines[machine].serials.is_empty() || self.machines[machine].make == Make::Sliced
        {
            return;
        }
        self.engine.tally.count(Count::Unknown);
        self.strangers += 1;
        let request = RequestId::new("stranger", format!("by-hand-{}", self.strangers));
        let serial = *self.chance.pick(&self.machines[machine].serials);
        // Of some nobody knows how much they use.
        let bytes = if self.chance.percent(20) { 0 } else { self.chance.between(1, 30 << 30) };
        let part = Part { serial, bytes, whole: false, slices: 0 };
        let process =
            Process { generation: None, ordered: false, phase: Phase::Running, parts: vec![part] };
        self.machines[machine].processes.insert(request, process);
    }
}
