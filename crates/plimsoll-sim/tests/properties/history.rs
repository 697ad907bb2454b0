//! After any history: every breach was observed, answers do not depend on how the state was
//! reached, and sums agree.

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::decide::decide;
use plimsoll_core::digest::digest;
use plimsoll_core::draft::Draft;
use plimsoll_core::drive::{Drive, Record, replay};
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::memo::Memo;
use plimsoll_core::request::{Request, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::snapshot::Snapshot;
use plimsoll_core::units::Millis;
use plimsoll_sim::witness::Witness;
use proptest::prelude::*;

use crate::fleet;
use crate::moves::{self, Move};

/// A machine that was driven through a history, with its journal.
struct Driven {
    drive: Drive,
    records: Vec<Record>,
}

/// Drives a machine through a history, and has a witness look at every step.
fn driven(settings: &Settings, history: &[Move]) -> Result<Driven, TestCaseError> {
    let mut drive = Drive::resume(Scheduler::new(settings.clone()), 0);
    let mut witness = Witness::default();
    let mut records = Vec::new();
    let mut now = Millis(0);
    for what in history {
        let Some(event) = moves::event(what, drive.scheduler(), &mut now) else { continue };
        drive.handle(now, event.clone());
        records.extend(drive.batch());
        let outcome = drive.committed().pop().map(|output| output.outcome).unwrap_or_default();
        let objections = witness.step(now, &event, &outcome, drive.scheduler());
        prop_assert!(objections.is_empty(), "after {:?}:\n{:#?}", event, objections);
        no_wrong_sums(drive.scheduler())?;
    }
    Ok(Driven { drive, records })
}

fn no_wrong_sums(scheduler: &Scheduler) -> Result<(), TestCaseError> {
    let wrong = breach::audit(scheduler.ledger())
        .into_iter()
        .find(|found| matches!(found, Breach::SumsDiffer { .. }));
    prop_assert_eq!(wrong, None);
    Ok(())
}

/// The ledger as it would be without any promise, and without its first holding.
fn drafted(ledger: &Ledger) -> Draft<'_> {
    let mut draft = Draft::new(ledger);
    ledger.promises().for_each(|(id, _)| draft.without_promise_to(id));
    ledger.holdings().take(1).for_each(|(id, _)| draft.without(id));
    draft
}

fn same_answer(one: &Scheduler, other: &Scheduler, request: &Request) -> Result<(), TestCaseError> {
    let decide =
        |scheduler: &Scheduler| decide(scheduler.ledger(), &scheduler.settings().policy, request);
    let (first, second) = (decide(one), decide(other));
    prop_assert_eq!(&first.outcome, &second.outcome);
    prop_assert_eq!(digest(&first), digest(&second));
    prop_assert_eq!(first.summary(), second.summary());
    Ok(())
}

proptest! {
    #![proptest_config(fleet::tries(1200))]

    #[test]
    fn no_history_leaves_a_breach_that_was_not_observed(
        settings in moves::settings_with_shares(),
        history in moves::many(1..60),
    ) {
        driven(&settings, &history)?;
    }
}

