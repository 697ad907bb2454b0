//! Waking those whose refusal a change may have lifted.

use std::collections::BTreeSet;

use super::Step;
use crate::queue::Waiting;

impl Step<'_> {
    /// Tries again, in turn, those whose refusal a change may have lifted. Equal specs are tried once until one is placed.
    pub(super) fn wake(&mut self) {
        if self.lifted.is_empty() {
            return;
        }
        let woken = |w: &&Waiting| {
            w.backoff.is_none_or(|backoff| backoff.until <= self.now)
                && w.wakes_on.iter().any(|change| self.lifted.contains(change))
        };
        let woken: Vec<Waiting> = self.machine.queue.iter().filter(woken).cloned().collect();
        let mut refused = BTreeSet::new();
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
            let key = (waiting.request.spec.clone(), waiting.request.terms.model.clone());
            let promised = self.machine.ledger.promise_to(&waiting.request.id).is_some();
            if refused.contains(&key) && !promised {
                continue;
            }
            let id = waiting.request.id.clone();
            self.try_place(waiting);
            if self.machine.queue.get(&id).is_some() && self.machine.ledger.revision() == revision {
                refused.insert(key);
            } else if self.machine.ledger.revision() != revision {
                refused.clear();
            }
        }
    }
}
