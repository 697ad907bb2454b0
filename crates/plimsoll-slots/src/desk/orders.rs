//! Orders: the desired state of a runner, derived from the ledger.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Holding, HoldingId, Stage};
use plimsoll_core::device::Node;
use plimsoll_core::units::Name;

use super::DeskView;
use super::reports::name_on_runner;
use crate::launch;
use crate::wire::{Action, Launch, Order, Orders, SlotReport};

impl<'a> DeskView<'a> {
    /// Returns the orders of a runner.
    ///
    /// They are derived at every call, so that they can be repeated at any time and there is
    /// no list of orders to keep consistent with the ledger. The launch record, which is large, is
    /// left out for a slot that the last heartbeat of this session reported: its runner has it.
    pub fn orders(self, runner: &str) -> Orders {
        let live = self.desk.runners.live(runner);
        let revision = live.map_or(0, |live| live.work_revision);
        let files = self.desk.models.files_to_read(live.map(|live| &live.files));
        let epoch = self.desk.runners.epoch();
        let ledger = self.core.ledger();
        let node = ledger.node_id(runner);
        let Some((node, view)) = node.and_then(|node| Some((node, ledger.view(node)?))) else {
            return Orders { revision, epoch, orders: Vec::new(), files };
        };
        // Before its first heartbeat an agent may have lost what an earlier session was sent.
        let is_new = live.is_none_or(|live| live.sequence.is_none());
        let reports = live.into_iter().flat_map(|live| &live.slots);
        let reports: BTreeMap<&str, &SlotReport> =
            reports.map(|report| (report.slot.as_str(), report)).collect();
        let order = |(id, holding): (HoldingId, &Holding)| {
            let action = self.action(holding)?;
            let name = &holding.request.name;
            let slot = name_on_runner(name, runner);
            let last = reports.get(slot).copied();
            let generation = generation(id, holding, last);
            let has_launch = !is_new && last.is_some_and(|last| last.generation == generation);
            Some(Order {
                slot: slot.to_string(),
                generation,
                model: holding.request.account.to_string(),
                action,
                launch: (!has_launch).then(|| self.launch(name, holding, &view.node)),
            })
        };
        let orders = ledger.holdings_on(node).filter_map(order).collect();
        Orders { revision, epoch, orders, files }
    }

    /// Returns the action that a charge calls for; `None` for one that its runner must not know of
    /// yet.
    fn action(self, holding: &Holding) -> Option<Action> {
        match holding.stage {
            Stage::Offered { .. } | Stage::Queued => None,
            // Its devices have shrunk and cannot hold it any more. The runner answers that nothing
            // is there, which is the evidence that the charge needs.
            Stage::Sent if !self.core.ledger().may_start(holding) => Some(Action::Stop),
            Stage::Sent => Some(Action::Start),
            Stage::Running { .. } => Some(Action::Keep),
            Stage::Releasing { .. } => Some(Action::Stop),
        }
    }

    fn launch(self, slot: &Name, holding: &Holding, node: &Node) -> Launch {
        match self.slot(slot).and_then(|slot| slot.made_from.as_ref()) {
            Some(model) => {
                let shape = self.desk.models.shape_on(model, &node.name);
                launch::launch(model, slot, holding, node, shape)
            }
            None => launch::unknown(&holding.request.account, holding, node),
        }
    }
}

/// Returns the generation under which a runner gets orders for a slot; `last` is what it reported
/// of the slot last.
///
/// Normally that is the number of the holding, which grows with every start. A runner that knows a
/// larger number for a slot that this server has placed got it before the server was restored from
/// an older copy of its data. It would ignore orders with smaller numbers, so the server continues
/// from the runner's number: with the same one while that process lives, with the next one for a
/// new start.
pub(super) fn generation(id: HoldingId, holding: &Holding, last: Option<&SlotReport>) -> u64 {
    match last {
        // An adopted slot keeps the number that its runner knows it by.
        Some(last) if holding.spec.is_none() => last.generation,
        Some(last) if last.generation > id.0 => {
            let is_new_start = holding.stage == Stage::Sent && last.state.is_over();
            last.generation.saturating_add(u64::from(is_new_start))
        }
        _ => id.0,
    }
}