proptest! {
    #![proptest_config(fleet::tries(300))]

    #[test]
    fn decisions_are_the_same_when_made_twice_and_from_what_was_found_before(
        settings in moves::settings_with_shares(),
        history in moves::many(1..30),
        asked in prop::collection::vec(fleet::spec(1..3), 1..3),
        // Much or little happens between two looks.
        looks in prop::collection::vec(prop::bool::weighted(0.4), 30),
    ) {
        let mut scheduler = Scheduler::new(settings);
        let (mut now, mut memo) = (Millis(0), Memo::default());
        for (what, looks) in history.iter().zip(looks) {
            if let Some(event) = moves::event(what, &scheduler, &mut now) {
                let _ = scheduler.step(now, event);
            }
            if !looks {
                continue;
            }
            for (number, spec) in asked.iter().enumerate() {
                let request = fleet::request(90 + number, spec.clone(), Terms::default());
                same_answer(&scheduler, &scheduler, &request)?;
                // A restored scheduler has found nothing before. A bare `decide` would differ
                // where the account's guarantee comes before a promise to another request.
                let mut restored = Scheduler::restore(scheduler.snapshot()).expect("a snapshot can be read");
                let (fresh, remembered) = (restored.what_if(&request), scheduler.what_if(&request));
                if scheduler.ledger().promises().next().is_none() {
                    let bare = decide(scheduler.ledger(), &scheduler.settings().policy.clone(), &request);
                    prop_assert_eq!(digest(&bare), digest(&remembered));
                }
                prop_assert_eq!(&fresh.outcome, &remembered.outcome);
                prop_assert_eq!(digest(&fresh), digest(&remembered));
                let (policy, draft) = (&scheduler.settings().policy, drafted(scheduler.ledger()));
                let (fresh, remembered) = (decide(&draft, policy, &request), memo.decide_on(&draft, policy, &request));
                prop_assert_eq!(&fresh.outcome, &remembered.outcome);
                prop_assert_eq!(digest(&fresh), digest(&remembered));
            }
        }
    }

    #[test]
    fn a_restart_from_a_snapshot_or_from_the_journal_changes_no_answer(
        settings in moves::settings_with_shares(),
        history in moves::many(1..40),
        later in prop::collection::vec(moves::one(), 1..12),
        asked in fleet::spec(1..3),
    ) {
        let driven = driven(&settings, &history)?;
        let scheduler = driven.drive.scheduler();
        let snapshot = scheduler.snapshot();
        let mut restored = Scheduler::restore(snapshot.clone()).expect("a snapshot can be read");
        let mut recovered = Scheduler::new(settings.clone());
        for operation in driven.records.iter().flat_map(|record| &record.operations) {
            recovered.recover_next(operation);
        }
        prop_assert_eq!(&snapshot, &restored.snapshot());
        prop_assert_eq!(&snapshot, &recovered.snapshot());
        let request = fleet::request(99, asked, Terms::default());
        same_answer(scheduler, &restored, &request)?;
        same_answer(scheduler, &recovered, &request)?;
        let mut went_on = scheduler.clone();
        let mut now = driven.records.last().map_or(Millis(0), |record| record.now);
        for what in &later {
            let Some(event) = moves::event(what, &went_on, &mut now) else { continue };
            let expected = went_on.step(now, event.clone());
            for other in [&mut restored, &mut recovered] {
                let outcome = other.step(now, event.clone());
                prop_assert_eq!(&expected.operations, &outcome.operations);
                prop_assert_eq!(&expected.effects, &outcome.effects);
                prop_assert_eq!(&expected.answers, &outcome.answers);
            }
        }
    }

    #[test]
    fn a_journal_replays_without_a_difference_and_survives_being_written_down(
        settings in moves::settings_with_shares(),
        history in moves::many(1..40),
    ) {
        let driven = driven(&settings, &history)?;
        prop_assert_eq!(replay(Scheduler::new(settings), &driven.records), Vec::new());
        let snapshot = driven.drive.scheduler().snapshot();
        let text = serde_json::to_string(&snapshot).expect("a snapshot can be written");
        prop_assert_eq!(serde_json::from_str::<Snapshot>(&text).expect("and read"), snapshot);
        for record in &driven.records {
            let text = serde_json::to_string(record).expect("a record can be written");
            prop_assert_eq!(&serde_json::from_str::<Record>(&text).expect("and read"), record);
        }
    }

    #[test]
    fn doubled_events_and_ticks_change_no_charge(
        settings in moves::settings_with_shares(),
        history in moves::many(1..40),
    ) {
        let mut scheduler = Scheduler::new(settings);
        let mut now = Millis(0);
        for what in &history {
            let Some(event) = moves::event(what, &scheduler, &mut now) else { continue };
            let _ = scheduler.step(now, event.clone());
            // What names a generation can be told from the same word about an earlier one.
            if !matches!(
                event,
                Event::Started { .. } | Event::Failed { .. } | Event::Freed { generation: Some(_), .. } | Event::Withdraw { .. }
            ) {
                continue;
            }
            let held = |scheduler: &Scheduler| -> Vec<_> {
                scheduler.ledger().holdings().map(|(_, h)| (h.request.clone(), h.charges.clone())).collect()
            };
            let before = held(&scheduler);
            let outcome = scheduler.step(now, event.clone());
            prop_assert!(outcome.effects.is_empty(), "{:?} twice had an effect: {:?}", event, outcome.effects);
            prop_assert_eq!(before, held(&scheduler));
        }
    }
}
