//! Carries out orders: the one place where slots begin, are asked to go, and are forgotten.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll_slots::wire::{Order, Orders, SlotState};
use tracing::{info, warn};

use super::adopt;
use super::books::{Books, Phase, Shared, Slot};
use super::files;
use super::launch::{self, Places, Refusal};
use super::processes::{self, Owner};
use super::reconcile::{self, Act};
use super::record::{Record, StateDir};
use super::watch;

/// The agent, as all its threads see it.
pub(crate) struct Agent {
    pub(crate) owner: Owner,
    pub(crate) state: StateDir,
    pub(crate) places: Places,
    pub(crate) session: u64,
    pub(crate) shared: Shared,
}

impl Agent {
    /// Takes orders, unless they are older than those that it has. `asked_with` is the revision that it had when it asked.
    pub(crate) fn take_orders(self: &Arc<Agent>, orders: Orders, asked_with: u64) {
        self.shared.change(|books| {
            if is_late(orders.revision, books.revision, asked_with) {
                return;
            }
            books.revision = orders.revision;
            books.orders = orders.orders;
            self.learn(books);
            files::look(self, books, orders.files);
            self.reconcile(books);
        });
    }

    /// Learns how slots were started of which no record was left, while the server still says it.
    fn learn(&self, books: &mut Books) {
        for order in &books.orders {
            let told = order.launch.as_ref().filter(|launch| !launch.argv.is_empty());
            let slot = books.slots.get_mut(&order.slot);
            let is_there = |slot: &&mut Slot| !matches!(slot.phase, Phase::Over(_));
            let unknown = slot.filter(is_there).filter(|slot| slot.record.launch.argv.is_empty());
            if let Some((slot, launch)) = unknown.zip(told) {
                slot.record.launch = launch.clone();
                self.keep(&slot.record);
            }
        }
    }

    /// Does what the latest orders say about what is known now.
    pub(crate) fn reconcile(self: &Arc<Agent>, books: &mut Books) {
        for act in reconcile::reconcile(&books.orders, &books.known()) {
            self.perform(books, act);
        }
    }

    fn perform(self: &Arc<Agent>, books: &mut Books, act: Act) {
        match act {
            Act::Start(order) => self.start(books, order),
            Act::Missing(order) => self.miss(books, order),
            Act::Adopt(order) => self.adopt(books, &order),
            Act::Stop(order) => {
                info!(slot = order.slot, generation = order.generation, "the slot is asked to go");
                let slot = books.slots.get_mut(&order.slot).expect("only what is known is stopped");
                slot.stop = true;
                books.news += 1;
                self.adopt(books, &order);
            }
            Act::Forget(name) => {
                if books.slots.get(&name).is_some_and(|slot| slot.is_told) {
                    books.slots.remove(&name);
                    self.state.drop(&name);
                }
            }
        }
    }

    /// Says that a slot is gone which should be here and is not, where this agent can know that.
    fn miss(&self, books: &mut Books, order: Order) {
        if let Some(why) = self.may_live(books, &order) {
            if books.doubtful.insert(order.slot.clone()) {
                warn!(
                    slot = order.slot,
                    generation = order.generation,
                    why,
                    "nothing is said of the slot"
                );
            }
            return;
        }
        books.doubtful.remove(&order.slot);
        let mut slot = Slot::new(blank(order), Phase::Over(SlotState::Gone));
        slot.reason = Some("this runner has no process of it".to_owned());
        insert(books, slot);
    }

    /// Why a slot that this agent never knew may live all the same: its name was given to another agent before.
    fn may_live(&self, books: &Books, order: &Order) -> Option<String> {
        let facts = &books.devices.facts;
        let is_here = |uuid: &String| facts.iter().any(|device| device.uuid.as_ref() == Some(uuid));
        let devices = order.launch.iter().flat_map(|launch| &launch.devices);
        if let Some(uuid) =
            devices.filter_map(|device| device.uuid.as_ref()).find(|uuid| !is_here(uuid))
        {
            return Some(format!(
                "it was started on device {uuid}, which this machine does not have; if it is over, remove this runner from the server"
            ));
        }
        let pid = processes::find_under_other_state_dir(&self.owner, &order.slot)?;
        Some(format!(
            "its process {pid} was started by an agent with another state directory; end it, or start the agent with that --state"
        ))
    }

