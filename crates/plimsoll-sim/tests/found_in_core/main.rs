//! The smallest cases of what was found wrong in the core. Each says what should hold.

use std::sync::Arc;

use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::request::{Amount, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis};
use plimsoll_sim::scenario;

mod turns;

/// Runs a scenario whose expectations are what should be true.
fn holds(text: &str) {
    let report = scenario::run(text).expect("the scenario can be read");
    assert!(report.holds(), "\n{}", report.diff());
}

#[test]
fn a_holder_seen_again_on_a_node_that_is_leaving_stays_there() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/p 10GiB
gone n1
observed a/p n1 0:10GiB
> noted
devices
> n1/gpu-0 holds 10 GiB, free 70 GiB of 80 GiB, gone: a/p 10 GiB
",
    );
}

#[test]
fn a_node_with_a_promise_on_an_idle_card_may_lose_that_card() {
    holds(
        "node n1
device n1 0 uuid=GPU-a memory=80GiB
device n1 1 uuid=GPU-b memory=80GiB
observed a/leaver n1 0:80GiB
withdraw a/leaver
submit a/next 2x60GiB
node n1
device n1 0 uuid=GPU-a memory=80GiB
promises
> a/next waits: no place for 2 x 60 GiB: 1 node has too few devices (nearest: GPU-a on n1, needs 60 GiB, 0 free, short by 60 GiB; held by a/leaver (80 GiB, releasing))
> none
",
    );
}

#[test]
fn a_holder_seen_on_a_device_that_is_not_there_does_not_stop_the_machine() {
    holds(
        "node n1
device n1 0 memory=80GiB
observed a/p n1 3:10GiB
update n1 label.a=b
breaches
> none
",
    );
}

#[test]
fn a_slice_that_two_were_seen_in_is_free_only_when_both_are_gone() {
    holds(
        "node n1
device n1 0 memory=40960MiB slices=a100-40gb
observed a/one n1 0:4864MiB slice=1g.5gb@6+1
observed a/two n1 0:4864MiB slice=1g.5gb@6+1
freed a/one
> noted
",
    );
}

#[test]
fn slices_of_one_pod_are_charged_at_most_what_may_be_used() {
    holds(
        "node n1
device n1 0 memory=40960MiB cap=9800MiB slices=a100-40gb
ask a/p init:one 4864MiB app:two 4864MiB app:three 4864MiB
breaches
> none
",
    );
}

#[test]
fn a_slice_and_the_whole_card_in_one_pod_are_charged_at_most_the_card() {
    holds(
        "node n1
device n1 0 memory=40960MiB slices=a100-40gb
ask a/p init:one 4864MiB app:two whole
breaches
> none
",
    );
}

#[test]
fn two_containers_do_not_both_get_the_whole_of_a_card_of_unknown_memory() {
    holds(
        "node n1
device n1 0 memory=unknown:its-memory
submit a/p app:one whole app:two whole
> a/p refused: no place for a whole device and a whole device: 1 of 1 devices not empty
",
    );
}

#[test]
fn gang_members_that_name_nodes_are_placed_where_brute_force_finds_a_place() {
    holds(
        "node n1
device n1 0 memory=80GiB
node n2
device n2 0 memory=80GiB
member a/any 60GiB
member a/named 60GiB node=n1
gang g min=2
> a/any placed on n2/gpu-0 with 60 GiB
> a/named placed on n1/gpu-0 with 60 GiB
",
    );
}

#[test]
fn gang_members_that_name_devices_are_placed_where_brute_force_finds_a_place() {
    holds(
        "node n1
device n1 0 uuid=GPU-a memory=80GiB
device n1 1 uuid=GPU-b memory=80GiB
member a/any 60GiB
member a/named 60GiB uuid=GPU-a
gang g min=2
> a/any placed on GPU-b with 60 GiB
> a/named placed on GPU-a with 60 GiB
",
    );
}

#[test]
fn a_gang_member_left_out_is_placed_later_as_the_minimum_was_met() {
    holds(
        "node n1
device n1 0-1 memory=80GiB
member a/w1 60GiB
member a/w2 60GiB
member a/w3 60GiB
gang g min=2
withdraw a/w1
freed a/w1
> a/w3 placed on n1/gpu-0 with 60 GiB
",
    );
}

#[test]
fn one_who_only_asked_does_not_wait_after_a_failed_start() {
    holds(
        "node n1
device n1 0 memory=80GiB
ask a/p 10GiB
take a/p
failed a/p
queue
> none
",
    );
}

#[test]
fn one_who_waits_and_asks_beside_that_does_not_stop_the_machine() {
    holds(
        "node n1
device n1 0 memory=80GiB
observed a/other n1 0:70GiB
submit a/p 20GiB
ask a/p 10GiB
take a/p
freed a/other
queue
> none
",
    );
}

#[test]
fn the_nearest_miss_of_a_pod_is_what_all_its_containers_lack() {
    holds(
        "node n1
device n1 0 memory=80GiB
observed a/other n1 0:79GiB
submit a/p init:load 20GiB app:serve 2GiB
> a/p waits: no place for 20 GiB and 2 GiB: 1 of 1 devices short of memory (nearest: n1/gpu-0 on n1, needs 20 GiB, 1 GiB free, short by 19 GiB; held by a/other (79 GiB))
",
    );
}

#[test]
fn device_work_is_not_placed_on_a_node_of_unknown_capacity_for_having_another_shape() {
    holds(
        "node n1 unknown=\"8 replicas, 10 advertised\"
device n1 0 memory=80GiB
submit a/p 10GiB | none
> a/p placed on n1
",
    );
}

