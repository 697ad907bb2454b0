//! Calls of clients and operators on the desk.

use plimsoll_core::units::{Millis, Name};
use plimsoll_slots::desk::{ClientName, IdempotencyKey, NewReservation, ReservationStatus};
use plimsoll_slots::lease::Lease;
use plimsoll_slots::size::Span;

use super::counters::Counter;
use super::day::{Answer, Day};
use super::models;
use super::random::Random;

impl Day {
    /// A client or an operator makes a call.
    pub(super) fn client_call(&mut self) {
        self.server.counters.increment(Counter::ClientCalls);
        match self.random.below(100) {
            0..48 => self.reserve(),
            48..80 => self.release(),
            80..84 => self.renew(),
            84..87 => self.stop_slot(),
            87..92 => {
                let name = models::draw_name(&mut self.random);
                self.declare(name);
            }
            92..94 => {
                let name = models::draw_name(&mut self.random);
                self.call(|desk, core| {
                    desk.remove_model(core, name);
                    None
                });
            }
            94..96 => self.what_if(),
            _ => self.look(),
        }
    }

    /// Reserves a model, sometimes with a key that was used before.
    pub(super) fn reserve(&mut self) {
        let now = self.server_time();
        let model = models::draw_name(&mut self.random);
        let random = &mut self.random;
        let client = ClientName { namespace: "team".to_string(), name: "app".to_string() };
        let new = NewReservation {
            key: random.percent(20).then(|| draw_key(random)),
            client: random.percent(30).then_some(client),
            deadline: random.percent(40).then(|| Millis(now.0 + random.between(1, 900_000))),
            lease: random.percent(30).then(|| draw_lease(random)),
            ..NewReservation::of_model(model)
        };
        // An unknown model, or a key that was used for another one, is rejected.
        let mut renewed = None;
        self.call(|desk, core| {
            let reserved = desk.reserve(core, new).ok();
            let status = |id: &_| desk.view(core.scheduler()).reservation_status(*id);
            let has_ended = |id: &_| matches!(status(id), Some(ReservationStatus::Ended(_)));
            renewed = reserved.filter(|id| !has_ended(id));
            reserved.map(Answer::Reserved)
        });
        // With a key that was used before, the request is a sign of life of its client.
        renewed.into_iter().for_each(|id| self.leases.on_sign(id, now));
    }

    /// A client renews its lease. Most do not: they vanish without a release.
    fn renew(&mut self) {
        let Some(id) = self.clients.draw_open(&mut self.random) else { return };
        let (now, mut renewed) = (self.server_time(), None);
        self.call(|desk, core| {
            renewed = desk.renew(core, id).ok();
            None
        });
        if renewed.is_some() {
            self.server.counters.increment(Counter::LeasesRenewed);
            self.leases.on_sign(id, now);
        }
    }

    fn release(&mut self) {
        if let Some(id) = self.clients.draw_open(&mut self.random) {
            self.call(|desk, core| {
                desk.release(core, id);
                Some(Answer::Released(id))
            });
        }
    }

    fn stop_slot(&mut self) {
        let slots: Vec<Name> = self.server.view().slots().map(|slot| slot.id.clone()).collect();
        if !slots.is_empty() {
            let slot = self.random.pick(&slots).clone();
            self.stop(&slot);
        }
    }

    pub(super) fn stop(&mut self, slot: &Name) {
        self.call(|desk, core| {
            // It may have ended since.
            let _ = desk.stop_slot(core, slot);
            None
        });
    }

    /// Declares a model or changes its declaration.
    pub(super) fn declare(&mut self, name: &str) {
        let model = models::draw(&mut self.random, name);
        self.call(|desk, core| {
            desk.declare_model(core, model);
            None
        });
    }

    fn what_if(&mut self) {
        let model = models::draw(&mut self.random, "what-if");
        self.call(|desk, core| {
            let _ = desk.what_if(core, &model);
            None
        });
    }

    /// A client looks at its reservation.
    fn look(&mut self) {
        if !self.server.is_up() {
            return;
        }
        if let Some(id) = self.clients.draw_open(&mut self.random) {
            let status = self.server.view().reservation_status(id);
            let is_ready = status.is_some_and(|status| status.is_ready());
            self.server.counters.add(Counter::Served, usize::from(is_ready));
        }
    }
}

/// Draws a key of one of few callers, so that some are repeated.
fn draw_key(random: &mut Random) -> IdempotencyKey {
    let caller = random.percent(50).then(|| format!("team-{}", random.below(2)));
    IdempotencyKey { caller, text: format!("key-{}", random.below(20)) }
}

fn draw_lease(random: &mut Random) -> Lease {
    match random.percent(30) {
        true => Lease::Off,
        false => Lease::For(Span(random.between(60_000, 7_200_000))),
    }
}
