//! Promises, turns, and starts that wait for each other.

use plimsoll_core::event::{Event, Settings};
use plimsoll_core::units::Millis;

use super::{holds, one_card, request};

#[test]
fn one_who_may_evict_is_not_passed_over_for_an_equal_request_that_may_not() {
    holds(
        "settings residency=0s
node n1
device n1 0 memory=80GiB
observed m/old n1 0:60GiB idle=10s activity=idle@0s
submit m/meek 60GiB priority=1
submit m/bold 60GiB evicts=idle
at 20s
tick
promises
> m/bold is promised n1/gpu-0 with 60 GiB after m/old
",
    );
}

#[test]
fn a_promise_that_cannot_be_kept_any_more_blocks_nobody() {
    holds(
        "node n1
device n1 0 memory=80GiB
observed a/leaver n1 0:60GiB
withdraw a/leaver
submit a/big 70GiB
measured n1 0 foreign=30GiB telemetry=none
freed a/leaver
submit a/small 40GiB
> a/small placed on n1/gpu-0 with 40 GiB
",
    );
}

#[test]
fn a_promise_goes_with_its_node() {
    holds(
        "node n1
device n1 0 memory=80GiB
observed a/leaver n1 0:60GiB
withdraw a/leaver
submit a/next 70GiB
gone n1
freed a/leaver
node n1
device n1 0 memory=60GiB
promises
> a/next waits: no place for 70 GiB: 1 of 1 devices too small (nearest: n1/gpu-0 on n1, needs 70 GiB, 60 GiB free, short by 10 GiB)
> none
",
    );
}

#[test]
fn one_who_waits_is_told_when_a_promise_is_made() {
    holds(
        "settings residency=0s
node n1
device n1 0 memory=80GiB
observed m/old n1 0:60GiB idle=10s activity=idle@0s
submit m/next 60GiB evicts=idle
at 20s
tick
> m/next waits: no place for 60 GiB: 1 of 1 devices short of memory (nearest: n1/gpu-0 on n1, needs 60 GiB, 20 GiB free, short by 40 GiB; held by m/old (60 GiB)); promised after m/old
> m/old is asked to leave n1
",
    );
}

#[test]
fn equal_requests_that_wait_all_have_a_reason_that_is_true() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/one 80GiB
submit a/two 80GiB
submit a/three 80GiB
submit a/four 80GiB
withdraw a/one
freed a/one
queue
> a/three since 0s: no place for 80 GiB: 1 of 1 devices short of memory (nearest: n1/gpu-0 on n1, needs 80 GiB, 0 free, short by 80 GiB; held by a/two (80 GiB))
> a/four since 0s: no place for 80 GiB: 1 of 1 devices short of memory (nearest: n1/gpu-0 on n1, needs 80 GiB, 0 free, short by 80 GiB; held by a/two (80 GiB))
",
    );
}

#[test]
fn a_turn_follows_the_terms_also_after_a_restart() {
    holds(
        "node n1
device n1 0 memory=80GiB
submit a/other 80GiB
submit a/p 40GiB speculative
submit a/q 40GiB
member a/p 40GiB priority=1
gang g min=1
restart
> the snapshot holds it all, the journal holds it all
",
    );
}

#[test]
fn a_promise_that_is_left_behind_goes_to_the_first_in_turn() {
    holds(
        "node n1
device n1 0 memory=80GiB
observed a/leaver n1 0:40GiB
withdraw a/leaver
submit a/one 30GiB select=zone=b
submit a/large 60GiB
submit a/two 30GiB select=zone=b
update n1 label.zone=b
promises
> a/one waits: no place for 30 GiB: 1 of 1 devices promised to others (nearest: n1/gpu-0 on n1, needs 30 GiB, 20 GiB free, short by 10 GiB; held by a/leaver (40 GiB, releasing))
> a/two waits: no place for 30 GiB: 1 of 1 devices promised to others (nearest: n1/gpu-0 on n1, needs 30 GiB, 20 GiB free, short by 10 GiB; held by a/leaver (40 GiB, releasing))
> a/large is promised n1/gpu-0 with 60 GiB after a/leaver
node n2
device n2 0 memory=80GiB
promises
> a/one waits: no place for 30 GiB: 1 of 1 devices promised to others, 1 node not selected (zone=b is wanted) (nearest: n1/gpu-0 on n1, needs 30 GiB, 20 GiB free, short by 10 GiB; held by a/leaver (40 GiB, releasing))
> a/large placed on n2/gpu-0 with 60 GiB
> a/one placed on n1/gpu-0 with 30 GiB
> a/two waits: no place for 30 GiB: 1 of 1 devices short of memory, 1 node not selected (zone=b is wanted) (nearest: n1/gpu-0 on n1, needs 30 GiB, 10 GiB free, short by 20 GiB; held by a/leaver (40 GiB, releasing), a/one (30 GiB)); promised after a/leaver
> a/two is promised n1/gpu-0 with 30 GiB after a/leaver
",
    );
}