#[test]
fn a_card_that_is_reported_without_its_uuid_is_not_a_second_card() {
    holds(
        "node n1
device n1 0 uuid=GPU-a memory=80GiB
submit a/p 60GiB
node n1
device n1 0 memory=80GiB
submit a/q 60GiB
> a/q waits: no place for 60 GiB: 1 of 1 devices short of memory (nearest: n1/gpu-0 on n1, needs 60 GiB, 20 GiB free, short by 40 GiB; held by a/p (60 GiB))
",
    );
}

#[test]
fn a_gang_that_no_empty_fleet_could_hold_is_refused_at_once() {
    holds(
        "node n1
device n1 0 memory=80GiB
member a/w1 90GiB
member a/w2 10GiB
gang g min=2
queue
> none
",
    );
}

#[test]
fn a_card_that_a_pod_opened_itself_is_not_opened_twice() {
    holds(
        "node n1 missing=1
device n1 0-2 memory=40GiB
submit a/p init:one 10GiB init:two 2x10GiB
> a/p placed on n1/gpu-0 with 10 GiB and n1/gpu-1 with 10 GiB
",
    );
}

#[test]
fn an_account_follows_the_size_of_the_whole_cards_it_holds() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/p whole
device n1 0 memory=60GiB
accounts
> a holds 60 GiB in 1 places
",
    );
}

#[test]
fn tenants_are_named_in_the_same_order_after_a_restart() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/one 10GiB
submit a/two 10GiB
started a/one
devices
> n1/gpu-0 holds 20 GiB, free 60 GiB of 80 GiB: a/one 10 GiB, a/two 10 GiB
restart
devices
> n1/gpu-0 holds 20 GiB, free 60 GiB of 80 GiB: a/one 10 GiB, a/two 10 GiB
",
    );
}

#[test]
fn a_wish_for_one_numa_node_is_met_by_one_card_whichever_the_plugin_picks() {
    holds(
        "node n1 choice=plugin
device n1 0-1 memory=80GiB sharing=time-slicing:4
submit a/p 10GiB numa=one
> a/p placed on n1/gpu-0 or n1/gpu-1 with 10 GiB
",
    );
}

#[test]
fn a_gang_member_whose_earlier_place_is_being_given_back_waits() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/p 10GiB
withdraw a/p
member a/p 10GiB
member a/q 10GiB
gang g min=1
devices
> n1/gpu-0 holds 10 GiB, releasing 10 GiB, free 60 GiB of 80 GiB: a/p 10 GiB, a/q 10 GiB
",
    );
}

#[test]
fn one_who_withdrew_is_not_brought_back_by_a_start_that_failed() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/p 10GiB
withdraw a/p
failed a/p
queue
> none
",
    );
}

#[test]
fn one_who_asked_anew_gets_what_it_asked_last_when_its_earlier_start_failed() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/p 10GiB
withdraw a/p
submit a/p 70GiB
failed a/p
> a/p placed on n1/gpu-0 with 70 GiB
",
    );
}

/// A machine over one card.
fn one_card(settings: Settings) -> Scheduler {
    let mut scheduler = Scheduler::new(settings);
    let mut node = Node::new("n1");
    node.devices.push(Device::new("NVIDIA", Bytes::gib(80), Source::Declared));
    let _ = scheduler.step(Millis(0), Event::Node { node: Box::new(node) });
    scheduler
}

/// Somebody who wants a part of it.
fn request(name: &str) -> Request {
    let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(10)));
    let spec = Arc::new(Spec::of(vec![Shape::single("main", need)]));
    Request { id: RequestId::new("a", name), spec, terms: Terms::default() }
}

/// A machine over one card, of which a start has failed once.
fn failed_once() -> (Scheduler, RequestId) {
    let (mut scheduler, request) = (one_card(Settings::default()), request("p"));
    let id = request.id.clone();
    let _ = scheduler.step(Millis(0), Event::Submit { request, deadline: Some(Millis(60_000)) });
    let generation = scheduler.ledger().of_request(&id).expect("it is placed").0.0;
    let _ = scheduler.step(Millis(0), Event::Failed { request: id.clone(), generation });
    assert_eq!(scheduler.queue().failures(&id), 1);
    (scheduler, id)
}

#[test]
fn the_failures_of_one_whose_deadline_passed_are_forgotten() {
    let (mut scheduler, id) = failed_once();
    // In its back-off nobody is placed, and at the deadline it is refused.
    let _ = scheduler.step(Millis(1), Event::NodeGone { name: "n1".into() });
    let _ = scheduler.step(Millis(60_000), Event::Tick);
    assert!(scheduler.queue().is_empty());
    assert_eq!(scheduler.queue().failures(&id), 0);
}

#[test]
fn the_failures_of_one_whose_place_was_lost_are_forgotten() {
    let (mut scheduler, id) = failed_once();
    let _ = scheduler.step(Millis(30_000), Event::Tick);
    let generation = scheduler.ledger().of_request(&id).map(|(generation, _)| generation.0);
    assert!(generation.is_some(), "it is tried again");
    let _ = scheduler
        .step(Millis(30_001), Event::Freed { request: id.clone(), generation, ordinal: None });
    assert_eq!(scheduler.queue().failures(&id), 0);
}

#[test]
fn the_failures_of_one_who_only_asks_now_are_forgotten() {
    let (mut scheduler, id) = failed_once();
    let _ = scheduler.step(Millis(1), Event::Ask { request: request("p") });
    assert_eq!(scheduler.queue().failures(&id), 0);
}
