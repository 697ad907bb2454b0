//! The deciding replica is stopped at each step, another takes over and fills the card, and the
//! first continues: two processes that believe that they decide. Nothing of the first lands.

use std::thread;
use std::time::Duration;

use plimsoll_testbed::gate::{Gate, Way};

use super::cluster::{Cluster, Replica, TEAM, until, until_ok};

/// A replica and the gate through which it is called.
struct Gated {
    replica: Replica,
    gate: Gate,
}

/// The steps at which the deciding replica is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A review was sent, and is not read yet.
    Unread,
    /// Milliseconds after twelve reviews were sent: between any two instructions.
    Within(u64),
    /// A binding is committed, and its answer is on the way.
    Answered,
    /// Milliseconds after it took the lease: while it lists, touches or registers.
    TakingOver(u64),
}

const STEPS: [Step; 13] = [
    Step::Unread,
    Step::Answered,
    Step::Within(1),
    Step::Within(3),
    Step::Within(9),
    Step::Within(27),
    Step::Within(81),
    Step::Answered,
    Step::TakingOver(50),
    Step::TakingOver(150),
    Step::TakingOver(300),
    Step::TakingOver(600),
    Step::Unread,
];

/// The pods whose bindings are in flight when a replica is stopped.
const LATE: usize = 12;

impl Gated {
    fn start(cluster: &Cluster, name: &str) -> Gated {
        let gate = Gate::open_to(0).expect("a gate");
        Gated { replica: Replica::start_behind(cluster, name, &gate), gate }
    }
}

#[test]
fn a_leader_stopped_at_any_step_and_continued_lets_nothing_in() {
    let Some(cluster) = Cluster::start("a leader that is stopped at each step") else { return };
    let mut leader = Gated::start(&cluster, "one");
    leader.replica.until_deciding();
    let mut other = Gated::start(&cluster, "two");
    until("the second replica is ready", || other.replica.is_ready());
    for step in STEPS {
        println!("{step:?}");
        for at in 0..LATE {
            cluster.pod(TEAM, &format!("late-{at}"), 20_000);
        }
        cluster.pod(TEAM, "next", 20_000);
        match step {
            Step::TakingOver(millis) => {
                stopped_while_taking_over(&cluster, &leader, &other, millis);
            }
            _ => {
                stopped_while_deciding(&cluster, &leader, &mut other, step);
                std::mem::swap(&mut leader, &mut other);
            }
        }
        only_one_is_bound(&cluster, step);
        cluster.clear(TEAM);
        until("nothing is held", || leader.replica.holders().is_empty());
    }
}

/// Stops the leader at a step, lets the other one take over and fill the card, and continues it.
fn stopped_while_deciding(cluster: &Cluster, leader: &Gated, other: &mut Gated, step: Step) {
    let (late, admitted) = match step {
        Step::Within(_) => (LATE, 0.0),
        _ => (1, leader.replica.reviews("admitted")),
    };
    if step == Step::Unread {
        leader.replica.process.pause();
    }
    if step == Step::Answered {
        leader.gate.hold(Way::ToClient);
    }
    let outcomes = thread::scope(|scope| {
        let late: Vec<_> = (0..late)
            .map(|at| scope.spawn(move || cluster.bind(TEAM, &format!("late-{at}"))))
            .collect();
        match step {
            Step::Within(millis) => thread::sleep(Duration::from_millis(millis)),
            Step::Answered => {
                until("it is committed", || leader.replica.reviews("admitted") > admitted);
            }
            Step::Unread | Step::TakingOver(_) => thread::sleep(Duration::from_millis(100)),
        }
        leader.replica.process.pause();
        cluster.free_lease();
        other.replica.until_deciding();
        let next = cluster.bind(TEAM, "next");
        leader.gate.release(Way::ToClient);
        leader.replica.process.resume();
        let late: Vec<_> = late.into_iter().map(|one| one.join().expect("no panic")).collect();
        (next, late)
    });
    let landed = outcomes.1.iter().filter(|one| one.is_ok()).count();
    let won = usize::from(outcomes.0.is_ok()) + landed;
    assert_eq!(won, 1, "{step:?}: {outcomes:?}");
    until("the first replica knows that it lost", || {
        leader.replica.metric("plimsoll_guard_leading") == Some(0.0)
    });
}

/// Stops the other replica while it takes over, lets the leader take the lease back and give the
/// place away, and continues the other one: it lists, touches and registers, and decides nothing.
fn stopped_while_taking_over(cluster: &Cluster, leader: &Gated, other: &Gated, millis: u64) {
    leader.replica.process.pause();
    cluster.free_lease();
    thread::sleep(Duration::from_millis(1000 + millis));
    other.replica.process.pause();
    cluster.free_lease();
    leader.replica.process.resume();
    // The other one may have registered itself; the leader does so again within its interval.
    until("the leader gives the place away", || cluster.bind(TEAM, "next").is_ok());
    let late: Vec<_> = thread::scope(|scope| {
        other.replica.process.resume();
        let bind = |at: usize| cluster.bind(TEAM, &format!("late-{at}"));
        let threads: Vec<_> = (0..LATE).map(|at| scope.spawn(move || bind(at))).collect();
        threads.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    assert!(late.iter().all(Result::is_err), "{late:?}");
    until("the other replica knows that it lost", || {
        other.replica.metric("plimsoll_guard_leading") == Some(0.0)
    });
    // What it registered last is repaired, so that the next step begins with a leader that is
    // called.
    until_ok("the leader is called", || match cluster.bind(TEAM, "late-0") {
        Err(error) if error.to_string().contains("short)") => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

fn only_one_is_bound(cluster: &Cluster, step: Step) {
    let bound = cluster.bound(TEAM);
    assert_eq!(bound.len(), 1, "{step:?}: {bound:?}");
    assert_eq!(cluster.asked_mib(), 20_000, "{step:?}");
}
