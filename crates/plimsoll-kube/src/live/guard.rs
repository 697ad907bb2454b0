//! The guard: bindings of any scheduler, checked and charged before they are written.
//!
//! ```text
//!  API server ──▶ review_binding ──▶ Event::Admit ──▶ charge (Sent) ──▶ answer with a version
//!                                                        │
//!              watch shows the pod with its node ────────┤──▶ Running
//!              watch shows a later version without node ─┤──▶ the binding can no longer land: free
//!              neither in time ──▶ touch, then as above ─┘
//! ```
//!
//! The verdict is the commit: `fit` on the ledger, and the charge is in the ledger before the
//! answer leaves. Only device memory is checked.
//!
//! An admitted binding carries the version of the pod that the leader knew. The API server rejects
//! it once the pod has another version. This is the fence that everything rests on: a pod that is
//! seen without a node at a later version cannot be bound by any answer that was given before, by
//! this process or by a leader before it, however late that answer arrives.
//!
//! The lease that elects the leader is trusted for one thing: a process whose clock says that its
//! lease has expired does not decide. An answer that was decided before and sent later is what the
//! fence is for; see [`leadership`].

mod binding;
mod creation;
mod errand;
mod leadership;
mod message;
mod open;
mod review;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};

use super::Watch;
use crate::line::Line;

pub use creation::CREATION_TIMEOUT;
pub use errand::{Errand, ErrandOutcome, TOUCHED};
pub use leadership::{Leadership, Term};
pub use open::SETTLE_AFTER;
pub use review::{Admission, BindingReview, BindingVerdict, CreationReview, CreationVerdict, Run};

use creation::OpenCreation;
use leadership::{Doubt, Progress};
use message::LastRejection;
use open::OpenBinding;

/// The time after which a leader that is not known to see the cluster admits nothing.
pub const BLIND_AFTER: Millis = Millis(5_000);

/// The namespace that can never be guarded, beside Plimsoll's own: without the pods there, no
/// cluster starts.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The state of the guard.
#[derive(Debug)]
pub(super) struct Guard {
    /// Namespaces that cannot be guarded, whatever their label says.
    exempt: BTreeSet<Name>,
    progress: Progress,
    /// The term that was ended because of the mark of a later one.
    doubt: Option<Doubt>,
    /// Marks up to this term are not heeded: one of them was forged.
    forged: u64,
    /// The time up to which everything that the API server had is known to be delivered.
    sighted: Option<Millis>,
    /// Admitted bindings whose pods show no node yet.
    open: BTreeMap<RequestId, OpenBinding>,
    /// Admitted pods that name their node and have not been seen yet.
    creations: BTreeMap<RequestId, OpenCreation>,
    /// The last rejection of each pending pod.
    rejected: BTreeMap<RequestId, LastRejection>,
    /// Bindings that can no longer land, with the generation of their charges.
    refuted: Vec<(RequestId, u64)>,
    errands: Vec<Errand>,
    /// Errands to repeat, each with its time.
    later: Vec<(Millis, Errand)>,
    /// Makes every touch different from the ones before it.
    touches: u64,
}

impl Default for Guard {
    fn default() -> Guard {
        Guard {
            exempt: BTreeSet::from([SYSTEM_NAMESPACE.into()]),
            progress: Progress::Follower,
            doubt: None,
            forged: 0,
            sighted: None,
            open: BTreeMap::new(),
            creations: BTreeMap::new(),
            rejected: BTreeMap::new(),
            refuted: Vec::new(),
            errands: Vec::new(),
            later: Vec::new(),
            touches: 0,
        }
    }
}

impl Watch {
    /// Exempts Plimsoll's own namespace: a guard that is down could not admit its own pods.
    #[must_use]
    pub fn with_own_namespace(mut self, namespace: impl Into<Name>) -> Watch {
        self.guard.exempt.insert(namespace.into());
        self
    }

    /// Returns how the bindings of a namespace are checked.
    pub fn line(&self, namespace: &str) -> Line {
        let asked = self.index.line(namespace).unwrap_or_default();
        if self.guard.exempt.contains(namespace) { Line::Off } else { asked }
    }

    /// Records that everything that the API server had at this time is delivered, pods and nodes
    /// alike. A leader for which this was not recorded for [`BLIND_AFTER`] admits nothing.
    pub fn confirm_sight(&mut self, now: Millis) {
        self.guard.sighted = self.guard.sighted.max(Some(now));
    }

    /// Returns the number of the term in which this process decides now; `None` if it does not.
    pub(super) fn decides_in(&self, now: Millis) -> Option<u64> {
        self.deciding_term(now).ok().map(|term| term.number)
    }

    /// Does what is due by time.
    pub(super) fn attend_guard(&mut self, core: &mut Core<'_>) {
        self.guard.repeat_errands(core.now());
        self.settle_open(core.now());
        self.release_creations(core);
    }
}

#[cfg(test)]
mod tests;
