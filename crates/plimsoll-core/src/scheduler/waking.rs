//! Waking those whose refusal a change may have lifted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::Step;
use crate::queue::Waiting;
use crate::request::{RequestId, Terms};

impl Step<'_> {
    /// Tries again, in turn, those whose refusal a change may have lifted.
    pub(super) fn wake(&mut self) {
        if self.lifted.is_empty() {
            return;
        }
        let woken = |w: &&Waiting| {
            w.may_try(self.now) && w.wakes_on.iter().any(|change| self.lifted.contains(change))
        };
        let woken: Vec<Waiting> = self.machine.queue.iter().filter(woken).cloned().collect();
        self.try_again(woken);
    }

    /// Tries those who stood back behind real work, once none of that waits any more: whatever changed meanwhile passed them by.
    pub(super) fn wake_speculative(&mut self, real_work_waited: bool) {
        if real_work_waited && !self.machine.queue.has_real_work() {
            let queue = self.machine.queue.iter();
            let standing: Vec<Waiting> = queue.filter(|w| w.may_try(self.now)).cloned().collect();
            self.try_again(standing);
        }
    }

    /// Tries these in turn, and again from the first where a promise went: that may make room for those before.
    fn try_again(&mut self, mut woken: Vec<Waiting>) {
        while self.try_in_turn(&woken).is_break() {
            let still = |waiting: &Waiting| self.machine.queue.get(&waiting.request.id).cloned();
            woken = woken.iter().filter_map(still).collect();
        }
    }

    /// Of equals that hold nothing and were promised nothing the first one is tried for all, as long as nothing but places is given out:
    /// that makes room for nobody. Breaks when there are fewer promises than before.
    fn try_in_turn(&mut self, woken: &[Waiting]) -> ControlFlow<()> {
        let mut refused: BTreeMap<_, Waiting> = BTreeMap::new();
        let mut gangs = BTreeSet::new();
        for waiting in woken {
            if waiting.request.terms.speculative && self.machine.queue.has_real_work() {
                break;
            }
            if let Some(gang) = &waiting.gang {
                if gangs.insert(gang.name.clone()) {
                    self.try_gang(&gang.name);
                }
                continue;
            }
            let id = &waiting.request.id;
            let terms = Terms { deadline: None, ..waiting.request.terms.clone() };
            let key = (waiting.request.spec.clone(), terms);
            let stands_alone = self.stands_alone(id);
            if let Some(equal) = refused.get(&key).filter(|_| !stands_alone) {
                let (reason, wakes_on) = (equal.reason.clone(), equal.wakes_on.clone());
                self.keep_waiting(Waiting { reason, wakes_on, ..waiting.clone() }, None);
                continue;
            }
            let before = self.machine.ledger.revision();
            let promises = self.machine.ledger.promises().len();
            self.try_place(waiting.clone());
            if self.machine.ledger.promises().len() < promises {
                return ControlFlow::Break(());
            }
            match self.machine.queue.get(id) {
                Some(_) if self.machine.ledger.revision() != before => refused.clear(),
                Some(still) if !stands_alone => drop(refused.insert(key, still.clone())),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether what somebody is told is not what their equals would be: they have a promise, or an earlier place of theirs is still there.
    fn stands_alone(&self, id: &RequestId) -> bool {
        let ledger = &self.machine.ledger;
        ledger.promise_to(id).is_some() || ledger.of_request(id).is_some()
    }
}