#[test]
fn starts_of_taken_offers_wait_for_each_other_too() {
    holds(
        "policy spread
settings serial-starts=yes
node n1
device n1 0 memory=80GiB
ask a/p 10GiB
ask a/q 10GiB
take a/p
take a/q
> a/q placed on n1/gpu-0 with 10 GiB, starts when its devices are quiet
",
    );
}

#[test]
fn an_offer_taken_on_another_node_waits_there_for_a_start_under_way() {
    holds(
        "policy spread
settings serial-starts=yes
node n1
device n1 0 memory=80GiB
node n2
device n2 0 memory=80GiB
submit a/first 10GiB node=n2
ask a/p 10GiB
take a/p node=n2
> a/p placed on n2/gpu-0 with 10 GiB, starts when its devices are quiet
",
    );
}

#[test]
fn memory_that_an_asker_gives_back_wakes_those_who_wait() {
    holds(
        "node n1
device n1 0 memory=80GiB
ask a/asker 60GiB
submit b/waiter 60GiB
ask a/asker 10GiB
> a/asker offered n1/gpu-0 with 10 GiB until 30s
> b/waiter placed on n1/gpu-0 with 60 GiB
",
    );
}

#[test]
fn a_promise_that_moves_leaves_its_place_to_the_first_in_turn() {
    holds(
        "node a
device a 0 memory=80GiB
update a label.zone=a
node b
device b 0 memory=80GiB
observed m/v1 a 0:60GiB
> noted
observed m/v2 b 0:60GiB
> noted
submit m/one 40GiB priority=5 select=zone=a
> m/one waits: no place for 40 GiB: 1 of 1 devices short of memory, 1 node not selected (zone=a is wanted) (nearest: a/gpu-0 on a, needs 40 GiB, 20 GiB free, short by 20 GiB; held by m/v1 (60 GiB))
submit m/large 70GiB priority=5 evicts=lower
> m/large waits: no place for 70 GiB: 2 of 2 devices short of memory (nearest: a/gpu-0 on a, needs 70 GiB, 20 GiB free, short by 50 GiB; held by m/v1 (60 GiB)); promised after m/v1
> m/v1 is asked to leave a
submit m/two 40GiB priority=5 select=zone=a
> m/two waits: no place for 40 GiB: 1 of 1 devices short of memory, 1 node not selected (zone=a is wanted) (nearest: a/gpu-0 on a, needs 40 GiB, 20 GiB free, short by 20 GiB; held by m/v1 (60 GiB, releasing))
promises
> m/large is promised a/gpu-0 with 70 GiB after m/v1
measured a 0 foreign=20GiB
> m/one waits: no place for 40 GiB: 1 of 1 devices short of memory, 1 node not selected (zone=a is wanted) (nearest: a/gpu-0 on a, needs 40 GiB, 0 free, short by 40 GiB; held by m/v1 (60 GiB, releasing), foreign processes (20 GiB))
> m/large waits: no place for 70 GiB: 2 of 2 devices short of memory (nearest: b/gpu-0 on b, needs 70 GiB, 20 GiB free, short by 50 GiB; held by m/v2 (60 GiB)); promised after m/v1
> m/two waits: no place for 40 GiB: 1 of 1 devices short of memory, 1 node not selected (zone=a is wanted) (nearest: a/gpu-0 on a, needs 40 GiB, 0 free, short by 40 GiB; held by m/v1 (60 GiB, releasing), foreign processes (20 GiB))
devices
freed m/v1
> m/one waits: no place for 40 GiB: 1 of 1 devices promised to others, 1 node not selected (zone=a is wanted) (nearest: a/gpu-0 on a, needs 40 GiB, 0 free, short by 40 GiB; held by foreign processes (20 GiB))
> m/large waits: no place for 70 GiB: 2 of 2 devices short of memory (nearest: a/gpu-0 on a, needs 70 GiB, 60 GiB free, short by 10 GiB; held by foreign processes (20 GiB)); promised after m/v2
> m/one placed on a/gpu-0 with 40 GiB
> m/large waits: no place for 70 GiB: 2 of 2 devices short of memory (nearest: a/gpu-0 on a, needs 70 GiB, 20 GiB free, short by 50 GiB; held by m/one (40 GiB), foreign processes (20 GiB)); promised after m/v2
> m/two waits: no place for 40 GiB: 1 of 1 devices short of memory, 1 node not selected (zone=a is wanted) (nearest: a/gpu-0 on a, needs 40 GiB, 20 GiB free, short by 20 GiB; held by m/one (40 GiB), foreign processes (20 GiB))
> m/v2 is asked to leave b
promises
> m/large is promised b/gpu-0 with 70 GiB after m/v2
",
    );
}

