//! What runners have to do.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Holding, HoldingId, Stage};
use plimsoll_core::device::Node;
use plimsoll_core::units::Name;

use super::Desk;
use super::reports::name_on_runner;
use super::runners::{RunnerError, is_of};
use crate::launch;
use crate::wire::{Action, Launch, Order, Orders, SlotReport};

impl Desk {
    /// What a runner has to do: derived from the ledger, so that it can be said again at any time, without what its last heartbeat
    /// shows that it knows.
    pub fn orders<'a>(&'a self, runner: &str) -> Orders {
        let live = self.live.get(runner);
        let revision = live.map_or(0, |live| live.work_revision);
        let ledger = self.scheduler().ledger();
        let files = self.files_wanted(runner);
        let none = |files| Orders { revision, orders: Vec::new(), files };
        let Some(node) = ledger.node_id(runner) else { return none(files) };
        let Some(view) = ledger.view(node) else { return none(files) };
        let said = |report: &'a SlotReport| (report.slot.as_str(), report);
        let said: BTreeMap<&str, &SlotReport> =
            live.into_iter().flat_map(|live| &live.slots).map(said).collect();
        // Before its first heartbeat an agent may have lost what it was told in an earlier session.
        let is_new = live.is_none_or(|live| live.sequence == 0);
        let order = |(id, holding): (HoldingId, &Holding)| {
            let action = match holding.stage {
                Stage::Offered { .. } => return None,
                // What its devices cannot hold any more is called off: the answer says that nothing is there.
                Stage::Sent if !ledger.may_start(holding) => Action::Stop,
                Stage::Sent => Action::Start,
                Stage::Running { .. } => Action::Keep,
                Stage::Releasing { .. } => Action::Stop,
            };
            let name = &holding.request.name;
            let slot = name_on_runner(name, runner);
            let said = said.get(slot).copied();
            let generation = generation(id, holding, said);
            let has_it = !is_new && said.is_some_and(|said| said.generation == generation);
            let launch = (!has_it).then(|| self.launch(name, holding, &view.node));
            let model = holding.request.account.to_string();
            Some(Order { slot: slot.to_string(), generation, model, action, launch })
        };
        Orders { revision, orders: ledger.holdings_on(node).filter_map(order).collect(), files }
    }

    /// What an agent has to do, if it is the one that registered last.
    pub fn work(&self, runner: &str, session: Option<u64>) -> Result<Orders, RunnerError> {
        let known = self.state.runners.get(runner).ok_or(RunnerError::NotRegistered)?;
        session.map_or(Ok(()), |session| is_of(known, session))?;
        Ok(self.orders(runner))
    }

    /// How a slot is started on the node where it is charged.
    fn launch(&self, slot: &Name, holding: &Holding, node: &Node) -> Launch {
        match self.state.slots.get(slot).and_then(|slot| slot.made_from.as_ref()) {
            Some(model) => launch::launch(model, slot, holding, node),
            None => launch::unknown(&holding.request.account, holding, node),
        }
    }
}

/// The number under which a runner is told of a slot, after what it said of it last.
pub(super) fn generation(id: HoldingId, holding: &Holding, said: Option<&SlotReport>) -> u64 {
    match said {
        // What was only observed has the number that its runner knows it by.
        Some(said) if holding.spec.is_none() => said.generation,
        // A runner that knows later numbers than were ever given here knows them from before the server went back, to an earlier copy
        // of its data: there is no other way that it takes orders.
        Some(said) if said.generation > id.0 => {
            let is_anew = holding.stage == Stage::Sent && said.state.is_over();
            said.generation.saturating_add(u64::from(is_anew))
        }
        _ => id.0,
    }
}
