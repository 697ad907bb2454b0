//! The election of the replica that decides, by compare-and-swap on one lease.
//!
//! This part is pure: what was read and when goes in, what to write comes out. Times are readings
//! of the local monotonic clock; the wall clock of another machine is never compared with them.
//!
//! A candidate takes a lease that it has not seen change for as long as its holder said it lasts.
//! The holder counts its own time from before it sent the renewal, and the candidate from after it
//! read it, so that the holder stops first. A replica that is paused between a look at
//! [`Candidate::term`] and what it does then is not covered: no lease can do that. Bindings carry a
//! precondition for it.

use std::time::Duration;

/// The durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Timing {
    /// The time after which others may take the lease of a silent holder.
    pub(crate) lasts: Duration,
    /// The time after which a holder that could not renew stops deciding; shorter than `lasts`.
    pub(crate) decides_for: Duration,
    /// The interval of renewals, and of looks at the lease of another.
    pub(crate) interval: Duration,
}

/// The content of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lease {
    /// The replica that decides; `None` after a clean hand-over.
    pub(crate) holder: Option<String>,
    pub(crate) lasts: Duration,
    /// The number of times that the lease was taken.
    pub(crate) transitions: u32,
}

/// A lease as it was read, with the version to replace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Observed {
    pub(crate) version: String,
    pub(crate) lease: Lease,
}

/// A lease to write. The API server accepts it only where nothing was written in between.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Write {
    Create(Lease),
    Replace { version: String, lease: Lease },
}

/// A period in which one replica decides. No two replicas have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Term(pub(crate) u32);

/// One replica in an election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Candidate {
    /// Differs from that of every other process, also of an earlier one of the same pod.
    identity: String,
    timing: Timing,
    /// The number of the first term, where there is no lease.
    first: u32,
    seen: Option<Seen>,
    leading: Option<Leading>,
}

/// The last version that was read, and the time at which it was new to this replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    observed: Observed,
    since: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Leading {
    term: Term,
    until: Duration,
}

impl Candidate {
    /// Creates a replica that has not looked at the lease yet. `first` is larger than the number of
    /// every term of a lease that was deleted.
    pub(crate) fn new(identity: impl Into<String>, timing: Timing, first: u32) -> Candidate {
        Candidate { identity: identity.into(), timing, first, seen: None, leading: None }
    }

    /// Returns the term in which this replica decides at this time; `None` if it must not decide.
    pub(crate) fn term(&self, now: Duration) -> Option<Term> {
        self.leading.filter(|leading| now < leading.until).map(|leading| leading.term)
    }

    /// Returns the time until which this replica decides without another renewal.
    pub(crate) fn decides_until(&self) -> Option<Duration> {
        self.leading.map(|leading| leading.until)
    }

    /// Returns the holder of the lease as it was last read.
    pub(crate) fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|seen| seen.observed.lease.holder.as_deref())
    }

    /// Notes the lease as it was read, at a time after the answer arrived, and returns what to
    /// write to lead. `None` for `found` means that there is no lease.
    pub(crate) fn observe(&mut self, now: Duration, found: Option<Observed>) -> Option<Write> {
        let Some(found) = found else {
            self.seen = None;
            self.leading = None;
            return Some(Write::Create(self.claim(self.first)));
        };
        let is_new = self.seen.as_ref().is_none_or(|seen| seen.observed != found);
        if is_new {
            self.seen = Some(Seen { observed: found.clone(), since: now });
        }
        let Observed { version, lease } = found;
        let is_own = lease.holder.as_deref() == Some(self.identity.as_str());
        if !is_own {
            self.leading = None;
        }
        let transitions = match self.term(now) {
            Some(Term(term)) => term,
            None if is_own || lease.holder.is_none() || self.has_expired(now, &lease) => {
                lease.transitions.saturating_add(1)
            }
            None => return None,
        };
        Some(Write::Replace { version, lease: self.claim(transitions) })
    }

    /// Notes that a write was accepted. `sent` is a time before it was sent.
    pub(crate) fn accepted(&mut self, sent: Duration, now: Duration, written: Observed) {
        let until = sent + self.timing.decides_for;
        self.leading = Some(Leading { term: Term(written.lease.transitions), until });
        self.seen = Some(Seen { observed: written, since: now });
    }

    /// Stops leading, and returns what to write so that another replica need not wait. `None` if
    /// this replica does not hold the lease.
    pub(crate) fn resign(&mut self) -> Option<Write> {
        self.leading = None;
        let Observed { version, lease } = self.seen.take()?.observed;
        let is_own = lease.holder.as_deref() == Some(self.identity.as_str());
        is_own.then_some(Write::Replace { version, lease: Lease { holder: None, ..lease } })
    }

    fn claim(&self, transitions: u32) -> Lease {
        let (holder, lasts) = (Some(self.identity.clone()), self.timing.lasts);
        Lease { holder, lasts, transitions }
    }

    /// Returns whether the lease of another has not changed for as long as it lasts. A holder that
    /// says that its lease lasts shorter than ours cannot shorten the wait: the durations of all
    /// replicas are the same except during an update.
    fn has_expired(&self, now: Duration, lease: &Lease) -> bool {
        let lasts = lease.lasts.max(self.timing.lasts);
        self.seen.as_ref().is_some_and(|seen| now.saturating_sub(seen.since) >= lasts)
    }
}

#[cfg(test)]
mod tests;
