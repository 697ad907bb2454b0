//! The text of small clusters made by hand.

use super::*;
use plimsoll_core::charge::Booked;
use plimsoll_core::device::{DeviceChoice, Sharing, Strategy};
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::fixture;

use crate::commands::{Candidates, simulate_output};

fn text(cluster: &Cluster, names: Names) -> String {
    let mut page = Page::default();
    let output = simulate_output(cluster, &fixture::run(cluster), Candidates::None);
    simulate(&mut page, &output, names);
    page.plain()
}

#[test]
fn a_placement_shows_where_and_how_much() {
    let text = text(&fixture::time_sliced(5), Names::Some);
    assert!(text.contains("default/test-0  gpu-node  gpu-node/gpu-0  8000 MiB"), "{text}");
    assert!(text.ends_with("4 of 5 pods placed, 1 pending (policy pack)\n"), "{text}");
}

#[test]
fn what_was_not_considered_is_listed_once_for_all_pods() {
    let mut cluster = fixture::time_sliced(6);
    for pending in &mut cluster.pending {
        pending.not_considered = vec!["pod affinity".into()];
    }
    let text = text(&cluster, Names::Some);
    let line =
        "pod affinity: default/test-0, default/test-1, default/test-2, default/test-3 and 2 more";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_bar_shows_what_is_held_and_what_is_free() {
    let text = text(&fixture::time_sliced(5), Names::Some);
    let bar =
        format!("  gpu-node/gpu-0  [{}-|]  32000 MiB of 32607 MiB, 4 tenants\n", "#".repeat(31));
    assert!(text.contains(&bar), "{text}");
    assert!(text.contains("# held, - free, | the line"), "{text}");
}

#[test]
fn an_overcommitted_device_is_shown_with_numbers_and_names() {
    let text = text(&fixture::too_late(), Names::Some);
    let bar = format!(
        "[{}|!!!!!!!]  40000 MiB of 32607 MiB, 5 tenants, OVER by 7393 MiB",
        "#".repeat(32)
    );
    assert!(text.contains(&bar), "{text}");
    let breach = "gpu-node/gpu-0 on gpu-node holds 40000 MiB of 32607 MiB, over by 7393 MiB: default/test-0, default/test-1";
    assert!(text.contains(breach), "{text}");
    let fine = self::text(&fixture::time_sliced(5), Names::Some);
    assert!(!fine.contains("Overcommitted"), "{fine}");
}

#[test]
fn memory_being_released_is_not_drawn_as_free() {
    let text = text(&fixture::releasing(), Names::Some);
    let bar = format!("[{}{}|]  60.0 GiB of 80.0 GiB, 1 tenant", "<".repeat(24), "-".repeat(8));
    assert!(text.contains(&bar), "{text}");
    assert!(text.contains("< releasing"), "{text}");
}

#[test]
fn tenants_without_declared_memory_leave_the_rest_unknown() {
    let mut cluster = fixture::too_late();
    cluster.running.truncate(1);
    cluster.running[0].charges[0].amount = Booked::Undeclared;
    let one = text(&cluster, Names::Some);
    let bar = format!("[{}|]  undeclared of 32607 MiB, 1 tenant\n", "?".repeat(32));
    assert!(one.contains(&bar), "{one}");
    let mut cluster = fixture::too_late();
    cluster.running.truncate(2);
    cluster.running[0].charges[0].amount = Booked::Undeclared;
    let two = text(&cluster, Names::Some);
    assert!(two.contains("]  8000 MiB + undeclared of 32607 MiB, 2 tenants\n"), "{two}");
}

#[test]
fn without_devices_no_bar_is_drawn() {
    let mut cluster = fixture::time_sliced(0);
    cluster.nodes[0].node.devices.clear();
    assert!(!text(&cluster, Names::Some).contains("Load"));
}

#[test]
fn a_pending_pod_shows_the_nearest_miss_and_what_would_help() {
    let text = text(&fixture::time_sliced(5), Names::Some);
    assert!(text.contains("Pending\n  default/test-4\n    needs          8000 MiB"), "{text}");
    assert!(text.contains("(7393 MiB short)"), "{text}");
    // 607 MiB of 8000 MiB would be no realistic advice.
    assert!(!text.contains("at most 607 MiB"), "{text}");
    assert!(text.contains("    would fit if   default/test-0 stopped (8000 MiB)\n"), "{text}");
    assert!(!text.contains("Impossible"), "{text}");
}

#[test]
fn a_pod_that_no_empty_card_could_hold_is_impossible_and_not_pending() {
    let mut cluster = fixture::time_sliced(1);
    let amount = plimsoll_core::request::Amount::bytes(Bytes::gib(64));
    cluster.pending.push(fixture::pending("large", amount));
    let text = text(&cluster, Names::Some);
    assert!(text.contains("Impossible\n  default/large\n"), "{text}");
    assert!(!text.contains("Pending\n"), "{text}");
    assert!(text.ends_with("1 of 2 pods placed, 1 impossible (policy pack)\n"), "{text}");
}

#[test]
fn equal_answers_are_counted_and_listed_on_request() {
    let cluster = fixture::time_sliced(400);
    let short = text(&cluster, Names::Some);
    assert!(short.contains("and 388 more with the same answer"), "{short}");
    let full = text(&cluster, Names::All);
    assert!(full.contains("default/test-399") && !full.contains("more with"), "{full}");
    assert_eq!(full.matches("(7393 MiB short)").count(), 1, "the answer is printed once: {full}");
}

#[test]
fn a_promise_names_all_cards_that_the_plugin_may_pick() {
    let one = text(&fixture::releasing(), Names::Some);
    let promise = "promised       node/gpu-0 (node) when these have stopped: default/leaving";
    assert!(one.contains(promise), "{one}");
    let mut cluster = fixture::releasing();
    let node = &mut cluster.nodes[0].node;
    node.devices.push(node.devices[0].clone());
    for device in &mut node.devices {
        device.sharing = Sharing::Tokens { replicas: 10, strategy: Strategy::TimeSlicing };
    }
    node.choice = DeviceChoice::Plugin;
    let several = text(&cluster, Names::Some);
    let promise = "promised       1 of node/gpu-0, node/gpu-1 (node) when these have stopped:";
    assert!(several.contains(promise), "{several}");
}
