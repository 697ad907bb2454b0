//! Several callers want the same device: in every order and interleaving exactly one gets it. With
//! the commit's check taken out, these fail.

use std::sync::Arc;

use plimsoll_core::breach;
use plimsoll_core::decide::decide;
use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{Answer, Effect, Event, Settings};
use plimsoll_core::fit::Placement;
use plimsoll_core::ledger::{Ledger, LedgerError};
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{Amount, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis};

fn node(cards: usize, gib: u64) -> Node {
    let mut node = Node::new("n1");
    node.devices = vec![Device::new("NVIDIA", Bytes::gib(gib), Source::Nvml); cards];
    node
}

fn request(name: &str, amount: Amount) -> Request {
    let spec =
        Arc::new(Spec::from_shapes(vec![Shape::single("main", Need::one("NVIDIA", amount))]));
    Request { id: RequestId::new("a", name), spec, terms: Terms::default() }
}

fn ledger(node: Node) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.put_node(node);
    ledger
}

/// Visits every interleaving of callers that have `left` steps each.
fn interleavings(left: &mut Vec<usize>, so_far: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
    if left.iter().all(|steps| *steps == 0) {
        return visit(so_far);
    }
    for caller in 0..left.len() {
        if left[caller] > 0 {
            left[caller] -= 1;
            so_far.push(caller);
            interleavings(left, so_far, visit);
            so_far.pop();
            left[caller] += 1;
        }
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    interleavings(&mut vec![1; count], &mut Vec::new(), &mut |order| all.push(order.to_vec()));
    all
}

#[test]
fn c1_the_last_device_goes_to_exactly_one_of_many_callers_in_every_interleaving() {
    for callers in 2..=4 {
        interleavings(&mut vec![2; callers], &mut Vec::new(), &mut |order| {
            let mut scheduler = Scheduler::new(Settings::default());
            let _ = scheduler.step(Millis(0), Event::Node { node: Box::new(node(1, 80)) });
            let mut asked = vec![false; callers];
            let mut started = 0;
            for &caller in order {
                let request = request(&format!("p{caller}"), Amount::Whole);
                let event = if std::mem::replace(&mut asked[caller], true) {
                    Event::Take { request: request.id, node: None }
                } else {
                    Event::Ask { request }
                };
                let outcome = scheduler.step(Millis(0), event);
                started += outcome
                    .effects
                    .iter()
                    .filter(|effect| matches!(effect, Effect::Start { .. }))
                    .count();
            }
            assert_eq!(started, 1, "{order:?}");
            assert_eq!(breach::audit(scheduler.ledger()), Vec::new());
        });
    }
}

#[test]
fn c1_of_planners_that_all_saw_the_device_free_exactly_one_commits() {
    let requests: Vec<Request> =
        (0..4).map(|at| request(&format!("p{at}"), Amount::bytes(Bytes::gib(50)))).collect();
    let stale = ledger(node(1, 80));
    let places: Vec<Placement> = requests
        .iter()
        .map(|request| {
            decide(&stale, &Policy::pack(), request)
                .chosen()
                .expect("the device is free")
                .placement
                .clone()
        })
        .collect();
    for order in permutations(4) {
        for offered in [true, false] {
            let mut ledger = stale.clone();
            let commit = |at: &usize, ledger: &mut Ledger| match offered {
                true => ledger.offer(&requests[*at], &places[*at], Millis(9)),
                false => ledger.send(&requests[*at], &places[*at]),
            };
            let won: Vec<bool> = order.iter().map(|at| commit(at, &mut ledger).is_ok()).collect();
            assert_eq!(won, [true, false, false, false], "the first one wins, and no other");
            assert_eq!(breach::audit(&ledger), Vec::new());
        }
    }
}

#[test]
fn c1_a_taken_offer_moves_only_to_where_it_fits_when_it_arrives() {
    for order in permutations(3) {
        let mut scheduler = Scheduler::new(Settings::default());
        for name in ["n1", "n2", "n3", "n4"] {
            let node = Node { name: name.into(), ..node(1, 80) };
            let _ = scheduler.step(Millis(0), Event::Node { node: Box::new(node) });
        }
        for at in 0..3 {
            let request = request(&format!("p{at}"), Amount::Whole);
            let _ = scheduler.step(Millis(0), Event::Ask { request });
        }
        let mut placed = 0;
        for at in order {
            let take = Event::Take {
                request: RequestId::new("a", format!("p{at}")),
                node: Some("n4".into()),
            };
            let outcome = scheduler.step(Millis(0), take);
            placed += outcome
                .answers
                .iter()
                .filter(|answer| matches!(answer, Answer::Placed { .. }))
                .count();
        }
        assert_eq!(placed, 1, "all want to move to n4, and one can");
        assert_eq!(breach::audit(scheduler.ledger()), Vec::new());
    }
}

#[test]
fn a2_models_planned_on_a_stale_view_never_share_a_device_that_cannot_hold_them() {
    let sizes = [79_982_566_400, 15_767_897_088, 41_875_931_136];
    let stale = ledger(node(2, 80));
    for policy in [Policy::pack(), Policy::spread()] {
        for order in permutations(3) {
            let mut ledger = stale.clone();
            for at in order {
                let request = request(&format!("m{at}"), Amount::bytes(Bytes::new(sizes[at])));
                let planned = decide(&stale, &policy, &request)
                    .chosen()
                    .expect("both are free")
                    .placement
                    .clone();
                let sent = ledger.send(&request, &planned);
                if let Err(LedgerError::NotAdmitted(_)) = sent
                    && let Some(found) = decide(&ledger, &policy, &request).chosen()
                {
                    ledger
                        .send(&request, &found.placement.clone())
                        .expect("planned and committed on one ledger");
                }
                let loads = ledger.nodes().flat_map(|(_, view)| {
                    view.room.devices().iter().map(|room| room.load()).collect::<Vec<_>>()
                });
                assert!(
                    loads.into_iter().all(|load| load <= Bytes::gib(80)),
                    "no device is over its line"
                );
            }
            assert_eq!(breach::audit(&ledger), Vec::new());
        }
    }
}

#[test]
fn a2_every_order_packs_into_the_same_two_loads() {
    let sizes = [79_982_566_400, 15_767_897_088, 41_875_931_136];
    for order in permutations(3) {
        let mut scheduler = Scheduler::new(Settings::default());
        let _ = scheduler.step(Millis(0), Event::Node { node: Box::new(node(2, 80)) });
        for at in order {
            let request = request(&format!("m{at}"), Amount::bytes(Bytes::new(sizes[at])));
            let _ = scheduler.step(Millis(0), Event::Submit { request, deadline: None });
        }
        let (_, view) = scheduler.ledger().nodes().next().expect("the node");
        let mut loads: Vec<u64> =
            view.room.devices().iter().map(|room| room.load().get()).collect();
        loads.sort_unstable();
        assert_eq!(loads, [sizes[1] + sizes[2], sizes[0]]);
    }
}

#[test]
fn a_commit_refuses_what_is_not_there_over_full_or_unknown() {
    let mut ledger = ledger(node(1, 80));
    let place =
        |node: &str, picks: Vec<Vec<u16>>, shape| Placement { node: node.into(), shape, picks };
    let ok = request("p", Amount::bytes(Bytes::gib(10)));
    for (asked, wrong) in [
        (&ok, place("n2", vec![vec![0]], 0)),
        (&ok, place("n1", vec![vec![1]], 0)),
        (&ok, place("n1", vec![vec![0, 0]], 0)),
        (&ok, place("n1", vec![], 0)),
        (&ok, place("n1", vec![vec![0], vec![0]], 0)),
        (&ok, place("n1", vec![vec![0]], 1)),
        (&request("q", Amount::bytes(Bytes::gib(81))), place("n1", vec![vec![0]], 0)),
        (&request("q", Amount::bytes(Bytes::ZERO)), place("n1", vec![vec![0]], 0)),
        (&request("q", Amount::Unknown("a size".into())), place("n1", vec![vec![0]], 0)),
    ] {
        assert!(ledger.offer(asked, &wrong, Millis(1)).is_err(), "{wrong:?}");
        assert!(ledger.send(asked, &wrong).is_err(), "{wrong:?}");
        assert_eq!(ledger.holdings().count(), 0);
    }
    assert!(ledger.send(&ok, &place("n1", vec![vec![0]], 0)).is_ok());
}
