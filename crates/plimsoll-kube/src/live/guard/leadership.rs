//! Leadership: from the lease to the first decision.
//!
//! ```text
//!  Follower ──▶ Surveying ──▶ Touching ──▶ Listing ──▶ Leading
//!     ▲ begin_term   │ list      │ touch each   │ list      │
//!     └──────────────┴───────────┴──────────────┴───────────┘ end_term, or a later leader was seen
//! ```
//!
//! A leader before this one may have admitted bindings that have not been written yet. Each names
//! the version of its pod that was known before that leader's lease expired, so that the pod is in
//! the first list, which is made after this process has the lease. Touching every pod of that list
//! that has no node gives each a later version: none of those bindings can land any more. What
//! landed before its touch is in the second list. Only then does this process decide.
//!
//! The lease itself is trusted for one thing: the process that held it before does not *decide*
//! after its own clock says that the lease expired. It may have decided earlier and been stopped
//! before its answer left; that answer names an old version.
//!
//! A clock can stand still, as that of a virtual machine that is suspended. A process that goes on
//! after that still believes that it leads, and its watch delivers the touches of the next leader
//! before what that one bound. So a touch carries the term of its leader, and a leader that sees
//! the mark of a later term decides nothing from then on: either it names a version from before
//! the touch, or it has seen the mark. What is left is a pod that was created after the takeover,
//! is reviewed by the process that slept, and has no mark; for that one the lease must hold.
//!
//! A user who may write annotations could forge a mark. A leader that renews its lease after it saw
//! one knows that no later leader exists, begins its term again and does not heed that mark.

use std::collections::BTreeMap;

use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Millis;

use super::super::Watch;
use super::errand::{Errand, Seen, TOUCHED, Version, is_touchable};
use crate::line::Line;
use crate::object::Pod;
use crate::translate::pod_id;

/// One holding of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Larger than the number of every term before it, of any process.
    pub number: u64,
    /// The time by this process's clock at which the lease expires, counted from before the request
    /// that renewed it.
    pub until: Millis,
}

/// The progress of a process on its way to deciding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It has no lease, or lost it.
    Follower,
    /// It waits for the list of all pods without a node.
    Surveying,
    /// It touches these pods.
    Touching,
    /// It waits for the list of what landed before the touches.
    Listing,
    /// It decides.
    Leading,
}

/// A term that is in doubt, because the mark of a later one was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    term: Term,
    mark: u64,
    since: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Follower,
    Surveying(Term),
    Touching {
        term: Term,
        /// The pods that must still get a later version than the one listed.
        left: BTreeMap<RequestId, u64>,
    },
    Listing(Term),
    Leading(Term),
}

impl Progress {
    pub(super) fn term(&self) -> Option<Term> {
        match self {
            Progress::Follower => None,
            Progress::Surveying(term)
            | Progress::Touching { term, .. }
            | Progress::Listing(term)
            | Progress::Leading(term) => Some(*term),
        }
    }

    fn term_mut(&mut self) -> Option<&mut Term> {
        match self {
            Progress::Follower => None,
            Progress::Surveying(term)
            | Progress::Touching { term, .. }
            | Progress::Listing(term)
            | Progress::Leading(term) => Some(term),
        }
    }
}

impl Watch {
    /// Begins a term: this process has the lease. Decides nothing until the errands that follow are
    /// done.
    pub fn begin_term(&mut self, term: Term) {
        self.end_term();
        self.guard.progress = Progress::Surveying(term);
        self.guard.errands.push(Errand::List { term: term.number });
    }

    /// Records that the lease was renewed. A lease that was lost is not renewed but begun again.
    pub fn renew_term(&mut self, until: Millis) {
        if let Some(term) = self.guard.progress.term_mut() {
            term.until = term.until.max(until);
        }
    }

    /// Ends a term: the lease was given up or lost. Charges of admitted bindings stay until there
    /// is evidence about them.
    pub fn end_term(&mut self) {
        self.guard.progress = Progress::Follower;
        self.guard.doubt = None;
        self.guard.errands.clear();
        self.guard.later.clear();
    }

