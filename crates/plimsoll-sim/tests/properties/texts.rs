//! Any state can be written as a scenario: reading it yields the same ledger, and without names the
//! same numbers.

use plimsoll_core::charge::Holding;
use plimsoll_core::device::Node;
use plimsoll_core::request::{Eviction, Terms};
use plimsoll_core::room::Measured;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_sim::scenario::{State, anonymise, from_state, play};
use proptest::prelude::*;

use crate::search::measured;
use crate::{fleet, moves};

fn state(scheduler: &Scheduler) -> State {
    let ledger = scheduler.ledger();
    State {
        nodes: ledger.nodes().map(|(_, view)| (*view.node).clone()).collect(),
        measured: measured(ledger),
        holdings: ledger.holdings().map(|(_, holding)| holding.clone()).collect(),
        pending: Vec::new(),
        gangs: Vec::new(),
    }
}

/// Nodes, holdings and measurements: all that a ledger is summed from.
type Rows = (Vec<Node>, Vec<Holding>, Vec<(Name, u16, Measured)>);

fn ledger_of(scheduler: &Scheduler) -> Rows {
    let state = state(scheduler);
    (state.nodes, state.holdings, state.measured)
}

fn numbers(scheduler: &Scheduler) -> Vec<(u64, u64, Option<u64>, u32)> {
    let row = |room: &std::sync::Arc<plimsoll_core::room::DeviceRoom>| {
        (room.held().get(), room.releasing().get(), room.free().map(Bytes::get), room.slots())
    };
    scheduler
        .ledger()
        .nodes()
        .flat_map(|(_, view)| view.room.devices().iter().map(row).collect::<Vec<_>>())
        .collect()
}

proptest! {
    #![proptest_config(fleet::tries(200))]

    #[test]
    fn a_state_written_as_a_scenario_reads_back_as_the_same_ledger(
        settings in moves::settings(),
        history in moves::many(1..30),
        asked in fleet::spec(1..3),
        terms in fleet::terms(),
    ) {
        let mut scheduler = Scheduler::new(settings);
        let mut now = Millis(0);
        for what in &history {
            if let Some(event) = moves::event(what, &scheduler, &mut now) {
                let _ = scheduler.step(now, event);
            }
        }
        let found = state(&scheduler);
        let text = from_state(&found);
        let (report, read) = play(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert!(report.holds(), "{}\n{}", report.diff(), text);
        prop_assert_eq!(ledger_of(&scheduler), ledger_of(&read), "{}", text);
        let masked = from_state(&anonymise(&found));
        let (_, masked) = play(&masked).map_err(|error| TestCaseError::fail(format!("{error}\n{masked}")))?;
        prop_assert_eq!(numbers(&scheduler), numbers(&masked));
        let request = fleet::request(77, asked, Terms { eviction: Eviction::Never, ..terms });
        let waiting = from_state(&State { pending: vec![request.clone()], ..State::default() });
        let (_, refused) = play(&waiting).map_err(|error| TestCaseError::fail(format!("{error}\n{waiting}")))?;
        prop_assert_eq!(refused.ledger().holdings().count(), 0);
    }
}