    /// Reports what is here under the order's generation.
    fn adopt(&self, books: &mut Books, order: &Order) {
        let slot = books.slots.get_mut(&order.slot).expect("only what is known is adopted");
        if slot.record.generation == order.generation {
            return;
        }
        info!(
            slot = order.slot,
            from = slot.record.generation,
            to = order.generation,
            "the slot has a new generation"
        );
        slot.record.generation = order.generation;
        slot.is_told = false;
        self.keep(&slot.record);
        books.news += 1;
    }

    fn start(self: &Arc<Agent>, books: &mut Books, order: Order) {
        info!(
            slot = order.slot,
            generation = order.generation,
            model = order.model,
            "the slot is started"
        );
        let mut record = blank(order);
        let port = match books.is_ending {
            true => Err("not started: this runner is ending".to_owned()),
            false => {
                let checked = launch::check(&record.launch, &books.devices.facts);
                checked
                    .and_then(|()| self.port(books, &record))
                    .map_err(|refusal| refusal.to_string())
            }
        };
        // The record stands before the process does, so that an agent that is killed in between leaves a trace to look for.
        let kept = port.and_then(|port| {
            record.port = port;
            self.state
                .keep(&record)
                .map_err(|error| format!("not started: its record cannot be written: {error}"))
        });
        let name = record.slot.clone();
        match kept {
            Ok(()) => {
                insert(books, Slot::new(record, Phase::Starting));
                self.watch(&name, watch::Begin::Start);
            }
            Err(reason) => {
                warn!(slot = name, reason, "the slot is refused");
                let mut slot = Slot::new(record, Phase::Over(SlotState::Failed));
                slot.record.over = Some((SlotState::Failed, Some(reason.clone())));
                slot.reason = Some(reason);
                self.keep(&slot.record);
                insert(books, slot);
            }
        }
    }

    fn port(&self, books: &mut Books, record: &Record) -> Result<Option<u16>, Refusal> {
        if !launch::wants_port(&record.launch) {
            return Ok(None);
        }
        let taken = books.slots.values().filter(|slot| !matches!(slot.phase, Phase::Over(_)));
        let port = self
            .places
            .free_port(books.last_port, &taken.filter_map(|slot| slot.record.port).collect())?;
        books.last_port = port;
        Ok(Some(port))
    }

    /// Gives a slot a watcher of its own, so that one that is slow delays nobody.
    pub(crate) fn watch(self: &Arc<Agent>, slot: &str, begin: watch::Begin) {
        let (agent, slot) = (Arc::clone(self), slot.to_owned());
        thread::spawn(move || watch::watch(&agent, &slot, begin));
    }

    /// Keeps a record as far as that is possible. What cannot be kept still runs, and is found by its variables.
    pub(crate) fn keep(&self, record: &Record) {
        if let Err(error) = self.state.keep(record) {
            warn!(slot = record.slot, %error, "the record of the slot cannot be written");
        }
    }

    /// Asks every slot to go.
    pub(crate) fn stop_all(&self) {
        self.shared.change(|books| {
            books.slots.values_mut().for_each(|slot| slot.stop = true);
            books.news += 1;
        });
    }
}

fn insert(books: &mut Books, slot: Slot) {
    books.slots.insert(slot.record.slot.clone(), slot);
    books.news += 1;
}

/// A record of a slot of which there is nothing yet.
fn blank(order: Order) -> Record {
    Record {
        slot: order.slot,
        generation: order.generation,
        launch: order.launch.unwrap_or_else(|| adopt::unknown_launch(&order.model)),
        port: None,
        leader: None,
        boot: processes::boot_id(),
        started_ms: now_ms(),
        was_ready: false,
        over: None,
    }
}

/// Whether orders were overtaken on their way. Those that are older than what was known when they were asked for are not late: the
/// server itself went back, and counts anew.
fn is_late(revision: u64, known: u64, asked_with: u64) -> bool {
    revision < known && revision >= asked_with
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_were_overtaken_are_late_and_those_of_a_server_that_went_back_are_not() {
        assert!(!is_late(7, 7, 7));
        assert!(!is_late(8, 7, 7));
        assert!(is_late(6, 7, 5), "asked with 5, and 7 came by another way");
        assert!(!is_late(2, 7, 7), "asked with 7, so that the server counts anew");
    }
}
