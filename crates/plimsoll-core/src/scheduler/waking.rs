//! Waking those whose refusal a change may have lifted.

use std::collections::{BTreeMap, BTreeSet};

use super::Step;
use crate::queue::Waiting;
use crate::request::Terms;

impl Step<'_> {
    /// Tries again, in turn, those whose refusal a change may have lifted. Equal specs are tried once until one is placed.
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

    fn try_again(&mut self, woken: Vec<Waiting>) {
        let mut refused: BTreeMap<_, Waiting> = BTreeMap::new();
        let mut gangs = BTreeSet::new();
        for waiting in woken {
            if waiting.request.terms.speculative && self.machine.queue.has_real_work() {
                break;
            }
            let revision = self.machine.ledger.revision();
            if let Some(gang) = &waiting.gang {
                if gangs.insert(gang.name.clone()) {
                    self.try_gang(&gang.name);
                }
                continue;
            }
            let terms = Terms { deadline: None, ..waiting.request.terms.clone() };
            let key = (waiting.request.spec.clone(), terms);
            let promised = self.machine.ledger.promise_to(&waiting.request.id).is_some();
            if let Some(equal) = refused.get(&key).filter(|_| !promised) {
                let (reason, wakes_on) = (equal.reason.clone(), equal.wakes_on.clone());
                self.keep_waiting(Waiting { reason, wakes_on, ..waiting }, None);
                continue;
            }
            let id = waiting.request.id.clone();
            self.try_place(waiting);
            if self.machine.ledger.revision() != revision {
                refused.clear();
            } else if let Some(still) = self.machine.queue.get(&id) {
                refused.insert(key, still.clone());
            }
        }
    }
}