    /// Ends the term if a pod of a guarded namespace carries the mark of a later one.
    pub(in crate::live) fn heed_mark(&mut self, now: Millis, pod: &Pod) {
        let Some(term) = self.guard.progress.term() else { return };
        let own = term.number.max(self.guard.forged);
        let later = mark_of(pod).filter(|mark| *mark > own); // mutant: later-mark
        let Some(mark) = later else { return };
        if self.line(pod.metadata.namespace_or_default()) == Line::Enforce {
            self.end_term();
            self.guard.doubt = Some(Doubt { term, mark, since: now });
        }
    }

    /// Records that this process still had the lease at a time. A mark that was seen before is
    /// forged: the term begins again, with everything that a new leader does.
    pub fn confirm_lease(&mut self, at: Millis) {
        if let Some(doubt) = self.guard.doubt.filter(|doubt| doubt.since < at) {
            self.begin_term(doubt.term);
            self.guard.forged = self.guard.forged.max(doubt.mark);
        }
    }

    /// Returns how far this process is on its way to deciding.
    pub fn leadership(&self) -> Leadership {
        match self.guard.progress {
            Progress::Follower => Leadership::Follower,
            Progress::Surveying(_) => Leadership::Surveying,
            Progress::Touching { .. } => Leadership::Touching,
            Progress::Listing(_) => Leadership::Listing,
            Progress::Leading(_) => Leadership::Leading,
        }
    }

    /// Advances when a list was delivered.
    pub(super) fn on_listed(&mut self, core: &mut Core<'_>, term: u64) {
        match self.guard.progress {
            Progress::Surveying(now) if now.number == term => self.touch_unbound(now),
            Progress::Listing(now) if now.number == term => {
                self.guard.progress = Progress::Leading(now);
                self.confirm_sight(core.now());
            }
            _ => {}
        }
    }

    fn touch_unbound(&mut self, term: Term) {
        let unbound: Vec<(RequestId, Version)> = self
            .index
            .applied_pods()
            .filter(|pod| is_touchable(pod)) // mutant: touch-on-takeover
            .filter(|pod| self.line(pod.metadata.namespace_or_default()) == Line::Enforce)
            .filter_map(|pod| Some((pod_id(pod), Version::of_pod(pod)?)))
            .collect();
        let left = unbound.iter().map(|(id, version)| (id.clone(), version.revision)).collect();
        self.guard.progress = Progress::Touching { term, left };
        for (id, version) in unbound {
            self.guard.touch(&id, version);
        }
        self.list_when_touched();
    }

    /// Follows the answer to an errand about a pod that must be touched before this process
    /// decides.
    pub(super) fn on_fencing(&mut self, now: Millis, id: &RequestId, seen: &Seen) {
        let Progress::Touching { left, .. } = &mut self.guard.progress else { return };
        let Some(&listed) = left.get(id) else { return };
        match seen {
            // A later version, by any writer, does the same as a touch.
            Seen::Bound => {
                left.remove(id);
            }
            Seen::Unbound(version) if version.revision > listed => {
                left.remove(id);
            }
            Seen::Unbound(version) => self.guard.touch(id, version.clone()),
            // What it held before it was deleted is for the second list and the watch to say.
            Seen::Gone => {
                left.remove(id);
            }
            Seen::Conflict => self.guard.read(id),
            Seen::Unknown => self.guard.read_later(now, id),
        }
        self.list_when_touched();
    }

    fn list_when_touched(&mut self) {
        if let Progress::Touching { term, left } = &self.guard.progress
            && left.is_empty()
        {
            let term = *term;
            self.guard.progress = Progress::Listing(term);
            self.guard.errands.push(Errand::List { term: term.number });
        }
    }

    /// Returns true if an errand about this pod must be done before this process decides.
    pub(super) fn must_fence(&self, id: &RequestId) -> bool {
        matches!(&self.guard.progress, Progress::Touching { left, .. } if left.contains_key(id))
    }
}

/// Returns the term of the leader that touched a pod last. Only Plimsoll may write this annotation
/// in guarded namespaces, unlike that of a pod that was created with a node.
fn mark_of(pod: &Pod) -> Option<u64> {
    pod.metadata.annotations.get(TOUCHED)?.split('.').next()?.parse().ok()
}