#[test]
fn a_promise_that_stands_in_nobodys_way_is_kept() {
    holds(
        "node a
device a 0 memory=80GiB
observed m/v1 a 0:50GiB
> noted
submit m/l1 60GiB priority=1
> m/l1 waits: no place for 60 GiB: 1 of 1 devices short of memory (nearest: a/gpu-0 on a, needs 60 GiB, 30 GiB free, short by 30 GiB; held by m/v1 (50 GiB))
submit m/l2 60GiB priority=1 evicts=lower
> m/l2 waits: no place for 60 GiB: 1 of 1 devices short of memory (nearest: a/gpu-0 on a, needs 60 GiB, 30 GiB free, short by 30 GiB; held by m/v1 (50 GiB)); promised after m/v1
> m/v1 is asked to leave a
promises
> m/l2 is promised a/gpu-0 with 60 GiB after m/v1
submit m/h 10GiB priority=9
> m/h placed on a/gpu-0 with 10 GiB
promises
> m/l2 is promised a/gpu-0 with 60 GiB after m/v1
",
    );
}

#[test]
fn one_whose_start_waits_for_its_device_starts_before_those_who_come_after() {
    holds(
        "settings serial-starts=yes
node a
device a 0 memory=80GiB
observed m/v a 0:40GiB
> noted
withdraw m/v
> m/v is asked to leave a
submit m/s 30GiB
> m/s placed on a/gpu-0 with 30 GiB, starts when its devices are quiet
submit m/w 40GiB
> m/w waits: no place for 40 GiB: 1 of 1 devices short of memory (nearest: a/gpu-0 on a, needs 40 GiB, 10 GiB free, short by 30 GiB; held by m/v (40 GiB, releasing), m/s (30 GiB)); promised after m/v
freed m/v
> m/s placed on a/gpu-0 with 30 GiB
> m/w placed on a/gpu-0 with 40 GiB, starts when its devices are quiet
devices
> a/gpu-0 holds 70 GiB, free 10 GiB of 80 GiB: m/s 30 GiB, m/w 40 GiB
",
    );
}

#[test]
fn starts_that_waited_for_each_other_leave_when_they_need_not_any_more() {
    let serial = Settings { serial_starts: true, ..Settings::default() };
    let mut scheduler = one_card(serial.clone());
    let submit = |name| Event::Submit { request: request(name), deadline: None };
    assert_eq!(scheduler.step(Millis(0), submit("one")).effects.len(), 1);
    assert_eq!(scheduler.step(Millis(0), submit("two")).effects.len(), 0);
    let settings = Box::new(Settings { serial_starts: false, ..serial });
    assert_eq!(scheduler.step(Millis(0), Event::Configured { settings }).effects.len(), 1);
}
