//! Stage 1: applies an event to the ledger and the queue.

use super::{Lifted, Step};
use crate::device::Node;
use crate::event::{Event, Operation, Settings};
use crate::reason::Change;
use crate::request::RequestId;

impl Step<'_> {
    /// Applies an event. Returns the changes that may lift the reason of a pending request.
    pub(super) fn apply(&mut self, event: Event) -> Lifted {
        let mut lifted = self.apply_event(event);
        if self.promises_withdrawn > 0 {
            lifted.insert(Change::LoadFell);
        }
        lifted
    }

    fn apply_event(&mut self, event: Event) -> Lifted {
        match event {
            Event::Node { node } => self.put_node(*node),
            Event::NodeGone { name } => {
                let dropped = self.scheduler.ledger.drop_node(&name);
                match self.record_if_accepted(dropped) {
                    true => Lifted::from([Change::NodeChanged]),
                    false => Lifted::new(),
                }
            }
            Event::Ask { request } => self.ask(&request),
            Event::Take { request, node } => self.take(&request, node.as_ref()),
            Event::Submit { request, deadline } => {
                self.submit(request, deadline);
                Lifted::new()
            }
            Event::SubmitGang { name, minimum, members } => {
                self.submit_gang(&name, minimum, members);
                Lifted::new()
            }
            Event::Withdraw { request } => self.withdraw(&request),
            Event::Started { request, generation, activity } => {
                self.started(&request, generation, activity)
            }
            Event::Failed { request, generation } => self.failed(&request, generation),
            Event::Freed { request, generation, ordinal } => {
                self.freed(&request, generation, ordinal)
            }
            Event::Observed { holding } => self.observed(*holding),
            Event::Measured { node, ordinal, measured } => self.measured(&node, ordinal, measured),
            Event::Grew { request, ordinal, bytes } => {
                let raised = self.scheduler.ledger.raise(&request, ordinal, bytes);
                self.record_if_accepted(raised);
                Lifted::new()
            }
            Event::Acted { request, activity } => {
                let acted = self.scheduler.ledger.act(&request, activity);
                self.record_if_accepted(acted);
                Lifted::from([Change::LoadFell])
            }
            Event::Configured { settings } => self.configure(settings),
            Event::Judge { request } => {
                let decision = self.scheduler.decide_for(&request);
                self.outcome.decisions.push(decision);
                Lifted::new()
            }
            Event::Admit { request, node } => self.admit(&request, &node),
            Event::Claimed { request } => {
                self.claim(&request);
                Lifted::new()
            }
            Event::Audit => Lifted::new(),
            Event::Tick => self.tick(),
        }
    }

    fn put_node(&mut self, node: Node) -> Lifted {
        let operation = self.scheduler.ledger.put_node(node);
        self.record(operation);
        Lifted::from([
            Change::NodeChanged,
            Change::DeviceRepaired,
            Change::DeviceOpened,
            Change::LoadFell,
        ])
    }

    fn configure(&mut self, settings: Box<Settings>) -> Lifted {
        self.scheduler.configure(Settings::clone(&settings));
        self.outcome.operations.push(Operation::Configure(settings));
        Lifted::from([Change::LoadFell])
    }

    /// Turns speculative work into real work. If it is pending, it takes its turn among the real
    /// work.
    fn claim(&mut self, id: &RequestId) {
        if let Some(mut entry) = self.scheduler.queue.get(id).cloned()
            && entry.request.terms.speculative
        {
            self.dequeue(id);
            entry.request.terms.speculative = false;
            self.enqueue(entry.clone());
            self.try_place(entry);
        }
        let claimed = self.scheduler.ledger.claim(id);
        self.record_if_accepted(claimed);
    }
}
