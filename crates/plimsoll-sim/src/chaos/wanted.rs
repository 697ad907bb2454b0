//! What was asked for and not withdrawn: nothing else may be started, or wait for a place.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::event::{Answer, Effect, Event, Outcome};
use plimsoll_core::request::{Request, RequestId, Spec};
use plimsoll_core::scheduler::Scheduler;

/// Everybody who wants something, and what they have asked for since they last withdrew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted(BTreeMap<RequestId, Vec<Arc<Spec>>>);

impl Wanted {
    /// Takes in one event, and objects to what came of it that nobody wants.
    pub(crate) fn step(
        &mut self,
        event: &Event,
        outcome: &Outcome,
        after: &Scheduler,
    ) -> Option<String> {
        match event {
            Event::Submit { request, .. } | Event::Ask { request } => self.asked(request),
            Event::SubmitGang { members, .. } => {
                members.iter().for_each(|member| self.asked(member));
            }
            Event::Withdraw { request } => {
                self.0.remove(request);
            }
            _ => {}
        }
        let starts = outcome.effects.iter().filter_map(|effect| match effect {
            Effect::Start { request, .. } => Some(request),
            Effect::Stop { .. } => None,
        });
        let waits = outcome.answers.iter().filter_map(|answer| match answer {
            Answer::Pending { request, .. } => Some(request),
            Answer::Placed { .. }
            | Answer::Offered { .. }
            | Answer::Impossible { .. }
            | Answer::Rejected { .. } => None,
        });
        starts.chain(waits).find_map(|id| self.unwanted(id, after))
    }

    fn asked(&mut self, request: &Request) {
        let specs = self.0.entry(request.id.clone()).or_default();
        if !specs.contains(&request.spec) {
            specs.push(request.spec.clone());
        }
    }

    fn unwanted(&self, id: &RequestId, after: &Scheduler) -> Option<String> {
        let Some(specs) = self.0.get(id) else {
            return Some(format!("{id} was withdrawn, and is started or waits again"));
        };
        // What is being given back was asked for once.
        let held =
            after.ledger().of_request(id).filter(|(_, holding)| !holding.stage.is_releasing());
        let held = held.and_then(|(_, holding)| holding.spec.clone());
        let waiting = after.queue().get(id).map(|waiting| waiting.request.spec.clone());
        let other = held.into_iter().chain(waiting).find(|spec| !specs.contains(spec));
        other.map(|_| {
            format!("{id} is started or waits for what it has not asked since it withdrew")
        })
    }
}
