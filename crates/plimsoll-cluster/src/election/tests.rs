//! The election, step by step, and every short history of two candidates.

use std::collections::HashSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn timing() -> Timing {
    Timing { lasts: 10 * SECOND, decides_for: 7 * SECOND, interval: SECOND }
}

/// A lease on a server: the content with its version, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    version: u32,
    lease: Option<Lease>,
}

impl Server {
    fn read(&self) -> Option<Observed> {
        let lease = self.lease.clone()?;
        Some(Observed { version: self.version.to_string(), lease })
    }

    /// Applies a write as an API server does: only on the version that it names.
    fn write(&mut self, write: Write) -> Option<Observed> {
        let (expected, lease) = match write {
            Write::Create(lease) => (None, lease),
            Write::Replace { version, lease } => (Some(version), lease),
        };
        if expected != self.read().map(|observed| observed.version) {
            return None;
        }
        self.version += 1;
        self.lease = Some(lease);
        self.read()
    }
}

/// Reads and writes at one moment.
fn turn(candidate: &mut Candidate, server: &mut Server, now: Duration) -> Option<Term> {
    let write = candidate.observe(now, server.read())?;
    let written = server.write(write)?;
    candidate.accepted(now, now, written);
    candidate.term(now)
}

#[test]
fn the_first_candidate_leads_and_the_second_waits() {
    let (mut server, mut one, mut two) = fixture();
    assert_eq!(turn(&mut one, &mut server, SECOND), Some(Term(1)));
    assert_eq!(turn(&mut two, &mut server, SECOND), None);
    assert_eq!(two.holder(), Some("one"));
    assert_eq!(turn(&mut one, &mut server, 2 * SECOND), Some(Term(1)), "a renewal is no new term");
}

#[test]
fn a_clean_hand_over_is_taken_at_the_next_look() {
    let (mut server, mut one, mut two) = fixture();
    turn(&mut one, &mut server, SECOND);
    turn(&mut two, &mut server, SECOND);
    let write = one.resign().expect("it holds the lease");
    assert!(server.write(write).is_some());
    assert_eq!(one.term(SECOND), None);
    assert_eq!(turn(&mut two, &mut server, 2 * SECOND), Some(Term(2)));
    assert_eq!(one.resign(), None, "a follower has nothing to hand over");
}

#[test]
fn the_lease_of_a_silent_holder_is_taken_once_it_was_watched_for_its_duration() {
    let (mut server, mut one, mut two) = fixture();
    turn(&mut one, &mut server, SECOND);
    // The second replica starts late, and cannot know how old the lease is.
    assert_eq!(turn(&mut two, &mut server, 100 * SECOND), None);
    assert_eq!(turn(&mut two, &mut server, 109 * SECOND), None);
    assert_eq!(turn(&mut two, &mut server, 110 * SECOND), Some(Term(2)));
    assert_eq!(turn(&mut one, &mut server, 111 * SECOND), None);
}

#[test]
fn a_holder_that_cannot_renew_stops_before_others_may_take_its_lease() {
    let (mut server, mut one, _) = fixture();
    turn(&mut one, &mut server, SECOND);
    assert_eq!(one.term(7 * SECOND), Some(Term(1)));
    assert_eq!(one.term(8 * SECOND), None);
    // It may still hold the lease, but another term begins: others may have decided in between.
    assert_eq!(turn(&mut one, &mut server, 9 * SECOND), Some(Term(2)));
}

#[test]
fn a_deleted_lease_ends_the_term() {
    let (mut server, mut one, _) = fixture();
    turn(&mut one, &mut server, SECOND);
    let write = one.observe(2 * SECOND, None);
    assert_eq!(one.term(2 * SECOND), None);
    assert!(matches!(write, Some(Write::Create(_))), "{write:?}");
    server.lease = None;
}

fn fixture() -> (Server, Candidate, Candidate) {
    let candidate = |name: &str| Candidate::new(name, timing(), 1);
    (Server::default(), candidate("one"), candidate("two"))
}

/// A replica with what is under way between it and the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replica {
    candidate: Candidate,
    way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Way {
    Idle,
    /// The server has answered; the replica has not received it yet.
    Read(Option<Observed>),
    /// Sent and not yet at the server.
    Writing {
        sent: Duration,
        write: Write,
    },
    /// Applied or rejected; the answer is under way. It may be lost.
    Answered {
        sent: Duration,
        answer: Option<Observed>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u64,
    server: Server,
    replicas: [Replica; 2],
}

impl World {
    fn at(&self) -> Duration {
        Duration::from_secs(self.now)
    }

    /// Returns every world that is one step away: a message moves, an answer is lost, a replica
    /// hands over or restarts, or time passes.
    fn successors(&self) -> Vec<World> {
        let mut next = vec![World { now: self.now + 1, ..self.clone() }];
        for index in 0..2 {
            next.extend(self.messages(index));
            let mut resigns = self.clone();
            if let Some(write) = resigns.replicas[index].candidate.resign() {
                resigns.replicas[index].way = Way::Writing { sent: self.at(), write };
                next.push(resigns);
            }
        }
        next
    }

    fn messages(&self, index: usize) -> Vec<World> {
        let (mut world, mut other) = (self.clone(), self.clone());
        let replica = &mut world.replicas[index];
        match replica.way.clone() {
            Way::Idle => replica.way = Way::Read(self.server.read()),
            Way::Read(found) => {
                let write = replica.candidate.observe(self.at(), found);
                replica.way = match write {
                    Some(write) => Way::Writing { sent: self.at(), write },
                    None => Way::Idle,
                };
            }
            Way::Writing { sent, write } => {
                let answer = world.server.write(write);
                world.replicas[index].way = Way::Answered { sent, answer };
            }
            Way::Answered { sent, answer } => {
                other.replicas[index].way = Way::Idle;
                replica.way = Way::Idle;
                // Its own empty lease makes no leader.
                if let Some(written) = answer.filter(|written| written.lease.holder.is_some()) {
                    replica.candidate.accepted(sent, self.at(), written);
                }
                return vec![world, other];
            }
        }
        vec![world]
    }
}

#[test]
fn two_candidates_never_lead_at_once_whatever_is_late_lost_or_handed_over() {
    let timing = Timing { lasts: 2 * SECOND, decides_for: SECOND, interval: SECOND };
    let candidate = |name: &str| Candidate::new(name, timing, 1);
    let replica = |name: &str| Replica { candidate: candidate(name), way: Way::Idle };
    let first =
        World { now: 0, server: Server::default(), replicas: [replica("one"), replica("two")] };
    let (mut known, mut open) = (HashSet::from([first.clone()]), vec![first]);
    let (mut led, mut taken_over) = ([0_u32; 2], 0_u32);
    while let Some(world) = open.pop() {
        let terms = world.replicas.each_ref().map(|one| one.candidate.term(world.at()));
        assert!(terms[0].is_none() || terms[1].is_none(), "both lead: {world:#?}");
        led = [led[0] + u32::from(terms[0].is_some()), led[1] + u32::from(terms[1].is_some())];
        taken_over += u32::from(terms.iter().flatten().any(|term| term.0 > 1));
        let within = |next: &World| next.now <= 3 && next.server.version <= 3;
        for next in world.successors().into_iter().filter(within) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(led[0] > 1000 && led[1] > 1000 && taken_over > 1000, "{led:?} {taken_over}");
    assert!(known.len() > 10_000, "{} worlds", known.len());
}
