//! Acceptance A1: the card of 32,607 MiB that was advertised a hundred times.

use plimsoll_core::breach::{Breach, audit};
use plimsoll_core::charge::Booked;
use plimsoll_core::request::PlainRule;

use super::*;

const MAIN: &str = "containers: [{name: main}]";
const PLAIN: &str = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]";

fn shares(count: usize) -> String {
    let share = |at| pod(&format!("share-{at}"), "annotations: {gpu-memory: \"8000\"}", MAIN);
    (0..count).map(share).collect()
}

fn plain(count: usize) -> String {
    (0..count).map(|at| pod(&format!("plain-{at}"), "", PLAIN)).collect()
}

#[test]
fn four_of_five_and_of_four_hundred_fit_on_one_card() {
    for count in [5, 400] {
        let (placed, rejected) =
            placed(&means(&(labelled("gpu", 1, 32_607, 100) + &shares(count))));
        assert_eq!((placed, rejected.len()), (4, count - 4));
        assert!(
            rejected[0].contains("8000 MiB") && rejected[0].contains("607 MiB"),
            "{}",
            rejected[0]
        );
    }
}

#[test]
fn two_cards_take_eight_where_the_choice_is_owned_and_four_where_the_plugin_chooses() {
    let node = labelled("gpu", 2, 32_607, 100);
    assert_eq!(placed(&means(&(node.clone() + &shares(12)))).0, 4);
    let owned =
        node.replace("  labels:", "  annotations: {plimsoll.dev/device-choice: owned}\n  labels:");
    assert_eq!(placed(&means(&(owned + &shares(12)))).0, 8);
}

#[test]
fn a_plain_pod_is_rejected_beside_a_share() {
    let (placed, rejected) =
        placed(&means(&(labelled("gpu", 1, 32_607, 100) + &shares(1) + &plain(1))));
    assert_eq!((placed, rejected.len()), (1, 1));
}

#[test]
fn plain_pods_that_run_close_the_card() {
    let running: String =
        (0..3).map(|at| bound(&format!("plain-{at}"), "gpu", "", PLAIN)).collect();
    let cluster = means(&(labelled("gpu", 1, 32_607, 100) + &running + &shares(5)));
    assert_eq!(holding(&cluster, "plain-0").charges[0].amount, Booked::Undeclared);
    assert_eq!(holding(&cluster, "plain-0").charges[0].on, [0]);
    assert_eq!(placed(&cluster).0, 0);
}

#[test]
fn the_rule_for_plain_pods_says_how_many_fit() {
    for (rule, fit) in [(PlainRule::Whole, 1), (PlainRule::EqualShare, 5), (PlainRule::Refuse, 0)] {
        let reading = Reading { plain: rule, ..Reading::default() };
        let cluster = means_under(&(labelled("gpu", 1, 32_607, 100) + &plain(5)), &reading);
        assert_eq!(placed(&cluster).0, fit, "{rule}");
    }
}

#[test]
fn plain_pods_that_run_count_as_an_equal_share_where_that_is_the_rule() {
    let reading = Reading { plain: PlainRule::EqualShare, ..Reading::default() };
    let one = bound("plain", "gpu", "", PLAIN);
    let cluster = means_under(&(labelled("gpu", 1, 32_607, 100) + &one), &reading);
    assert_eq!(charged(&cluster, "plain"), (vec![0], 326));
    let two = means_under(&(labelled("gpu", 2, 32_607, 100) + &one), &reading);
    assert_eq!(charged(&two, "plain"), (vec![0, 1], 326), "the card is unknown");
}

#[test]
fn the_multi_process_service_keeps_each_client_to_its_part() {
    let node = labelled("gpu", 1, 32_607, 10).replace("time-slicing", "mps");
    assert_eq!(
        charged(&means(&(node + &bound("plain", "gpu", "", PLAIN))), "plain"),
        (vec![0], 3260)
    );
}

#[test]
fn five_shares_that_run_are_over_the_line_by_7393() {
    let run =
        |at| bound(&format!("share-{at}"), "gpu", "annotations: {gpu-memory: \"8000\"}", MAIN);
    let cluster = means(&(labelled("gpu", 1, 32_607, 100) + &(0..5).map(run).collect::<String>()));
    let breaches = audit(&ledger(&cluster));
    let [Breach::OverLine { held, usable, over_by, holders, .. }] = &breaches[..] else {
        panic!("{breaches:?}")
    };
    assert_eq!(
        (mib_of(*held), mib_of(*usable), mib_of(*over_by), holders.len()),
        (40_000, 32_607, 7393, 5)
    );
}

#[test]
fn a_card_counts_once_however_often_it_is_advertised() {
    let node = labelled("gpu", 1, 32_600, 100).replace("replicas: \"100\"", "replicas: \"99\"");
    let (placed, rejected) = placed(&means(&(node + &shares(5))));
    assert_eq!(placed, 4);
    assert!(rejected[0].contains("600 MiB"), "{}", rejected[0]);
}
