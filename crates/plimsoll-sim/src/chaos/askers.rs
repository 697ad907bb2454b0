//! Those who ask: they submit, take offers or let them lapse, ask again, withdraw, and now and then ask twice.

use std::sync::Arc;

use plimsoll_core::event::{Answer, Event};
use plimsoll_core::request::{Request, RequestId, Spec};
use plimsoll_core::units::{Millis, Name, Timespan};

use super::chance::Chance;
use super::work;

/// Everybody who asks, with what they ask for.
#[derive(Debug)]
pub(crate) struct Askers {
    chance: Chance,
    specs: Vec<Arc<Spec>>,
    nodes: Vec<Name>,
    askers: Vec<Asker>,
    /// How many of a hundred wait for as long as it takes.
    patience: u64,
    gangs: u64,
    uids: u64,
}

#[derive(Debug)]
struct Asker {
    request: Request,
    stance: Stance,
}

/// What an asker believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stance {
    Away,
    Asked,
    Wanting,
    /// Told to wait, and without the patience for it.
    Tired,
}

impl Askers {
    pub(crate) fn new(
        mut chance: Chance,
        specs: Vec<Arc<Spec>>,
        nodes: Vec<Name>,
        count: usize,
        patience: u64,
    ) -> Self {
        let mut asker = |at: usize| {
            let id = RequestId::new(format!("team-{}", at % 3), format!("work-{at}"));
            let request =
                Request { id, spec: chance.pick(&specs).clone(), terms: work::terms(&mut chance) };
            Asker { request, stance: Stance::Away }
        };
        let askers = (0..count).map(&mut asker).collect();
        Askers { chance, specs, nodes, askers, patience, gangs: 0, uids: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.askers.len()
    }

    /// One who was told to wait gives up, if it still waits.
    pub(crate) fn give_up(&mut self, at: usize) -> Option<Event> {
        (self.askers[at].stance == Stance::Tired).then(|| self.withdraw(at))
    }

    /// What an asker does now.
    pub(crate) fn act(&mut self, at: usize, now: Millis) -> Option<Event> {
        let drawn = self.chance.below(100);
        match self.askers[at].stance {
            Stance::Away if drawn < 60 => Some(self.submit(at, now)),
            Stance::Away if drawn < 80 => Some(self.ask(at)),
            Stance::Away if drawn < 88 => self.gang(at),
            Stance::Away if drawn < 92 => Some(self.withdraw(at)),
            Stance::Asked if drawn < 60 => Some(self.take(at, None)),
            Stance::Asked if drawn < 75 => {
                let node = self.chance.pick(&self.nodes).clone();
                Some(self.take(at, Some(node)))
            }
            Stance::Asked => {
                self.askers[at].stance = Stance::Away;
                None
            }
            Stance::Tired => Some(self.withdraw(at)),
            Stance::Wanting if drawn < 50 => Some(self.withdraw(at)),
            Stance::Wanting if drawn < 70 => {
                Some(Event::Submit { request: self.askers[at].request.clone(), deadline: None })
            }
            Stance::Wanting if drawn < 73 => {
                Some(Event::Ask { request: self.askers[at].request.clone() })
            }
            Stance::Wanting if drawn < 78 => Some(self.take(at, None)),
            Stance::Away | Stance::Wanting => None,
        }
    }

    /// Somebody is told something; says who will not wait for long.
    pub(crate) fn hear(&mut self, answer: &Answer) -> Option<usize> {
        let (request, stance) = match answer {
            Answer::Impossible { request, .. } | Answer::Rejected { request, .. } => {
                (request, Stance::Away)
            }
            Answer::Pending { request, .. } if !self.chance.percent(self.patience) => {
                (request, Stance::Tired)
            }
            Answer::Pending { .. } | Answer::Placed { .. } | Answer::Offered { .. } => return None,
        };
        let at = self.askers.iter().position(|asker| asker.request.id == *request)?;
        let before = std::mem::replace(&mut self.askers[at].stance, stance);
        (stance == Stance::Tired && before != Stance::Tired).then_some(at)
    }

    /// Somebody draws up a new request, under the name it always uses and seldom as another bearer of that name.
    fn renew(&mut self, at: usize) -> Request {
        let asker = &mut self.askers[at];
        asker.request.spec = self.chance.pick(&self.specs).clone();
        asker.request.terms = work::terms(&mut self.chance);
        if self.chance.percent(20) {
            self.uids += 1;
            asker.request.id = asker.request.id.clone().with_uid(format!("u{}", self.uids));
        }
        asker.request.clone()
    }

    fn submit(&mut self, at: usize, now: Millis) -> Event {
        let request = self.renew(at);
        self.askers[at].stance = Stance::Wanting;
        let deadline = self
            .chance
            .percent(50)
            .then(|| now.after(Timespan::millis(self.chance.between(1, 900_000))));
        Event::Submit { request, deadline }
    }

    fn ask(&mut self, at: usize) -> Event {
        let request = self.renew(at);
        self.askers[at].stance = Stance::Asked;
        Event::Ask { request }
    }

    fn take(&mut self, at: usize, node: Option<Name>) -> Event {
        self.askers[at].stance = Stance::Wanting;
        Event::Take { request: self.askers[at].request.id.clone(), node }
    }

    fn withdraw(&mut self, at: usize) -> Event {
        self.askers[at].stance = Stance::Away;
        Event::Withdraw { request: self.askers[at].request.id.clone() }
    }

    /// Somebody gathers others who are away.
    fn gang(&mut self, at: usize) -> Option<Event> {
        let wanted = usize::try_from(self.chance.between(2, 4)).expect("small");
        let away = |other: &usize| self.askers[*other].stance == Stance::Away;
        let members: Vec<usize> = (at..self.askers.len()).filter(away).take(wanted).collect();
        if members.len() < 2 {
            return None;
        }
        self.gangs += 1;
        let minimum = u32::try_from(self.chance.between(1, members.len() as u64)).expect("small");
        let requests = members
            .iter()
            .map(|member| {
                self.askers[*member].stance = Stance::Wanting;
                self.renew(*member)
            })
            .collect();
        Some(Event::SubmitGang {
            name: format!("gang-{}", self.gangs).into(),
            minimum,
            members: requests,
        })
    }
}
